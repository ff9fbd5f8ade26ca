//! `tail` and `verify`: events and gaps in order.

use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc::RecvTimeoutError;

use hermes_log::{CompactOptions, Durability, Event, Origin};
use serde_json::json;
use support::log_files::payload;

use super::*;

#[test]
fn events_come_oldest_first_each_with_its_place_time_and_origin() {
    let home = Home::new(CAPACITY);
    let mut writer = home.writer();
    let batch = [Event::used("a"), Event::Created { skill: "b".into(), by: "agent".into() }];
    let first = writer.append_batch(&batch, Durability::Process).unwrap();
    let second = writer.append(&Event::viewed("c"), Durability::Process).unwrap();
    let lines = on(&home, &["tail", "--json"]).quietly().json_lines();
    for line in &lines {
        assert_eq!(keys(line), ["event", "origin", "position", "time"]);
        assert_eq!(line["origin"], json!({"kind": "session", "process": std::process::id(), "session": null}));
        assert!(line["time"].as_str().unwrap().ends_with("+00:00"));
    }
    let events: Vec<(&Value, &Value)> = lines.iter().map(|line| (&line["position"], &line["event"])).collect();
    let (first, second) = (json!(first.to_string()), json!(second.to_string()));
    assert_eq!(
        events,
        [
            (&first, &json!({"event": "used", "skill": "a", "count": 1})),
            (&first, &json!({"event": "created", "skill": "b", "by": "agent"})),
            (&second, &json!({"event": "viewed", "skill": "c", "count": 1})),
        ]
    );
    let text = on(&home, &["tail", "--from", second.as_str().unwrap()]).quietly().stdout;
    let words: Vec<&str> = text.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect();
    assert_eq!((words[0], words[3], words[4]), (second.as_str().unwrap(), "viewed", "c"), "{text}");
    assert!(words[2].starts_with("session["));
}

#[test]
fn what_tail_prints_emit_takes() {
    let (home, copy) = (Home::new(CAPACITY), Home::new(CAPACITY));
    for words in [
        &["use", "a\u{85}", "--count", "3"][..],
        &["set", "a", "field", "[1.50, null]"],
        &["state", "a", "archived"],
        &["pin", "b"],
        &["forget", "c"],
    ] {
        on(&home, &[&["emit"], words].concat()).quietly();
    }
    let events = on(&home, &["tail", "--json"]).quietly().json_lines();
    let lines: String = events.iter().map(|line| format!("{}\n", line["event"])).collect();
    run_with_input(&mut of(copy.path(), &["emit", "-", "-q"]), lines.as_bytes()).quietly();
    let copied = on(&copy, &["tail", "--json"]).quietly().json_lines();
    let only_events = |lines: &[Value]| lines.iter().map(|line| line["event"].clone()).collect::<Vec<_>>();
    assert_eq!(only_events(&events), only_events(&copied));
}

#[test]
fn what_a_newer_version_wrote_is_shown_as_not_understood() {
    let home = Home::new(CAPACITY);
    home.used("a");
    let mut sung = payload(7, &Origin::here("future"), &[Event::used("b"), Event::used("c")]);
    let at = sung.windows(4).rposition(|word| word == b"used").unwrap();
    sung[at..at + 4].copy_from_slice(b"sung");
    home.append_bytes(1, &home.frame(1, &sung));
    home.append_bytes(1, &home.frame(1, b"\x93\x01"));
    let lines = on(&home, &["tail", "--json"]).quietly().json_lines();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[1]["event"]["skill"], "b");
    assert_eq!((&lines[2]["event"], &lines[2]["not_understood"]), (&Value::Null, &json!([1])));
    assert_eq!((&lines[3]["event"], &lines[3]["not_understood"]), (&Value::Null, &json!("payload")));
    let text = on(&home, &["tail"]).quietly().stdout;
    assert_eq!(text.matches("not understood").count(), 2, "{text}");
}

#[test]
fn the_compactors_event_is_summarised_for_people() {
    let home = Home::new(CAPACITY);
    home.used("a");
    home.compact();
    home.used("b");
    let text = on(&home, &["dump", "1"]).quietly().stdout;
    assert!(text.contains("what .usage.json says, part 1 of 1"), "{text}");
    assert!(!text.contains("use_count"), "{text}");
}

#[test]
fn gaps_stand_where_they_are_and_lead_to_exit_3() {
    let home = Home::new(CAPACITY);
    home.used("a");
    let gap = home.used("b");
    let end = damage_last_frame(&home, 1);
    let wanted = json!({"segment": 1, "offset": gap.offset, "length": end - gap.offset, "reason": "no_marker"});
    let lines = on(&home, &["tail", "--json"]).exits(GAPS).json_lines();
    assert_eq!(lines.len(), 3);
    let found = &lines[1]["gap"];
    assert_eq!(
        (&found["segment"], &found["offset"], &found["length"]),
        (&wanted["segment"], &wanted["offset"], &wanted["length"])
    );
    let ran = on(&home, &["tail"]).exits(GAPS);
    assert!(ran.stdout.lines().nth(1).unwrap().contains("gap in segment 1"), "{ran:?}");
    assert!(ran.stderr.contains("1 gap"), "{ran:?}");
}

#[test]
fn verify_prints_each_gap_and_changes_nothing() {
    let home = Home::new(CAPACITY);
    assert!(on(&home, &["verify"]).quietly().stdout.starts_with("sound: 0 events"));
    home.used("a");
    let sound = on(&home, &["verify", "--json"]).quietly().json();
    assert_eq!(
        keys(&sound),
        [
            "carried",
            "checkpoint_agrees",
            "checkpoints",
            "damaged_checkpoints",
            "events",
            "frames",
            "gaps",
            "position",
            "snapshot_problems",
            "sound",
            "voids"
        ]
    );
    assert_eq!((&sound["sound"], &sound["events"], &sound["gaps"]), (&json!(true), &json!(1), &json!([])));
    let gap = home.used("b");
    let end = damage_last_frame(&home, 1);
    let before = std::fs::read(home.segment_path(1)).unwrap();
    let found = on(&home, &["verify", "--json"]).exits(GAPS).json();
    assert_eq!((&found["sound"], &found["events"]), (&json!(false), &json!(2)));
    assert_eq!((&found["gaps"][0]["segment"], &found["gaps"][0]["offset"]), (&json!(1), &json!(gap.offset)));
    assert_eq!(found["gaps"][0]["length"], end - gap.offset);
    let ran = on(&home, &["verify"]).exits(GAPS);
    assert!(ran.stdout.starts_with(&format!("gap in segment 1 at offset {}, ", gap.offset)), "{ran:?}");
    assert!(ran.stdout.contains("not sound") && ran.stderr.is_empty(), "{ran:?}");
    assert_eq!(std::fs::read(home.segment_path(1)).unwrap(), before);
    assert_eq!((home.segments(), home.checkpoints()), (vec![1], vec![0]));
}

#[test]
fn a_position_that_cannot_be_read_says_so() {
    let home = Home::new(CAPACITY);
    for round in 0..3 {
        home.used(&format!("s{round}"));
        home.compact();
    }
    let ran = on(&home, &["tail", "--from", "1:64"]).exits(FAILED);
    assert!(ran.stderr.contains("not in the log, or not any more"), "{ran:?}");
    let cursor = home.path().join("cursor");
    std::fs::write(&cursor, "1:64\n").unwrap();
    let ran = on(&home, &["tail", "--cursor-file", cursor.to_str().unwrap()]).exits(FAILED);
    assert!(ran.stderr.contains("to go on from there, remove"), "{ran:?}");
    for wrong in ["1", "1:", "a:b", "-1:64", ""] {
        on(&home, &["tail", &format!("--from={wrong}")]).exits(USAGE);
    }
}

#[test]
fn no_events_are_no_failure() {
    let home = Home::new(CAPACITY);
    let ran = on(&home, &["tail"]).exits(DONE);
    assert!(ran.stdout.is_empty() && ran.stderr.starts_with("no events here"), "{ran:?}");
    assert!(on(&home, &["tail", "--json"]).quietly().stdout.is_empty());
}

#[test]
fn a_follower_sees_what_comes_and_each_compaction() {
    let home = Home::new(CAPACITY);
    home.used("before");
    let tail = Running::start(of(home.path(), &["tail", "--follow", "--from", "1:64"]));
    assert_eq!(tail.next()["event"]["skill"], "before");
    home.used("meanwhile");
    assert_eq!(tail.next()["event"]["skill"], "meanwhile");
    home.profile.compact(&CompactOptions::default()).unwrap();
    home.used("afterwards");
    let (mut compaction, mut afterwards) = (false, false);
    while !(compaction && afterwards) {
        let line = tail.next();
        compaction |= line["compaction"]["floor"] == 1;
        afterwards |= line["event"]["skill"] == "afterwards";
    }
}

#[test]
fn a_consumer_that_is_killed_goes_on_behind_the_last_batch_that_it_had_printed_before() {
    let home = Home::new(CAPACITY);
    let target = home.path().join("target");
    std::fs::write(&target, "1:64\n").unwrap();
    std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o664)).unwrap();
    let cursor = home.path().join("cursor");
    std::os::unix::fs::symlink(&target, &cursor).unwrap();
    std::fs::write(home.path().join("target.new"), "left by one that was killed").unwrap();
    let words = ["tail", "--cursor-file", cursor.to_str().unwrap()];
    let tail = Running::start(of(home.path(), &[&words[..], &["--follow"]].concat()));
    for skill in ["a", "b", "c"] {
        home.used(skill);
        assert_eq!(tail.next()["event"]["skill"], skill);
    }
    drop(tail); // kills it
    let again: Vec<Value> = on(&home, &[&words[..], &["--json"]].concat()).exits(DONE).json_lines();
    assert!(again.iter().all(|line| line["event"]["skill"] == "c") && again.len() <= 1, "{again:?}");
    assert!(on(&home, &words).exits(DONE).stdout.is_empty());
    let names = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.filter(|name| name != "event-log").count(), 2, "the link and its target");
    assert!(cursor.is_symlink());
    assert_eq!(target.metadata().unwrap().permissions().mode() & 0o777, 0o664);
}

#[test]
fn a_follower_that_begins_now_leaves_out_what_was() {
    let home = Home::new(CAPACITY);
    let first = home.used("before");
    let tail = Running::start(of(home.path(), &["tail", "--follow", "--from", "now"]));
    // Until it is there.
    let seen = loop {
        home.used("afterwards");
        match tail.stdout.recv_timeout(Duration::from_millis(20)) {
            Ok(line) => break line,
            Err(RecvTimeoutError::Timeout) => {}
            Err(e) => panic!("{e}"),
        }
    };
    assert_eq!(seen["event"]["skill"], "afterwards");
    assert_ne!(seen["position"], first.to_string());
    assert!(on(&home, &["tail", "--from", "now"]).exits(DONE).stdout.is_empty());
}
