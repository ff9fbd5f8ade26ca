//! Work of others on the file: at once in views, and the same after a compaction.

use hermes_log::compact::Snapshot;
use hermes_log::{Counter, Durability, Event, State};
use serde_json::json;

use crate::support::log_files::Home;
use crate::support::processes::records;
use crate::support::usage_file::{self, bump, change};
use crate::{CAPACITY, shown, use_count};

/// Compacts, and nothing that a view shows is another than before; nor in the file.
fn compact_changes_nothing(home: &Home) {
    let mut open = home.view();
    let before = shown(home);
    home.compact();
    assert_eq!(shown(home), before, "a new view after the compaction");
    open.refresh().unwrap();
    assert_eq!(records(&open), before, "an open view after the compaction");
    let file = usage_file::json(home).into_iter().map(|(name, record)| (name, record.as_object().cloned().unwrap()));
    assert_eq!(file.collect::<std::collections::BTreeMap<_, _>>(), before, "the file after the compaction");
}

#[test]
fn work_between_compactions_counts_at_once_and_exactly_once() {
    let home = Home::new(CAPACITY);
    let mut open = home.view();
    let mut total = 0;
    for round in 1..=20 {
        home.used("pdf");
        bump(&home, "pdf", round);
        total += 1 + round;
        assert_eq!(use_count(&home, "pdf"), total);
        if round % 3 == 0 {
            home.used("pdf");
            total += 1;
        }
        open.refresh().unwrap();
        assert_eq!(open.skill("pdf").unwrap().count(Counter::Use), total);
        compact_changes_nothing(&home);
        if round % 4 == 0 {
            compact_changes_nothing(&home);
        }
        bump(&home, "pdf", 2);
        home.used("pdf");
        total += 3;
        assert_eq!(use_count(&home, "pdf"), total);
    }
}

#[test]
fn every_field_of_others_is_taken_over() {
    let home = Home::new(CAPACITY);
    home.used("pdf");
    home.compact();
    change(&home, |records| {
        let record = records["pdf"].as_object_mut().unwrap();
        record.insert("state".into(), "stale".into());
        record.insert("pinned".into(), true.into());
        record.insert("created_by".into(), "agent".into());
        record.insert("of_a_fork".into(), json!({"deep": [1, 2]}));
        record.remove("archived_at");
        record.insert("patch_count".into(), 4.into());
    });
    for _ in 0..2 {
        let view = home.view();
        let skill = view.skill("pdf").unwrap();
        assert_eq!((skill.state(), skill.is_pinned(), skill.created_by()), (State::Stale, true, Some(Some("agent"))));
        assert_eq!((skill.count(Counter::Use), skill.count(Counter::Patch)), (1, 4));
        assert_eq!(skill.record()["of_a_fork"], json!({"deep": [1, 2]}));
        assert!(!skill.record().contains_key("archived_at"));
        compact_changes_nothing(&home);
    }
}

#[test]
fn skill_that_others_forgot_is_gone_unless_it_is_active_in_the_log() {
    let home = Home::new(CAPACITY);
    for name in ["idle", "busy", "other"] {
        home.used(name);
    }
    home.compact();
    home.used("busy");
    change(&home, |records| {
        records.remove("idle");
        records.remove("busy");
    });
    for _ in 0..2 {
        let names: Vec<String> = shown(&home).into_keys().collect();
        assert_eq!(names, ["busy", "other"]);
        assert_eq!(use_count(&home, "busy"), 2);
        compact_changes_nothing(&home);
    }
    home.used("idle");
    assert_eq!(use_count(&home, "idle"), 1, "another incarnation");
}

#[test]
fn skill_that_the_log_forgot_is_not_revived_by_the_file() {
    let home = Home::new(CAPACITY);
    for _ in 0..10 {
        home.used("dead");
        home.used("other");
    }
    home.compact();
    home.writer().append(&Event::Forgotten { skill: "dead".into() }, Durability::Process).unwrap();
    assert!(usage_file::json(&home).contains_key("dead"));
    for _ in 0..2 {
        assert_eq!(shown(&home).into_keys().collect::<Vec<_>>(), ["other"]);
        bump(&home, "other", 1);
        compact_changes_nothing(&home);
    }
    assert!(!usage_file::json(&home).contains_key("dead"));
}

#[test]
fn skill_that_the_log_forgot_and_others_use_again_starts_from_zero() {
    let home = Home::new(CAPACITY);
    for _ in 0..10 {
        home.used("again");
    }
    home.compact();
    let born = shown(&home)["again"]["created_at"].clone();
    home.writer().append(&Event::Deleted { skill: "again".into() }, Durability::Process).unwrap();
    bump(&home, "again", 2);
    for _ in 0..2 {
        assert_eq!(use_count(&home, "again"), 2);
        assert_ne!(shown(&home)["again"]["created_at"], born);
        compact_changes_nothing(&home);
    }
}

#[test]
fn counters_that_the_file_sets_back_are_no_work() {
    let home = Home::new(CAPACITY);
    home.writer().append(&Event::Used { skill: "pdf".into(), count: 10 }, Durability::Process).unwrap();
    home.compact();
    change(&home, |records| records["pdf"]["use_count"] = 3.into());
    assert_eq!(use_count(&home, "pdf"), 10);
    compact_changes_nothing(&home);
    assert_eq!(usage_file::json(&home)["pdf"]["use_count"], 10);
}

#[test]
fn times_only_go_forward_and_not_into_the_future() {
    let home = Home::new(CAPACITY);
    home.used("pdf");
    home.compact();
    let last = |home: &Home| home.view().skill("pdf").unwrap().last_micros(Counter::Use).unwrap();
    let counted = last(&home);
    change(&home, |records| records["pdf"]["last_used_at"] = "2001-01-01T00:00:00+00:00".into());
    assert_eq!(last(&home), counted);
    compact_changes_nothing(&home);

    change(&home, |records| records["pdf"]["last_used_at"] = "2999-01-01T00:00:00+00:00".into());
    let clamped = last(&home);
    // A day of grace, not nine hundred years.
    assert!(clamped >= counted && clamped < counted + 86_400_000_000, "{clamped}");
    compact_changes_nothing(&home);
    assert_eq!(last(&home), clamped);
    assert!(!String::from_utf8(usage_file::bytes(&home)).unwrap().contains("2999"));
}

#[test]
fn file_that_lacks_what_was_written_since_is_brought_up_to_date_and_nothing_counts_twice() {
    let home = Home::new(CAPACITY);
    home.used("pdf");
    home.compact();
    let old = usage_file::bytes(&home);
    for _ in 0..3 {
        home.used("pdf");
        home.compact();
    }
    usage_file::write(&home, &old); // a backup, put back
    assert_eq!(use_count(&home, "pdf"), 4);
    assert!(matches!(home.compact().snapshot, Snapshot::Written { .. }));
    assert_eq!(use_count(&home, "pdf"), 4);
    assert_eq!(usage_file::json(&home)["pdf"]["use_count"], 4);
}

#[test]
fn external_event_of_many_parts_is_taken_over_whole() {
    let home = Home::new(4096);
    home.used("first");
    change(&home, |records| {
        for n in 0..100 {
            records.insert(format!("skill-{n}"), json!({"use_count": n, "note": "é".repeat(50)}));
        }
    });
    let before = shown(&home);
    assert_eq!(before.len(), 101);
    compact_changes_nothing(&home);
    compact_changes_nothing(&home);
    assert!(home.view().frames() > 10, "it was one part");
}
