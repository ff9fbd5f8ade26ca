//! A name that is used again is a new incarnation, whatever became of the old one, and whoever counted for it.

use std::fs;

use hermes_log::skill::{Action, Due, Protections, Rule, Why, due};
use hermes_log::{Counter, Durability, Event, State};
use serde_json::{Value, json};

use crate::support::log_files::Home;
use crate::support::usage_file;
use crate::{CAPACITY, folder, skill_file, skills};

const DAY_MICROS: i64 = 86_400_000_000;
const TIME: &str = "2020-01-01T00:00:00+00:00";

/// What ends the old one.
const ENDS: [&str; 6] =
    ["deleted", "deleted by hand", "forgotten", "archived", "archived by hand", "archived by Hermes"];

/// A skill with a past: an old record, counted and pinned at some time, in the file or in the log.
fn with_a_past(in_log: bool) -> Home {
    let home = Home::new(CAPACITY);
    let skills = skills(&home.profile);
    skills.lock("pdf").unwrap().create(skill_file("pdf", "old").as_bytes(), None, "agent").unwrap();
    if in_log {
        home.compact();
    }
    usage_file::change(&home, |records| {
        records.insert(
            "pdf".into(),
            json!({
                "created_by": "agent", "created_at": TIME, "state": "stale", "pinned": false, "archived_at": null,
                "use_count": 7, "view_count": 3, "patch_count": 0,
                "last_used_at": TIME, "last_viewed_at": TIME, "last_patched_at": null, "note": "of a fork",
            }),
        );
    });
    if in_log {
        home.compact();
        let mut writer = home.writer();
        writer.append(&Event::Pinned { skill: "pdf".into(), pinned: true }, Durability::Process).unwrap();
        writer.append(&Event::used("pdf"), Durability::Process).unwrap();
        writer.append(&Event::Pinned { skill: "pdf".into(), pinned: false }, Durability::Process).unwrap();
    }
    home
}

fn end(home: &Home, how: &str) {
    let skills = skills(&home.profile);
    let by_hand = || fs::rename(folder(home, "pdf"), home.path().join("elsewhere")).unwrap();
    match how {
        "deleted" => skills.lock("pdf").unwrap().delete().unwrap(),
        "deleted by hand" => by_hand(),
        "forgotten" => {
            by_hand();
            home.writer().append(&Event::Forgotten { skill: "pdf".into() }, Durability::Process).unwrap();
        }
        "archived" => drop(skills.lock("pdf").unwrap().archive().unwrap()),
        "archived by hand" => {
            by_hand();
            let archived = Event::State { skill: "pdf".into(), state: State::Archived };
            home.writer().append(&archived, Durability::Process).unwrap();
        }
        _ => {
            by_hand();
            usage_file::change(home, |records| {
                let record = &mut records["pdf"];
                (record["state"], record["archived_at"], record["pinned"]) =
                    (json!("archived"), json!(TIME), json!(true));
                record["use_count"] = json!(99);
            });
        }
    }
}

#[test]
fn a_reborn_name_is_a_new_incarnation_also_in_the_file_after_compaction() {
    for in_log in [true, false] {
        for how in ENDS {
            for compacted_between in [false, true] {
                let home = with_a_past(in_log);
                end(&home, how);
                if compacted_between {
                    home.compact();
                }
                let before = i64::try_from(now_micros()).unwrap();
                let skills = skills(&home.profile);
                skills.lock("pdf").unwrap().create(skill_file("pdf", "new").as_bytes(), None, "agent").unwrap();
                let context = format!("{how}, in the log: {in_log}, compacted between: {compacted_between}");
                for _ in 0..3 {
                    let view = home.view();
                    let skill = view.skill("pdf").unwrap();
                    assert_eq!(Counter::ALL.map(|counter| skill.count(counter)), [0; 3], "{context}");
                    assert_eq!((skill.is_pinned(), skill.state()), (false, State::Active), "{context}");
                    assert!(skill.created_micros().unwrap() >= before, "{context}");
                    assert_eq!(skill.last_activity_micros(), None, "{context}");
                    assert!(!skill.record().contains_key("note"), "{context}");
                    home.compact();
                    let record = usage_file::json(&home)["pdf"].clone();
                    assert_eq!(record, Value::Object(skill.record()), "{context}");
                }
                // Not on the old one's clock.
                let rule = Rule { stale_after: days(30), archive_after: days(90) };
                let protections = Protections::read(&home.profile).unwrap();
                let at = |age: i64| {
                    let found = skills.list().unwrap();
                    due(&home.view(), &found, &protections, rule, before + age * DAY_MICROS)
                };
                assert_eq!(at(0), [("pdf".into(), Due::Keep(Why::TooYoung))], "{context}");
                assert_eq!(at(29), [("pdf".into(), Due::Keep(Why::TooYoung))], "{context}");
                assert_eq!(at(31), [("pdf".into(), Due::Act(Action::MarkStale))], "{context}");
                assert_eq!(at(91), [("pdf".into(), Due::Act(Action::Archive))], "{context}");
                // What is counted now counts once, by whoever.
                home.used("pdf");
                usage_file::bump(&home, "pdf", 1);
                for _ in 0..2 {
                    assert_eq!(home.view().skill("pdf").unwrap().count(Counter::Use), 2, "{context}");
                    home.compact();
                }
            }
        }
    }
}

#[test]
fn an_installed_name_is_a_new_incarnation_and_a_restored_one_is_the_old_one() {
    let home = with_a_past(true);
    let used = |home: &Home| home.view().skill("pdf").unwrap().count(Counter::Use);
    assert_eq!(used(&home), 8);
    let skills = skills(&home.profile);
    skills.lock("pdf").unwrap().archive().unwrap();
    skills.restore("pdf").unwrap();
    let view = home.view();
    assert_eq!((used(&home), view.skill("pdf").unwrap().state()), (8, State::Active));
    skills.lock("pdf").unwrap().archive().unwrap();
    let from = home.path().join("from");
    crate::make(&from, "pdf");
    skills.lock("pdf").unwrap().install(&from, None, "somewhere").unwrap();
    assert_eq!((used(&home), home.view().skill("pdf").unwrap().is_curated()), (0, false));
}

fn days(days: u64) -> std::time::Duration {
    std::time::Duration::from_secs(days * 86_400)
}

fn now_micros() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros()
}
