//! `demo`: the main job in one command.

use serde_json::json;

use super::*;

#[test]
fn counts_agree_exactly_while_processes_are_killed_and_segments_come_and_go() {
    let mut deleted = 0;
    for place in support::processes::places() {
        let home = tempfile::tempdir_in(place).unwrap();
        let words = ["demo", "--processes", "4", "--events", "20000", "--capacity", "16384", "--json"];
        let report = run(&mut of(home.path(), &words)).quietly().json();
        assert_eq!((&report["exact"], &report["events"]), (&json!(true), &json!(20000)), "{report}");
        assert_eq!(report["differences"], json!([]));
        let number = |key: &str| report[key].as_u64().unwrap_or_else(|| panic!("{key}: {report}"));
        assert_eq!(number("counted"), 20_000 + number("in_flight_counted"));
        // It proves nothing unless all of this took place.
        assert!(number("kills") > 0 && number("processes_started") > 4, "{report}");
        assert!(number("segments_created") > 20 && number("voided_at_least") > 0, "{report}");
        // A disk may take so long to sync that there are no more than two compactions, which delete nothing yet.
        assert!(number("compactions") > 1, "{report}");
        deleted += number("segments_deleted");

        // What it says is what everybody else reads.
        let skills = run(&mut of(home.path(), &["show", "--json"])).quietly().json()["skills"].clone();
        let uses = skills.as_object().unwrap().values().map(|record| record["use_count"].as_u64().unwrap());
        assert_eq!(uses.sum::<u64>(), number("counted"));
    }
    assert!(deleted > 0, "in memory there are many");
}

#[test]
fn it_can_be_run_again_in_its_home_and_leaves_a_used_one_alone() {
    let home = Home::new(CAPACITY);
    for _ in 0..2 {
        let ran = on(&home, &["demo", "--processes", "2", "--events", "500"]).quietly();
        assert!(ran.stdout.starts_with("exact: "), "{ran:?}");
        assert!(ran.stdout.contains(home.path().to_str().unwrap()), "{ran:?}");
    }
    let used = Home::new(CAPACITY);
    used.used("pdf");
    let ran = on(&used, &["demo", "--events", "10"]).exits(USAGE);
    assert!(ran.stderr.contains("in use"), "{ran:?}");
    assert_eq!(used.view().events(), 1);
    on(&home, &["demo", "--profile", "work"]).exits(USAGE);
    on(&home, &["demo", "--events", "0"]).exits(USAGE);
    on(&home, &["demo", "--processes", "0"]).exits(USAGE);
}

#[test]
fn without_a_home_it_makes_a_new_one_and_keeps_it() {
    let place = tempfile::tempdir().unwrap();
    let words = ["demo", "--processes", "1", "--events", "10", "--json"];
    let report = run(program().args(words).env("TMPDIR", place.path())).quietly().json();
    let home = Path::new(report["home"].as_str().unwrap());
    assert_eq!(home.parent(), Some(place.path()));
    assert!(home.join("event-log").is_dir() && home.join("skills/.usage.json").is_file());
}
