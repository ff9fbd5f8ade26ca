use std::fs;

use serde_json::json;

use super::*;

fn home() -> Home {
    let home = Home::new(CAPACITY);
    let old = "2020-01-01T00:00:00+00:00";
    let record = json!({"created_by": "agent", "created_at": old, "use_count": 1, "last_used_at": old});
    for name in ["old", "manual"] {
        let folder = home.profile.skills_folder().join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("SKILL.md"), format!("---\nname: {name}\n---\n")).unwrap();
    }
    fs::write(home.profile.snapshot_path(), json!({"old": record}).to_string()).unwrap();
    home
}

#[test]
fn what_is_due_is_shown_and_nothing_is_done_without_apply() {
    let home = home();
    let shown = on(&home, &["due", "--json"]).quietly().json();
    let wanted = json!({"skills": [
        {"skill": "manual", "due": "keep", "why": "no record says that an agent created it", "applied": null, "error": null},
        {"skill": "old", "due": "archive", "why": null, "applied": null, "error": null},
    ]});
    assert_eq!(shown, wanted);
    let table = on(&home, &["due"]).quietly().stdout;
    assert!(table.contains("old     archive  -"), "{table}");
    let later = on(&home, &["due", "--archive-after", "3650d", "--json"]).quietly().json();
    assert_eq!(later["skills"][1]["due"], "mark stale");
    fs::write(home.path().join("config.yaml"), "curator:\n  archive_after_days: 5000\n").unwrap();
    let later = on(&home, &["due", "--json"]).quietly().json();
    assert_eq!(later["skills"][1]["due"], "mark stale");
    assert!(home.profile.skills_folder().join("old").exists());
}

#[test]
fn what_is_due_is_applied_and_a_lock_that_cannot_be_had_is_said() {
    let home = home();
    let held = Held::folder(&home.profile.skills_folder().join("old"));
    let ran = on(&home, &["due", "--apply", "--timeout", "0s", "--json"]).exits(LOCKED).json();
    assert_eq!(ran["skills"][1]["applied"], "failed");
    assert!(ran["skills"][1]["error"].as_str().unwrap().contains("is locked"), "{ran}");
    drop(held);
    let ran = on(&home, &["due", "--apply", "--json"]).exits(DONE).json();
    assert_eq!(ran["skills"][1]["applied"], "done");
    assert!(home.profile.skills_folder().join(".archive/old").exists());
    let again = on(&home, &["due", "--json"]).quietly().json();
    assert_eq!(again["skills"].as_array().unwrap().len(), 1);
}

#[test]
fn a_file_that_cannot_be_read_stops_it_before_anything_is_done() {
    let home = home();
    fs::create_dir(home.path().join("cron")).unwrap();
    fs::write(home.path().join("cron/jobs.json"), "{").unwrap();
    let ran = on(&home, &["due", "--apply"]).exits(FAILED);
    assert!(ran.stderr.contains("jobs.json is damaged"), "{ran:?}");
    assert!(home.profile.skills_folder().join("old").exists());
}
