//! Promises P6 and P2: the compactor is killed at each of its system calls in turn, and no value of any view changes; a
//! writer is killed at each call of an append, and its events count whole or not at all, for good.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use hermes_log::log::format::FIRST_FRAME_OFFSET;
use hermes_log::{Durability, Entry, Event, Origin, Profile, View};
use support::processes::{Stood, Task, Worker, at_once, is_long, profile, quick_places, records, tell, used};

const CAPACITY: u32 = 4096;

#[test]
fn worker() {
    let Some(task) = Task::given() else { return };
    let profile = task.profile();
    match task.role.as_str() {
        "compact" => drop(profile.compact(&at_once()).unwrap()),
        "append" => {
            let mut writer = profile.writer(Origin::here("session")).unwrap();
            let batch = vec![Event::used("killed"); task.number(1) as usize];
            let durability = if task.number(2) == 1 { Durability::Disk } else { Durability::Process };
            writer.append_batches(&vec![&batch[..]; task.number(3) as usize], durability).unwrap();
            tell("acknowledged");
        }
        role => panic!("no such role: {role}"),
    }
}

const SKILLS: [&str; 3] = ["ascii", "Ünïcode 技能", "c"];

fn append(profile: &Profile, events: usize) {
    let mut writer = profile.writer(Origin::here("session")).unwrap();
    for n in 0..events {
        writer.append(&Event::used(SKILLS[n % 3]), Durability::Process).unwrap();
    }
}

fn json(profile: &Profile) -> Option<serde_json::Map<String, serde_json::Value>> {
    serde_json::from_slice(&fs::read(profile.snapshot_path()).ok()?).ok()
}

/// One use more, as a process without this program counts it: the whole file anew, renamed into place.
fn bump(profile: &Profile, skill: &str) {
    let mut records = json(profile).unwrap_or_default();
    let record = records.entry(skill).or_insert_with(|| serde_json::json!({}));
    record["use_count"] = (record["use_count"].as_u64().unwrap_or(0) + 1).into();
    let path = profile.snapshot_path();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let temporary = path.with_file_name(".usage_bump.tmp");
    fs::write(&temporary, serde_json::to_vec_pretty(&records).unwrap()).unwrap();
    fs::rename(temporary, path).unwrap();
}

fn segment_path(profile: &Profile, number: u64) -> PathBuf {
    profile.log_folder().join(format!("{number:020}.seg"))
}

/// A home with something to do for a compactor.
type Prepare = fn(&Profile);

fn events_in_several_segments(profile: &Profile) {
    append(profile, 300);
}

fn external_work_in_a_new_home(profile: &Profile) {
    bump(profile, "external");
    bump(profile, "c");
    append(profile, 5);
}

fn an_existing_snapshot_and_checkpoints(profile: &Profile) {
    for _ in 0..3 {
        append(profile, 150);
        bump(profile, "external");
        profile.compact(&at_once()).unwrap();
    }
    append(profile, 100);
    bump(profile, "external");
    bump(profile, "c");
}

fn a_damaged_snapshot(profile: &Profile) {
    an_existing_snapshot_and_checkpoints(profile);
    let mut bytes = fs::read(profile.snapshot_path()).unwrap();
    bytes.truncate(bytes.len() - 40);
    fs::write(profile.snapshot_path(), bytes).unwrap();
}

fn a_gap(profile: &Profile) {
    an_existing_snapshot_and_checkpoints(profile);
    let live = (1..99).rev().map(|number| segment_path(profile, number)).find(|path| path.exists()).unwrap();
    let mut bytes = fs::read(&live).unwrap();
    bytes[70..150].fill(0x55);
    fs::write(live, bytes).unwrap();
}

fn a_damaged_newest_checkpoint(profile: &Profile) {
    an_existing_snapshot_and_checkpoints(profile);
    let newest = (1..99).rev().map(|floor| checkpoint_path(profile, floor)).find(|path| path.exists()).unwrap();
    let mut bytes = fs::read(&newest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(newest, bytes).unwrap();
}

fn leftovers_of_a_dead_compactor(profile: &Profile) {
    an_existing_snapshot_and_checkpoints(profile);
    for fault in ["rename@1=kill", "write@1=kill"] {
        let mut dead = Worker::start("compact", profile.home(), &[&CAPACITY], fault);
        assert_eq!(dead.stand(), Stood::Killed);
        append(profile, 50);
        bump(profile, "external");
    }
}

fn checkpoint_path(profile: &Profile, floor: u64) -> PathBuf {
    profile.log_folder().join(format!("checkpoint-{floor:020}"))
}

/// A home, and what its views say.
struct Scene {
    _dir: tempfile::TempDir,
    profile: Profile,
    old_view: View,
    values: Values,
}

type Values = std::collections::BTreeMap<String, serde_json::Map<String, serde_json::Value>>;

impl Scene {
    fn new(place: &Path, prepare: Prepare) -> Scene {
        let dir = tempfile::tempdir_in(place).unwrap();
        let profile = profile(dir.path(), CAPACITY);
        prepare(&profile);
        let old_view = profile.view().unwrap();
        let values = records(&old_view);
        assert!(!values.is_empty());
        Scene { _dir: dir, profile, old_view, values }
    }

    /// Kills a compactor at its n-th call. `Done`: it makes fewer.
    fn kill_at(&self, call: u64) -> Stood {
        let fault = format!("any@{call}=kill");
        let stood = Worker::start("compact", self.profile.home(), &[&CAPACITY], &fault).stand();
        assert_ne!(stood, Stood::Stopped);
        stood
    }

    /// All views, old and fresh, say the same as before.
    fn check(&mut self, what: &str) {
        self.old_view.refresh().unwrap();
        assert_eq!(records(&self.old_view), self.values, "the old view {what}");
        assert_eq!(records(&self.profile.view().unwrap()), self.values, "a fresh view {what}");
    }

    /// Others go on, and so does the next compaction.
    fn go_on(&mut self, what: &str) {
        let count = |values: &Values, skill: &str| {
            values.get(skill).and_then(|record| record.get("use_count")?.as_u64()).unwrap_or(0)
        };
        // A process without this program loses what is in a damaged file.
        if json(&self.profile).is_some() {
            // One that only others count, and one that has events which the snapshot has not yet.
            for skill in ["external", "c"] {
                let before = count(&self.values, skill);
                bump(&self.profile, skill);
                let after = records(&self.profile.view().unwrap());
                assert_eq!(count(&after, skill), before + 1, "{skill} bumped {what}");
                self.values.insert(skill.into(), after[skill].clone());
            }
            self.check(&format!("after a bump {what}"));
        }
        for round in 0..2 {
            let done = self.profile.compact(&at_once()).unwrap();
            let failed = matches!(
                done.snapshot,
                hermes_log::compact::Snapshot::Busy(_) | hermes_log::compact::Snapshot::Failed(_)
            );
            assert!(!failed, "{:?} {what}", done.snapshot);
            self.check(&format!("after compaction {round} {what}"));
            assert_eq!(self.in_snapshot(), self.values, "the snapshot after compaction {round} {what}");
            append(&self.profile, 3);
            let view = self.profile.view().unwrap();
            let added = records(&view).keys().map(|name| count(&records(&view), name)).sum::<u64>();
            assert_eq!(added, self.values.keys().map(|name| count(&self.values, name)).sum::<u64>() + 3, "{what}");
            self.values = records(&view);
        }
    }

    fn in_snapshot(&self) -> Values {
        let records = json(&self.profile).unwrap();
        records.into_iter().map(|(name, record)| (name, record.as_object().unwrap().clone())).collect()
    }
}

/// Kills a compactor at each of its calls in turn, each time in a new home.
fn kill_at_each_call(prepare: Prepare) {
    for place in quick_places() {
        for call in 1.. {
            let mut scene = Scene::new(&place, prepare);
            let what = format!("(killed at call {call})");
            let stood = scene.kill_at(call);
            scene.check(&what);
            scene.go_on(&what);
            if stood == Stood::Done {
                assert!(call > 30, "{call} calls make no compaction");
                break;
            }
        }
    }
}

macro_rules! a_compactor_killed_at_any_call_changes_no_value_of_a_home_with {
    ($($home:ident)*) => { $(
        #[test]
        fn $home() {
            kill_at_each_call(super::$home);
        }
    )* };
}

/// Whatever there is to do in the home.
mod a_compactor_killed_at_any_call_changes_no_value {
    use super::kill_at_each_call;

    a_compactor_killed_at_any_call_changes_no_value_of_a_home_with! {
        events_in_several_segments
        external_work_in_a_new_home
        an_existing_snapshot_and_checkpoints
        a_damaged_snapshot
        a_gap
        a_damaged_newest_checkpoint
        leftovers_of_a_dead_compactor
    }
}

#[test]
fn a_compactor_killed_after_one_that_was_killed_changes_no_value() {
    let place = &quick_places()[0];
    // All pairs take minutes.
    let step = if is_long() { 1 } else { 11 };
    let mut pairs = 0;
    for first in (1..).step_by(step) {
        let mut is_last = false;
        for second in (1 + first % step as u64..).step_by(step) {
            let mut scene = Scene::new(place, an_existing_snapshot_and_checkpoints);
            is_last = scene.kill_at(first) == Stood::Done;
            bump(&scene.profile, "external");
            scene.values = records(&scene.profile.view().unwrap());
            let is_done = scene.kill_at(second) == Stood::Done;
            let what = format!("(killed at call {first}, and then at call {second})");
            scene.check(&what);
            scene.go_on(&what);
            pairs += 1;
            if is_done {
                break;
            }
        }
        if is_last {
            break;
        }
    }
    assert!(pairs > 30, "{pairs}");
}

/// The rows of the table in `src/compact/mod.rs`, by what is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Row {
    /// Before and in step 1.
    NothingHappened,
    /// In step 1.
    DamageSetAside,
    /// In step 2: a checkpoint holds what the event is to build on.
    BaseCheckpointed,
    /// Step 2: a temporary file that no event names.
    TemporaryUnused,
    /// Step 3: the newest external event names it.
    EventNamesTemporary,
    /// Step 4: the live segment is an empty one.
    Sealed,
    /// Step 5: there is a new checkpoint.
    Checkpointed,
    /// Step 6: the new snapshot is in place.
    Renamed,
    /// Step 7: other temporary files are removed.
    LeftoversRemoved,
    /// Step 8: the segments that the older checkpoint covers are removed.
    SegmentsDeleted,
    /// Step 8 is over.
    Done,
}

/// What tells the rows apart.
struct Traces {
    snapshot: Vec<u8>,
    first_segment: u64,
    newest_checkpoint: u64,
    checkpoints: usize,
    leftovers: Vec<PathBuf>,
}

fn numbers(profile: &Profile, prefix: &str, suffix: &str) -> Vec<u64> {
    let names = fs::read_dir(profile.log_folder()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut numbers: Vec<u64> =
        names.filter_map(|name| name.strip_prefix(prefix)?.strip_suffix(suffix)?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

fn temporaries(profile: &Profile) -> Vec<PathBuf> {
    let entries = fs::read_dir(profile.snapshot_path().parent().unwrap()).unwrap().map(|e| e.unwrap().path());
    entries.filter(|path| path.to_string_lossy().contains(".usage.json.hermes-log-")).collect()
}

impl Traces {
    fn of(profile: &Profile) -> Traces {
        let (segments, checkpoints) = (numbers(profile, "", ".seg"), numbers(profile, "checkpoint-", ""));
        Traces {
            snapshot: fs::read(profile.snapshot_path()).unwrap(),
            first_segment: segments[0],
            newest_checkpoint: *checkpoints.last().unwrap(),
            checkpoints: checkpoints.len(),
            leftovers: temporaries(profile),
        }
    }

    fn row(&self, profile: &Profile) -> Row {
        let (segments, checkpoints) = (numbers(profile, "", ".seg"), numbers(profile, "checkpoint-", ""));
        if segments[0] > self.first_segment {
            return if checkpoints.len() > 2 { Row::SegmentsDeleted } else { Row::Done };
        }
        if self.leftovers.iter().all(|leftover| !leftover.exists()) {
            return Row::LeftoversRemoved;
        }
        if fs::read(profile.snapshot_path()).unwrap() != self.snapshot {
            return Row::Renamed;
        }
        let published = checkpoints.iter().filter(|floor| **floor > self.newest_checkpoint).count();
        if published > 1 {
            return Row::Checkpointed;
        }
        let fresh: Vec<PathBuf> =
            temporaries(profile).into_iter().filter(|path| !self.leftovers.contains(path)).collect();
        if let [temporary] = &fresh[..] {
            let name = temporary.file_name().unwrap().to_str().unwrap();
            let live = fs::metadata(segment_path(profile, *segments.last().unwrap())).unwrap().len();
            return match (names_event(profile, name), live == FIRST_FRAME_OFFSET) {
                (false, _) => Row::TemporaryUnused,
                (true, false) => Row::EventNamesTemporary,
                (true, true) => Row::Sealed,
            };
        }
        assert!(fresh.is_empty(), "{fresh:?}");
        if published > 0 {
            return Row::BaseCheckpointed;
        }
        if checkpoints.len() < self.checkpoints { Row::DamageSetAside } else { Row::NothingHappened }
    }
}

/// Whether all parts of an external event that names this file are in the log.
fn names_event(profile: &Profile, temporary: &str) -> bool {
    let (mut found, mut wanted) = (0, u32::MAX);
    let scanned = profile.scan(None, |entry| {
        if let Entry::Frame { batch: Some(batch), .. } = entry {
            for event in batch.events {
                if let Event::External { id, parts, .. } = event
                    && id == temporary
                {
                    (found, wanted) = (found + 1, parts);
                }
            }
        }
        ControlFlow::Continue(())
    });
    scanned.unwrap();
    found == wanted
}

#[test]
fn every_row_of_the_table_of_compaction_is_a_place_to_die() {
    // Work for every step: a checkpoint to set aside, external work, leftovers, events, segments to delete.
    let prepare: Prepare = |profile| {
        leftovers_of_a_dead_compactor(profile);
        let newest = *numbers(profile, "checkpoint-", "").last().unwrap();
        fs::write(checkpoint_path(profile, newest), b"damaged").unwrap();
        append(profile, 10);
    };
    let mut rows = BTreeSet::new();
    let mut newest = Row::NothingHappened;
    for call in 1.. {
        let mut scene = Scene::new(&quick_places()[0], prepare);
        let traces = Traces::of(&scene.profile);
        let stood = scene.kill_at(call);
        let row = traces.row(&scene.profile);
        let what = format!("(killed at call {call}: {row:?})");
        assert!(row >= newest, "{row:?} after {newest:?}: the steps are in another order than the table");
        newest = row;
        rows.insert(row);
        scene.check(&what);
        scene.go_on(&what);
        if stood == Stood::Done {
            break;
        }
    }
    use Row::*;
    let all = [
        NothingHappened,
        DamageSetAside,
        BaseCheckpointed,
        TemporaryUnused,
        EventNamesTemporary,
        Sealed,
        Checkpointed,
        Renamed,
        LeftoversRemoved,
        SegmentsDeleted,
        Done,
    ];
    assert_eq!(rows.into_iter().collect::<Vec<_>>(), all, "each row was died in");
}

#[test]
fn a_writer_killed_at_any_call_has_appended_whole_frames_or_nothing_and_the_answer_stays() {
    for place in quick_places() {
        for (events, batches) in [(1, 1), (30, 1), (20, 12)] {
            let mut answers = BTreeSet::new();
            for durability in [0, 1] {
                for call in 1.. {
                    let dir = tempfile::tempdir_in(&place).unwrap();
                    let profile = profile(dir.path(), CAPACITY);
                    append(&profile, 50);
                    let mut old_view = profile.view().unwrap();
                    let words: [&dyn std::fmt::Display; 4] = [&CAPACITY, &events, &durability, &batches];
                    let mut writer = Worker::start("append", dir.path(), &words, &format!("any@{call}=kill"));
                    let stood = writer.stand();
                    let counted = used(&profile.view().unwrap(), "killed");
                    let what = format!("{counted} of {events} x {batches}, killed at call {call}");
                    assert_eq!(counted % events, 0, "a batch counts all or not at all: {what}");
                    for _ in 0..3 {
                        append(&profile, 100);
                        old_view.refresh().unwrap();
                        for view in [&old_view, &profile.view().unwrap()] {
                            assert_eq!(used(view, "killed"), counted, "{what}");
                        }
                        profile.compact(&at_once()).unwrap();
                    }
                    let others: u64 = SKILLS.iter().map(|skill| used(&profile.view().unwrap(), skill)).sum();
                    assert_eq!(others, 350, "{what}");
                    answers.insert(counted);
                    if stood == Stood::Done {
                        assert_eq!((counted, writer.told().as_deref()), (events * batches, Some("acknowledged")));
                        break;
                    }
                }
            }
            let some = if batches > 1 { 3 } else { 2 };
            assert!(answers.len() >= some, "killed before, after and between: {answers:?}");
        }
    }
}
