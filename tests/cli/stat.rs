//! `stat`: the numbers are those of the files.

use serde_json::json;

use super::*;

#[test]
fn sizes_and_counts_are_those_of_the_files() {
    let home = Home::new(CAPACITY);
    home.used("a");
    home.used("a");
    home.used("b");
    home.compact();
    home.used("c");
    let stat = on(&home, &["stat", "--json"]).quietly().json();
    assert_eq!(
        keys(&stat),
        [
            "carried",
            "checkpoints",
            "damaged",
            "events",
            "floor",
            "frames",
            "gaps",
            "home",
            "last_compaction",
            "locks",
            "log_id",
            "position",
            "segments",
            "skills",
            "snapshot"
        ]
    );
    let segments = home.segments();
    let bytes: u64 = segments.iter().map(|number| home.len(*number)).sum();
    assert_eq!(
        stat["segments"],
        json!({"count": segments.len(), "first": segments[0], "last": segments.last(), "bytes": bytes})
    );
    let view = home.view();
    assert_eq!((&stat["events"], &stat["frames"]), (&json!(view.events()), &json!(view.frames())));
    assert_eq!(
        (&stat["skills"], &stat["floor"], &stat["position"]),
        (&json!(3), &json!(1), &json!(view.position().to_string()))
    );
    assert_eq!(stat["checkpoints"]["floors"], json!(home.checkpoints()));
    assert_eq!(stat["snapshot"]["bytes"], std::fs::metadata(home.profile.snapshot_path()).unwrap().len());
    let last = &stat["last_compaction"];
    assert_eq!(keys(last), ["ended", "error", "floor", "started"]);
    assert_eq!((&last["floor"], &last["error"]), (&json!(1), &Value::Null));
    let text = on(&home, &["stat"]).quietly().stdout;
    assert!(text.contains("last compaction") && text.contains("floor 1"), "{text}");
}

#[test]
fn who_holds_a_lock_is_named() {
    let home = Home::new(CAPACITY);
    home.used("a");
    home.compact();
    let holders = || on(&home, &["stat", "--json"]).quietly().json()["locks"].clone();
    assert!(holders().as_array().unwrap().iter().all(|lock| lock["holder"].is_null()));
    let path = home.profile.log_folder().join("compact.lock");
    let held = Held::lock(&path);
    let found = holders();
    assert_eq!(found[0]["path"], path.to_str().unwrap());
    let holder = found[0]["holder"].as_str().unwrap();
    assert!(holder.contains(&std::process::id().to_string()), "{holder}");
    assert!(found[1]["holder"].is_null());
    assert!(on(&home, &["stat"]).quietly().stdout.contains("compact.lock: held by process"));
    drop(held);
}

#[test]
fn the_last_compactions_error_is_kept() {
    let home = Home::new(CAPACITY);
    home.used("a");
    std::fs::create_dir_all(home.profile.snapshot_path()).unwrap();
    on(&home, &["compact"]).exits(FAILED);
    std::fs::remove_dir(home.profile.snapshot_path()).unwrap();
    let last = on(&home, &["stat", "--json"]).quietly().json()["last_compaction"].clone();
    assert!(last["error"].as_str().unwrap().contains(".usage.json"), "{last}");
    assert!(on(&home, &["stat"]).quietly().stdout.contains("its error"));
}

#[test]
fn gaps_above_the_floor_lead_to_exit_3_and_folded_ones_are_remembered() {
    let home = Home::new(CAPACITY);
    home.used("a");
    let gap = home.used("b");
    let end = damage_last_frame(&home, 1);
    let stat = on(&home, &["stat", "--json"]).exits(GAPS).json();
    assert_eq!(stat["gaps"]["above_floor"][0]["offset"], gap.offset);
    let ran = on(&home, &["stat"]).exits(GAPS);
    assert!(ran.stderr.contains("gap in segment 1"), "{ran:?}");
    on(&home, &["compact"]).exits(GAPS);
    let stat = on(&home, &["stat", "--json"]).quietly().json();
    assert_eq!((&stat["gaps"]["count"], &stat["gaps"]["bytes"]), (&json!(1), &json!(end - gap.offset)));
    assert_eq!(stat["gaps"]["above_floor"], json!([]));
    assert_eq!(stat["damaged"]["files"], 1);
}

#[test]
fn an_empty_profile_has_nothing_and_nothing_is_made() {
    let home = Home::new(CAPACITY);
    let stat = on(&home, &["stat", "--json"]).quietly().json();
    assert_eq!(
        (&stat["segments"]["count"], &stat["last_compaction"], &stat["log_id"]),
        (&json!(0), &Value::Null, &Value::Null)
    );
    on(&home, &["stat"]).quietly();
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    for command in ["stat", "show", "verify", "tail", "locks"] {
        let ran = run(&mut of(&home.path().join("none"), &[command])).exits(NOT_FOUND);
        assert!(ran.stderr.contains("none is not there"), "{command}: {ran:?}");
    }
}
