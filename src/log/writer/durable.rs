//! When an append is on the disk.

use crate::error::Result;
use crate::log::segment::Segment;
use crate::log::writer::Writer;
use crate::log::writer::place::Place;
use crate::sys::file;

/// What a sync found.
pub(super) enum Synced {
    Durable,
    Replaced,
}

impl Writer {
    /// Makes this append's frames durable: every segment that holds a part, then the folder unless that was done since
    /// the last of them was opened, and once per process the folder's parent.
    pub(super) fn sync(&mut self, mut left: Vec<Segment>) -> Result<Synced> {
        match self.check_place()? {
            Place::Kept => {}
            Place::Folded(segment) => left.push(segment),
            Place::Replaced => return Ok(Synced::Replaced),
        }
        for segment in &left {
            segment.renew_header()?;
            segment.file.sync_data()?;
        }
        if let Some(current) = self.current.as_ref().filter(|current| !current.folder_synced) {
            current.segment.renew_header()?; // before the first durable acknowledgement in it
        }
        if let Some(current) = &mut self.current
            && let Err(e) = current.segment.file.sync_data()
        {
            // Never retried on the same segment: the kernel may have dropped what it could not write, and say "done"
            // the next time. Nothing more goes there. The events are in the log and count: appended once more they
            // would count twice.
            if let Err(seal) = current.segment.seal() {
                tracing::warn!(error = %seal, "segment could not be sealed after a failed sync");
            }
            self.current = None;
            if let Err(next) = self.open_current() {
                tracing::warn!(error = %next, "next segment could not be created after a failed sync");
            }
            return Err(e);
        }
        if !left.is_empty() || self.current.as_ref().is_none_or(|current| !current.folder_synced) {
            file::sync_folder(self.folder.path())?;
            if let Some(current) = &mut self.current {
                current.folder_synced = true;
            }
        }
        if !self.parent_synced {
            if let Some(parent) = self.folder.path().parent() {
                file::sync_folder(parent)?;
            }
            self.parent_synced = true;
        }
        Ok(Synced::Durable)
    }
}
