//! Checkpoint files: read, published. What the state in them means is the view's.

use crate::error::{Error, Result};
use crate::log::folder::{Folder, Listing, MOST_ATTEMPTS, is_exposed};
use crate::log::format::{self, BadHeader};
use crate::sys::file;

/// A checkpoint as it was read.
#[derive(Debug, Default)]
pub(crate) struct Checkpoint {
    /// The segment up to and with which the state is folded.
    pub(crate) floor: u64,
    /// The log that it belongs to; `None` for the empty state.
    pub(crate) log_id: Option<[u8; 16]>,
    /// Empty for the empty state.
    pub(crate) state: Vec<u8>,
}

/// Where a reader starts.
#[derive(Debug)]
pub(crate) struct Start {
    /// The newest checkpoint that can be read.
    pub(crate) checkpoint: Checkpoint,
    /// The newest one, if it is damaged: rule R2 goes by the second highest number then, above which nothing was ever
    /// deleted.
    pub(crate) damaged: Option<u64>,
}

/// Reads one checkpoint. `None`: it does not check out. Unreadable, readable by others, and a newer format, are errors.
pub(crate) fn read(folder: &Folder, floor: u64) -> Result<Option<Checkpoint>> {
    let path = folder.checkpoint_path(floor);
    let stat = file::stat(&path)?;
    if is_exposed(&stat) {
        return Err(Error::Exposed { path, mode: stat.mode });
    }
    let bytes = file::read(&path)?;
    match format::decode_checkpoint(&bytes) {
        Ok((_, [])) => Ok(Some(Checkpoint { floor, ..Checkpoint::default() })),
        Ok((log_id, state)) => Ok(Some(Checkpoint { floor, log_id: Some(log_id), state: state.to_vec() })),
        Err(BadHeader::Newer { version }) => Err(Error::NewerFormat { path, found: version, known: format::VERSION }),
        // A constant, so it need not be readable.
        Err(BadHeader::Damaged) if floor == 0 => Ok(Some(Checkpoint::default())),
        Err(BadHeader::Damaged) => Ok(None),
    }
}

/// Lists, and reads the newest checkpoint, or the one before it if the newest is damaged.
pub(crate) fn start(folder: &Folder) -> Result<(Start, Listing)> {
    for _ in 0..MOST_ATTEMPTS {
        let listing = folder.list()?;
        match start_from(folder, &listing) {
            // Removed by a compaction since the listing.
            Err(e) if e.is_not_found() => {}
            other => return Ok((other?, listing)),
        }
    }
    Err(Error::Unsettled { path: folder.path().to_owned(), attempts: MOST_ATTEMPTS })
}

fn start_from(folder: &Folder, listing: &Listing) -> Result<Start> {
    let mut newest_first = listing.checkpoints.iter().rev().copied();
    let Some(newest) = newest_first.next() else {
        return Ok(Start { checkpoint: Checkpoint::default(), damaged: None });
    };
    if let Some(checkpoint) = read(folder, newest)? {
        return Ok(Start { checkpoint, damaged: None });
    }
    if let Some(older) = newest_first.next()
        && let Some(checkpoint) = read(folder, older)?
    {
        tracing::warn!(damaged = newest, older, "the newest checkpoint does not check out, using the one before");
        return Ok(Start { checkpoint, damaged: Some(newest) });
    }
    Err(Error::Damaged {
        path: folder.checkpoint_path(newest),
        reason: "it does not check out, and there is no readable one before it".into(),
        advice: "restore the folder from a backup; the segments in it and `.usage.json` are untouched",
    })
}

/// The id of the log, as far as a checkpoint tells.
pub(crate) fn log_id(folder: &Folder) -> Result<Option<[u8; 16]>> {
    Ok(start(folder)?.0.checkpoint.log_id)
}

/// The log is born with `checkpoint-0`, the empty state.
pub(crate) fn publish_empty(folder: &Folder) -> Result<()> {
    folder.publish(&folder.checkpoint_path(0), &format::encode_checkpoint([0; 16], &[]), false).map(drop)
}
