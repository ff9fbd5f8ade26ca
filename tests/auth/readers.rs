//! Who reads at its start waits for nobody.

use std::process::Command;
use std::time::{Duration, Instant};

use hermes_log::auth::Begun;

use crate::endpoint::{Endpoint, Mood};
use crate::support::log_files::Home;
use crate::support::processes::{HANG, Stood, Task, Worker, is_long, tell, wait_for_go};
use crate::{ID, PROVIDER, auth, log_in};

const CAPACITY: u32 = 64 << 10;
/// Every lock that there is in a home, Hermes's included.
const LOCKS: [&str; 4] = ["event-log/compact.lock", "skills/.usage.json.lock", "auth.lock", "auth.json.lock"];

/// A start: reads the credentials, and is done.
pub(crate) fn read(task: &Task) {
    let auth = auth(&task.profile());
    assert_eq!(auth.view().credential(PROVIDER, ID).unwrap().generation(), 1);
    tell("read");
}

/// Holds every lock file of the home until it is let go.
#[allow(clippy::disallowed_methods)]
pub(crate) fn hold_locks(task: &Task) {
    let locks = LOCKS.map(|name| {
        let path = task.home.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.lock().unwrap();
        file
    });
    tell("held");
    wait_for_go();
    drop(locks);
}

fn starts(home: &Home, processes: usize) -> Duration {
    let start = Instant::now();
    let workers: Vec<Worker> = (0..processes).map(|_| Worker::start("read", home.path(), &[&CAPACITY], "")).collect();
    for mut worker in workers {
        assert_eq!(worker.stand(), Stood::Done);
        assert_eq!(worker.told().as_deref(), Some("read"));
    }
    start.elapsed()
}

/// The holder goes on only when all readers are done: if one of them waited for it, this would never end.
#[test]
fn a_hundred_starts_are_done_while_a_holder_sits_in_a_refresh_and_on_every_lock() {
    let (home, endpoint) = (Home::new(CAPACITY), Endpoint::start());
    log_in(&home.profile, ID, &endpoint);
    let alone = starts(&home, 100);

    let mut holder = auth(&home.profile);
    let Begun::Won(ticket) = holder.begin_refresh(PROVIDER, ID, 1, HANG).unwrap() else { panic!() };
    let beside_a_refresh = starts(&home, 100);
    drop(ticket);

    let mut holder = Worker::start("hold locks", home.path(), &[&CAPACITY], "");
    assert_eq!(holder.told().as_deref(), Some("held"));
    let beside_locks = starts(&home, 100);
    holder.go_on();
    eprintln!("100 starts: {alone:?} alone, {beside_a_refresh:?} beside a refresh, {beside_locks:?} beside all locks");
}

/// The same scene with one lock for everything, polled every 0.05 s with a limit of 15 s, and held through the request.
/// Times are scaled by ten.
#[test]
fn with_one_lock_for_all_a_start_that_meets_a_refresh_dies() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/auth/one_lock.py");
    let folder = tempfile::tempdir().unwrap();
    let scale = if is_long() { "1" } else { "10" };
    let ran = Command::new("python3").arg(script).arg(folder.path().join("auth.lock")).arg(scale).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(said.trim(), "0 of 10 starts read, 10 died");
}

#[test]
fn a_refresh_under_way_is_seen_by_everybody_and_delays_nobodys_change() {
    let (home, endpoint) = (Home::new(CAPACITY), Endpoint::start());
    log_in(&home.profile, ID, &endpoint);
    endpoint.set_mood(Mood::Waits);
    let (mut holder, mut other) = (auth(&home.profile), auth(&home.profile));
    let Begun::Won(_ticket) = holder.begin_refresh(PROVIDER, ID, 1, HANG).unwrap() else { panic!() };
    other.set("another", "one", crate::fields(r#"{"api_key": "k"}"#)).unwrap();
    let Begun::Held { holder, left } = other.begin_refresh(PROVIDER, ID, 1, HANG).unwrap() else { panic!() };
    assert_eq!(holder, format!("session {}", std::process::id()));
    assert!(left <= HANG && !left.is_zero());
}
