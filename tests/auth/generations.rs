//! The chain of generations decides: late answers, late failures, old views, clocks that jump.

use std::time::Duration;

use hermes_log::auth::{Auth, Begun, RefreshFailure, Ticket};
use hermes_log::sys::fault::{self, shift_clock};
use hermes_log::{CompactOptions, Durability, EmitterOptions, Error, Event, Origin, Status, StatusKind};

use crate::endpoint::{Endpoint, Mood, exchange};
use crate::support::log_files::Home;
use crate::support::processes::{HANG, Stood, Task, Worker, is_long};
use crate::{ID, PROVIDER, auth, fields, log_in, token};

const CAPACITY: u32 = 64 << 10;
const SHORT: Duration = Duration::from_millis(30);
const LONG: Duration = Duration::from_secs(600);

fn won(auth: &mut Auth, generation: u64, lease: Duration) -> Ticket<'_> {
    match auth.begin_refresh(PROVIDER, ID, generation, lease).unwrap() {
        Begun::Won(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

#[test]
fn of_two_answers_for_one_generation_the_later_is_current_whichever_is_committed_first() {
    for first_commits_first in [true, false] {
        let (home, endpoint) = (Home::new(CAPACITY), Endpoint::start());
        endpoint.set_mood(Mood::Lenient);
        log_in(&home.profile, ID, &endpoint);
        let (mut slow, mut quick) = (auth(&home.profile), auth(&home.profile));
        let mut outlived = won(&mut slow, 1, SHORT);
        std::thread::sleep(SHORT);
        let mut second = won(&mut quick, 1, LONG);
        let first_answer = exchange(endpoint.port, outlived.fields()).unwrap();
        outlived.answered();
        let second_answer = exchange(endpoint.port, second.fields()).unwrap();
        second.answered();
        let (first, other) = if first_commits_first {
            (outlived.commit(&first_answer).unwrap(), second.commit(&second_answer).unwrap())
        } else {
            (second.commit(&second_answer).unwrap(), outlived.commit(&first_answer).unwrap())
        };
        assert_eq!((first, other), (Some(2), first_commits_first.then_some(3)));
        let after = auth(&home.profile);
        let known = after.view().credential(PROVIDER, ID).unwrap();
        let current = token(&after, ID);
        assert_eq!(endpoint.honoured(&current), Some(current.clone()), "committed first: {first_commits_first}");
        let beside: Vec<String> = known
            .alternates()
            .iter()
            .map(|alternate| alternate.fields.text("refresh_token").unwrap().reveal().to_owned())
            .collect();
        assert_eq!(beside, [first_answer.text("refresh_token").unwrap().reveal()], "never dropped");
    }
}

#[test]
fn what_is_said_of_an_old_generation_changes_nothing() {
    let (home, endpoint) = (Home::new(CAPACITY), Endpoint::start());
    log_in(&home.profile, ID, &endpoint);
    let (mut slow, mut quick) = (auth(&home.profile), auth(&home.profile));
    let outlived = won(&mut slow, 1, SHORT);
    std::thread::sleep(SHORT);
    let ticket = won(&mut quick, 1, LONG);
    let answer = exchange(endpoint.port, ticket.fields()).unwrap();
    ticket.commit(&answer).unwrap();

    outlived.fail(RefreshFailure::Refused("used before".into())).unwrap();
    slow.set_status(PROVIDER, ID, 1, Status::of(StatusKind::Exhausted)).unwrap();
    quick.refresh().unwrap();
    let known = quick.view().credential(PROVIDER, ID).unwrap();
    assert_eq!((known.generation(), known.status(), known.claim()), (2, None, None));
    // Of the current one it does.
    let status = Status { code: Some(429), ..Status::of(StatusKind::Exhausted) };
    quick.set_status(PROVIDER, ID, 2, status.clone()).unwrap();
    assert_eq!(quick.view().credential(PROVIDER, ID).unwrap().status(), Some(&status));
}

#[test]
fn a_failure_of_a_holder_that_outlived_its_lease_says_nothing_about_the_exchange_under_way() {
    let (home, endpoint) = (Home::new(CAPACITY), Endpoint::start());
    log_in(&home.profile, ID, &endpoint);
    let (mut slow, mut quick) = (auth(&home.profile), auth(&home.profile));
    let outlived = won(&mut slow, 1, SHORT);
    std::thread::sleep(SHORT);
    let second = won(&mut quick, 1, LONG);
    outlived.fail(RefreshFailure::Refused("used before".into())).unwrap();
    assert!(!slow.view().credential(PROVIDER, ID).unwrap().needs_login());
    assert!(matches!(slow.begin_refresh(PROVIDER, ID, 1, LONG).unwrap(), Begun::Held { .. }));
    let answer = exchange(endpoint.port, second.fields()).unwrap();
    assert_eq!(second.commit(&answer).unwrap(), Some(2));
}

#[test]
fn a_removed_credential_does_not_come_back_when_somebody_writes_with_an_old_view() {
    let (home, endpoint) = (Home::new(CAPACITY), Endpoint::start());
    log_in(&home.profile, ID, &endpoint);
    let (mut old, mut other) = (auth(&home.profile), auth(&home.profile));
    let ticket = won(&mut old, 1, LONG);
    let answer = exchange(endpoint.port, ticket.fields()).unwrap();
    other.remove(PROVIDER, ID).unwrap();
    assert_eq!(ticket.commit(&answer).unwrap(), None);
    old.set_status(PROVIDER, ID, 1, Status::of(StatusKind::Ok)).unwrap();
    assert_eq!(old.view().credential(PROVIDER, ID), None);

    // Nor does an answer of before become the tokens of another incarnation.
    log_in(&home.profile, ID, &endpoint);
    other.refresh().unwrap();
    let ticket = won(&mut old, 2, LONG);
    other.remove(PROVIDER, ID).unwrap();
    let generation = log_in(&home.profile, ID, &endpoint);
    let login = token(&auth(&home.profile), ID);
    assert_eq!(ticket.commit(&answer).unwrap(), None);
    assert_eq!((token(&old, ID), generation), (login, 3));
    assert!(old.view().credential(PROVIDER, ID).unwrap().alternates().is_empty(), "another incarnation's");
}

#[test]
fn a_login_meanwhile_stays_current_and_the_answer_stands_beside_it() {
    let (home, endpoint) = (Home::new(CAPACITY), Endpoint::start());
    log_in(&home.profile, ID, &endpoint);
    let mut old = auth(&home.profile);
    let ticket = won(&mut old, 1, LONG);
    let answer = exchange(endpoint.port, ticket.fields()).unwrap();
    log_in(&home.profile, ID, &endpoint);
    let login = token(&auth(&home.profile), ID);
    assert_eq!(ticket.commit(&answer).unwrap(), None);
    assert_eq!(token(&old, ID), login);
    assert_eq!(old.view().credential(PROVIDER, ID).unwrap().alternates().len(), 1);
}

/// In a process of its own: the clock is set for all of it.
pub(crate) fn clock(task: &Task) {
    const HOUR: i64 = 3_600_000_000;
    let profile = task.profile();
    for (generation, shift) in [(1, HOUR), (2, -HOUR)] {
        let (mut holder, mut other) = (auth(&profile), auth(&profile));
        let ticket = won(&mut holder, generation, LONG);
        shift_clock(shift);
        let begun = other.begin_refresh(PROVIDER, ID, generation, LONG).unwrap();
        assert!(matches!(begun, Begun::Held { left, .. } if left <= LONG), "{begun:?}");
        let answer = fields(&format!("{{\"refresh_token\": \"of-{generation}\"}}"));
        assert_eq!(ticket.commit(&answer).unwrap(), Some(generation + 1));
        shift_clock(0);
    }
    // A lease runs out although the clock was set back.
    let (mut holder, mut other) = (auth(&profile), auth(&profile));
    let mut outlived = won(&mut holder, 3, SHORT);
    outlived.answered();
    shift_clock(-HOUR);
    std::thread::sleep(SHORT);
    let mut second = won(&mut other, 3, LONG);
    second.answered(); // an hour earlier by the clock, and later all the same
    assert_eq!(second.commit(&fields(r#"{"refresh_token": "later"}"#)).unwrap(), Some(4));
    assert_eq!(outlived.commit(&fields(r#"{"refresh_token": "earlier"}"#)).unwrap(), None);
    assert_eq!(token(&auth(&profile), ID), "later");
}

#[test]
fn a_clock_that_is_set_an_hour_ahead_or_back_moves_no_lease_and_no_token() {
    let (home, endpoint) = (Home::new(CAPACITY), Endpoint::start());
    log_in(&home.profile, ID, &endpoint);
    let mut worker = Worker::start("clock", home.path(), &[&CAPACITY], "");
    assert_eq!(worker.stand(), Stood::Done);
}

#[test]
fn credentials_stay_exact_under_millions_of_other_events() {
    let events: u64 = if is_long() { 10_000_000 } else { 200_000 };
    let home = Home::new(4 << 20);
    let emitter = hermes_log::Emitter::new(
        home.profile.clone(),
        Origin::here("session"),
        EmitterOptions { compact_after: Some(1 << 20), ..EmitterOptions::default() },
    );
    let mut auth = auth(&home.profile);
    let mut opened = Duration::ZERO;
    for round in 1..=10_u64 {
        (0..events / 10).for_each(|n| emitter.emit(Event::used(["a", "b", "c"][(n % 3) as usize])));
        emitter.flush(HANG).unwrap();
        // Others append one by one.
        let mut writer = home.writer();
        for _ in 0..1000 {
            writer.append(&Event::used("d"), Durability::Process).unwrap();
        }
        auth.set(PROVIDER, ID, fields(&format!("{{\"refresh_token\": \"of-{round}\"}}"))).unwrap();
        let start = std::time::Instant::now();
        let fresh = crate::auth(&home.profile);
        opened = opened.max(start.elapsed());
        assert_eq!((token(&fresh, ID), token(&auth, ID)), (format!("of-{round}"), format!("of-{round}")));
        assert_eq!(fresh.view().credential(PROVIDER, ID).unwrap().generation(), round);
        home.profile.compact(&CompactOptions::default()).unwrap();
    }
    eprintln!("reading at start took at most {opened:?}");
    assert_eq!(home.view().skills().iter().map(|(_, skill)| skill.activity()).sum::<u64>(), events / 10 * 10 + 10_000);
    assert_eq!(home.view().auth(), auth.refresh().unwrap(), "a view of everything says the same");
}

#[test]
fn every_change_is_on_the_disk_before_it_is_acknowledged() {
    let home = Home::new(CAPACITY);
    let mut auth = auth(&home.profile);
    auth.set(PROVIDER, ID, fields(r#"{"refresh_token": "1"}"#)).unwrap();
    type Change = fn(&mut Auth) -> hermes_log::Result<()>;
    let changes: [(&str, Change); 7] = [
        ("set", |auth| auth.set(PROVIDER, "other", fields("{}")).map(drop)),
        ("status", |auth| auth.set_status(PROVIDER, ID, 1, Status::of(StatusKind::Ok))),
        ("active", |auth| auth.set_active(Some(PROVIDER))),
        ("suppress", |auth| auth.suppress(PROVIDER, "env")),
        ("unsuppress", |auth| auth.unsuppress(PROVIDER, "env")),
        ("claim", |auth| auth.begin_refresh(PROVIDER, ID, 1, SHORT).map(drop)),
        ("remove", |auth| auth.remove(PROVIDER, "other")),
    ];
    for (what, change) in changes {
        fault::arm("fdatasync@1=EIO");
        let outcome = change(&mut auth);
        fault::disarm();
        assert!(matches!(outcome, Err(Error::NotDurable { .. })), "{what}: {outcome:?}");
    }
    std::thread::sleep(SHORT); // the claim is in the log all the same
    let ticket = won(&mut auth, 1, LONG);
    fault::arm("fdatasync@1=EIO");
    let outcome = ticket.commit(&fields(r#"{"refresh_token": "2"}"#));
    fault::disarm();
    assert!(matches!(outcome, Err(Error::NotDurable { .. })), "{outcome:?}");
    auth.refresh().unwrap();
    assert_eq!(token(&auth, ID), "2", "in the log, and so not lost to anybody");
}

#[test]
fn names_and_leases_that_cannot_be_are_refused_and_nothing_is_appended() {
    let home = Home::new(CAPACITY);
    let mut auth = auth(&home.profile);
    for (provider, id) in [("", "a"), ("a", ""), (&*"x".repeat(2000), "a")] {
        assert!(auth.set(provider, id, fields("{}")).unwrap_err().to_string().contains("allowed"));
    }
    auth.set(PROVIDER, ID, fields("{}")).unwrap();
    let before = home.len(1);
    for lease in [Duration::ZERO, Duration::from_secs(3601)] {
        assert!(auth.begin_refresh(PROVIDER, ID, 1, lease).is_err());
    }
    assert_eq!(home.len(1), before);
    let too_short = auth.begin_refresh(PROVIDER, ID, 1, Duration::from_nanos(1)).map(drop);
    assert!(too_short.unwrap_err().to_string().contains("longer than it takes"));
    let len = home.len(1);
    assert!(auth.begin_refresh(PROVIDER, ID, 2, LONG).is_err());
    assert!(auth.begin_refresh(PROVIDER, "nobody", 1, LONG).is_err());
    assert!(auth.remove(PROVIDER, "nobody").is_err());
    assert_eq!(home.len(1), len);
}
