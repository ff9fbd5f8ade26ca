//! The bytes that Hermes would have written.

use std::fs;

use hermes_log::compact::Snapshot;
use hermes_log::{Durability, Event, State};
use serde_json::{Value, json};

use crate::support::log_files::Home;
use crate::support::usage_file::{self, identity, python};
use crate::{CAPACITY, shown};

/// Names and fields that are hard to write.
fn nasty() -> Vec<String> {
    let mut names: Vec<String> =
        ["a\u{85}b", "\u{2028}", "}{", "two\nlines", "😀", "é", "e\u{301}", "\"\\/", "\u{7f}\u{1}", " "]
            .map(String::from)
            .to_vec();
    names.push("plugin:skill".into());
    names.push("ä".repeat(2048));
    names
}

fn home_with_everything() -> Home {
    let home = Home::new(CAPACITY);
    let mut writer = home.writer();
    for (n, name) in nasty().into_iter().enumerate() {
        let skill = || name.clone().into();
        let mut append = |event| writer.append(&event, Durability::Process).unwrap();
        append(Event::Used { skill: skill(), count: n as u64 + 1 });
        match n % 4 {
            0 => append(Event::State { skill: skill(), state: State::Archived }),
            1 => append(Event::Pinned { skill: skill(), pinned: true }),
            2 => append(Event::Created { skill: skill(), by: "agent".into() }),
            _ => append(Event::viewed(skill())),
        };
        let set =
            json!({"agent_created": true, "x": [], "y": {}, "z": [1, [2.5, null], {"b": "\u{2029}", "a": "é\t"}]});
        append(Event::Fields { skill: skill(), set: set.to_string().into(), unset: vec![] });
    }
    home
}

const DUMP_AGAIN: &str = r#"
import json, sys
from datetime import datetime
found = open(sys.argv[1], "rb").read()
records = json.loads(found.decode("utf-8"))
for record in records.values():
    for field, value in record.items():
        if field.endswith("_at") and value is not None:
            assert datetime.fromisoformat(value).isoformat() == value, (field, value)
again = json.dumps(records, indent=2, sort_keys=True, ensure_ascii=False).encode("utf-8")
assert again == found, "python would have written it differently"
print(len(records))
"#;

#[test]
fn snapshot_is_what_python_would_have_written() {
    let Some(mut python) = python() else { return };
    let home = home_with_everything();
    home.compact();
    let out = python.args(["-c", DUMP_AGAIN]).arg(home.profile.snapshot_path()).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(String::from_utf8(out.stdout).unwrap().trim(), nasty().len().to_string());
}

#[test]
fn new_record_has_the_fields_that_hermes_gives_it() {
    let home = Home::new(CAPACITY);
    home.writer().append(&Event::Seeded { skill: "new".into() }, Durability::Process).unwrap();
    home.compact();
    let mut record = usage_file::json(&home)["new"].clone();
    assert!(record["created_at"].take().as_str().is_some_and(|time| time.ends_with("+00:00")));
    let stock = json!({
        "archived_at": null, "created_at": null, "created_by": null, "last_patched_at": null, "last_used_at": null,
        "last_viewed_at": null, "patch_count": 0, "pinned": false, "state": "active", "use_count": 0, "view_count": 0,
    });
    assert_eq!(record, stock);
}

#[test]
fn what_the_view_shows_is_what_the_snapshot_says() {
    let home = home_with_everything();
    home.compact();
    let shown = shown(&home).into_iter().map(|(name, record)| (name, Value::Object(record))).collect();
    assert_eq!(usage_file::json(&home), shown);
}

/// As an existing home has it: records of several versions, with fields of forks, in Hermes's own format.
const EXISTING: &str = r#"{
  "new": {
    "archived_at": null,
    "created_at": "2026-01-02T03:04:05.000006+00:00",
    "created_by": "agent",
    "last_patched_at": null,
    "last_used_at": "2026-02-03T04:05:06+00:00",
    "last_viewed_at": null,
    "negative_claims": [
      1.50,
      {
        "ä": null
      }
    ],
    "patch_count": 0,
    "pinned": true,
    "state": "stale",
    "use_count": 12345678901,
    "view_count": 2
  },
  "old": {
    "use_count": 3
  },
  "older": {},
  "seen": {
    "last_used_at": "2026-02-03T04:05:06Z",
    "use_count": null
  }
}"#;

#[test]
fn first_use_in_an_existing_home_takes_everything_over_and_changes_no_byte() {
    let home = Home::new(CAPACITY);
    usage_file::write(&home, EXISTING.as_bytes());
    let before = shown(&home);
    assert_eq!(before.len(), 4);
    assert_eq!(before["old"], json!({"use_count": 3}).as_object().cloned().unwrap());
    assert!(matches!(home.compact().snapshot, Snapshot::Written { external: 4 }));
    assert_eq!(String::from_utf8(usage_file::bytes(&home)).unwrap(), EXISTING);
    assert_eq!(shown(&home), before);
    assert!(matches!(home.compact().snapshot, Snapshot::Unchanged));
}

#[test]
fn unknown_fields_are_kept_whatever_is_counted_and_set() {
    let home = Home::new(CAPACITY);
    usage_file::write(&home, EXISTING.as_bytes());
    home.used("new");
    home.compact();
    home.used("new");
    let pinned = Event::Pinned { skill: "new".into(), pinned: false };
    home.writer().append(&pinned, Durability::Process).unwrap();
    home.compact();
    let record = usage_file::json(&home)["new"].clone();
    assert_eq!(record["negative_claims"].to_string(), r#"[1.50,{"ä":null}]"#);
    assert_eq!((&record["use_count"], &record["pinned"]), (&json!(12_345_678_903_u64), &json!(false)));
    assert_eq!(record["state"], "stale");
}

#[test]
fn nothing_to_do_twice_in_a_row_writes_nothing() {
    let home = Home::new(CAPACITY);
    home.used("pdf");
    home.compact();
    let state = |home: &Home| {
        let snapshot = identity(&home.profile.snapshot_path());
        let newest = identity(&home.segment_path(*home.segments().last().unwrap()));
        (snapshot, newest, home.segments(), home.checkpoints())
    };
    let before = state(&home);
    for _ in 0..3 {
        let done = home.compact();
        assert!(matches!(done.snapshot, Snapshot::Unchanged), "{done:?}");
        assert_eq!((done.events, done.segments_folded, done.segments_deleted), (0, 0, 0));
        assert_eq!(state(&home), before);
    }
    let temporary = |name: &str| name.ends_with(".tmp");
    let names =
        fs::read_dir(home.path().join("skills")).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| temporary(name)).count(), 0);
}

#[test]
fn profile_without_events_and_without_a_snapshot_gets_none() {
    let home = Home::new(CAPACITY);
    assert!(matches!(home.compact().snapshot, Snapshot::Unchanged));
    assert!(!home.profile.snapshot_path().exists());
}
