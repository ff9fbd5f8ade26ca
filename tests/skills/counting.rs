//! Sixteen writers on four skills: each reads a counter in a file, adds one and replaces the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use hermes_log::Error;

use crate::support::log_files::Home;
use crate::support::processes::{Random, Task, Worker, is_long, tell};
use crate::{at_once, folder, leftovers, make, skills, start};

const SKILLS: u64 = 4;
const WRITERS: u64 = 16;
const FILE: &str = "references/counts.txt";

pub(crate) fn work(task: &Task) -> bool {
    if task.role != "count" {
        return false;
    }
    let (writer, rounds, mut random) = (task.number(1), task.number(2), Random::seeded(task.number(3)));
    let skills = skills(&task.profile());
    let mut own = BTreeMap::new();
    for _ in 0..rounds {
        let skill = format!("s{}", random.below(SKILLS));
        let lock = skills.lock(&skill).unwrap();
        let path = lock.folder().unwrap().join(FILE);
        let mut counts = read(&fs::read_to_string(path).unwrap_or_default());
        let count = counts.entry(writer).or_insert(0);
        // Nobody else counts for this writer, so whoever overwrites what it wrote takes a count back.
        let known = own.entry(skill.clone()).or_insert(*count);
        assert_eq!(count, known, "{skill} lost what was written");
        (*count, *known) = (*count + 1, *known + 1);
        lock.write_file(FILE, write(&counts).as_bytes()).unwrap();
        tell(&skill);
    }
    true
}

/// "writer count" a line, and the sum at the end: a file that is cut off shows.
fn read(text: &str) -> BTreeMap<u64, u64> {
    let Some((lines, sum)) = text.trim_end().rsplit_once("sum ") else {
        assert_eq!(text, "", "a file that is not whole");
        return BTreeMap::new();
    };
    let number = |word: &str| word.parse::<u64>().unwrap();
    let counts: BTreeMap<u64, u64> =
        lines.lines().map(|line| line.split_once(' ').unwrap()).map(|(w, c)| (number(w), number(c))).collect();
    assert_eq!(counts.values().sum::<u64>(), number(sum), "a file that is not whole: {text:?}");
    counts
}

fn write(counts: &BTreeMap<u64, u64>) -> String {
    let lines: String = counts.iter().map(|(writer, count)| format!("{writer} {count}\n")).collect();
    format!("{lines}sum {}\n", counts.values().sum::<u64>())
}

fn home() -> Home {
    let home = Home::new(crate::CAPACITY);
    for n in 0..SKILLS {
        make(&folder(&home, &format!("c{}/s{n}", n % 2)), &format!("s{n}"));
    }
    home
}

fn counted(home: &Home) -> BTreeMap<(u64, String), u64> {
    let mut counted = BTreeMap::new();
    for n in 0..SKILLS {
        let text = fs::read_to_string(folder(home, &format!("c{}/s{n}", n % 2)).join(FILE)).unwrap_or_default();
        counted.extend(read(&text).into_iter().map(|(writer, count)| ((writer, format!("s{n}")), count)));
    }
    counted
}

#[test]
fn sixteen_writers_on_four_skills_lose_no_write() {
    let rounds = if is_long() { 500 } else { 40 };
    let home = home();
    let mut random = Random::new();
    let workers: Vec<Worker> =
        (0..WRITERS).map(|writer| start("count", &home, &[&writer, &rounds, &random.next()])).collect();
    workers.into_iter().for_each(crate::done);
    assert_eq!(counted(&home).values().sum::<u64>(), WRITERS * rounds);
    let written: usize = (0..SKILLS).map(|n| crate::events_of(&home, &format!("s{n}")).len()).sum();
    assert_eq!(written as u64, WRITERS * rounds, "each has its event");
    assert_eq!(leftovers(&home).len(), 0);
}

#[test]
fn writers_that_are_killed_at_random_leave_whole_files_and_every_acknowledged_write() {
    let home = home();
    let mut random = Random::new();
    let mut acknowledged: BTreeMap<(u64, String), u64> = BTreeMap::new();
    let mut killed = BTreeSet::new();
    let mut next = 0;
    let mut workers: Vec<(u64, Worker)> = Vec::new();
    for _ in 0..if is_long() { 600 } else { 80 } {
        while (workers.len() as u64) < WRITERS {
            workers.push((next, start("count", &home, &[&next, &1000, &random.next()])));
            next += 1;
        }
        // Killed somewhere in the middle of its work: after it has told something, and at any time after that.
        let (writer, worker) = workers.remove(random.below(workers.len() as u64) as usize);
        let first = worker.told().expect("a writer ended");
        std::thread::sleep(std::time::Duration::from_micros(random.below(3000)));
        for skill in std::iter::once(first).chain(worker.kill()) {
            *acknowledged.entry((writer, skill)).or_insert(0) += 1;
        }
        killed.insert(writer);
        counted(&home); // whole
    }
    for (writer, worker) in workers {
        for skill in worker.kill() {
            *acknowledged.entry((writer, skill)).or_insert(0) += 1;
        }
        killed.insert(writer);
    }
    let counted = counted(&home);
    for (key, count) in &acknowledged {
        assert!(counted.get(key).is_some_and(|found| found >= count), "{key:?}: {:?} of {count}", counted.get(key));
    }
    // A writer that dies has at most one write that it did not come to acknowledge.
    for writer in &killed {
        let of = |counts: &BTreeMap<(u64, String), u64>| -> u64 {
            counts.iter().filter(|((w, _), _)| w == writer).map(|(_, count)| count).sum()
        };
        assert!(of(&counted) - of(&acknowledged) <= 1, "writer {writer}");
    }
    // What they left is gone after a compaction, and all locks are free.
    home.compact();
    assert_eq!(leftovers(&home).len(), 0);
    for n in 0..SKILLS {
        let lock = at_once(&home.profile).lock(&format!("s{n}")).map(drop);
        assert!(!matches!(lock, Err(Error::LockTimeout { .. })), "{lock:?}");
    }
}
