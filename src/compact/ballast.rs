//! A small file that is given up when the disk is full, so that a compaction can make room.

use crate::log::folder::Folder;
use crate::sys::file::{self, File};

const NAME: &str = "ballast";
/// Room for a checkpoint, a segment's header and a snapshot of a few hundred skills.
const LEN: usize = 1 << 20;

/// Makes the ballast if it is not there. A disk that has no room for it is no error.
pub(super) fn take_on(folder: &Folder) {
    let path = folder.join(NAME);
    let made = File::create_new(&path, file::FILE_MODE).and_then(|ballast| {
        folder.own(&ballast)?;
        // Written, not only made longer: a hole would take no space.
        ballast.write_all(&vec![0xa5; LEN])
    });
    match made {
        Err(e) if !e.is_already_there() => {
            tracing::debug!(error = %e, "no ballast");
            let _ = file::remove(&path);
        }
        _ => {}
    }
}

/// Says whether there was any to give up.
pub(super) fn give_up(folder: &Folder) -> bool {
    file::remove(&folder.join(NAME)).unwrap_or(false)
}
