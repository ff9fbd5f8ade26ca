//! How the last compaction went: kept in `compact.lock` itself, written by its holder.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::compact::{Compaction, Snapshot};
use crate::error::Result;
use crate::lock::Lock;
use crate::sys::{self, file};

/// The compactor's lock, in the log's folder; never unlinked, never renamed.
pub(crate) const LOCK_NAME: &str = "compact.lock";

/// How a compaction went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// When it began, in microseconds since the epoch (UTC).
    pub started_micros: u64,
    /// When it ended.
    pub ended_micros: u64,
    /// The floor after it, if it went through.
    pub floor: Option<u64>,
    /// What stopped it, or kept it from `.usage.json`.
    pub error: Option<String>,
}

impl Status {
    /// The last compaction of the log in this folder. `None`: there was none, or it died before it could say.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) if the file is there and cannot be read.
    pub fn read(folder: &Path) -> Result<Option<Status>> {
        match file::read(&folder.join(LOCK_NAME)) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// Best effort: a compaction does not fail over its report.
pub(super) fn write(lock: &Lock, started_micros: u64, outcome: &Result<Compaction>) {
    let (floor, error) = match outcome {
        Ok(done) => match &done.snapshot {
            Snapshot::Busy(e) | Snapshot::Failed(e) => (Some(done.floor), Some(e.to_string())),
            Snapshot::Unchanged | Snapshot::Written { .. } => (Some(done.floor), None),
        },
        Err(e) => (None, Some(e.to_string())),
    };
    let status = Status { started_micros, ended_micros: sys::now_micros(), floor, error };
    let text = serde_json::to_vec(&status).unwrap_or_default();
    if let Err(e) = lock.file().truncate(0).and_then(|()| lock.file().write_all(&text)) {
        tracing::debug!(error = %e, "the compaction's status was not written");
    }
}
