//! Changes against each other, and against readers, which take no lock.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hermes_log::{Error, Profile};

use crate::support::log_files::Home;
use crate::support::processes::{Random, Task, Worker, is_long, tell};
use crate::{
    CAPACITY, Stop, at_once, done, events_of, folder, leftovers, make, skill_file, skills, start, tree, with_skill,
};

pub(crate) fn work(task: &Task) -> bool {
    if task.role != "race" {
        return false;
    }
    let (profile, rounds) = (task.profile(), task.number(2));
    let mut random = Random::seeded(task.number(3));
    let mut acknowledged = 0;
    for round in 0..rounds {
        let what: Vec<&str> = task.words[1].split('+').collect();
        match one(&profile, what[random.below(what.len() as u64) as usize], round) {
            Ok(()) => acknowledged += 1,
            // Somebody else was first.
            Err(Error::NotFound { .. } | Error::Refused { .. }) => {}
            Err(e) => panic!("{e:?}"),
        }
    }
    tell(&acknowledged.to_string());
    true
}

fn one(profile: &Profile, what: &str, round: u64) -> hermes_log::Result<()> {
    let skills = skills(profile);
    match what {
        "restore" => return skills.restore("pdf").map(drop),
        "restore-other" => return skills.restore("pdf-tools").map(drop),
        "archive-other" => return skills.lock("pdf-tools")?.archive().map(drop),
        _ => {}
    }
    let lock = skills.lock("pdf")?;
    match what {
        "write" => lock.write_file("a.txt", round.to_string().as_bytes()),
        "archive" => lock.archive().map(drop),
        "delete" => lock.delete(),
        "create" => lock
            .create(skill_file("pdf", "new").as_bytes(), ["x", "y"].get(round as usize % 3).copied(), "agent")
            .map(drop),
        "update" => lock.update(&profile.home().join(["one", "two"][round as usize % 2]), "here"),
        what => panic!("no such change: {what}"),
    }
}

fn race(home: &Home, works: &[&str], rounds: u64) -> u64 {
    let mut random = Random::new();
    let workers: Vec<Worker> = works.iter().map(|what| start("race", home, &[what, &rounds, &random.next()])).collect();
    let acknowledged =
        workers.iter().map(|worker| worker.told().expect("a worker failed").parse::<u64>().unwrap()).sum();
    workers.into_iter().for_each(done);
    assert_eq!(leftovers(home).len(), 0);
    acknowledged
}

fn rounds() -> u64 {
    if is_long() { 1000 } else { 60 }
}

/// The events of the log, in its order, are a history that the files can have gone through.
fn assert_history(home: &Home, mut is_there: bool, mut is_archived: bool) {
    for kind in events_of(home, "pdf") {
        let (needs, makes) = match kind.as_str() {
            "created" | "installed" => (false, true),
            "deleted" | "archived" => (true, false),
            "restored" => (false, true),
            "file_written" | "edited" | "updated" | "file_removed" => (true, true),
            _ => continue,
        };
        assert_eq!(is_there, needs, "{kind} in {:?}", events_of(home, "pdf"));
        assert!(kind != "restored" || is_archived);
        is_archived |= kind == "archived";
        is_there = makes;
    }
    assert_eq!(at_once(&home.profile).find("pdf").unwrap().is_some(), is_there);
}

#[test]
fn archive_against_write() {
    let home = with_skill("documents/pdf");
    race(&home, &["write", "write", "archive+restore", "archive+restore"], rounds());
    assert_history(&home, true, false);
    // One copy of it, wherever it is.
    let copies = at_once(&home.profile).list().unwrap().len() + at_once(&home.profile).archived().unwrap().len();
    assert_eq!(copies, 1);
}

#[test]
fn delete_against_create() {
    let home = Home::new(CAPACITY);
    let acknowledged = race(&home, &["create", "create", "delete", "delete", "create+delete+write"], rounds());
    assert_history(&home, false, false);
    assert!(acknowledged > 20, "{acknowledged}");
    assert!(at_once(&home.profile).list().unwrap().len() <= 1, "a name is there once, in all categories");
}

#[test]
fn everything_against_everything() {
    let home = with_skill("pdf");
    for version in ["one", "two"] {
        make(&home.path().join(version), "pdf");
    }
    race(
        &home,
        &["write+update", "create+delete", "archive+restore", "write+archive+create", "restore+delete"],
        rounds(),
    );
    assert_history(&home, true, false);
}

#[test]
fn update_against_a_reader_that_never_sees_a_missing_or_half_skill() {
    let home = with_skill("pdf");
    for version in ["one", "two"] {
        make(&home.path().join(version), "pdf");
        for file in ["references/a.txt", "references/b.txt", "c.txt"] {
            let path = home.path().join(version).join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, version).unwrap();
        }
    }
    skills(&home.profile).lock("pdf").unwrap().update(&home.path().join("one"), "here").unwrap();
    let versions = ["one", "two"].map(|version| tree(&home.path().join(version)));
    let (stop, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    // One folder, opened once: what is read through it is one version, as a program that enters it sees it.
                    let name = folder(&home, "pdf");
                    let entered = fs::File::open(&name).expect("the skill is missing");
                    let through = std::path::PathBuf::from(format!(
                        "/proc/self/fd/{}",
                        std::os::fd::AsRawFd::as_raw_fd(&entered)
                    ));
                    let seen = crate::try_tree(&through.join("."));
                    // The one that was entered may be on its way out: then a file in it can be gone, and the name has another.
                    let is_current = same(&entered, &name);
                    if is_current {
                        let seen = seen.expect("a file is missing");
                        assert!(versions.contains(&seen), "{seen:#?}");
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                    assert!(fs::read_to_string(name.join("SKILL.md")).expect("SKILL.md is missing").contains("pdf"));
                }
            });
        }
        let _stopping = Stop(&stop);
        race(&home, &["update", "update"], rounds() * 2);
    });
    assert!(reads.load(Ordering::Relaxed) > 100, "{reads:?} reads");
}

fn same(file: &fs::File, path: &std::path::Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let (one, other) = (file.metadata().unwrap(), fs::metadata(path).unwrap());
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[test]
fn restore_next_to_a_similar_name() {
    let home = with_skill("pdf");
    make(&folder(&home, "pdf-tools"), "pdf-tools");
    fs::write(folder(&home, "pdf-tools/own.txt"), "tools").unwrap();
    fs::write(folder(&home, "pdf/own.txt"), "pdf").unwrap();
    race(&home, &["archive+restore", "archive-other+restore-other", "archive+restore", "restore-other"], rounds());
    for name in ["pdf", "pdf-tools"] {
        let _ = skills(&home.profile).restore(name);
        let own = fs::read_to_string(folder(&home, name).join("own.txt")).unwrap();
        assert_eq!(own, name.rsplit('-').next().unwrap());
    }
}

#[test]
fn a_compaction_leaves_what_a_living_process_is_making() {
    let home = with_skill("pdf");
    make(&home.path().join("one"), "pdf");
    make(&home.path().join("two"), "pdf");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                home.compact();
            }
        });
        let _stopping = Stop(&stop);
        let acknowledged = race(&home, &["update", "update"], rounds());
        assert_eq!(acknowledged, 2 * rounds(), "none failed for want of what it was making");
    });
}
