//! Which segment is appended to (rule R2), and whether it still is the one that its name says.

use crate::error::{Error, Result};
use crate::log::checkpoint;
use crate::log::folder::{Folder, MOST_ATTEMPTS};
use crate::log::format;
use crate::log::segment::{self, Access, Lineage, Opened, Segment};
use crate::log::writer::{Current, Writer};
use crate::sys;

/// Whether a writer's folder is still the one that the profile has is asked again after this time.
const PLACE_CHECK_MICROS: u64 = 1_000_000;

/// Where a writer's segment is now.
pub(super) enum Place {
    /// Where it was.
    Kept,
    /// Nowhere: it was compacted away, so its events are in a checkpoint.
    Folded(Segment),
    /// In another folder, or nowhere, and its events are in no checkpoint.
    Replaced,
}

impl Writer {
    /// Whether the place was last checked a second ago. The wall clock will do: a jump makes the next check early.
    pub(super) fn is_check_due(&self) -> bool {
        let checked = self.current.as_ref().map(|current| current.checked_micros);
        checked.is_some_and(|checked| self.now_micros.abs_diff(checked) >= PLACE_CHECK_MICROS)
    }

    /// Whether the segment is still the one that its name says. If not, it is let go: returned if it was sealed, folded
    /// and deleted, which is only compaction, else the folder was replaced.
    pub(super) fn check_place(&mut self) -> Result<Place> {
        let Some(current) = &mut self.current else { return Ok(Place::Kept) };
        let number = current.segment.header.number;
        if current.segment.file.len()? >= current.end && current.segment.is_in_place()? {
            current.checked_micros = self.now_micros; // not after an error: then the next append asks again
            return Ok(Place::Kept);
        }
        // Asked after the place: only what was sealed before it was gone can have been folded.
        let is_folded = current.segment.is_sealed()?
            && match self.folder.list() {
                Ok(listing) => listing.floor(&[]) >= number,
                Err(e) if e.is_not_found() => false,
                Err(e) => return Err(e),
            };
        let gone = self.current.take();
        if is_folded {
            return Ok(gone.map_or(Place::Kept, |gone| Place::Folded(gone.segment)));
        }
        tracing::warn!(segment = number, "the log's folder was deleted, moved or restored");
        self.folder.forget_floor();
        self.parent_synced = false;
        Ok(Place::Replaced)
    }

    /// Rule R2: opens the highest segment, then lists, and uses it only if its number is above the floor.
    pub(super) fn open_current(&mut self) -> Result<()> {
        if self.current.is_some() {
            return Ok(());
        }
        for _ in 0..MOST_ATTEMPTS {
            let listing = match self.folder.list() {
                Err(e) if e.is_not_found() => {
                    self.folder = Folder::create(self.folder.path(), self.options.allow_network_fs)?;
                    self.parent_synced = false;
                    continue;
                }
                other => other?,
            };
            if listing.checkpoints.is_empty() {
                checkpoint::publish_empty(&self.folder)?;
            }
            let floor = self.folder.floor(&listing, &[]);
            let Some(number) = listing.highest_segment().filter(|n| *n > floor) else {
                let lineage = self.lineage(&listing.segments)?;
                segment::create(&self.folder, floor.saturating_add(1), lineage)?;
                continue;
            };
            let opened = segment::open(&self.folder, number, Access::Append)?;
            let listing = self.folder.list()?;
            if number <= self.folder.floor(&listing, &[]) || listing.segment_above(number).is_some() {
                continue; // Compacted away meanwhile, or no longer the highest.
            }
            match opened {
                Opened::Absent => {}
                Opened::Segment(segment) => {
                    let end = segment.file.len()?;
                    if end < segment.capacity() {
                        self.current =
                            Some(Current { segment, end, checked_micros: self.now_micros, folder_synced: false });
                        return Ok(());
                    }
                    let capacity = self.options.capacity.unwrap_or(segment.header.capacity);
                    let lineage = Lineage { log_id: segment.header.log_id, capacity };
                    segment::create(&self.folder, number.saturating_add(1), lineage)?;
                }
                Opened::Bad { .. } => {
                    let lineage = self.lineage(&listing.segments)?;
                    segment::create(&self.folder, number.saturating_add(1), lineage)?;
                }
            }
        }
        Err(self.unsettled())
    }

    pub(super) fn unsettled(&self) -> Error {
        Error::Unsettled { path: self.folder.path().to_owned(), attempts: MOST_ATTEMPTS }
    }

    /// Log id and capacity for a segment without a readable predecessor: from any segment, else from a checkpoint, else
    /// a log begins here.
    fn lineage(&self, segments: &[u64]) -> Result<Lineage> {
        let wanted = self.options.capacity;
        for number in segments.iter().rev() {
            if let Opened::Segment(found) = segment::open(&self.folder, *number, Access::Read)? {
                let capacity = wanted.unwrap_or(found.header.capacity);
                return Ok(Lineage { log_id: found.header.log_id, capacity });
            }
        }
        let known = checkpoint::log_id(&self.folder)?;
        let capacity = wanted.unwrap_or(format::DEFAULT_CAPACITY);
        Ok(Lineage { log_id: known.unwrap_or_else(sys::random), capacity })
    }
}
