use std::fs;
use std::path::Path;

use serde_json::json;

use super::*;

fn make(home: &Home, relative: &str, name: &str) {
    let folder = home.profile.skills_folder().join(relative);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("SKILL.md"), format!("---\nname: {name}\n---\n")).unwrap();
}

#[test]
fn skills_are_listed_archived_restored_and_deleted() {
    let home = Home::new(CAPACITY);
    on(&home, &["skill", "list"]).exits(DONE);
    make(&home, "documents/pdf", "pdf");
    make(&home, "odd", "plugin:jira");
    home.used("pdf");
    let listed = on(&home, &["skill", "list"]).quietly().stdout;
    assert_eq!(listed.lines().count(), 3, "{listed}");
    assert!(listed.contains("plugin:jira  no record") && listed.contains("documents/pdf"), "{listed}");

    let archived = on(&home, &["skill", "archive", "pdf"]).quietly().stdout;
    assert!(archived.starts_with("archived pdf: ") && archived.ends_with("/.archive/pdf\n"), "{archived}");
    on(&home, &["skill", "archive", "pdf"]).exits(NOT_FOUND);
    let restored = on(&home, &["skill", "restore", "pdf", "--json"]).quietly().json();
    assert_eq!((&restored["skill"], &restored["done"]), (&json!("pdf"), &json!("restored")));
    assert_eq!(keys(&restored), ["done", "path", "skill"]);
    on(&home, &["skill", "restore", "pdf"]).exits(NOT_FOUND);

    on(&home, &["emit", "pin", "pdf"]).exits(DONE);
    let refused = on(&home, &["skill", "delete", "pdf"]).exits(FAILED);
    assert!(refused.stderr.contains("pdf is left alone: it is pinned; unpin it first"), "{refused:?}");
    assert_eq!(on(&home, &["skill", "delete", "plugin:jira"]).quietly().stdout, "deleted plugin:jira\n");
    let listed = on(&home, &["skill", "list", "--json"]).quietly().json();
    let skills = listed["skills"].as_array().unwrap();
    assert_eq!(skills.len(), 1);
    assert_eq!(keys(&skills[0]), ["archived", "name", "path", "pinned", "state"]);
    assert_eq!((&skills[0]["name"], &skills[0]["pinned"]), (&json!("pdf"), &json!(true)));
}

#[test]
fn a_command_runs_under_the_lock_and_its_exit_code_is_passed_on() {
    let home = Home::new(CAPACITY);
    make(&home, "pdf", "pdf");
    assert_eq!(on_last(&home, &["lock", "pdf"], &["true"]).exits(DONE).stderr, "");
    on_last(&home, &["lock", "pdf"], &["sh", "-c", "exit 7"]).exits(7);
    on_last(&home, &["lock", "pdf"], &["sh", "-c", "kill -9 $$"]).exits(128 + 9);
    on_last(&home, &["lock", "pdf"], &["/no/such/command"]).exits(FAILED);
    on_last(&home, &["lock", "missing"], &["true"]).exits(NOT_FOUND);
    on_last(&home, &["lock", "missing", "--create"], &["true"]).exits(DONE);
    on(&home, &["lock", "pdf"]).exits(USAGE);
    // What it prints is its own, and it does not have the lock's descriptor.
    let ran = on_last(&home, &["lock", "pdf"], &["sh", "-c", "ls -l /proc/self/fd; echo done"]).exits(DONE);
    assert!(ran.stdout.ends_with("done\n") && !ran.stdout.contains("skills/pdf"), "{ran:?}");
}

/// `--home` before the command that is run.
fn on_last(home: &Home, words: &[&str], command: &[&str]) -> Ran {
    run(of(home.path(), words).arg("--").args(command))
}

/// A command under a lock, until it is dropped.
struct Under(Child);

impl Under {
    fn start(home: &Home, words: &[&str]) -> Under {
        let mut command = of(home.path(), words);
        let child =
            command.args(["--", "sh", "-c", "echo under; read line"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "under\n");
        Under(child)
    }
}

impl Drop for Under {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

#[test]
fn a_lock_that_cannot_be_had_in_time_names_its_holder_and_exits_75() {
    let home = Home::new(CAPACITY);
    make(&home, "pdf", "pdf");
    make(&home, "other", "other");
    let under = Under::start(&home, &["lock", "pdf"]);
    for words in [
        &["skill", "archive", "pdf", "--timeout", "0s"][..],
        &["skill", "delete", "pdf", "--timeout", "50ms"],
        &["lock", "pdf", "--timeout", "100ms"],
    ] {
        let ran = if words[0] == "lock" { on_last(&home, words, &["true"]) } else { on(&home, words) }.exits(LOCKED);
        let holder = format!("held by process {} (hermes-log), running for ", under.0.id());
        assert!(ran.stderr.contains("/skills/pdf is locked: waited ") && ran.stderr.contains(&holder), "{ran:?}");
    }
    on_last(&home, &["lock", "other", "--timeout", "0s"], &["true"]).exits(DONE);
    let said = on(&home, &["skill", "archive", "pdf", "--timeout", "0s", "--json"]).exits(LOCKED).json_messages();
    assert_eq!(said[0]["exit"], 75);
    drop(under);
    on(&home, &["skill", "archive", "pdf", "--timeout", "0s"]).exits(DONE);
}

#[test]
fn who_is_told_to_end_ends_the_command_and_does_not_leave_it_behind() {
    let home = Home::new(CAPACITY);
    make(&home, "pdf", "pdf");
    let mut under = Under::start(&home, &["lock", "pdf"]);
    let _input = under.0.stdin.take(); // or waiting would end it
    kill_process(Pid::from_child(&under.0), Signal::TERM).unwrap();
    assert_eq!(under.0.wait().unwrap().code(), Some(128 + 15));
    on_last(&home, &["lock", "pdf", "--timeout", "0s"], &["true"]).exits(DONE);
}

#[test]
fn locks_shows_holders_and_waiters_of_all_profiles_of_the_root() {
    let root = Home::new(CAPACITY);
    let named = root.path().join("profiles/work");
    let skill = named.join("skills/pdf");
    fs::create_dir_all(&skill).unwrap();
    fs::write(skill.join("SKILL.md"), "x").unwrap();
    make(&root, "other", "other");
    let free = on(&root, &["locks"]).exits(DONE);
    assert_eq!((&*free.stdout, &*free.stderr), ("", "no lock is held\n"));

    let under = |home: &Path, words: &[&str]| {
        let mut command = of(home, words);
        command.args(["--", "sh", "-c", "echo under; read line"]);
        command
    };
    let mut holder = under(&named, &["lock", "pdf"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    let mut waiter = under(&named, &["lock", "pdf"]).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + HANG;
    let shown = loop {
        // From the root, and from any profile in it.
        let shown = run(&mut of(&named, &["locks", "--json"])).quietly().json();
        if shown["locks"][0]["waiters"] != json!([]) {
            break shown;
        }
        assert!(Instant::now() < end, "{shown}");
    };
    assert_eq!(shown["locks"].as_array().unwrap().len(), 1, "{shown}");
    let lock = &shown["locks"][0];
    assert_eq!(keys(lock), ["holders", "lock", "path", "profile", "waiters"]);
    assert_eq!((&lock["profile"], &lock["lock"]), (&json!("work"), &json!("skill pdf")));
    assert_eq!(lock["holders"][0]["process"], holder.id());
    assert_eq!(lock["waiters"][0]["process"], waiter.id());
    assert_eq!(keys(&lock["holders"][0]), ["age_seconds", "command", "process", "stopped"]);
    let table = on(&root, &["locks"]).quietly().stdout;
    assert!(table.contains("work") && table.contains(&format!("{} hermes-log, ", holder.id())), "{table}");
    kill_process(Pid::from_child(&holder), Signal::STOP).unwrap();
    while !on(&root, &["locks"]).quietly().stdout.contains("s, stopped") {
        assert!(Instant::now() < end, "it does not stop");
    }
    kill_process(Pid::from_child(&holder), Signal::CONT).unwrap();
    drop(holder.stdin.take());
    holder.wait().unwrap();
    waiter.wait().unwrap();
}
