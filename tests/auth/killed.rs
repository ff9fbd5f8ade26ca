//! The winner of a claim dies at every step.

use std::time::Duration;

use hermes_log::Error;
use hermes_log::auth::Begun;
use rustix::process::Signal;

use crate::endpoint::{Endpoint, Mood, exchange};
use crate::support::log_files::Home;
use crate::support::processes::{Task, Worker, is_long, tell, wait_for_go};
use crate::{ID, PROVIDER, auth, log_in, options, token};

const CAPACITY: u32 = 64 << 10;
/// Long enough for a claim to be made within it, short enough to be waited out.
const LEASE: Duration = Duration::from_millis(150);

fn rounds() -> usize {
    if is_long() { 200 } else { 6 }
}

/// Tells each step, and goes on when it is let. Words: capacity, port.
pub(crate) fn refresh_by_steps(task: &Task) {
    let profile = task.profile();
    let port = u16::try_from(task.number(1)).unwrap();
    let mut auth = auth(&profile);
    let Begun::Won(mut ticket) = auth.begin_refresh(PROVIDER, ID, 1, LEASE).unwrap() else { panic!("not won") };
    tell("claimed");
    wait_for_go();
    let answer = exchange(port, ticket.fields()).unwrap();
    ticket.answered();
    tell("answered");
    wait_for_go();
    ticket.commit(&answer).unwrap();
    tell("committed");
    wait_for_go();
}

/// A home with a credential whose refresh has come up to this step, and its process, killed there.
fn killed_at(step: &str, endpoint: &Endpoint) -> Home {
    let home = Home::new(CAPACITY);
    log_in(&home.profile, ID, endpoint);
    log_in(&home.profile, "other", endpoint);
    let mut worker = Worker::start("refresh by steps", home.path(), &[&CAPACITY, &endpoint.port], "");
    for reached in ["claimed", "answered", "committed"] {
        if step == "asked" && reached == "answered" {
            endpoint.await_request();
            break;
        }
        assert_eq!(worker.told().as_deref(), Some(reached));
        if reached == step {
            break;
        }
        worker.go_on();
    }
    worker.signal(Signal::KILL);
    worker.kill();
    home
}

/// The next process that needs fresh tokens gets them, and the view has what the server honours.
fn next_gets_through(home: &Home, endpoint: &Endpoint, step: &str) {
    let mut next = auth(&home.profile);
    let generation = next.view().credential(PROVIDER, ID).unwrap().generation();
    let now = next.refresh_with(PROVIDER, ID, generation, options(LEASE), |fields| exchange(endpoint.port, fields));
    assert!(now.unwrap().is_own, "{step}");
    let token = token(&auth(&home.profile), ID);
    assert_eq!(endpoint.honoured(&token), Some(token), "{step}");
}

#[test]
fn killed_before_the_server_has_the_token_or_after_the_commit_nothing_is_lost() {
    for _ in 0..rounds() {
        let endpoint = Endpoint::start();
        let home = killed_at("claimed", &endpoint);
        next_gets_through(&home, &endpoint, "before the request");

        endpoint.set_mood(Mood::Waits);
        let home = killed_at("asked", &endpoint);
        endpoint.set_mood(Mood::Prompt);
        endpoint.release(false); // the request died with its sender
        next_gets_through(&home, &endpoint, "during the request");

        let home = killed_at("committed", &endpoint);
        let committed = token(&auth(&home.profile), ID);
        assert_eq!(endpoint.honoured(&committed), Some(committed), "after the commit");
        next_gets_through(&home, &endpoint, "after the commit");
        assert_eq!(endpoint.revoked(), 0);
    }
}

#[test]
fn killed_with_the_answer_the_credential_is_unknown_and_tried_exactly_once() {
    for _ in 0..rounds() {
        let endpoint = Endpoint::start();
        let home = killed_at("answered", &endpoint);
        let mut first = auth(&home.profile);
        // The lease first: until then the holder may still come back.
        assert_eq!(first.wait_for_generation(PROVIDER, ID, 1, Duration::from_secs(60)).unwrap(), None);
        assert!(first.view().credential(PROVIDER, ID).unwrap().is_unknown(&hermes_log::Moment::now()));

        let before = endpoint.requests();
        let tried = first.refresh_with(PROVIDER, ID, 1, options(LEASE), |fields| exchange(endpoint.port, fields));
        assert!(matches!(tried, Err(Error::LoginRequired { .. })), "{tried:?}");
        for _ in 0..3 {
            let mut later = auth(&home.profile);
            let known = later.view().credential(PROVIDER, ID).unwrap();
            assert!(known.needs_login(), "everybody is told");
            let tried = later.refresh_with(PROVIDER, ID, 1, options(LEASE), |_| panic!("tried again"));
            assert!(tried.unwrap_err().to_string().contains("log in again"));
        }
        assert_eq!(endpoint.requests(), before + 1, "exactly once");

        let mut other = auth(&home.profile);
        let now = other.refresh_with(PROVIDER, "other", 1, options(LEASE), |fields| exchange(endpoint.port, fields));
        assert_eq!(now.unwrap().generation, 2, "other credentials are untouched");
    }
}
