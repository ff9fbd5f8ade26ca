//! What Hermes refuses is refused: bundled, hub-installed, external and pinned skills.

use std::fs;

use hermes_log::skill::Protections;
use hermes_log::{Durability, Error, Event, Origin};

use crate::support::log_files::Home;
use crate::{CAPACITY, at_once, folder, make, tree};

const NAMES: [&str; 7] = ["own", "manual", "pinned", "bundled", "hub", "external", "plan"];

/// A home with a skill of each kind. `pruned`: the curator may archive bundled ones.
fn home(pruned: bool) -> Home {
    let home = Home::new(CAPACITY);
    for name in NAMES {
        make(&folder(&home, &format!("{name}s/{name}")), name);
    }
    let skills = home.profile.skills_folder();
    fs::write(skills.join(".bundled_manifest"), "bundled:0f0f\n\n").unwrap();
    fs::create_dir(skills.join(".hub")).unwrap();
    let lock = r#"{"installed": {"slug": {"install_path": "hubs/hub"}}}"#;
    fs::write(skills.join(".hub/lock.json"), lock).unwrap();
    let external = skills.join("externals").display().to_string();
    let config = format!("curator:\n  prune_builtins: {pruned}\nskills:\n  external_dirs: [{external:?}]\n");
    fs::write(home.path().join("config.yaml"), config).unwrap();
    let mut writer = home.writer();
    for name in ["own", "pinned"] {
        writer.append(&Event::Created { skill: name.into(), by: "agent".into() }, Durability::Process).unwrap();
    }
    writer.append(&Event::used("manual"), Durability::Process).unwrap();
    writer.append(&Event::Pinned { skill: "pinned".into(), pinned: true }, Durability::Process).unwrap();
    home
}

fn is_refused<T: std::fmt::Debug>(done: &Result<T, Error>) -> bool {
    match done {
        Ok(_) => false,
        Err(Error::Refused { .. }) => true,
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn archive_refuses_what_hermes_refuses() {
    for pruned in [true, false] {
        let home = home(pruned);
        let skills = at_once(&home.profile);
        for name in NAMES {
            let wanted = match name {
                "own" | "manual" => false,
                "bundled" => !pruned,
                _ => true,
            };
            let archived = skills.lock(name).unwrap().archive();
            assert_eq!(is_refused(&archived), wanted, "{name}: {archived:?}");
            assert_eq!(folder(&home, &format!("{name}s/{name}")).exists(), wanted);
        }
        // Hermes does not bring an archived bundled skill back, until it is restored.
        let suppressed = || fs::read_to_string(folder(&home, ".curator_suppressed")).unwrap_or_default();
        assert_eq!(suppressed(), if pruned { "bundled\n" } else { "" });
        if pruned {
            skills.restore("bundled").unwrap();
            assert_eq!(suppressed(), "");
        }
    }
}

#[test]
fn restore_refuses_what_would_shadow_a_skill_of_hermes() {
    for pruned in [true, false] {
        let home = home(pruned);
        for name in ["hub", "bundled", "own"] {
            let from = folder(&home, &format!("{name}s"));
            fs::create_dir_all(folder(&home, ".archive")).unwrap();
            fs::rename(from.join(name), folder(&home, ".archive").join(name)).unwrap();
        }
        // What the hub says counts by the name it has, too.
        fs::write(folder(&home, ".hub/lock.json"), r#"{"installed": {"hub": {}}}"#).unwrap();
        let skills = at_once(&home.profile);
        assert!(is_refused(&skills.restore("hub")));
        assert_eq!(is_refused(&skills.restore("bundled")), !pruned);
        assert!(!is_refused(&skills.restore("own")));
    }
}

#[test]
fn delete_refuses_pinned_skills_and_a_user_may_change_them() {
    let home = home(true);
    let skills = at_once(&home.profile);
    for name in NAMES {
        assert!(!is_refused(&skills.lock(name).unwrap().write_file("a.txt", b"x")), "{name}");
        assert_eq!(is_refused(&skills.lock(name).unwrap().delete()), name == "pinned", "{name}");
    }
}

#[test]
fn a_process_in_the_background_changes_only_what_an_agent_created() {
    let home = home(true);
    let before: Vec<_> = NAMES[1..].iter().map(|name| tree(&folder(&home, &format!("{name}s/{name}")))).collect();
    for kind in ["review", "curator"] {
        let skills = home.profile.skills(Origin::here(kind));
        for name in NAMES {
            let wanted = name != "own";
            let lock = skills.lock(name).unwrap();
            assert_eq!(is_refused(&lock.write_file("a.txt", b"x")), wanted, "{name}");
            assert_eq!(is_refused(&lock.edit(crate::skill_file(name, "").as_bytes())), wanted, "{name}");
            if !wanted {
                lock.remove_file("a.txt").unwrap();
            }
            assert!(is_refused(&lock.delete()), "{name}: it archives, it never deletes");
        }
    }
    let after: Vec<_> = NAMES[1..].iter().map(|name| tree(&folder(&home, &format!("{name}s/{name}")))).collect();
    assert_eq!(after, before);
}

#[test]
fn a_file_that_says_what_is_protected_and_cannot_be_read_is_an_error_where_hermes_goes_on_without_it() {
    for (file, content) in [
        ("skills/.hub/lock.json", "{\"installed\": {"),
        ("skills/.hub/lock.json", "[]"),
        ("skills/.hub/lock.json", "{\"installed\": []}"),
        ("cron/jobs.json", "{\"jobs\": [{\"skill\": \"own\""),
        ("cron/jobs.json", "7"),
        ("cron/jobs.json", "{\"jobs\": {}}"),
        ("config.yaml", "curator: [unclosed"),
    ] {
        let home = home(true);
        fs::create_dir_all(home.path().join("cron")).unwrap();
        fs::write(home.path().join(file), content).unwrap();
        let read = Protections::read(&home.profile);
        assert!(matches!(read, Err(Error::Damaged { .. })), "{file} {content}: {read:?}");
        let archived = at_once(&home.profile).lock("own").unwrap().archive();
        assert!(matches!(archived, Err(Error::Damaged { .. })), "{archived:?}");
        assert!(folder(&home, "owns/own").exists());
    }
}
