//! `compact`: once, and on and on.

use hermes_log::Counter;
use serde_json::json;

use super::*;

#[test]
fn it_says_what_it_did() {
    let home = Home::new(4096);
    for n in 0..300 {
        home.used(&format!("s{}", n % 3));
    }
    let done = on(&home, &["compact", "--json", "--retain", "0"]).quietly().json();
    assert_eq!(
        keys(&done),
        ["events", "floor", "gaps", "segments_deleted", "segments_folded", "set_aside", "snapshot"]
    );
    assert_eq!(done["floor"], home.view().floor());
    assert_eq!(done["segments_folded"], done["floor"]);
    assert!(done["events"].as_u64().unwrap() >= 300, "{done}");
    assert_eq!(done["snapshot"], json!({"outcome": "written", "external": 0, "error": null}));
    assert_eq!((&done["gaps"], &done["set_aside"]), (&json!([]), &json!([])));

    home.used("s0");
    let text = on(&home, &["compact", "--retain", "0s"]).quietly().stdout;
    for word in ["folded", "deleted", "floor", ".usage.json", "written"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(!home.segments().contains(&1));
    assert_eq!(home.view().skill("s0").unwrap().count(Counter::Use), 101);
}

#[test]
fn with_nothing_to_do_it_does_nothing() {
    let home = Home::new(CAPACITY);
    let done = on(&home, &["compact", "--json"]).quietly().json();
    assert_eq!((&done["floor"], &done["snapshot"]["outcome"]), (&json!(0), &json!("unchanged")));
    run(&mut of(&home.path().join("none"), &["compact"])).exits(NOT_FOUND);
}

#[test]
fn gaps_and_what_was_set_aside_are_reported() {
    let home = Home::new(CAPACITY);
    home.used("a");
    home.used("b");
    damage_last_frame(&home, 1);
    let ran = on(&home, &["compact", "--json"]).exits(GAPS);
    assert_eq!(ran.json()["gaps"][0]["segment"], 1);
    let aside = ran.json()["set_aside"][0].as_str().unwrap().to_owned();
    assert!(Path::new(&aside).is_file() && aside.contains("damaged"), "{aside}");
    assert!(ran.json_messages()[0]["warning"].as_str().unwrap().contains("gap in segment 1"));
}

#[test]
fn work_of_others_is_counted_and_said() {
    let home = Home::new(CAPACITY);
    std::fs::create_dir(home.path().join("skills")).unwrap();
    std::fs::write(home.profile.snapshot_path(), b"{\"a\": {\"use_count\": 3}}").unwrap();
    let done = on(&home, &["compact", "--json"]).quietly().json();
    assert_eq!(done["snapshot"], json!({"outcome": "written", "external": 1, "error": null}));
}

#[test]
fn a_lock_that_cannot_be_had_is_exit_75_with_its_holder() {
    let home = Home::new(CAPACITY);
    home.used("a");
    let me = std::process::id().to_string();
    let held = Held::lock(&home.profile.log_folder().join("compact.lock"));
    let ran = on(&home, &["compact", "--wait", "1ms"]).exits(LOCKED);
    assert!(ran.stdout.is_empty() && ran.stderr.contains(&me), "{ran:?}");
    assert_eq!(home.view().floor(), 0);
    drop(held);

    // Everything but the snapshot is done.
    std::fs::create_dir(home.path().join("skills")).unwrap();
    let held = Held::lock(&home.path().join("skills/.usage.json.lock"));
    let ran = on(&home, &["compact", "--wait", "0s", "--json"]).exits(LOCKED);
    assert_eq!((&ran.json()["floor"], &ran.json()["snapshot"]["outcome"]), (&json!(1), &json!("busy")));
    assert_eq!(ran.json_messages()[0]["exit"], LOCKED);
    assert!(ran.json_messages()[0]["error"].as_str().unwrap().contains(&me));
    assert_eq!(home.view().floor(), 1);
    drop(held);
    on(&home, &["compact"]).quietly();
    assert!(home.profile.snapshot_path().is_file());
}

#[test]
fn a_snapshot_that_cannot_be_read_is_exit_4_and_the_log_is_compacted_all_the_same() {
    let home = Home::new(CAPACITY);
    home.used("a");
    std::fs::create_dir_all(home.profile.snapshot_path()).unwrap();
    let ran = on(&home, &["compact", "--json"]).exits(FAILED);
    assert_eq!((&ran.json()["floor"], &ran.json()["snapshot"]["outcome"]), (&json!(1), &json!("failed")));
    assert!(ran.json()["snapshot"]["error"].as_str().unwrap().contains(".usage.json"));
    assert_eq!(ran.json_messages()[0]["exit"], FAILED);
}

#[test]
fn durations_that_are_none_are_refused() {
    let home = Home::new(CAPACITY);
    for wrong in ["", "5", "m", "0s", "-5m", "5 m", "1.5h", "5x", "99999999999999999999s", "4000d"] {
        on(&home, &["compact", &format!("--every={wrong}")]).exits(USAGE);
    }
}

fn every(home: &Home, pause: &str) -> Running {
    Running::start(of(home.path(), &["compact", "--every", pause]))
}

#[test]
fn it_goes_on_until_a_signal_ends_it_cleanly() {
    for signal in [Signal::INT, Signal::TERM] {
        let home = Home::new(CAPACITY);
        let mut every = every(&home, "1ms");
        for n in 1..=3 {
            home.used("a");
            let folded = std::iter::repeat_with(|| every.next()).find(|done| done["segments_folded"] != 0).unwrap();
            assert!(folded["floor"].as_u64().unwrap() >= n);
        }
        every.signal(signal);
        assert_eq!(every.exit(), Some(DONE));
        assert_eq!(home.view().skill("a").unwrap().count(Counter::Use), 3);
    }
}

#[test]
fn a_long_pause_does_not_keep_a_signal_waiting() {
    let home = Home::new(CAPACITY);
    let mut every = every(&home, "1h");
    every.next();
    every.signal(Signal::TERM);
    assert_eq!(every.exit(), Some(DONE));
}

#[test]
fn a_run_that_fails_is_reported_and_the_next_one_tries_again() {
    let home = Home::new(CAPACITY);
    home.used("a");
    std::fs::rename(home.profile.log_folder(), home.path().join("away")).unwrap();
    std::fs::write(home.profile.log_folder(), b"not a folder").unwrap();
    let mut every = every(&home, "1ms");
    assert_eq!(every.stderr.recv_timeout(HANG).unwrap()["exit"], FAILED);
    std::fs::remove_file(home.profile.log_folder()).unwrap();
    std::fs::rename(home.path().join("away"), home.profile.log_folder()).unwrap();
    assert_eq!(every.next()["floor"], 1);
    every.signal(Signal::TERM);
    assert_eq!(every.exit(), Some(DONE));
}
