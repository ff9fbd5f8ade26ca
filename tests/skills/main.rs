//! Skills' files: one writer for each skill, changes that a crash does not cut in half, and a record of what was done.
#![allow(unsafe_code)] // fork and exec

#[path = "../support/mod.rs"]
mod support;

mod changes;
mod counting;
mod crash;
mod creation;
mod due;
mod fairness;
mod forked;
mod locking;
mod moved;
mod protected;
mod races;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hermes_log::{Origin, Profile, Skills};
use support::log_files::Home;
use support::processes::{HANG, Stood, Task, Worker};

const CAPACITY: u32 = 256 << 10;

#[test]
fn worker() {
    let Some(task) = Task::given() else { return };
    let done = [locking::work, counting::work, crash::work, fairness::work, forked::work, moved::work, races::work]
        .iter()
        .any(|work| work(&task));
    assert!(done, "no such role: {}", task.role);
}

fn skills(profile: &Profile) -> Skills {
    profile.skills(Origin::here("session")).with_limit(HANG)
}

/// One attempt for each lock.
fn at_once(profile: &Profile) -> Skills {
    skills(profile).with_limit(Duration::ZERO)
}

fn folder(home: &Home, relative: &str) -> PathBuf {
    home.profile.skills_folder().join(relative)
}

/// A skill made by hand, its name in the front matter.
fn make(folder: &Path, name: &str) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("SKILL.md"), skill_file(name, "")).unwrap();
}

fn skill_file(name: &str, body: &str) -> String {
    format!("---\nname: {name}\ndescription: a test skill\n---\n{body}")
}

/// A home with one skill.
fn with_skill(relative: &str) -> Home {
    let home = Home::new(CAPACITY);
    make(&folder(&home, relative), "pdf");
    home
}

/// Every file below a folder, by its path, with its content. A folder that is not there has none.
fn tree(folder: &Path) -> BTreeMap<String, String> {
    if folder.exists() { try_tree(folder).unwrap() } else { BTreeMap::new() }
}

fn try_tree(folder: &Path) -> std::io::Result<BTreeMap<String, String>> {
    let (mut files, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(at)? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if kind.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            let is_link = kind.is_symlink();
            let content =
                if is_link { fs::read_link(&path)?.display().to_string() } else { fs::read_to_string(&path)? };
            files.insert(name, content);
        }
    }
    Ok(files)
}

/// What this program makes for a while, wherever it is.
fn leftovers(home: &Home) -> Vec<PathBuf> {
    fn add(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
            if entry.file_name().to_str().unwrap().starts_with(".hermes-log-") {
                found.push(entry.path());
            } else if entry.file_type().unwrap().is_dir() {
                add(&entry.path(), found);
            }
        }
    }
    let mut found = Vec::new();
    add(&home.profile.skills_folder(), &mut found);
    found
}

/// The kinds of the events that the log has of a skill, oldest first.
fn events_of(home: &Home, skill: &str) -> Vec<String> {
    let mut kinds = Vec::new();
    home.profile
        .scan(None, |entry| {
            if let hermes_log::Entry::Frame { batch: Some(batch), .. } = entry {
                for event in batch.events.iter().filter(|event| event.skill() == Some(skill)) {
                    let value = serde_json::to_value(event).unwrap();
                    kinds.push(value.as_object().unwrap().keys().next().unwrap().clone());
                }
            }
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    kinds
}

fn start(role: &str, home: &Home, words: &[&dyn std::fmt::Display]) -> Worker {
    let words: Vec<&dyn std::fmt::Display> =
        std::iter::once(&CAPACITY as &dyn std::fmt::Display).chain(words.iter().copied()).collect();
    Worker::start(role, home.path(), &words, "")
}

/// A worker that has a skill's lock until it is told to go on.
fn holder(home: &Home, skill: &str) -> Worker {
    let worker = start("hold", home, &[&skill]);
    assert_eq!(worker.told().as_deref(), Some("locked"));
    worker
}

/// Waits until so many processes wait for the lock of a file, as the kernel says.
fn until_waiting(path: &Path, count: usize) {
    use std::os::unix::fs::MetadataExt;
    let inode = fs::metadata(path).unwrap().ino();
    let end = std::time::Instant::now() + HANG;
    loop {
        let table = fs::read_to_string("/proc/locks").unwrap();
        let waits = |line: &&str| line.contains("->") && line.contains(&format!(":{inode} "));
        if table.lines().filter(waits).count() >= count {
            return;
        }
        assert!(std::time::Instant::now() < end, "nobody waits for {}", path.display());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Tells the threads of a test to stop, also when it fails.
struct Stop<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

fn done(mut worker: Worker) {
    assert_eq!(worker.stand(), Stood::Done);
}
