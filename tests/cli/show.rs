//! `show`: the table, one record, JSON.

use hermes_log::{Durability, Event};
use serde_json::json;

use super::*;

fn columns(line: &str) -> Vec<&str> {
    line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect()
}

/// First column of the table, in order.
fn order(ran: &Ran) -> Vec<&str> {
    ran.stdout.lines().skip(1).map(|line| columns(line)[0]).collect()
}

#[test]
fn the_table_is_sorted_as_asked() {
    let home = Home::new(CAPACITY);
    for (kind, counts) in [
        ("use", [("c", "1"), ("a", "5"), ("b", "2")]),
        ("view", [("c", "9"), ("a", "1"), ("b", "2")]),
        ("patch", [("a", "1"), ("c", "2"), ("b", "3")]),
    ] {
        for (skill, count) in counts {
            on(&home, &["emit", kind, skill, "--count", count]).quietly();
        }
    }
    for (sort, wanted) in [
        ("name", ["a", "b", "c"]),
        ("activity", ["c", "a", "b"]),
        ("recent", ["b", "c", "a"]),
        ("use", ["a", "b", "c"]),
        ("view", ["c", "b", "a"]),
        ("patch", ["b", "c", "a"]),
    ] {
        assert_eq!(order(&on(&home, &["show", "--sort", sort]).quietly()), wanted, "{sort}");
    }
    assert_eq!(order(&on(&home, &["show"]).quietly()), ["a", "b", "c"]);
    on(&home, &["show", "--sort", "colour"]).exits(USAGE);
}

#[test]
fn numbers_stand_right_and_no_name_breaks_the_table() {
    let home = Home::new(CAPACITY);
    let mut writer = home.writer();
    let names = [
        "plain",
        "日本語 の 技",
        "a\nb",
        "a\u{85}b\u{2028}c",
        "\u{1b}[31mred",
        "\u{202e}abc",
        "tab\there",
        &"x".repeat(4096),
    ];
    for name in names {
        writer.append(&Event::Used { skill: name.into(), count: 1_234_567 }, Durability::Process).unwrap();
    }
    writer.append(&Event::used("plain2"), Durability::Process).unwrap();
    let ran = on(&home, &["show", "--color", "never"]).quietly();
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 1 + names.len() + 1);
    assert!(!ran.stdout.chars().any(|c| c.is_control() && c != '\n' || "\u{2028}\u{202e}".contains(c)), "{ran:?}");
    assert!(ran.stdout.contains("a\\nb") && ran.stdout.contains("\\u{85}") && ran.stdout.contains("\\u{1b}[31mred"));
    assert!(lines.iter().all(|line| line.chars().count() < 200), "the long name is cut");
    // The ends of the numbers are below each other, in terminal columns: a wide character takes two.
    let ends: Vec<usize> = lines[1..]
        .iter()
        .map(|line| {
            let end = line.find("1,234,567").map(|at| at + 9).unwrap_or_else(|| line.find(" 1  ").unwrap() + 2);
            line[..end].chars().map(|c| if ('\u{2e80}'..='\u{ffff}').contains(&c) { 2 } else { 1 }).sum()
        })
        .collect();
    assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}\n{}", ran.stdout);
    let exact = on(&home, &["show", "--json"]).quietly().json();
    assert!(names.iter().all(|name| exact["skills"][name]["use_count"] == 1_234_567));
}

#[test]
fn json_has_the_records_of_usage_json_and_how_far_it_was_read() {
    let home = Home::new(CAPACITY);
    home.used("pdf");
    home.used("überblick");
    let shown = on(&home, &["show", "--json"]).quietly().json();
    assert_eq!(keys(&shown), ["events", "gaps", "position", "skills", "snapshot_problems"]);
    assert_eq!((&shown["events"], &shown["gaps"]), (&json!(2), &json!([])));
    assert_eq!(shown["position"], home.view().position().to_string());
    home.compact();
    let file: Value = serde_json::from_slice(&std::fs::read(home.profile.snapshot_path()).unwrap()).unwrap();
    assert_eq!(shown["skills"], file);
    let one = on(&home, &["show", "überblick", "--json"]).quietly().json();
    assert_eq!(one, json!({"name": "überblick", "record": file["überblick"]}));
}

#[test]
fn one_record_is_shown_field_by_field() {
    let home = Home::new(CAPACITY);
    home.used("pdf");
    on(&home, &["emit", "set", "pdf", "note", "\"a\\u001bb\""]).quietly();
    let ran = on(&home, &["show", "pdf"]).quietly();
    let fields: Vec<Vec<&str>> = ran.stdout.lines().map(columns).collect();
    assert_eq!(fields[0], ["pdf"]);
    assert!(fields.contains(&vec!["use_count", "1"]) && fields.contains(&vec!["note", "a\\u{1b}b"]), "{ran:?}");
    assert!(ran.stdout.contains("just now (20") || ran.stdout.contains("ago (20"), "{ran:?}");
}

#[test]
fn a_skill_that_is_not_there_is_exit_1() {
    let home = Home::new(CAPACITY);
    home.used("pdf");
    for name in ["PDF", "pd", "pdf "] {
        let ran = on(&home, &["show", name]).exits(NOT_FOUND);
        assert!(ran.stdout.is_empty() && ran.stderr.contains(name), "{ran:?}");
    }
    let ran = on(&home, &["show", "none", "--json"]).exits(NOT_FOUND);
    assert_eq!(ran.json_messages(), [json!({"error": "skill not found: none", "exit": 1})]);
    assert!(ran.stdout.is_empty());
}

#[test]
fn no_skills_are_no_failure_and_nothing_is_made() {
    let home = Home::new(CAPACITY);
    let ran = on(&home, &["show"]).exits(DONE);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", "no skills yet\n"));
    assert_eq!(on(&home, &["show", "-q"]).quietly().stdout, "");
    assert_eq!(on(&home, &["show", "--json"]).quietly().json()["skills"], json!({}));
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn gaps_and_a_damaged_usage_json_are_reported_with_exit_3() {
    let home = Home::new(CAPACITY);
    home.used("a");
    home.used("b");
    let end = damage_last_frame(&home, 1);
    let ran = on(&home, &["show"]).exits(GAPS);
    assert_eq!(order(&ran), ["a", "after-the-gap"]);
    assert!(ran.stderr.contains("gap in segment 1 at offset"), "{ran:?}");
    let gap = on(&home, &["show", "--json"]).exits(GAPS).json()["gaps"][0].clone();
    assert_eq!(keys(&gap), ["length", "offset", "reason", "segment"]);
    assert_eq!(gap["offset"].as_u64().unwrap() + gap["length"].as_u64().unwrap(), end);
    let one = on(&home, &["show", "a", "--json"]).exits(GAPS);
    assert_eq!(keys(&one.json()), ["name", "record"]);
    assert!(one.json_messages()[0]["warning"].as_str().unwrap().contains("gap in segment 1"));

    let damaged = Home::new(CAPACITY);
    std::fs::create_dir(damaged.path().join("skills")).unwrap();
    std::fs::write(damaged.profile.snapshot_path(), b"{\"a\": {\"use_count\": 3}}}").unwrap();
    let ran = on(&damaged, &["show"]).exits(GAPS);
    assert_eq!(order(&ran), ["a"]);
    assert!(ran.stderr.contains(".usage.json at offset"), "{ran:?}");
}

#[test]
fn what_the_library_warns_of_is_a_warning_like_any_other() {
    let home = Home::new(CAPACITY);
    for _ in 0..2 {
        home.used("a");
        home.compact();
    }
    let newest = *home.checkpoints().last().unwrap();
    std::fs::write(home.checkpoint_path(newest), b"damaged").unwrap();
    let ran = on(&home, &["show", "a"]).exits(DONE);
    assert!(ran.stderr.starts_with("warning: the newest checkpoint does not check out"), "{ran:?}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    let ran = on(&home, &["show", "a", "--json"]).exits(DONE);
    let warning: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert!(warning["warning"].as_str().unwrap().contains("checkpoint"), "{ran:?}");
    assert!(on(&home, &["show", "a", "--quiet"]).exits(DONE).stderr.is_empty());
}
