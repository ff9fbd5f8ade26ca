//! Promises P1 to P4 in a crowd: writers, readers and compactors as processes of their own, stopped and killed at random,
//! and every count exact at every moment.

mod support;

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hermes_log::{CompactOptions, Durability, Event, Origin, Profile};
use rustix::process::Signal;
use support::processes::{Random, Task, Worker, at_once, is_long, places, profile, tell, used};

const WRITERS: usize = 4;
const READERS: usize = 2;

#[test]
fn worker() {
    let Some(task) = Task::given() else { return };
    match task.role.as_str() {
        "write" => write(&task),
        "compact" => compact(&task),
        role => panic!("no such role: {role}"),
    }
}

/// One append of a writer: how many events each of its batches has.
struct Step {
    batches: Vec<usize>,
    durability: Durability,
}

/// What a writer does, the same for the process that does it and the test that checks it: `appends` appends, single
/// events mostly, and batches of a size that crosses a segment's end every few times.
fn steps(seed: u64, appends: u64, capacity: u64) -> impl Iterator<Item = Step> {
    let mut random = Random::seeded(seed);
    let most = (capacity / 200).min(1000);
    (0..appends).map(move |_| {
        let batches = match random.below(8) {
            0 => vec![1 + random.below(most) as usize],
            1 => (0..1 + random.below(6)).map(|_| 1 + random.below(most / 2) as usize).collect(),
            _ => vec![1],
        };
        let durability = if random.below(200) == 0 { Durability::Disk } else { Durability::Process };
        Step { batches, durability }
    })
}

/// Words: capacity, skill, seed, appends. Tells how many events are acknowledged, right after each append.
fn write(task: &Task) {
    let skill = &*task.words[1];
    let mut writer = task.profile().writer(Origin::here("session")).unwrap();
    let mut acknowledged = 0;
    for step in steps(task.number(2), task.number(3), task.number(0)) {
        let batches: Vec<Vec<Event<'_>>> = step.batches.iter().map(|len| vec![Event::used(skill); *len]).collect();
        let slices: Vec<&[Event<'_>]> = batches.iter().map(Vec::as_slice).collect();
        writer.append_batches(&slices, step.durability).unwrap();
        acknowledged += step.batches.iter().sum::<usize>();
        tell(&format!("{acknowledged} {}", writer.voided()));
    }
}

/// Compacts on and on until it is killed. Whose lock is taken away may find that another was faster, and try again.
fn compact(task: &Task) {
    let profile = task.profile();
    loop {
        if let Ok(done) = profile.compact(&CompactOptions { retain: Duration::ZERO, ..CompactOptions::default() }) {
            tell(&format!("deleted {}", done.segments_deleted));
        }
    }
}

/// One life of a writer, as the test knows it.
struct Life {
    skill: String,
    seed: u64,
    /// Events that it has acknowledged.
    acknowledged: AtomicU64,
    /// What all views must say for ever, once it is over.
    counted: Mutex<Option<u64>>,
}

impl Life {
    fn hear(&self, line: &str, voided: &mut u64) {
        let mut numbers = line.split(' ').map(|number| number.parse().unwrap());
        self.acknowledged.store(numbers.next().unwrap(), Ordering::SeqCst);
        *voided = numbers.next().unwrap();
    }

    /// What may be counted if its process died after `acknowledged` events: these, and whole batches of the next append.
    fn possible(&self, appends: u64, capacity: u64) -> Vec<u64> {
        let acknowledged = self.acknowledged.load(Ordering::SeqCst);
        let mut sum = 0;
        for step in steps(self.seed, appends, capacity) {
            let mut possible = vec![sum];
            for batch in &step.batches {
                sum += *batch as u64;
                possible.push(sum);
            }
            if possible[0] == acknowledged {
                return possible;
            }
        }
        assert_eq!(sum, acknowledged);
        vec![sum]
    }
}

struct Crowd {
    profile: Profile,
    capacity: u64,
    appends: u64,
    lives: Mutex<Vec<&'static Life>>,
    is_over: AtomicBool,
}

impl Crowd {
    fn life(&self, skill: String, seed: u64) -> &'static Life {
        let life = Life { skill, seed, acknowledged: AtomicU64::new(0), counted: Mutex::new(None) };
        let life: &'static Life = Box::leak(Box::new(life));
        self.lives.lock().unwrap().push(life);
        life
    }

    fn start(&self, life: &Life) -> Worker {
        let words: [&dyn std::fmt::Display; 4] = [&self.capacity, &life.skill, &life.seed, &self.appends];
        Worker::start("write", self.profile.home(), &words, "")
    }

    fn compactor(&self) -> Worker {
        Worker::start("compact", self.profile.home(), &[&self.capacity], "")
    }

    /// A life is over: what is counted now is one of the possible answers, and the answer from now on.
    fn bury(&self, life: &Life) {
        let possible = life.possible(self.appends, self.capacity);
        let counted = used(&self.profile.view().unwrap(), &life.skill);
        assert!(possible.contains(&counted), "{}: {counted} counted, possible are {possible:?}", life.skill);
        *life.counted.lock().unwrap() = Some(counted);
    }

    /// Refreshes without a pause: what was acknowledged before is in the view, nothing goes backwards, and an answer
    /// that was given stays.
    fn read(&self) {
        let mut view = self.profile.view().unwrap();
        let mut seen: Vec<u64> = Vec::new();
        let mut refreshes = 0_u64;
        while !self.is_over.load(Ordering::SeqCst) {
            let lives = self.lives.lock().unwrap().clone();
            let known: Vec<(u64, Option<u64>)> = lives
                .iter()
                .map(|life| (life.acknowledged.load(Ordering::SeqCst), *life.counted.lock().unwrap()))
                .collect();
            // Now and then a new one, from a checkpoint.
            refreshes += 1;
            if refreshes.is_multiple_of(64) {
                view = self.profile.view().unwrap();
            } else {
                view.refresh().unwrap();
            }
            seen.resize(lives.len(), 0);
            for ((life, (acknowledged, answer)), seen) in lives.iter().zip(known).zip(&mut seen) {
                let now = used(&view, &life.skill);
                assert!(now >= acknowledged, "{}: {now} in view, {acknowledged} acknowledged", life.skill);
                assert!(now >= *seen, "{}: {now} after {seen}", life.skill);
                assert!(answer.is_none_or(|answer| answer == now), "{}: {now}, was {answer:?}", life.skill);
                *seen = now;
            }
        }
    }

    /// Starts, stops, continues and kills until every writer has come to its end once. Returns how many appends were
    /// void, how many writers were killed and how many segments deleted.
    fn run(&self, random: &mut Random) -> (u64, u64, u64) {
        let (mut voided, mut killed, mut deleted) = (0, 0, 0);
        let mut lives = 0;
        let mut next = |random: &mut Random| {
            lives += 1;
            let life = self.life(format!("skill-{lives}"), random.next());
            (life, self.start(life), false, 0)
        };
        let mut writers: Vec<_> = (0..WRITERS).map(|_| next(random)).collect();
        let mut compactors = [self.compactor(), self.compactor()];
        while !writers.is_empty() {
            let index = random.below(writers.len() as u64) as usize;
            let (life, writer, is_stopped, writer_voided) = &mut writers[index];
            match random.below(100) {
                0..5 if killed < 40 => {
                    let (life, writer, ..) = writers.swap_remove(index);
                    let mut its_voided = 0;
                    writer.kill().iter().for_each(|line| life.hear(line, &mut its_voided));
                    voided += its_voided;
                    killed += 1;
                    self.bury(life);
                    writers.push(next(random));
                }
                5..15 => {
                    writer.signal(Signal::STOP);
                    *is_stopped = true;
                }
                15..18 => {
                    let which = random.below(2) as usize;
                    let dead = std::mem::replace(&mut compactors[which], self.compactor());
                    dead.kill();
                }
                18..25 => compactors[random.below(2) as usize].signal(Signal::STOP),
                25..40 => compactors.iter().for_each(|compactor| compactor.signal(Signal::CONT)),
                // Then the second compactor gets a lock too.
                40..43 => drop(fs::remove_file(self.profile.log_folder().join("compact.lock"))),
                _ if *is_stopped => {
                    writer.signal(Signal::CONT);
                    *is_stopped = false;
                }
                _ => {
                    // As far as this one gets until its pipe is empty, or to its end.
                    match writer.told() {
                        Some(line) => {
                            life.hear(&line, writer_voided);
                            writer.told_so_far().for_each(|line| life.hear(&line, writer_voided));
                        }
                        None => {
                            voided += *writer_voided;
                            self.bury(life);
                            let last = life.possible(self.appends, self.capacity);
                            assert_eq!(last.len(), 1, "{}: came to its end", life.skill);
                            writers.swap_remove(index);
                            if [voided, killed, deleted].contains(&0) {
                                writers.push(next(random)); // until every race took place
                            }
                        }
                    }
                }
            }
            for compactor in &compactors {
                deleted += compactor
                    .told_so_far()
                    .filter_map(|line| line.strip_prefix("deleted ")?.parse::<u64>().ok())
                    .sum::<u64>();
            }
        }
        self.is_over.store(true, Ordering::SeqCst);
        (voided, killed, deleted)
    }
}

fn crowd_in(place: &Path, capacity: u32, appends: u64) {
    let mut random = Random::new();
    let home = tempfile::tempdir_in(place).unwrap();
    let crowd = Crowd {
        profile: profile(home.path(), capacity),
        capacity: capacity.into(),
        appends,
        lives: Mutex::default(),
        is_over: AtomicBool::new(false),
    };
    let (voided, killed, deleted) = std::thread::scope(|threads| {
        for _ in 0..READERS {
            threads.spawn(|| crowd.read());
        }
        // The readers end, whatever happens here.
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| crowd.run(&mut random)));
        crowd.is_over.store(true, Ordering::SeqCst);
        ran.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    eprintln!("{capacity} in {}: {voided} voided, {killed} killed, {deleted} segments deleted", place.display());
    assert!(voided > 0 && killed > 0 && deleted > 0, "the races did not take place");
    for _ in 0..3 {
        let view = crowd.profile.view().unwrap();
        let lives = crowd.lives.lock().unwrap();
        for life in &*lives {
            assert_eq!(Some(used(&view, &life.skill)), *life.counted.lock().unwrap(), "{}", life.skill);
        }
        let sum: u64 = view.skills().iter().map(|(_, skill)| skill.activity()).sum();
        assert_eq!(sum, lives.iter().map(|life| life.counted.lock().unwrap().unwrap()).sum::<u64>());
        crowd.profile.compact(&at_once()).unwrap();
        let snapshot = fs::read(crowd.profile.snapshot_path()).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&snapshot).unwrap();
        for life in lives.iter().filter(|life| life.counted.lock().unwrap().unwrap() > 0) {
            assert_eq!(json[&life.skill]["use_count"].as_u64(), *life.counted.lock().unwrap(), "{}", life.skill);
        }
    }
}

fn crowds(capacity: u32, appends: u64) {
    for place in places() {
        crowd_in(&place, capacity, if is_long() { appends * 20 } else { appends });
    }
}

#[test]
fn every_count_is_exact_in_a_crowd_with_segments_of_4_kib() {
    crowds(4 << 10, 1500);
}

#[test]
fn every_count_is_exact_in_a_crowd_with_segments_of_16_kib() {
    crowds(16 << 10, 2000);
}

#[test]
fn every_count_is_exact_in_a_crowd_with_segments_of_1_mib() {
    crowds(1 << 20, 4000);
}
