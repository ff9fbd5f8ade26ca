//! Where a consumer goes on: a file with a position, replaced after each batch that was dealt with.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::log::Position;
use crate::sys::file::{self, File};
use crate::sys::fresh_suffix;

/// A file that holds one position.
#[derive(Debug)]
pub(crate) struct Cursor {
    path: PathBuf,
}

impl Cursor {
    pub(crate) fn at(path: &Path) -> Cursor {
        Cursor { path: path.to_owned() }
    }

    /// The saved position. A file that holds none is an error: to begin anew would repeat everything.
    pub(crate) fn load(&self) -> Result<Option<Position>> {
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
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{}", fresh_suffix()));
        let new = PathBuf::from(name);
        let written = File::create_new(&new, file::FILE_MODE).and_then(|file| {
            file.write_all(format!("{position}\n").as_bytes())?;
            file.sync_data()?;
            file::rename(&new, &self.path)
        });
        if written.is_err() {
            let _ = file::remove(&new);
        }
        written
    }
}
