//! Steps 1, 7 and 8: checkpoints published, segments deleted, damage set aside.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::log::folder::{Folder, is_exposed, may_change};
use crate::log::scan::Reason;
use crate::log::{Gap, checkpoint as file_of, format};
use crate::sys::{self, file};
use crate::view::MOST_RETAINED;

/// A file that was made and not published for this long belongs to nobody: its maker needs microseconds.
const LEFTOVER_AGE: Duration = Duration::from_secs(60);

/// Removes what processes left that died between making a file and publishing it.
pub(super) fn remove_unpublished(folder: &Folder) -> Result<()> {
    for name in folder.list()?.unpublished {
        let path = folder.join(&name);
        if is_older(&path, LEFTOVER_AGE)? {
            file::remove(&path)?;
        }
    }
    Ok(())
}

/// Takes away what others may do with checkpoints: there are secrets in them.
pub(super) fn tighten(folder: &Folder) -> Result<()> {
    for floor in folder.list()?.checkpoints {
        let path = folder.checkpoint_path(floor);
        if let Some(stat) = file::stat_if_there(&path)?.filter(|stat| is_exposed(stat) && may_change(stat)) {
            file::set_mode(&path, stat.mode & 0o700)?;
        }
    }
    Ok(())
}

/// Moves a newest checkpoint that does not check out into `damaged/`; it does not count as one of the two kept.
pub(super) fn set_damaged_aside(folder: &Folder) -> Result<Option<PathBuf>> {
    let Some(damaged) = file_of::start(folder)?.0.damaged else { return Ok(None) };
    let aside = folder.damaged_path(&format!("checkpoint-{damaged:020}-{}", sys::fresh_suffix()))?;
    file::rename(&folder.checkpoint_path(damaged), &aside)?;
    file::sync_folder(folder.path())?;
    Ok(Some(aside))
}

/// Copies the bytes of gaps into `damaged/`. Segment numbers are never used again, so the names are fresh, and the same
/// in a run that is repeated.
pub(super) fn keep_gaps(folder: &Folder, gaps: &[Gap], kept: &mut Vec<PathBuf>) -> Result<()> {
    for gap in gaps.iter().filter(|gap| gap.reason != Reason::Zeros) {
        let Some(len) = gap.len else { continue };
        let segment = match file::File::open_read(&folder.segment_path(gap.position.segment)) {
            Err(e) if e.is_not_found() => continue,
            other => other?,
        };
        let len = len.min(u64::from(format::MAX_CAPACITY));
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        let taken = segment.read_at(&mut bytes, gap.position.offset)?;
        bytes.truncate(taken);
        let name = format!("segment-{:020}-offset-{}", gap.position.segment, gap.position.offset);
        let mut path = folder.damaged_path(&name)?;
        // A log that was deleted and born again starts its numbers again.
        if file::stat_if_there(&path)?.is_some() && file::read(&path)? != bytes {
            path = folder.damaged_path(&format!("{name}-{}", sys::fresh_suffix()))?;
        }
        if folder.publish(&path, &bytes, true)? {
            kept.push(path);
        }
    }
    Ok(())
}

/// Publishes the state up to and with segment `floor`. "Already there" is success: checkpoints are a pure function of the
/// log, and two for one floor are equal.
pub(super) fn publish(folder: &Folder, floor: u64, log_id: [u8; 16], state: &[u8]) -> Result<()> {
    let bytes = format::encode_checkpoint(log_id, state);
    folder.publish(&folder.checkpoint_path(floor), &bytes, true).map(drop)
}

/// What the older of the two newest checkpoints covers and nobody needs.
#[derive(Debug, Default)]
pub(super) struct Covered {
    segments: Vec<u64>,
    checkpoints: Vec<u64>,
}

/// Lists, syncs the folder and reads both checkpoints back: the end of step 5, and what step 8 may delete.
///
/// The order is the point. With a listing made *after* the sync, a name in it could be one whose compactor died between
/// its `link` and its `fsync`.
///
/// A segment whose last append is younger than `retain` is kept for followers, up to [`MOST_RETAINED`] of them: as many
/// as a checkpoint has salts of. The newest segment always stays.
pub(super) fn covered(folder: &Folder, is_published: bool, retain: Duration) -> Result<Covered> {
    let listing = folder.list()?;
    let [.., older, newest] = listing.checkpoints.as_slice() else { return Ok(Covered::default()) };
    let mut covered = Covered::default();
    let highest = listing.highest_segment();
    for number in listing.segments.iter().filter(|number| **number <= *older && Some(**number) != highest) {
        let is_beyond_salts = number.saturating_add(MOST_RETAINED as u64) <= *newest;
        if is_beyond_salts || is_older(&folder.segment_path(*number), retain)? {
            covered.segments.push(*number);
        }
    }
    covered.checkpoints.extend(listing.checkpoints.iter().filter(|floor| **floor < *older));
    if !is_published && covered.segments.is_empty() && covered.checkpoints.is_empty() {
        return Ok(covered);
    }
    file::sync_folder(folder.path())?;
    for floor in [*older, *newest] {
        match file_of::read(folder, floor) {
            Ok(Some(_)) => {}
            // Another compactor was faster, though it should not be there: nothing is left to delete.
            Err(e) if e.is_not_found() => return Ok(Covered::default()),
            Err(e) => return Err(e),
            Ok(None) => {
                return Err(Error::Damaged {
                    path: folder.checkpoint_path(floor),
                    reason: "it does not read back as it was written".into(),
                    advice: "nothing was deleted; the next compaction sets it aside",
                });
            }
        }
    }
    Ok(covered)
}

impl Covered {
    /// Step 8: segments first, both ascending. Returns how many segments went.
    pub(super) fn delete(self, folder: &Folder) -> Result<u64> {
        let mut deleted = 0;
        for number in self.segments {
            deleted += u64::from(file::remove(&folder.segment_path(number))?);
        }
        for floor in self.checkpoints {
            file::remove(&folder.checkpoint_path(floor))?;
        }
        Ok(deleted)
    }
}

/// Whether the last change was so long ago, by a clock that may have jumped either way.
fn is_older(path: &Path, age: Duration) -> Result<bool> {
    let Some(stat) = file::stat_if_there(path)? else { return Ok(true) };
    let modified = u64::try_from(stat.modified_micros).unwrap_or(0);
    Ok(u128::from(sys::now_micros().abs_diff(modified)) >= age.as_micros())
}
