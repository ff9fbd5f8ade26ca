//! Promises P1, P3, P4 at the worst moments: a process is stopped at each of its system calls in turn, others append and
//! compact meanwhile as if it were not there, and then it goes on.

#![allow(unsafe_code)] // fork

mod support;

use std::fs;
use std::path::Path;

use hermes_log::{Durability, Event, Options, Origin, Profile, View, Writer};
use rustix::process::Signal;

use support::processes::{
    Stood, Task, Worker, at_once, places, profile, quick_places, records, tell, used, wait_for_go,
};

const CAPACITY: u32 = 4096;

#[test]
fn worker() {
    let Some(task) = Task::given() else { return };
    let profile = task.profile();
    match task.role.as_str() {
        "append" => {
            let mut writer = profile.writer(Origin::here("session")).unwrap();
            let batch = vec![Event::used("stopped"); task.number(1) as usize];
            let durability = if task.number(2) == 1 { Durability::Disk } else { Durability::Process };
            writer.append_batches(&vec![&batch[..]; task.number(3) as usize], durability).unwrap();
            tell(&format!("voided {}", writer.voided()));
        }
        // Its lock was taken away by hand: that it gives up with an error is allowed.
        "compact" => tell(&format!("{:?}", profile.compact(&at_once()).map(|_| ()))),
        "read" => {
            let mut view = profile.view().unwrap();
            tell("opened");
            wait_for_go();
            view.refresh().unwrap();
            tell(&used(&view, "other").to_string());
            view.refresh().unwrap();
            tell(&used(&view, "other").to_string());
        }
        "fork" => fork_with_an_open_writer(&profile),
        role => panic!("no such role: {role}"),
    }
}

/// The others: they must get everything done while the worker stands still.
struct Others {
    home: tempfile::TempDir,
    profile: Profile,
    writer: Writer,
    view: View,
    appended: u64,
}

impl Others {
    fn at(place: &Path) -> Others {
        let home = tempfile::tempdir_in(place).unwrap();
        let profile = profile(home.path(), CAPACITY);
        let writer = profile.writer(Origin::here("session")).unwrap();
        let view = profile.view().unwrap();
        Others { home, profile, writer, view, appended: 0 }
    }

    fn append(&mut self) {
        self.writer.append(&Event::used("other"), Durability::Process).unwrap();
        self.appended += 1;
        self.view.refresh().unwrap();
        assert_eq!(used(&self.view, "other"), self.appended);
    }

    /// Seals the live segment, folds it, and deletes what is folded twice.
    fn compact(&mut self) {
        self.append();
        self.profile.compact(&at_once()).unwrap();
    }

    fn segment(&self, number: u64) -> std::path::PathBuf {
        self.profile.log_folder().join(format!("{number:020}.seg"))
    }

    /// The segment is full, and nobody has needed the next one yet.
    fn fill(&self, number: u64) {
        let file = fs::OpenOptions::new().write(true).open(self.segment(number)).unwrap();
        file.set_len(u64::from(CAPACITY)).unwrap();
    }

    fn words<'a>(&self, more: &[&'a dyn std::fmt::Display]) -> Vec<&'a dyn std::fmt::Display> {
        std::iter::once(&CAPACITY as &dyn std::fmt::Display).chain(more.iter().copied()).collect()
    }

    /// Every reader, now and after two more compactions, says that `stopped` was used so often, and all of `other`.
    fn check(&mut self, stopped: u64, what: &str) {
        for _ in 0..3 {
            self.view.refresh().unwrap();
            for view in [&self.view, &self.profile.view().unwrap()] {
                assert_eq!((used(view, "stopped"), used(view, "other")), (stopped, self.appended), "{what}");
            }
            self.compact();
        }
    }
}

#[test]
fn a_segment_made_again_below_the_floor_takes_no_events() {
    for place in places() {
        let mut others = Others::at(&place);
        others.append();
        others.fill(1);
        let words = others.words(&[&1, &0, &1]);
        let mut creator = Worker::start("append", others.home.path(), &words, "link@1=stop");
        assert_eq!(creator.stand(), Stood::Stopped);
        others.compact();
        for _ in 0..3 {
            others.compact();
        }
        assert!(!others.segment(2).exists(), "folded and deleted");
        creator.finish();
        assert!(others.segment(2).exists(), "the race did not take place: no segment was made below the floor");
        others.check(1, "appended above the floor");
        assert!(!others.segment(2).exists(), "compaction clears away what was made below the floor");
    }
}

#[test]
fn a_writer_that_opens_a_segment_made_again_below_the_floor_turns_away() {
    for place in places() {
        let mut others = Others::at(&place);
        others.append();
        others.fill(1);
        let words = others.words(&[&1, &0, &1]);
        let mut creator = Worker::start("append", others.home.path(), &words, "link@1=stop");
        assert_eq!(creator.stand(), Stood::Stopped);
        others.append(); // makes 2
        let mut opener = Worker::start("append", others.home.path(), &words, "open@1=stop");
        assert_eq!(opener.stand(), Stood::Stopped);
        let mut reader = Worker::start("read", others.home.path(), &words, "");
        assert_eq!(reader.told().unwrap(), "opened");
        for _ in 0..4 {
            others.compact();
        }
        assert!(!others.segment(2).exists(), "folded and deleted");
        creator.finish();
        assert!(others.segment(2).exists(), "the race did not take place: no segment was made below the floor");
        opener.finish();
        reader.go_on();
        assert_eq!(reader.told().unwrap(), others.appended.to_string());
        others.check(2, "the event went above the floor");
    }
}

#[test]
fn an_append_that_is_stopped_at_any_call_counts_once_however_many_compactions_pass_meanwhile() {
    let mut voided = 0;
    for place in quick_places() {
        // One event; a batch; several batches that straddle the capacity.
        for (events, batches) in [(1, 1), (30, 1), (20, 12)] {
            for durability in [0, 1] {
                for call in 1.. {
                    let mut others = Others::at(&place);
                    others.append();
                    let what = format!("{events} x {batches}, durability {durability}, stopped at call {call}");
                    let words = others.words(&[&events, &durability, &batches]);
                    let fault = format!("any@{call}=stop");
                    let mut writer = Worker::start("append", others.home.path(), &words, &fault);
                    if writer.stand() == Stood::Done {
                        assert!(call > 10, "{what}");
                        break;
                    }
                    for _ in 0..call % 5 + 1 {
                        others.compact();
                    }
                    let told = writer.finish().unwrap();
                    voided += told.strip_prefix("voided ").unwrap().parse::<u64>().unwrap();
                    others.check(events * batches, &what);
                }
            }
        }
    }
    assert!(voided > 0, "no append was voided");
}

#[test]
fn a_write_whose_segment_is_deleted_before_its_offset_is_asked_counts_once() {
    for place in places() {
        for (segments, durability) in (1..=5).flat_map(|segments| [(segments, 0), (segments, 1)]) {
            let mut others = Others::at(&place);
            let words = others.words(&[&1, &durability, &1]);
            let mut writer = Worker::start("append", others.home.path(), &words, "offset@1=stop");
            assert_eq!(writer.stand(), Stood::Stopped);
            for _ in 0..segments {
                others.compact();
            }
            assert_eq!(others.segment(1).exists(), segments < 2, "sealed, folded, deleted");
            writer.finish();
            others.check(1, &format!("{segments} segments, durability {durability}"));
        }
    }
}

#[test]
fn a_compactor_that_lost_its_lock_and_is_stopped_at_any_call_does_no_harm() {
    for place in quick_places() {
        for call in 1.. {
            let mut others = Others::at(&place);
            for _ in 0..2 {
                others.compact();
            }
            others.append();
            external_bump(&others.profile);
            let mut first =
                Worker::start("compact", others.home.path(), &others.words(&[]), &format!("any@{call}=stop"));
            if first.stand() == Stood::Done {
                assert!(call > 40, "only {call} calls in a compaction");
                break;
            }
            for _ in 0..3 {
                let _ = fs::remove_file(others.profile.log_folder().join("compact.lock"));
                others.compact();
            }
            first.finish();
            others.check(0, &format!("stopped at call {call}"));
            for view in [&others.view, &others.profile.view().unwrap()] {
                assert_eq!(used(view, "external"), 1, "stopped at call {call}");
            }
            others.profile.compact(&at_once()).unwrap();
            let json: serde_json::Value =
                serde_json::from_slice(&fs::read(others.profile.snapshot_path()).unwrap()).unwrap();
            let counts = ["other", "external"].map(|skill| json[skill]["use_count"].as_u64());
            assert_eq!(counts, [Some(others.appended), Some(1)], "stopped at call {call}");
            let fresh = others.profile.view().unwrap();
            assert_eq!(records(&fresh).len(), 2);
            assert!(others.profile.verify(|_| {}).unwrap().is_sound(), "stopped at call {call}");
        }
    }
}

fn external_bump(profile: &Profile) {
    let path = profile.snapshot_path();
    let mut json: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    json["external"] = serde_json::json!({ "use_count": 1 });
    fs::write(path, json.to_string()).unwrap();
}

#[test]
fn a_reader_that_is_stopped_at_any_call_never_goes_backwards_and_misses_nothing() {
    for place in quick_places() {
        for call in 1.. {
            let mut others = Others::at(&place);
            others.compact();
            others.append();
            let fault = format!("any@{call}=stop");
            let mut reader = Worker::start("read", others.home.path(), &others.words(&[]), &fault);
            // Stopped while it opens the view, or while it refreshes it.
            reader.go_on();
            let before = others.appended;
            if reader.stand() == Stood::Done {
                assert!(call > 10);
                break;
            }
            for _ in 0..call % 5 + 1 {
                others.compact();
            }
            reader.signal(Signal::CONT);
            let told: Vec<u64> = std::iter::from_fn(|| reader.told()).filter_map(|line| line.parse().ok()).collect();
            let [first, second] = told[..] else { panic!("{told:?}") };
            assert!(first >= before && second == others.appended, "{told:?} of {}, call {call}", others.appended);
        }
    }
}

#[test]
fn a_log_of_another_capacity_is_continued_by_everybody() {
    let mut others = Others::at(&places()[0]);
    others.append();
    let other = Profile::at(others.home.path()).with_options(Options { capacity: Some(16384), ..Options::default() });
    for _ in 0..300 {
        other.writer(Origin::here("cli")).unwrap().append(&Event::used("stopped"), Durability::Process).unwrap();
        others.append();
    }
    others.check(300, "two capacities");
}

const FORKED: u64 = 2000;

#[test]
fn a_writer_that_a_child_inherits_counts_exactly_in_both() {
    for place in places() {
        for _ in 0..5 {
            let mut others = Others::at(&place);
            let mut parent = Worker::start("fork", others.home.path(), &others.words(&[]), "");
            while parent.told().is_some_and(|told| told != "over") {
                others.compact();
            }
            assert_eq!(parent.stand(), Stood::Done);
            others.check(2 * FORKED + 1, "parent and child");
        }
    }
}

/// Parent and child append at the same time; on one descriptor each would take the other's offset for its own.
fn fork_with_an_open_writer(profile: &Profile) {
    let mut writer = profile.writer(Origin::here("session")).unwrap();
    writer.append(&Event::used("stopped"), Durability::Process).unwrap();
    // SAFETY: the child appends, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    for n in 0..FORKED {
        writer.append(&Event::used("stopped"), Durability::Process).unwrap();
        if child != 0 && n.is_multiple_of(100) {
            tell("going on");
        }
    }
    if child == 0 {
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(0) }
    }
    let child = rustix::process::Pid::from_raw(child).unwrap();
    let (_, status) = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty()).unwrap().unwrap();
    assert_eq!(status.exit_status(), Some(0));
    tell("over");
}
