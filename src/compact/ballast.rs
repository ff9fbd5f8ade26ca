//! A small file that is given up when the disk is full, so that a compaction can make room.

use crate::log::folder::Folder;
use crate::sys::file::{self, File};

const NAME: &str = "ballast";
/// Room for a segment's header, an `external` event, a snapshot and a checkpoint, of which the last is the largest.
const CHECKPOINTS: u64 = 3;
const MIN_LEN: u64 = 64 << 10;
const MAX_LEN: u64 = 8 << 20;

/// Makes the ballast if it is not there. A disk that has no room for it is no error.
pub(super) fn take_on(folder: &Folder, floor: u64) {
    let path = folder.join(NAME);
    let checkpoint_len = file::stat(&folder.checkpoint_path(floor)).map_or(0, |stat| stat.len);
    let len = usize::try_from((CHECKPOINTS * checkpoint_len).clamp(MIN_LEN, MAX_LEN)).unwrap_or_default();
    let made = File::create_new(&path, file::FILE_MODE).and_then(|ballast| {
        folder.own(&ballast)?;
        // Written, not only made longer: a hole would take no space.
        ballast.write_all(&vec![0xa5; len])
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
