//! A file made ready beside the one that it replaces.

use std::path::Path;

use crate::error::Result;
use crate::sys::file::{self, File, Stat};

/// How the new file differs from one that this process would make for itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Like<'a> {
    /// The file that is replaced, whose owner and group it gets; none: those of the folder, where root makes it.
    pub(crate) old: Option<&'a Stat>,
    /// Its mode where there was none before, less the umask.
    pub(crate) new_mode: u32,
    /// Its mode whatever there was before; `None`: that of the old one.
    pub(crate) mode: Option<u32>,
}

/// Makes a file of a fresh name with its content on the disk; what is left is to rename it. After an error it is gone.
pub(crate) fn make_ready(path: &Path, bytes: &[u8], like: Like<'_>) -> Result<()> {
    let mut mode = like.mode.or(like.old.map(|old| old.mode));
    let made = File::create_new(path, like.new_mode).and_then(|new| {
        match like.old {
            Some(old) => {
                let own = new.stat()?;
                if (own.uid, own.gid) != (old.uid, old.gid)
                    && let Err(e) = new.set_owner(old.uid, old.gid)
                {
                    // A group that its owner is not in: root put it there, and never could it be written again.
                    let is_group_alone = own.uid == old.uid && e.is_forbidden();
                    if !is_group_alone {
                        return Err(e);
                    }
                    tracing::warn!(path = %path.display(), group = old.gid, "the old file's group could not be kept, you are not in it; its access is taken away");
                    mode = mode.map(|mode| mode & !0o070); // which was granted to another one
                }
            }
            None => file::own_like(path, &file::stat(path.parent().unwrap_or(path))?)?,
        }
        if let Some(mode) = mode {
            new.set_mode(mode)?; // after the owner, which takes bits of it away
        }
        new.write_all(bytes)?;
        new.sync_all()
    });
    if made.is_err() {
        file::remove(path)?;
    }
    made
}

/// Replaces a file by one that is made ready under a fresh name: whole or not at all. The folder is left to be synced.
pub(crate) fn replace(target: &Path, temporary: &Path, bytes: &[u8], like: Like<'_>) -> Result<()> {
    make_ready(temporary, bytes, like)?;
    let renamed = file::rename(temporary, target);
    if renamed.is_err() {
        file::remove(temporary)?;
    }
    renamed
}
