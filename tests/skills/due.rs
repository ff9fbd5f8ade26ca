//! The curator's rule, and its application. (Against Hermes itself: `tools/hermes/due.py`.)

use std::path::Path;
use std::time::Duration;

use hermes_log::skill::{Action, Applied, Due, Found, Protections, Rule, Why, due, due_of};
use hermes_log::{Durability, Event, Origin, State, View};
use serde_json::{Value, json};

use crate::support::log_files::Home;
use crate::support::processes::HANG;
use crate::support::usage_file;
use crate::{CAPACITY, events_of, folder, holder, make, until_waiting};

const DAY: Duration = Duration::from_secs(86_400);
const RULE: Rule =
    Rule { stale_after: Duration::from_secs(30 * 86_400), archive_after: Duration::from_secs(90 * 86_400) };
/// 2026-01-01T00:00:00Z
const NOW: i64 = 1_767_225_600_000_000;

/// The time so many microseconds before `NOW`, as Hermes writes it.
fn ago(micros: i64) -> String {
    let text = hermes_log::view::records::format_time(NOW - micros);
    assert!(text.ends_with("+00:00"));
    text
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap()
}

fn view_of(record: Value) -> (Home, View) {
    let home = Home::new(CAPACITY);
    make(&folder(&home, "pdf"), "pdf");
    usage_file::change(&home, |records| drop(records.insert("pdf".into(), record)));
    let view = home.view();
    (home, view)
}

fn verdict(record: Value) -> Due {
    let (_home, view) = view_of(record);
    due_of("pdf", Path::new("pdf"), view.skill("pdf"), &protections(), RULE, NOW)
}

fn protections() -> Protections {
    Protections { prune_bundled: true, ..Protections::default() }
}

#[test]
fn the_rule_changes_its_mind_exactly_at_its_limits() {
    use Action::{Archive, MarkStale, Reactivate};
    let (stale, archive) = (micros(RULE.stale_after), micros(RULE.archive_after));
    let used = |state: &str, age: i64| json!({"created_by": "agent", "created_at": ago(2 * archive), "state": state, "use_count": 1, "last_used_at": ago(age)});
    let never = |state: &str, age: i64| json!({"created_by": "agent", "created_at": ago(age), "state": state});
    for (age, from_active, from_stale) in [
        (0, Due::Keep(Why::InOrder), Due::Act(Reactivate)),
        (stale - 1, Due::Keep(Why::InOrder), Due::Act(Reactivate)),
        (stale, Due::Act(MarkStale), Due::Keep(Why::InOrder)),
        (archive - 1, Due::Act(MarkStale), Due::Keep(Why::InOrder)),
        (archive, Due::Act(Archive), Due::Act(Archive)),
    ] {
        assert_eq!(verdict(used("active", age)), from_active, "{age}");
        assert_eq!(verdict(used("stale", age)), from_stale, "{age}");
        assert_eq!(verdict(used("archived", age)), Due::Keep(Why::InOrder), "{age}");
        let young = if age < stale { Due::Keep(Why::TooYoung) } else { from_active };
        assert_eq!(verdict(never("active", age)), young, "{age}");
        assert_eq!(verdict(never("stale", age)), from_stale, "{age}");
    }
}

#[test]
fn the_newest_activity_counts_and_creation_only_without_any() {
    let old = ago(micros(200 * DAY));
    let record = |field: &str| {
        let mut record = json!({"created_by": "agent", "created_at": old, "use_count": 3, "view_count": 1, "patch_count": 1,
            "last_used_at": old, "last_viewed_at": old, "last_patched_at": old});
        record[field] = json!(ago(micros(DAY)));
        record
    };
    for field in ["last_used_at", "last_viewed_at", "last_patched_at"] {
        assert_eq!(verdict(record(field)), Due::Keep(Why::InOrder), "{field}");
    }
    assert_eq!(verdict(record("created_at")), Due::Act(Action::Archive));
    // Without any time its time begins now.
    assert_eq!(verdict(json!({"created_by": "agent", "use_count": 1})), Due::Keep(Why::InOrder));
}

#[test]
fn what_is_not_the_curators_stays_and_says_why() {
    let old = |more: Value| {
        let mut record = json!({"created_by": "agent", "created_at": ago(micros(400 * DAY)), "use_count": 1});
        record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        record
    };
    let with = |record: Value, protections: Protections| {
        let (_home, view) = view_of(record);
        due_of("pdf", Path::new("pdf"), view.skill("pdf"), &protections, RULE, NOW)
    };
    let named = || ["pdf".to_owned()].into();
    assert_eq!(with(old(json!({})), protections()), Due::Act(Action::Archive));
    assert_eq!(with(old(json!({"pinned": true})), protections()), Due::Keep(Why::Pinned));
    assert_eq!(with(old(json!({})), Protections { cron: named(), ..protections() }), Due::Keep(Why::InCronJob));
    assert!(matches!(
        with(old(json!({})), Protections { hub: named(), ..protections() }),
        Due::Keep(Why::Protected(_))
    ));
    for by in [json!(null), json!("user")] {
        assert_eq!(with(old(json!({"created_by": by})), protections()), Due::Keep(Why::NotCurated));
    }
    assert_eq!(with(old(json!({"created_by": null, "agent_created": true})), protections()), Due::Act(Action::Archive));
    let bundled = |prune_bundled| Protections { bundled: named(), prune_bundled, ..Protections::default() };
    assert_eq!(with(old(json!({"created_by": null})), bundled(true)), Due::Act(Action::Archive));
    assert!(matches!(with(old(json!({})), bundled(false)), Due::Keep(Why::Protected(_))));
    let none = due_of("pdf", Path::new("pdf"), None, &bundled(true), RULE, NOW);
    assert_eq!(none, Due::Act(Action::Seed));
}

/// Hermes is wrong here, by what is known of it.
#[test]
fn where_hermes_is_wrong_the_rule_is_right() {
    let old = ago(micros(400 * DAY));
    // It takes any text for pinned.
    let pinned = json!({"created_by": "agent", "created_at": old, "use_count": 1, "pinned": "false"});
    assert_eq!(verdict(pinned), Due::Act(Action::Archive));
    // It lets a time in the year 2999 keep a skill active for ever. Here it counts from when it was found.
    let future =
        json!({"created_by": "agent", "created_at": old, "use_count": 1, "last_used_at": "2999-01-01T00:00:00+00:00"});
    let (_home, view) = view_of(future);
    let later = hermes_now() + micros(91 * DAY);
    let due = due_of("pdf", Path::new("pdf"), view.skill("pdf"), &protections(), RULE, later);
    assert_eq!(due, Due::Act(Action::Archive));
    // A state that is no word is an active skill's.
    let null = json!({"created_by": "agent", "created_at": ago(micros(40 * DAY)), "use_count": 1, "state": null});
    assert_eq!(verdict(null), Due::Act(Action::MarkStale));
}

fn hermes_now() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_micros()).unwrap()
}

/// A home with one old skill that is due to be archived.
fn old_skill() -> Home {
    let (home, _) = view_of(json!({"created_by": "agent", "created_at": "2020-01-01T00:00:00+00:00", "use_count": 1,
        "last_used_at": "2020-01-01T00:00:00+00:00"}));
    home
}

#[test]
fn a_use_that_lands_between_plan_and_application_saves_the_skill() {
    for is_used in [true, false] {
        let home = old_skill();
        let found = [Found { name: "pdf".into(), folder: folder(&home, "pdf") }];
        let plan = due(&home.view(), &found, &protections(), RULE, hermes_now());
        assert_eq!(plan, [("pdf".into(), Due::Act(Action::Archive))]);
        let mut other = holder(&home, "pdf");
        let applied = std::thread::scope(|scope| {
            let skills = home.profile.skills(Origin::here("curator")).with_limit(HANG);
            let applying = scope.spawn(move || skills.apply_due("pdf", RULE));
            until_waiting(&folder(&home, "pdf"), 1);
            if is_used {
                home.used("pdf");
            }
            other.go_on();
            applying.join().unwrap().unwrap()
        });
        crate::done(other);
        assert_eq!(folder(&home, "pdf").exists(), is_used);
        if is_used {
            assert_eq!(applied, Applied::NoLongerDue(Due::Keep(Why::InOrder)));
            assert!(!events_of(&home, "pdf").contains(&"archived".to_owned()));
        } else {
            assert_eq!(applied, Applied::Done(Action::Archive));
            assert_eq!(home.view().skill("pdf").unwrap().state(), State::Archived);
        }
    }
}

#[test]
fn what_is_applied_holds_against_what_the_file_said_before() {
    let home = old_skill();
    let skills = home.profile.skills(Origin::here("curator"));
    usage_file::change(&home, |records| {
        records["pdf"]["state"] = json!("stale");
        records["pdf"]["last_used_at"] = json!(hermes_log::view::records::format_time(hermes_now()));
    });
    assert_eq!(skills.apply_due("pdf", RULE).unwrap(), Applied::Done(Action::Reactivate));
    for _ in 0..2 {
        assert_eq!(home.view().skill("pdf").unwrap().state(), State::Active);
        home.compact();
        assert_eq!(usage_file::json(&home)["pdf"]["state"], "active");
    }
    // A pin that lands in between saves it as well.
    home.writer().append(&Event::Pinned { skill: "pdf".into(), pinned: true }, Durability::Process).unwrap();
    let applied = skills.apply_due("pdf", RULE).unwrap();
    assert_eq!(applied, Applied::NoLongerDue(Due::Keep(Why::Pinned)));
}
