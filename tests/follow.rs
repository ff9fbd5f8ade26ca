//! Following: every event once and in order, from any start, across rotation and compaction, and never a silent hole.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hermes_log::{
    CompactOptions, Counter, Durability, Entry, Error, Event, Followed, Follower, Options, Origin, Position, Profile,
    Reason, Start,
};
use rustix::process::Signal;

use std::process::Command;

use support::emitting::{until, without_inotify};
use support::log_files::{Home, payload};
use support::processes::{HANG, Random, Stood, Task, Worker, at_once, is_long, tell, used};

const CAPACITY: u32 = 4096;
const AT_ONCE: Duration = Duration::ZERO;

#[test]
fn worker() {
    let Some(task) = Task::given() else { return };
    match task.role.as_str() {
        "consume" => consume(&task),
        "repeat" => repeat(&task),
        role => panic!("no such role: {role}"),
    }
}

/// Keeps what it folds for an hour.
fn retaining() -> CompactOptions {
    CompactOptions { retain: Duration::from_secs(3600), ..at_once() }
}

fn follow(home: &Home, start: Start) -> Follower {
    home.profile.follow(start).unwrap()
}

/// An event that can be told from all others, whose skill is always the same: so the snapshot stays small.
fn numbered(number: u64) -> Event<'static> {
    Event::FileWritten { skill: "pdf".into(), path: number.to_string().into() }
}

/// A frame of a test: where it is, and its event's number or skill. What a compactor appends has neither.
fn frame(item: &Followed) -> Option<(Position, String)> {
    let Followed::Frame { position, events, .. } = item else { return None };
    let name = match events.first()? {
        Event::FileWritten { path, .. } => path,
        other => other.skill()?,
    };
    Some((*position, name.to_owned()))
}

/// All frames, until nothing comes any more.
fn frames(follower: &mut Follower) -> Vec<(Position, String)> {
    let mut all = Vec::new();
    loop {
        let items = follower.next_batch(AT_ONCE).unwrap();
        if items.is_empty() {
            return all;
        }
        all.extend(items.iter().filter_map(frame));
    }
}

fn names(frames: &[(Position, String)]) -> Vec<&str> {
    frames.iter().map(|(_, name)| name.as_str()).collect()
}

/// Appends the next `count` events after those in `all`.
fn append(home: &Home, all: &mut Vec<String>, count: u64) {
    let mut writer = home.writer();
    for _ in 0..count {
        writer.append(&numbered(all.len() as u64), Durability::Process).unwrap();
        all.push(all.len().to_string());
    }
}

#[test]
fn from_now_the_oldest_or_a_position_every_event_comes_once_across_rotation_and_compaction() {
    let home = Home::new(CAPACITY);
    let mut before_the_log = follow(&home, Start::Now);
    let mut all = Vec::new();
    append(&home, &mut all, 300);
    let mut now = follow(&home, Start::Now);
    let mut oldest = follow(&home, Start::Oldest);
    let first = frames(&mut oldest);
    assert_eq!(names(&first), all);
    let saved: Vec<Position> = first.iter().map(|(position, _)| *position).step_by(37).collect();
    for _ in 0..5 {
        home.profile.compact(&retaining()).unwrap();
        append(&home, &mut all, 300);
    }
    assert!(home.view().floor() > 5);
    assert_eq!(names(&frames(&mut before_the_log)), all);
    assert_eq!(names(&frames(&mut now)), all[300..]);
    assert_eq!(names(&frames(&mut oldest)), all[300..]);
    let again = frames(&mut follow(&home, Start::Oldest));
    assert_eq!(names(&again), all);
    assert!(again.is_sorted());
    for (number, position) in saved.into_iter().enumerate() {
        assert_eq!(names(&frames(&mut follow(&home, Start::At(position)))), all[number * 37..], "{position}");
    }
    // A scan says the same as a follower.
    let mut scanned = Vec::new();
    let scan = home.profile.scan(None, |entry| {
        if let Entry::Frame { position, batch: Some(batch) } = entry
            && matches!(batch.events[0], Event::FileWritten { .. })
        {
            scanned.push(position);
        }
        ControlFlow::Continue(())
    });
    assert!(scan.unwrap() > *scanned.last().unwrap());
    assert_eq!(again.into_iter().map(|(position, _)| position).collect::<Vec<_>>(), scanned);
}

#[test]
fn a_position_can_be_saved_after_any_batch() {
    let home = Home::new(CAPACITY);
    let mut random = Random::new();
    let (mut all, mut seen) = (Vec::new(), Vec::new());
    let mut position = None;
    for _ in 0..200 {
        append(&home, &mut all, random.below(40));
        if random.below(4) == 0 {
            home.profile.compact(&retaining()).unwrap();
        }
        let mut follower = follow(&home, position.map_or(Start::Oldest, Start::At));
        for _ in 0..random.below(3) {
            seen.extend(follower.next_batch(AT_ONCE).unwrap().iter().filter_map(frame));
        }
        position = Some(follower.position());
    }
    seen.extend(frames(&mut follow(&home, Start::At(position.unwrap()))));
    assert_eq!(names(&seen), all);
    assert!(seen.is_sorted() && home.view().floor() > 10);
}

#[test]
fn gaps_and_compactions_come_as_they_happen() {
    let home = Home::new(CAPACITY);
    home.used("before");
    let mut follower = follow(&home, Start::Oldest);
    assert_eq!(names(&frames(&mut follower)), ["before"]);
    let offset = home.append_bytes(1, &[0xa5; 50]);
    home.used("after");
    let items = follower.next_batch(HANG).unwrap();
    let [Followed::Gap(gap), Followed::Frame { events, .. }] = &items[..] else { panic!("{items:?}") };
    assert_eq!((gap.position, gap.len, gap.reason), (Position { segment: 1, offset }, Some(50), gap.reason));
    assert_ne!(gap.reason, Reason::Zeros);
    assert_eq!(events[..], [Event::used("after")]);
    for _ in 0..3 {
        home.used("more");
        let floor = home.profile.compact(&retaining()).unwrap().floor;
        let mut items = Vec::new();
        until("the follower tells of the compaction", || {
            items.extend(follower.next_batch(Duration::from_millis(50)).unwrap());
            items.contains(&Followed::Compaction { floor })
        });
        // Told again, it would be told now.
        items.extend(follower.next_batch(Duration::from_millis(250)).unwrap());
        let told = items.iter().filter(|item| matches!(item, Followed::Compaction { .. })).count();
        assert_eq!((told, names(&items.iter().filter_map(frame).collect::<Vec<_>>())), (1, vec!["more"]));
    }
}

#[test]
fn who_is_too_far_behind_is_told_so_and_starts_from_the_view_without_loss() {
    let home = Home::new(CAPACITY);
    home.used("a");
    let start = follow(&home, Start::Oldest).position();
    let mut behind = follow(&home, Start::At(start));
    for _ in 0..4 {
        append(&home, &mut Vec::new(), 200);
        home.compact();
    }
    let told = behind.next_batch(AT_ONCE).unwrap_err();
    let Error::PositionCompacted { position, oldest } = told else { panic!("{told}") };
    assert_eq!(position, start);
    assert!(oldest > position);
    let again = home.profile.follow(Start::At(start)).unwrap_err();
    assert!(matches!(again, Error::PositionCompacted { .. }), "{again}");
    assert!(behind.next_batch(HANG).is_err(), "it is told again, and nothing is skipped");

    // Views and followers that begin at any moment: together they have everything.
    let appended = 3000;
    let mut pairs = thread::scope(|threads| {
        let append = threads.spawn(|| {
            let mut writer = home.writer();
            for number in 1_u64..=appended {
                writer.append(&Event::used("b"), Durability::Process).unwrap();
                if number.is_multiple_of(100) {
                    home.profile.compact(&retaining()).unwrap();
                }
            }
        });
        let mut pairs = Vec::new();
        while !append.is_finished() {
            let view = home.view();
            let follower = follow(&home, Start::At(view.position()));
            pairs.push((used(&view, "b"), follower));
        }
        pairs
    });
    let is_in_between = |(viewed, _): &&(u64, Follower)| (1..appended).contains(viewed);
    assert!(pairs.iter().filter(is_in_between).count() > 1, "no view was taken while events were appended");
    for (viewed, follower) in &mut pairs {
        let followed = frames(follower).iter().filter(|(_, skill)| skill == "b").count() as u64;
        assert_eq!(*viewed + followed, appended, "{viewed} in the view");
    }
}

#[test]
fn a_follower_that_compaction_overtakes_gets_every_event_or_is_told() {
    let home = Home::new(CAPACITY);
    home.used("first");
    let is_over = AtomicBool::new(false);
    let mut overtaken = 0;
    thread::scope(|threads| {
        threads.spawn(|| {
            let mut writer = home.writer();
            for number in 0_u64.. {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                writer.append(&numbered(number), Durability::Process).unwrap();
                if number % 20 == 0 {
                    home.compact();
                }
            }
        });
        let mut follower = follow(&home, Start::Now);
        let (mut last, mut followed) = (None, 0);
        while overtaken < 20 || followed < 1000 {
            match follower.next_batch(Duration::from_millis(1)) {
                Ok(items) => {
                    for number in items.iter().filter_map(frame).filter_map(|(_, skill)| skill.parse::<u64>().ok()) {
                        assert!(last.is_none_or(|last| number == last + 1), "{number} after {last:?}");
                        (last, followed) = (Some(number), followed + 1);
                    }
                }
                Err(Error::PositionCompacted { .. }) => {
                    overtaken += 1;
                    follower = follow(&home, Start::At(home.view().position()));
                    last = None;
                }
                Err(e) => panic!("{e}"),
            }
            if overtaken < 20 {
                thread::sleep(Duration::from_millis(followed % 3 * 10));
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_kept_segment_is_read_only_if_its_salt_agrees() {
    let home = Home::new(CAPACITY);
    let mut all = Vec::new();
    append(&home, &mut all, 100);
    home.profile.compact(&retaining()).unwrap();
    append(&home, &mut all, 100);
    home.profile.compact(&retaining()).unwrap();
    let start = Start::At(Position { segment: 1, offset: 64 });
    assert_eq!(names(&frames(&mut follow(&home, start))), all);
    let mut before = follow(&home, start);

    // As a process leaves it that slept since before the compaction: another salt, and events that no view counts.
    let mut header = home.header(1);
    header.salt ^= 1;
    home.edit(&home.segment_path(1), |bytes| bytes[..64].copy_from_slice(&header.encode()));
    home.set_len(1, 64);
    let made_up = home.frame(1, &payload(1, &Origin::here("session"), &[Event::used("made up")]));
    home.append_bytes(1, &made_up);
    home.seal(1);
    let told = home.profile.follow(start).unwrap_err();
    assert!(matches!(told, Error::PositionCompacted { .. }), "{told}");
    let told = before.next_batch(AT_ONCE).unwrap_err();
    assert!(matches!(told, Error::PositionCompacted { .. }), "{told}");
    let kept = frames(&mut follow(&home, Start::Oldest));
    assert!(!names(&kept).contains(&"made up") && names(&kept).contains(&"199"));
    assert_eq!(used(&home.view(), "made up"), 0);
}

#[test]
fn a_waiting_follower_is_woken_with_inotify_and_without() {
    let with = Command::new(std::env::current_exe().unwrap());
    for (command, watches) in [(Some(with), 1), (without_inotify(), 0)] {
        let Some(command) = command else { continue };
        let home = Home::new(CAPACITY);
        home.used("first");
        let mut worker = Worker::start_as(command, "repeat", home.path(), &[&CAPACITY, &watches], "");
        assert_eq!(worker.told().as_deref(), Some("ready"));
        for number in 0..300 {
            home.used(&format!("{number}"));
            assert_eq!(worker.told(), Some(format!("{number}")));
            if number % 50 == 0 {
                home.compact();
            }
        }
        assert_eq!(worker.stand(), Stood::Done);
    }
}

/// Tells what it follows.
fn repeat(task: &Task) {
    let watches = || {
        let descriptors = fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok);
        let targets = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
        targets.filter(|target| target.to_string_lossy().contains("inotify")).count() as u64
    };
    let mut follower = task.profile().follow(Start::Now).unwrap();
    assert_eq!(watches(), task.number(1), "watches");
    tell("ready");
    for number in 0..300 {
        let mut found = Vec::new();
        while found.is_empty() {
            found = follower.next_batch(HANG).unwrap().iter().filter_map(frame).collect();
        }
        assert_eq!(names(&found), [number.to_string()]);
        tell(&number.to_string());
    }
}

#[test]
fn a_wall_clock_that_jumps_changes_no_counter_and_takes_no_last_time_back() {
    let home = Home::new(64 << 10);
    home.used("pdf");
    let mut random = Random::new();
    let mut view = home.view();
    let now = view.skill("pdf").unwrap().last_micros(Counter::Use).unwrap();
    let created = view.skill("pdf").unwrap().created_micros();
    let (mut newest, mut expected) = (now, 1);
    for round in 0..200 {
        // An hour back or forth, or to the beginning of time.
        let jump = random.below(7_200_000_000) as i64 - 3_600_000_000;
        let time = if random.below(10) == 0 { 0 } else { now + jump };
        home.append_bytes(1, &home.frame(1, &payload(time as u64, &Origin::here("session"), &[Event::used("pdf")])));
        (newest, expected) = (newest.max(time), expected + 1);
        view.refresh().unwrap();
        for view in [&view, &home.view()] {
            let skill = view.skill("pdf").unwrap();
            assert_eq!((skill.count(Counter::Use), skill.last_micros(Counter::Use)), (expected, Some(newest)));
            assert_eq!(skill.created_micros(), created, "round {round}");
        }
    }
    home.compact();
    let view = home.view();
    let skill = view.skill("pdf").unwrap();
    assert_eq!((skill.count(Counter::Use), skill.last_micros(Counter::Use)), (expected, Some(newest)));
}

/// The consumer: writes down what it got, then where it was, as one step each.
fn consume(task: &Task) {
    let (cursor, out) = (task.home.join("cursor"), task.home.join("out"));
    let start = match fs::read_to_string(&cursor) {
        Ok(position) => Start::At(position.parse().unwrap()),
        Err(_) => Start::Oldest,
    };
    let profile =
        Profile::at(task.home.join("home")).with_options(Options { capacity: Some(CAPACITY), ..Options::default() });
    let mut follower = profile.follow(start).unwrap();
    let mut batches = fs::read_dir(&out).unwrap().count();
    tell("follows");
    loop {
        let items = follower.next_batch(Duration::from_millis(200)).unwrap();
        let lines: String = items.iter().filter_map(frame).map(|(at, skill)| format!("{at} {skill}\n")).collect();
        if !lines.is_empty() {
            replace(&out.join(format!("{batches:09}")), &lines);
            batches += 1;
        }
        follower.sync().unwrap();
        replace(&cursor, &follower.position().to_string());
    }
}

fn replace(path: &Path, text: &str) {
    let new = path.with_file_name("../new");
    fs::write(&new, text).unwrap();
    fs::rename(&new, path).unwrap();
}

#[test]
fn a_consumer_that_is_killed_at_random_goes_on_without_loss_and_repeats_at_most_its_last_batch() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::create_dir(path.join("out")).unwrap();
    fs::create_dir(path.join("home")).unwrap();
    let profile =
        Profile::at(path.join("home")).with_options(Options { capacity: Some(CAPACITY), ..Options::default() });
    let mut random = Random::new();
    let kills = if is_long() { 1000 } else { 100 };
    let is_over = AtomicBool::new(false);
    let appended: Vec<(Position, String)> = thread::scope(|threads| {
        let append = threads.spawn(|| {
            let mut writer = profile.writer(Origin::here("session")).unwrap();
            let mut appended = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let number = appended.len() as u64;
                let position = writer.append(&numbered(number), Durability::Process).unwrap();
                appended.push((position, number.to_string()));
                if number.is_multiple_of(100) {
                    profile.compact(&retaining()).unwrap();
                }
                // So many segments are not kept that the consumer may be as slow as it likes.
                let cursor =
                    || fs::read_to_string(path.join("cursor")).map_or(1, |at| at.parse::<Position>().unwrap().segment);
                while number.is_multiple_of(10) && position.segment > cursor() + 50 && !is_over.load(Ordering::Relaxed)
                {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            appended
        });
        for _ in 0..kills {
            let worker = Worker::start("consume", path, &[&CAPACITY], "");
            // Some are killed before they follow.
            if random.below(10) > 0 {
                assert_eq!(worker.told().as_deref(), Some("follows"));
            }
            thread::sleep(Duration::from_micros(random.below(30_000)));
            worker.signal(Signal::KILL);
            worker.kill();
        }
        is_over.store(true, Ordering::Relaxed);
        append.join().unwrap()
    });
    let last = &appended.last().unwrap().1;
    let worker = Worker::start("consume", path, &[&CAPACITY], "");
    until("the last event has come", || batches(path).last().is_some_and(|batch| batch.iter().any(|(_, s)| s == last)));
    worker.kill();

    let batches = batches(path);
    assert!(batches.len() > 50, "{} batches", batches.len());
    let mut seen = BTreeMap::new();
    let mut repeated = 0;
    for (number, batch) in batches.iter().enumerate() {
        for (at, skill) in batch {
            if let Some(before) = seen.insert(*at, (number, skill.clone())) {
                assert_eq!(before, (number - 1, skill.clone()), "only the last batch is repeated");
                repeated += 1;
            }
        }
        assert!(batch.is_sorted());
    }
    let seen: Vec<(Position, String)> = seen.into_iter().map(|(at, (_, name))| (at, name)).collect();
    assert_eq!(seen.len(), appended.len());
    assert!(seen == appended, "every event, where it was appended");
    eprintln!("{} events, {} batches, {repeated} repeated", appended.len(), batches.len());
}

fn batches(path: &Path) -> Vec<Vec<(Position, String)>> {
    let mut files: Vec<_> = fs::read_dir(path.join("out")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |file: &std::path::PathBuf| {
        let text = fs::read_to_string(file).unwrap();
        text.lines()
            .map(|line| line.split_once(' ').map(|(at, s)| (at.parse().unwrap(), s.to_owned())).unwrap())
            .collect()
    };
    files.iter().map(read).collect()
}
