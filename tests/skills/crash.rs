//! A process is killed at each system call of each change: the skill is the old one or the new one, never a half; what is
//! left behind is removed by compaction; and the change can be made by the next process.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use hermes_log::{Counter, Event, Profile};

use crate::support::log_files::Home;
use crate::support::processes::{Stood, Task, Worker, tell};
use crate::{CAPACITY, at_once, folder, leftovers, skill_file, skills, tree};

pub(crate) fn work(task: &Task) -> bool {
    if task.role != "change" {
        return false;
    }
    change(&task.profile(), &task.words[1]).unwrap();
    tell("acknowledged");
    true
}

fn change(profile: &Profile, what: &str) -> hermes_log::Result<()> {
    let skills = skills(profile);
    let new = profile.home().join("new");
    let lock = || skills.lock("pdf");
    match what {
        "create" => lock()?.create(skill_file("pdf", "new").as_bytes(), Some("documents"), "agent").map(drop),
        "install" => lock()?.install(&new, None, "somewhere").map(drop),
        "edit" => lock()?.edit(skill_file("pdf", "new").as_bytes()),
        "write_file" => lock()?.write_file("references/deep/a.txt", b"new"),
        "remove_file" => lock()?.remove_file("references/a.txt"),
        "update" => lock()?.update(&new, "somewhere"),
        "delete" => lock()?.delete(),
        "archive" => lock()?.archive().map(drop),
        "restore" => skills.restore("pdf").map(drop),
        what => panic!("no such change: {what}"),
    }
}

type Files = BTreeMap<String, String>;

/// The whole skill, in a version.
fn files(version: &str) -> Files {
    let files =
        [("SKILL.md", skill_file("pdf", version)), ("references/a.txt", version.into()), ("b.bin", version.into())];
    files.into_iter().map(|(name, text)| (name.to_owned(), text)).collect()
}

fn write(at: &Path, files: &Files) {
    for (name, text) in files {
        fs::create_dir_all(at.join(name).parent().unwrap()).unwrap();
        fs::write(at.join(name), text).unwrap();
    }
}

/// What a change finds, and what it makes of it: the files of the skill and of the archived one.
fn before_and_after(what: &str) -> [(Files, Files); 2] {
    let (none, old) = (Files::new(), files("old"));
    let with = |name: &str, text: String| {
        let mut files = old.clone();
        files.insert(name.into(), text);
        files
    };
    let mut without = old.clone();
    without.remove("references/a.txt");
    match what {
        "create" => [(none.clone(), none.clone()), ([("SKILL.md".to_owned(), skill_file("pdf", "new"))].into(), none)],
        "install" => [(none.clone(), none.clone()), (files("new"), none)],
        "edit" => [(old.clone(), none.clone()), (with("SKILL.md", skill_file("pdf", "new")), none)],
        "write_file" => [(old.clone(), none.clone()), (with("references/deep/a.txt", "new".into()), none)],
        "remove_file" => [(old.clone(), none.clone()), (without, none)],
        "update" => [(old.clone(), none.clone()), (files("new"), none)],
        "delete" => [(old.clone(), none.clone()), (none.clone(), none)],
        "archive" => [(old.clone(), none.clone()), (none, old)],
        "restore" => [(none.clone(), old.clone()), (old, none)],
        what => panic!("no such change: {what}"),
    }
}

struct Scene {
    home: Home,
    states: [(Files, Files); 2],
}

impl Scene {
    fn new(what: &str) -> Scene {
        let home = Home::new(CAPACITY);
        let states = before_and_after(what);
        write(&folder(&home, "pdf"), &states[0].0);
        write(&folder(&home, ".archive/pdf"), &states[0].1);
        write(&home.path().join("new"), &files("new"));
        home.writer().append(&Event::used("pdf"), hermes_log::Durability::Process).unwrap();
        Scene { home, states }
    }

    /// The skill is wherever it is found: a new one may be in a category.
    fn state(&self) -> (Files, Files) {
        let found = at_once(&self.home.profile).find("pdf").unwrap();
        let mut files = found.map(|folder| tree(&folder)).unwrap_or_default();
        files.retain(|name, _| !name.starts_with(".hermes-log-")); // a temporary file is in nobody's way
        (files, tree(&folder(&self.home, ".archive/pdf")))
    }

    /// Everything that a scanner without this program could take for a skill, or a part of one.
    fn hidden_from_hermes(&self) -> bool {
        leftovers(&self.home)
            .iter()
            .all(|left| left.is_file() || tree(left).keys().all(|name| name.starts_with(".archive/")))
    }
}

/// Kills the change at each of its calls. Returns at how many.
fn kill_at_each_call(what: &str, also: &str, may_be_missing: bool) -> u64 {
    let (mut old_ones, mut new_ones) = (0, 0);
    for call in 1.. {
        let scene = Scene::new(what);
        let fault = format!("{also}any@{call}=kill");
        let mut worker = Worker::start("change", scene.home.path(), &[&CAPACITY, &what], &fault);
        let stood = worker.stand();
        let is_acknowledged = worker.told().as_deref() == Some("acknowledged");
        let context = format!("{what}, killed at call {call} ({also})");
        assert!(scene.hidden_from_hermes(), "{context}: {:?}", leftovers(&scene.home));
        let state = scene.state();
        let is_moved_aside = may_be_missing && state.0.is_empty();
        assert!(scene.states.contains(&state) || is_moved_aside, "{context}: {state:#?}");
        assert!(!is_acknowledged || state == scene.states[1], "{context}");
        // A compaction removes what is left, and a skill that was moved aside is back, also without it.
        if is_moved_aside {
            let found = at_once(&scene.home.profile).lock("pdf").unwrap().folder().is_some();
            assert!(found, "{context}");
            assert_eq!(scene.state(), scene.states[0], "{context}");
        }
        scene.home.compact();
        assert_eq!(leftovers(&scene.home).len(), 0, "{context}");
        let state = scene.state();
        assert!(scene.states.contains(&state), "{context}, after compaction: {state:#?}");
        // Nothing stands in the way of the next one.
        if state == scene.states[0] {
            change(&scene.home.profile, what).unwrap_or_else(|e| panic!("{context}: {e}"));
            assert_eq!(scene.state(), scene.states[1], "{context}, done again");
            assert_eq!(leftovers(&scene.home).len(), 0, "{context}");
            old_ones += 1;
        } else {
            new_ones += 1;
        }
        if stood == Stood::Done {
            assert!(is_acknowledged && old_ones > 5 && new_ones > 1, "{what}: {old_ones} old, {new_ones} new");
            return call - 1;
        }
        assert_eq!(stood, Stood::Killed, "{context}");
    }
    unreachable!()
}

#[test]
fn a_change_of_files_that_is_killed_at_any_call_leaves_the_old_skill_or_the_new_one() {
    for what in ["edit", "write_file", "remove_file"] {
        eprintln!("{what}: killed at {} calls", kill_at_each_call(what, "", false));
    }
}

#[test]
fn a_skill_that_appears_or_disappears_is_whole_when_its_process_is_killed_at_any_call() {
    for what in ["create", "install", "delete", "archive", "restore"] {
        eprintln!("{what}: killed at {} calls", kill_at_each_call(what, "", false));
    }
}

#[test]
fn an_update_that_is_killed_at_any_call_leaves_the_old_skill_or_the_new_one() {
    eprintln!("update: killed at {} calls", kill_at_each_call("update", "", false));
}

#[test]
fn where_folders_cannot_be_exchanged_an_update_that_is_killed_is_undone() {
    let calls = kill_at_each_call("update", "exchange@1+=EINVAL;", true);
    eprintln!("update in two steps: killed at {calls} calls");
}

/// What is slow comes after the lock: one that is stopped there is in nobody's way, and is not cleaned up under its hands.
#[test]
fn a_process_that_is_stopped_while_it_removes_the_old_files_holds_up_nobody() {
    for what in ["delete", "update"] {
        let scene = Scene::new(what);
        let mut worker = Worker::start("change", scene.home.path(), &[&CAPACITY, &what], "remove_tree@1=stop");
        assert_eq!(worker.stand(), Stood::Stopped);
        assert_eq!(scene.state(), scene.states[1], "{what}");
        let skills = at_once(&scene.home.profile);
        match what {
            "delete" => drop(skills.lock("pdf").unwrap().create(b"again", None, "agent").unwrap()),
            _ => skills.lock("pdf").unwrap().write_file("b.bin", b"again").unwrap(),
        }
        scene.home.compact();
        assert_eq!(leftovers(&scene.home).len(), 1, "{what}");
        assert_eq!(worker.finish().as_deref(), Some("acknowledged"));
        assert_eq!(leftovers(&scene.home).len(), 0, "{what}");
    }
}

/// Or its creation could come into the log before its end.
#[test]
fn a_name_is_not_free_before_the_end_of_the_skill_that_had_it_is_in_the_log() {
    for what in ["delete", "archive"] {
        let scene = Scene::new(what);
        let mut worker = Worker::start("change", scene.home.path(), &[&CAPACITY, &what], "write@1=stop"); // the event's
        assert_eq!(worker.stand(), Stood::Stopped);
        assert_eq!(scene.state(), scene.states[1], "{what}");
        let tried = at_once(&scene.home.profile).lock("pdf").map(drop);
        assert!(matches!(tried, Err(hermes_log::Error::LockTimeout { .. })), "{what}: {tried:?}");
        assert_eq!(worker.finish().as_deref(), Some("acknowledged"));
        drop(at_once(&scene.home.profile).lock("pdf").unwrap());
    }
}

#[test]
fn an_event_that_cannot_be_appended_after_the_files_were_changed_is_an_error_that_says_so() {
    for what in ["create", "edit", "write_file", "remove_file", "update", "delete", "archive", "restore", "install"] {
        let scene = Scene::new(what);
        // The last `write` of the change is the event's.
        let is_past_the_last = |nth: &u64| {
            let scene = Scene::new(what);
            hermes_log::sys::fault::arm(&format!("write@{nth}=EIO"));
            let done = change(&scene.home.profile, what);
            hermes_log::sys::fault::disarm();
            done.is_ok()
        };
        let writes = (1..).find(is_past_the_last).unwrap() - 1;
        hermes_log::sys::fault::arm(&format!("write@{writes}+=EIO"));
        let failed = change(&scene.home.profile, what);
        hermes_log::sys::fault::disarm();
        let error = failed.unwrap_err();
        assert!(matches!(error, hermes_log::Error::NotLogged { .. }), "{what}: {error:?}");
        assert!(
            error.to_string().starts_with("the files of pdf were changed, but the event is not in the log"),
            "{error}"
        );
        assert_eq!(scene.state(), scene.states[1], "{what}");
        drop(at_once(&scene.home.profile).lock("pdf").unwrap());
    }
}

#[test]
fn a_change_whose_calls_fail_is_an_error_and_leaves_the_old_skill_or_the_new_one() {
    let all = ["create", "edit", "write_file", "remove_file", "update", "delete", "archive", "restore", "install"];
    for (what, also) in all.map(|what| (what, "")).into_iter().chain([("update", "exchange@1+=EINVAL;")]) {
        for call in 1.. {
            let scene = Scene::new(what);
            hermes_log::sys::fault::arm(&format!("{also}any@{call}=EIO"));
            let done = change(&scene.home.profile, what);
            hermes_log::sys::fault::disarm();
            let state = scene.state();
            assert!(scene.states.contains(&state), "{what} ({also}), call {call}: {state:#?}");
            // Whoever is told that nothing was done can rely on it.
            let is_said = matches!(done, Ok(()) | Err(hermes_log::Error::NotLogged { .. }));
            let is_in_log = matches!(done, Err(hermes_log::Error::NotDurable { .. }));
            assert!(is_said || is_in_log || state == scene.states[0], "{what} ({also}), call {call}: {done:?}");
            // Nobody has a lock, and nothing is left that a compaction would not remove.
            drop(at_once(&scene.home.profile).lock("pdf").unwrap());
            scene.home.compact();
            assert_eq!(leftovers(&scene.home).len(), 0, "{what}, call {call}");
            let uses = scene.home.view().skill("pdf").map_or(0, |skill| skill.count(Counter::Use));
            assert!(uses <= 1);
            if done.is_ok() && call > 300 {
                break;
            }
            if done.is_ok() && state == scene.states[1] && calls(what) < call {
                break;
            }
        }
    }
}

/// How many calls a change makes.
fn calls(what: &str) -> u64 {
    let scene = Scene::new(what);
    hermes_log::sys::fault::arm("");
    change(&scene.home.profile, what).unwrap();
    hermes_log::sys::fault::disarm()
}
