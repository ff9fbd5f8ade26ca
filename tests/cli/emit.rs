//! `emit` of one event.

use std::fs;

use serde_json::json;

use super::*;
use crate::support::usage_file;

fn record(home: &Home, skill: &str) -> Value {
    on(home, &["show", skill, "--json"]).quietly().json()["record"].clone()
}

#[test]
fn the_position_is_printed_and_it_is_where_the_event_is() {
    let home = Home::new(CAPACITY);
    let first = on(&home, &["emit", "use", "pdf"]).quietly();
    assert_eq!(first.stdout, "1:64\n");
    let second = on(&home, &["emit", "view", "pdf", "--json"]).quietly().json();
    assert_eq!(keys(&second), ["position"]);
    let position = second["position"].as_str().unwrap();
    let tail = on(&home, &["tail", "--from", position, "--json"]).quietly().json();
    assert_eq!((&tail["position"], &tail["event"]["event"]), (&second["position"], &json!("viewed")));
}

#[test]
fn every_kind_changes_what_it_names() {
    let home = Home::new(CAPACITY);
    let emit = |words: &[&str]| drop(on(&home, &[&["emit"], words].concat()).quietly());
    emit(&["use", "pdf", "--count", "3"]);
    emit(&["view", "pdf"]);
    emit(&["patch", "pdf", "--count=2"]);
    emit(&["state", "pdf", "stale"]);
    emit(&["pin", "pdf"]);
    emit(&["created", "pdf", "--by", "agent"]);
    emit(&["set", "pdf", "score", "-1.50"]);
    let shown = record(&home, "pdf");
    for (field, value) in [
        ("use_count", json!(3)),
        ("view_count", json!(1)),
        ("patch_count", json!(2)),
        ("state", json!("stale")),
        ("pinned", json!(true)),
        ("created_by", json!("agent")),
    ] {
        assert_eq!(shown[field], value, "{field}");
    }
    assert_eq!(shown["score"].to_string(), "-1.50", "numbers keep their spelling");
    emit(&["unpin", "pdf"]);
    assert_eq!(record(&home, "pdf")["pinned"], false);
    emit(&["forget", "pdf"]);
    on(&home, &["show", "pdf"]).exits(NOT_FOUND);
}

#[test]
fn what_is_said_of_a_field_counts_as_newer_than_what_others_did_before() {
    let home = Home::new(CAPACITY);
    on(&home, &["emit", "use", "pdf"]).quietly();
    on(&home, &["compact"]).quietly();
    for (by_others, words, field, value) in [
        (json!({"pinned": true}), &["unpin", "pdf"][..], "pinned", json!(false)),
        (json!({"state": "archived"}), &["state", "pdf", "active"], "state", json!("active")),
        (json!({"score": 1}), &["set", "pdf", "score", "2"], "score", json!(2)),
    ] {
        for as_lines in [false, true] {
            usage_file::change(&home, |records| {
                let record = records["pdf"].as_object_mut().unwrap();
                record.extend(by_others.as_object().unwrap().clone());
            });
            if as_lines {
                let line = match field {
                    "pinned" => json!({"event": "pinned", "skill": "pdf", "pinned": value}),
                    "state" => json!({"event": "state", "skill": "pdf", "state": value}),
                    _ => json!({"event": "fields", "skill": "pdf", "set": {field: value}}),
                };
                run_with_input(&mut of(home.path(), &["emit", "-"]), line.to_string().as_bytes()).exits(DONE);
            } else {
                on(&home, &[&["emit"], words].concat()).quietly();
            }
            assert_eq!(record(&home, "pdf")[field], value, "{words:?}");
            on(&home, &["compact"]).quietly();
            assert_eq!(record(&home, "pdf")[field], value, "{words:?}, compacted");
        }
    }
    // What counts up adds, and waits for nobody.
    let _lock = usage_file::hold_lock(&home);
    on(&home, &["emit", "use", "pdf"]).quietly();
    on(&home, &["emit", "pin", "pdf"]).quietly();
}

#[test]
fn origin_and_session_are_in_the_log_and_reviews_count_by_policy() {
    let home = Home::new(CAPACITY);
    on(&home, &["emit", "use", "pdf", "--origin", "review", "--session", "monday", "--durable"]).quietly();
    let origin = on(&home, &["tail", "--json"]).quietly().json()["origin"].clone();
    assert_eq!((&origin["kind"], &origin["session"]), (&json!("review"), &json!("monday")));
    assert!(origin["process"].is_u64());
    assert_eq!(record(&home, "pdf")["use_count"], 1);
    let seen = on(&home, &["show", "pdf", "--reviews-as-views", "--json"]).quietly().json();
    assert_eq!((&seen["record"]["use_count"], &seen["record"]["view_count"]), (&json!(0), &json!(1)));
    let cli = Home::new(CAPACITY);
    on(&cli, &["emit", "use", "pdf"]).quietly();
    assert_eq!(on(&cli, &["tail", "--json"]).json()["origin"]["kind"], "cli");
}

#[test]
fn input_that_is_not_allowed_is_refused_with_what_is_and_nothing_is_appended() {
    let home = Home::new(CAPACITY);
    let long = "x".repeat(4097);
    for (words, allowed) in [
        (&["use", ""][..], "1 to 4096 bytes"),
        (&["use", &long], "1 to 4096 bytes"),
        (&["use", "a", "--count", "0"], "a whole number from 1"),
        (&["use", "a", "--count", "-1"], "a whole number from 1"),
        (&["use", "a", "--count", "1.5"], "a whole number from 1"),
        (&["use", "a", "--count", "18446744073709551616"], "to 18446744073709551615"),
        (&["state", "a", "asleep"], "active, stale, archived"),
        (&["set", "a", "field", "not JSON"], "JSON, such as"),
        (&["set", "a", "use_count", "5"], "without what is counted"),
        (&["created", "a", "--by", ""], "such as agent"),
        (&["use", "a", "--origin", ""], "a value is required"),
        (&["use", "a", "--capacity", "4095"], "4096..=268435456"),
        (&["set", "a", "state", "\"bogus\""], "state has an event of its own"),
        (&["set", "a", "state", "\"archived\""], "state has an event of its own"),
        (&["set", "a", "pinned", "null"], "true or false for pinned"),
        (&["sing", "a"], "Usage"),
        (&["use"], "<SKILL>"),
    ] {
        let ran = on(&home, &[&["emit"], words].concat()).exits(USAGE);
        assert!(ran.stderr.contains(allowed) && ran.stdout.is_empty(), "{words:?}: {ran:?}");
        let ran = on(&home, &[&["emit"], words, &["--json"]].concat()).exits(USAGE);
        let error = ran.json_messages();
        assert_eq!((error.len(), &error[0]["exit"]), (1, &json!(USAGE)), "{words:?}");
        assert!(error[0]["error"].as_str().unwrap().contains(allowed), "{words:?}: {error:?}");
    }
    let not_utf8 = std::os::unix::ffi::OsStrExt::from_bytes(b"a\xff");
    run(of(home.path(), &["emit", "use"]).arg::<&std::ffi::OsStr>(not_utf8)).exits(USAGE);
    assert!(!home.profile.log_folder().exists());
}

#[test]
fn names_are_exact() {
    let home = Home::new(CAPACITY);
    let longest = "ü".repeat(2048);
    let names = [
        "a",
        "A",
        "a ",
        "\u{e9}",
        "e\u{301}",
        "\u{85}",
        "\u{7f}",
        "\u{9b}31m",
        "\u{1b}[31m",
        "\u{2028}",
        "a\nb",
        "}{",
        "👩\u{200d}🚀",
        "--",
        "-x",
        &longest,
    ];
    for (count, name) in (1..).zip(names) {
        on(&home, &["emit", "use", "--count", &count.to_string()]).exits(USAGE);
        run(program()
            .args(["emit", "use", "--count", &count.to_string(), "--home"])
            .arg(home.path())
            .args(["--", name]))
        .quietly();
    }
    let skills = on(&home, &["show", "--json"]).quietly().json()["skills"].clone();
    assert_eq!(skills.as_object().unwrap().len(), names.len());
    for (count, name) in (1..).zip(names) {
        assert_eq!(skills[name]["use_count"], count, "{name:?}");
    }
}

#[test]
fn the_profile_is_found_as_hermes_finds_it() {
    let root = Home::new(CAPACITY);
    let named = root.path().join("profiles/work");
    fs::create_dir_all(&named).unwrap();
    fs::create_dir_all(root.path().join("user/.hermes")).unwrap();
    let emit = |skill: &str, words: &[&str], hermes_home: &Path| {
        let mut command = program();
        command.args(["emit", "use", skill]).args(words).env("HOME", root.path().join("user"));
        run(command.env("HERMES_HOME", hermes_home)).quietly();
    };
    emit("a", &[], root.path());
    emit("b", &["--profile", "work"], root.path());
    emit("c", &["--profile", "work"], &named);
    emit("d", &["--profile", "default"], &named);
    emit("e", &[], Path::new(" "));
    let skills = |home: &Path| -> Vec<String> {
        let shown = run(&mut of(home, &["show", "--json"])).quietly().json();
        keys(&shown["skills"]).into_iter().map(str::to_owned).collect()
    };
    assert_eq!(skills(root.path()), ["a", "d"]);
    assert_eq!(skills(&named), ["b", "c"]);
    assert_eq!(skills(&root.path().join("user/.hermes")), ["e"]);
}

#[test]
fn a_profile_that_is_not_there_is_exit_1_and_a_wrong_one_exit_2() {
    let home = Home::new(CAPACITY);
    let profile =
        |name: &str| run(program().args(["emit", "use", "a", "--profile", name]).env("HERMES_HOME", home.path()));
    profile("none").exits(NOT_FOUND);
    // As the `hermes` command finds it: the variable, else the profile that was made the active one.
    let root = home.path().join(".hermes");
    std::fs::create_dir_all(root.join("profiles/work")).unwrap();
    std::fs::write(root.join("active_profile"), "work\n").unwrap();
    run(program().args(["emit", "use", "active"]).env("HOME", home.path())).exits(0);
    assert!(root.join("profiles/work/event-log").is_dir() && !root.join("event-log").exists());
    run(program().args(["emit", "use", "a"]).env("HOME", home.path()).env("HERMES_HOME", &root)).exits(0);
    assert!(root.join("event-log").is_dir());
    std::fs::write(root.join("active_profile"), "gone\n").unwrap();
    let ran = run(program().args(["emit", "use", "a"]).env("HOME", home.path())).exits(0);
    assert!(ran.stderr.contains("active_profile is passed over"), "{ran:?}");
    profile("../none").exits(USAGE);
    run(&mut of(&home.path().join("none"), &["emit", "use", "a"])).exits(NOT_FOUND);
    on(&home, &["emit", "use", "a", "--profile", "work"]).exits(USAGE);
    run(program().args(["emit", "use", "a"]).env_remove("HOME")).exits(NOT_FOUND);
}
