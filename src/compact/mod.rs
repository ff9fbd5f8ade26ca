//! Compaction: what is folded becomes a checkpoint and a fresh `.usage.json`.
//!
//! Under `compact.lock`, in this order. A crash in a row leaves what the last column says; nothing is lost, and no
//! value of any view changes, before, after, or in between.
//!
//! | step | on disk afterwards | a crash here means |
//! |---|---|---|
//! | 1 set a damaged newest checkpoint aside, fold what is above the floor, sync what is sealed | the same log | nothing happened |
//! | 2 take `.usage.json.lock`, read the file, its difference to the base; sync the file as found; write the new snapshot under a fresh name beside it, sync it and its folder | a temporary file | an unused temporary file |
//! | 3 append `external {...}` | the event names the temporary file | the temporary file is still there: the proof that the file on disk descends from *before* |
//! | 4 seal the live segment *m*, create the next | sealed *m*, empty *m+1* | the next run folds it |
//! | 5 fold up to *m*; sync every folded segment and the folder; publish `checkpoint-m`, list, sync the folder, read back | checkpoint *m* | the next run goes on from it |
//! | 6 rename the temporary file into place, if the event that names it is in what was folded | `.usage.json` new, descends from *after* | |
//! | 7 remove other temporary files, release `.usage.json.lock` | | leftovers, removed by the next run here |
//! | 8 delete the segments that the older kept checkpoint covers and that no follower needs, then older checkpoints | | the next run goes on |
//!
//! Three things in this order are there for a reason that does not show:
//!
//! - The rename comes last. The `external` event says what the file descends from; while it stood in the live segment
//!   alone, one damaged frame would take the base away, and the difference of the file to the base before that would
//!   count everything once more that the snapshot already contains. After step 5 the checkpoint holds it as well.
//! - The event builds on the `external` events before it, and a power loss must not take one of those and leave this one.
//!   So if the newest is in no checkpoint, because its compactor died or could not sync it, steps 4 and 5 come once before
//!   step 3 as well. The event itself is durable with the checkpoint of step 5, before anything depends on it. So no
//!   segment is synced while others append to it: they would wait for the disk.
//! - What was folded before `.usage.json.lock` was had is folded on after it: another compactor may have been there.
//!
//! Without `.usage.json.lock` steps 2, 3, 6 and 7 are left to the next run; so they are if the file cannot be read or
//! written, and that is reported.

mod ballast;
mod checkpoint;
mod snapshot;
mod status;

use std::time::Duration;

use crate::budgets;
use crate::compact::checkpoint::Covered;
use crate::error::{Error, Result};
use crate::event::Origin;
use crate::lock::Lock;
use crate::log::folder::Folder;
use crate::log::format::FIRST_FRAME_OFFSET;
use crate::log::writer::Writer;
use crate::log::{Gap, Position};
use crate::profile::Profile;
use crate::sys::{self, file};
use crate::view::View;

pub(crate) use status::LOCK_NAME;
pub use status::Status;

/// How a compaction waits, and what it keeps.
#[derive(Clone, Copy, Debug)]
pub struct CompactOptions {
    /// How long to wait for another compactor; zero: one attempt.
    pub lock_wait: Duration,
    /// How long to wait for who holds `.usage.json.lock`.
    pub snapshot_wait: Duration,
    /// How long folded segments are kept, so that followers can catch up; zero: not at all. At most 256 are.
    pub retain: Duration,
    /// Leave no secret that was replaced before the run in any segment or checkpoint: two compactions in a row, nothing
    /// retained. Without it a replaced secret is gone after the second compaction that follows and folds something, once
    /// `retain` has passed. Bytes of damaged stretches stay in `damaged/`.
    pub scrub: bool,
}

impl Default for CompactOptions {
    fn default() -> Self {
        CompactOptions {
            lock_wait: budgets::COMPACTION.wait_limit,
            snapshot_wait: budgets::SNAPSHOT.wait_limit,
            retain: Duration::from_secs(3600),
            scrub: false,
        }
    }
}

/// What a compaction did.
#[derive(Debug)]
#[non_exhaustive]
pub struct Compaction {
    /// The floor after it.
    pub floor: u64,
    /// Events folded into the new checkpoint; 0 if there was nothing to fold.
    pub events: u64,
    /// Segments folded.
    pub segments_folded: u64,
    /// Segments deleted.
    pub segments_deleted: u64,
    /// What became of `.usage.json`.
    pub snapshot: Snapshot,
    /// Gaps in the segments that were folded.
    pub gaps: Vec<Gap>,
    /// What was set aside under `damaged/`.
    pub set_aside: Vec<std::path::PathBuf>,
}

/// What a compaction did to `.usage.json`.
#[derive(Debug)]
#[non_exhaustive]
pub enum Snapshot {
    /// It says what it should.
    Unchanged,
    /// Written anew; so many skills had been worked on by others.
    Written {
        /// Skills whose records others had changed since the base.
        external: usize,
    },
    /// Another process holds its lock; left to the next run.
    Busy(Error),
    /// It could not be read or written, and stays as it is; left to the next run.
    Failed(Error),
}

/// Compacts once, see the [table](self); to scrub twice, since the older of the two checkpoints is kept.
pub(crate) fn run(profile: &Profile, options: &CompactOptions) -> Result<Compaction> {
    if !options.scrub {
        return run_once(profile, options);
    }
    let options = CompactOptions { retain: Duration::ZERO, ..*options };
    let first = run_once(profile, &options)?;
    let second = run_once(profile, &options)?;
    Ok(Compaction {
        events: first.events.saturating_add(second.events),
        segments_folded: first.segments_folded.saturating_add(second.segments_folded),
        segments_deleted: first.segments_deleted.saturating_add(second.segments_deleted),
        gaps: [first.gaps, second.gaps].concat(),
        set_aside: [first.set_aside, second.set_aside].concat(),
        ..second
    })
}

/// Puts what others did to a skill's record in `.usage.json` into the log, if there is anything: it counts as done when it
/// comes into the log, so it goes there before an event about a field that it must not override.
pub(crate) fn settle(profile: &Profile, view: &mut View, skill: &str, limit: Duration) -> Result<()> {
    view.refresh()?;
    if !view.is_worked_on_by_others(skill) {
        return Ok(());
    }
    let options = CompactOptions { lock_wait: limit, snapshot_wait: limit, ..CompactOptions::default() };
    match run(profile, &options)?.snapshot {
        Snapshot::Busy(e) | Snapshot::Failed(e) => Err(e),
        Snapshot::Unchanged | Snapshot::Written { .. } => view.refresh(),
    }
}

fn run_once(profile: &Profile, options: &CompactOptions) -> Result<Compaction> {
    let span = tracing::info_span!("compact", home = %profile.home().display());
    let _entered = span.enter();
    let writer = profile.writer(Origin::here("compactor"))?;
    let lock = Lock::take(&writer.folder().join(LOCK_NAME), file::FILE_MODE, budgets::COMPACTION, options.lock_wait)?;
    let started_micros = sys::now_micros();
    let mut run = Run::new(profile, options, writer)?;
    let mut outcome = run.steps();
    if outcome.as_ref().is_err_and(Error::is_full_disk) && ballast::give_up(&run.folder) {
        tracing::warn!("the disk is full, the ballast is given up");
        run = Run::new(profile, options, profile.writer(Origin::here("compactor"))?)?;
        outcome = run.steps();
    }
    status::write(&lock, started_micros, &outcome);
    if let Ok(done) = &outcome {
        ballast::take_on(&run.folder, done.floor);
    }
    outcome
}

/// One run under the lock.
struct Run<'a> {
    profile: &'a Profile,
    options: &'a CompactOptions,
    writer: Writer,
    folder: Folder,
    set_aside: Vec<std::path::PathBuf>,
}

impl<'a> Run<'a> {
    fn new(profile: &'a Profile, options: &'a CompactOptions, writer: Writer) -> Result<Run<'a>> {
        let folder = Folder::open(writer.folder(), profile.options().allow_network_fs, true)?;
        Ok(Run { profile, options, writer, folder, set_aside: Vec::new() })
    }

    fn steps(&mut self) -> Result<Compaction> {
        checkpoint::remove_unpublished(&self.folder)?;
        checkpoint::tighten(&self.folder)?;
        self.set_aside.extend(checkpoint::set_damaged_aside(&self.folder)?);
        let mut view = View::load(self.profile.place(), self.profile.policy())?;
        let (floor, events) = (view.floor(), view.events());
        view.read_log()?;
        let first = Position { segment: floor.saturating_add(1), offset: FIRST_FRAME_OFFSET };
        let live = view.position().segment;
        if live > first.segment {
            // Most of what step 5 syncs, before others have to wait for `.usage.json.lock`.
            self.folder.sync_segments(first.segment, live.saturating_sub(1))?;
        }
        let prepared = match self.prepare_snapshot(&mut view) {
            Err(e) if e.is_full_disk() => return Err(e),
            other => other,
        };
        view.read_log()?;
        let is_new = view.position() > first || !view.gaps_met().is_empty();
        let (sealed, covered) = if is_new || self.options.scrub {
            self.publish(&mut view)?
        } else {
            (floor, checkpoint::covered(&self.folder, false, self.options.retain)?)
        };
        let snapshot = match prepared.and_then(|prepared| self.install_snapshot(prepared, &view)) {
            Ok(snapshot) => snapshot,
            Err(e @ Error::LockTimeout { .. }) => Snapshot::Busy(e),
            Err(e) => Snapshot::Failed(e),
        };
        let done = Compaction {
            floor: sealed,
            events: view.events().saturating_sub(events),
            segments_folded: sealed.saturating_sub(floor),
            segments_deleted: covered.delete(&self.folder)?,
            snapshot,
            gaps: view.gaps_met().to_vec(),
            set_aside: std::mem::take(&mut self.set_aside),
        };
        tracing::info!(?done, "compacted");
        Ok(done)
    }

    /// Steps 4 and 5. Returns the new floor, and what may be deleted.
    fn publish(&mut self, view: &mut View) -> Result<(u64, Covered)> {
        let sealed = self.writer.seal()?;
        view.read_until(sealed);
        view.read_log()?;
        // Else another compactor was here, though it should not.
        if view.floor() < sealed {
            checkpoint::keep_gaps(&self.folder, view.gaps_met(), &mut self.set_aside)?;
            self.folder.sync_segments(view.floor().saturating_add(1), sealed)?;
            checkpoint::publish(&self.folder, sealed, view.log_id().unwrap_or_default(), &view.state().encode())?;
        }
        Ok((sealed, checkpoint::covered(&self.folder, true, self.options.retain)?))
    }
}
