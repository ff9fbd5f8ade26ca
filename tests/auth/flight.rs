//! One exchange for everybody who needs it.

use std::time::Duration;

use hermes_log::Error;
use hermes_log::auth::{Begun, RefreshFailure};

use crate::endpoint::{Endpoint, Mood, exchange};
use crate::support::log_files::Home;
use crate::support::processes::{Task, Worker, tell, wait_for_go};
use crate::{ID, PROVIDER, auth, log_in, options, token};

const CAPACITY: u32 = 64 << 10;
const LEASE: Duration = Duration::from_secs(60);

/// Refreshes generation 1 when told to. Words: capacity, port.
pub(crate) fn refresh(task: &Task) {
    let profile = task.profile();
    let port = u16::try_from(task.number(1)).unwrap();
    let mut auth = auth(&profile);
    tell("ready");
    wait_for_go();
    let outcome = auth.refresh_with(PROVIDER, ID, 1, options(LEASE), |fields| exchange(port, fields));
    tell(&match outcome {
        Ok(now) => format!("{} {} {}", now.generation, now.is_own, token(&auth, ID)),
        Err(Error::LoginRequired { .. }) => "login required".into(),
        Err(Error::RefreshFailed { .. }) => "failed".into(),
        Err(error) => format!("{error:?}"),
    });
}

/// What so many processes say that all want the same refresh at the same moment.
fn crowd(processes: usize, home: &Home, endpoint: &Endpoint, meanwhile: impl FnOnce()) -> Vec<String> {
    let words: [&dyn std::fmt::Display; 2] = [&CAPACITY, &endpoint.port];
    let mut workers: Vec<Worker> = (0..processes).map(|_| Worker::start("refresh", home.path(), &words, "")).collect();
    for worker in &workers {
        assert_eq!(worker.told().as_deref(), Some("ready"));
    }
    workers.iter_mut().for_each(Worker::go_on);
    meanwhile();
    workers.into_iter().map(|worker| worker.finish().unwrap()).collect()
}

#[test]
fn a_hundred_and_twenty_processes_make_one_exchange_and_all_have_its_result() {
    let (home, endpoint) = (Home::new(CAPACITY), Endpoint::start());
    log_in(&home.profile, ID, &endpoint);
    endpoint.set_mood(Mood::Waits);
    let said = crowd(120, &home, &endpoint, || {
        endpoint.await_request();
        endpoint.release(true);
    });
    let now = token(&auth(&home.profile), ID);
    assert_eq!(said.iter().filter(|line| **line == format!("2 true {now}")).count(), 1, "{said:?}");
    assert_eq!(said.iter().filter(|line| **line == format!("2 false {now}")).count(), 119, "{said:?}");
    assert_eq!((endpoint.requests(), endpoint.revoked()), (1, 0));
    assert_eq!(endpoint.honoured(&now), Some(now));
    let auth = auth(&home.profile);
    assert_eq!(auth.view().credential(PROVIDER, ID).unwrap().status(), None, "nobody marked it as spent");
}

#[test]
fn one_failed_exchange_is_everybodys_and_the_next_one_may_try_again() {
    let (home, endpoint) = (Home::new(CAPACITY), Endpoint::start());
    log_in(&home.profile, ID, &endpoint);
    endpoint.set_mood(Mood::Waits);
    // The first has the claim before the others begin, so that all of them wait for it.
    let words: [&dyn std::fmt::Display; 2] = [&CAPACITY, &endpoint.port];
    let mut first = Worker::start("refresh", home.path(), &words, "");
    first.go_on();
    endpoint.await_request();
    let said = crowd(8, &home, &endpoint, || {
        std::thread::sleep(Duration::from_millis(300)); // for them to see the claim; later is a second exchange
        endpoint.set_mood(Mood::Broken);
        endpoint.release(true);
    });
    assert_eq!(first.finish().as_deref(), Some("failed"));
    assert!(said.iter().all(|line| line == "failed"), "{said:?}");
    assert!(endpoint.requests() <= 9);

    endpoint.set_mood(Mood::Prompt);
    let again = auth(&home.profile).refresh_with(PROVIDER, ID, 1, options(LEASE), |f| exchange(endpoint.port, f));
    assert_eq!(again.unwrap().generation, 2);
    assert_eq!(endpoint.revoked(), 0);
}

#[test]
fn who_waited_for_an_exchange_that_failed_does_not_try_in_its_turn() {
    let (home, endpoint) = (Home::new(CAPACITY), Endpoint::start());
    log_in(&home.profile, ID, &endpoint);
    let mut holder = auth(&home.profile);
    // One that begins to wait only after the failure may try: then once more.
    let has_shared = (0..50).any(|_| {
        let Begun::Won(ticket) = holder.begin_refresh(PROVIDER, ID, 1, LEASE).unwrap() else { panic!("not won") };
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let tried = std::cell::Cell::new(false);
                let outcome = auth(&home.profile).refresh_with(PROVIDER, ID, 1, options(LEASE), |_| {
                    tried.set(true);
                    Err(RefreshFailure::Failed("its own".into()))
                });
                assert!(matches!(outcome, Err(Error::RefreshFailed { .. })), "{outcome:?}");
                !tried.get() && outcome.unwrap_err().to_string().contains("no network")
            });
            std::thread::sleep(Duration::from_millis(20));
            ticket.fail(RefreshFailure::Failed("no network".into())).unwrap();
            waiting.join().unwrap()
        })
    });
    assert!(has_shared, "everybody who waited tried");
    assert_eq!(endpoint.requests(), 0);
}

#[test]
fn what_the_server_refused_once_is_not_sent_again_by_anybody() {
    let (home, endpoint) = (Home::new(CAPACITY), Endpoint::start());
    log_in(&home.profile, ID, &endpoint);
    log_in(&home.profile, "other", &endpoint);
    // Somebody else uses the token up.
    let mut auth = auth(&home.profile);
    exchange(endpoint.port, auth.view().credential(PROVIDER, ID).unwrap().fields()).unwrap();
    let said = crowd(10, &home, &endpoint, || {});
    assert!(said.iter().all(|line| line == "login required"), "{said:?}");
    assert_eq!(endpoint.requests(), 2, "one by somebody else, one by all of us");
    auth.refresh().unwrap();
    assert!(auth.view().credential(PROVIDER, ID).unwrap().needs_login());
    assert!(!auth.view().credential(PROVIDER, "other").unwrap().needs_login());
    // A login makes it good.
    assert_eq!(log_in(&home.profile, ID, &endpoint), 2);
    let now = auth.refresh_with(PROVIDER, ID, 2, options(LEASE), |fields| exchange(endpoint.port, fields)).unwrap();
    assert_eq!((now.generation, now.is_own), (3, true));
}

#[test]
fn a_wait_for_somebody_elses_refresh_has_a_limit() {
    let (home, endpoint) = (Home::new(CAPACITY), Endpoint::start());
    log_in(&home.profile, ID, &endpoint);
    let (mut holder, mut other) = (auth(&home.profile), auth(&home.profile));
    let ticket = holder.begin_refresh(PROVIDER, ID, 1, LEASE).unwrap();
    let options = hermes_log::auth::RefreshOptions { lease: LEASE, wait: Duration::from_millis(20) };
    let outcome = other.refresh_with(PROVIDER, ID, 1, options, |_| panic!("two exchanges"));
    let Err(error @ Error::RefreshTimeout { .. }) = outcome else { panic!("{outcome:?}") };
    assert!(error.to_string().contains(&format!("session {}", std::process::id())), "{error}");
    drop(ticket); // a holder that dies
    assert!(other.wait_for_generation(PROVIDER, ID, 1, Duration::from_millis(20)).is_err(), "its lease goes on");
    assert_eq!(endpoint.requests(), 0);
}
