//! Where a consumer goes on: a file with a position, replaced after each batch that was dealt with.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::log::Position;
use crate::sys::file;
use crate::sys::replace::{Like, replace};

/// A file that holds one position.
#[derive(Debug)]
pub(crate) struct Cursor {
    path: PathBuf,
}

impl Cursor {
    pub(crate) fn at(path: &Path) -> Cursor {
        Cursor { path: path.to_owned() }
    }

    /// The saved position. A file that holds none is an error: to begin anew would repeat everything. What a consumer has
    /// left that was killed while it saved is removed.
    pub(crate) fn load(&self) -> Result<Option<Position>> {
        file::remove(&temporary(&file::resolve(&self.path)?))?;
        let bytes = match file::read(&self.path) {
            Err(e) if e.is_not_found() => return Ok(None),
            other => other?,
        };
        let text = String::from_utf8_lossy(&bytes);
        text.trim().parse().map(Some).map_err(|_| Error::Damaged {
            path: self.path.clone(),
            reason: "it holds no position".into(),
            advice: "write one such as 3:64 into it, or remove it to begin with the oldest event that is kept",
        })
    }

    /// Replaces the file; who is killed here finds the old position or the new one.
    pub(crate) fn save(&self, position: Position) -> Result<()> {
        let target = file::resolve(&self.path)?;
        let old = file::stat_if_there(&target)?;
        let like = Like { old: old.as_ref(), new_mode: file::FILE_MODE, mode: None };
        replace(&target, &temporary(&target), format!("{position}\n").as_bytes(), like)
    }
}

/// One name for all: a cursor has one consumer.
fn temporary(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}
