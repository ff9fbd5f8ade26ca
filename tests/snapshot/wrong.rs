//! Files that are damaged, each in a way that loses records in stock Hermes.

use hermes_log::compact::Snapshot;
use hermes_log::{Counter, State};

use crate::support::log_files::Home;
use crate::support::usage_file;
use crate::{CAPACITY, shown, use_count};

const WHOLE: &str = r#"{
  "alpha": {
    "created_by": "agent",
    "last_used_at": null,
    "state": "active",
    "use_count": 1
  },
  "café": {
    "use_count": 20
  },
  "zeta": {
    "of_a_fork": 7,
    "use_count": 300
  }
}"#;

fn replaced(from: &str, to: &[u8]) -> Vec<u8> {
    let at = WHOLE.find(from).unwrap();
    [&WHOLE.as_bytes()[..at], to, &WHOLE.as_bytes()[at + from.len()..]].concat()
}

/// What happened to the file, its bytes, and how often each skill still is used by what can be read.
fn kinds() -> Vec<(&'static str, Vec<u8>, [u64; 3])> {
    let whole = WHOLE.as_bytes();
    vec![
        ("byte order mark", [b"\xef\xbb\xbf", whole].concat(), [1, 20, 300]),
        ("cut tail", whole[..WHOLE.find("\"of_a_fork\"").unwrap()].to_vec(), [1, 20, 0]),
        ("cut brace", whole[..whole.len() - 1].to_vec(), [1, 20, 300]),
        ("extra brace", [whole, b"}"].concat(), [1, 20, 300]),
        ("extra NULs", [whole, &[0; 100]].concat(), [1, 20, 300]),
        ("all NULs", vec![0; whole.len()], [0, 0, 0]),
        ("empty", vec![], [0, 0, 0]),
        ("a list", b"[]".to_vec(), [0, 0, 0]),
        ("cp1252 byte in a name", replaced("é", b"\xe9"), [1, 20, 300]),
        ("cp1252 byte in a value", replaced("agent", b"ag\xe9nt"), [1, 20, 300]),
        ("count that is a string", replaced("20", b"\"20\""), [1, 20, 300]),
        ("lone surrogate", replaced("\"of_a_fork\"", b"\"\\ud800\""), [1, 20, 300]),
        ("record that is no object", replaced("  \"zeta\"", b"  \"list\": [],\n  \"zeta\""), [1, 20, 300]),
    ]
}

fn counts(home: &Home) -> [u64; 3] {
    ["alpha", "café", "zeta"].map(|skill| use_count(home, skill))
}

/// The damage is reported, kept to the letter, and gone from the file; no value changes.
fn compact_and_check(home: &Home, damaged: &[u8], expected: [u64; 3], what: &str) {
    assert_eq!(counts(home), expected, "{what}");
    assert!(!home.view().snapshot_problems().is_empty(), "{what}");
    let before = shown(home);
    let done = home.compact();
    assert!(matches!(done.snapshot, Snapshot::Written { .. }), "{what}: {done:?}");
    assert_eq!(done.set_aside.len(), 1, "{what}");
    assert_eq!(std::fs::read(&done.set_aside[0]).unwrap(), damaged, "{what}");
    assert_eq!((counts(home), shown(home)), (expected, before), "after compaction, {what}");
    for (skill, count) in ["alpha", "café", "zeta"].into_iter().zip(expected).filter(|(_, count)| *count > 0) {
        assert_eq!(usage_file::json(home)[skill]["use_count"], count, "{what}");
    }
    assert!(home.profile.verify(|_| {}).unwrap().is_sound(), "{what}");
    assert!(matches!(home.compact().snapshot, Snapshot::Unchanged), "{what}");
}

#[test]
fn damage_met_at_first_use_costs_only_what_it_covers() {
    for (what, bytes, expected) in kinds() {
        let home = Home::new(CAPACITY);
        usage_file::write(&home, &bytes);
        compact_and_check(&home, &bytes, expected, what);
    }
}

#[test]
fn damage_to_what_was_written_here_costs_nothing() {
    for (what, bytes, _) in kinds() {
        let home = Home::new(CAPACITY);
        usage_file::write(&home, WHOLE.as_bytes());
        home.compact();
        usage_file::write(&home, &bytes);
        compact_and_check(&home, &bytes, [1, 20, 300], what);
    }
}

#[test]
fn damage_met_with_work_of_others_and_of_the_log_costs_neither() {
    let home = Home::new(CAPACITY);
    usage_file::write(&home, WHOLE.as_bytes());
    home.compact();
    home.used("alpha");
    let with_work = WHOLE.replace("300", "305");
    let bytes = [with_work.as_bytes(), b"}"].concat();
    usage_file::write(&home, &bytes);
    compact_and_check(&home, &bytes, [2, 20, 305], "extra brace");
}

#[test]
fn only_true_is_pinned_and_what_is_not_is_written_as_what_it_means() {
    let home = Home::new(CAPACITY);
    usage_file::write(&home, br#"{"a": {"pinned": "false"}, "b": {"pinned": true}, "c": {"pinned": "true"}}"#);
    for _ in 0..2 {
        let view = home.view();
        let pinned = ["a", "b", "c"].map(|name| view.skill(name).unwrap().is_pinned());
        assert_eq!(pinned, [false, true, true]);
        home.compact();
    }
    assert_eq!(usage_file::json(&home)["a"]["pinned"], false);
}

#[test]
fn unknown_state_is_kept_and_shown_as_active() {
    let home = Home::new(CAPACITY);
    usage_file::write(&home, br#"{"a": {"state": "parked"}}"#);
    home.compact();
    assert_eq!(home.view().skill("a").unwrap().state(), State::Active);
    assert_eq!(usage_file::json(&home)["a"]["state"], "parked");
}

#[test]
fn time_in_the_year_2999_keeps_no_skill_active() {
    let home = Home::new(CAPACITY);
    usage_file::write(&home, br#"{"a": {"last_used_at": "2999-01-01T00:00:00+00:00", "use_count": 1}}"#);
    let written = std::fs::metadata(home.profile.snapshot_path()).unwrap().modified().unwrap();
    let written = written.duration_since(std::time::UNIX_EPOCH).unwrap().as_micros();
    for _ in 0..2 {
        let last = home.view().skill("a").unwrap().last_micros(Counter::Use).unwrap();
        assert_eq!(u128::try_from(last).unwrap(), written, "when it arrived");
        home.compact();
    }
    assert!(!String::from_utf8(usage_file::bytes(&home)).unwrap().contains("2999"));
}
