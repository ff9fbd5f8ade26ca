//! The log's folder: names, listings, the floor (rule R2), ownership.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::sys::file::{self, File, Stat};
use crate::sys::{self, filesystem};

/// How often a listing, or an open, is tried again before the folder is said to be unsettled. Each attempt fails only
/// if a whole compaction fell into it.
pub(crate) const MOST_ATTEMPTS: u32 = 1000;

const SEGMENT_SUFFIX: &str = ".seg";
const CHECKPOINT_PREFIX: &str = "checkpoint-";
const NEW_PREFIX: &str = "new-";

/// The folder of a log, as one process knows it.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// The highest floor that this process ever saw; it never goes below it.
    known_floor: u64,
    /// Whether appends need a lock, because the file system's are not atomic.
    pub(crate) on_network: bool,
}

/// One listing that counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    /// Numbers of segments, ascending.
    pub(crate) segments: Vec<u64>,
    /// Numbers of checkpoints, ascending.
    pub(crate) checkpoints: Vec<u64>,
    /// Files that were made and not yet published.
    pub(crate) unpublished: Vec<String>,
}

impl Listing {
    /// The highest number that a checkpoint carries, `ignored` left out: damaged ones that are not yet set aside.
    pub(crate) fn floor(&self, ignored: &[u64]) -> u64 {
        self.checkpoints.iter().rev().find(|floor| !ignored.contains(floor)).copied().unwrap_or(0)
    }

    pub(crate) fn has_segment(&self, number: u64) -> bool {
        self.segments.binary_search(&number).is_ok()
    }

    pub(crate) fn highest_segment(&self) -> Option<u64> {
        self.segments.last().copied()
    }

    /// The lowest segment above `number`.
    pub(crate) fn segment_above(&self, number: u64) -> Option<u64> {
        self.segments.iter().find(|n| **n > number).copied()
    }
}

impl Folder {
    /// Examines an existing folder. Writers (`tighten`) take away what others may do with it, readers refuse it.
    pub(crate) fn open(path: &Path, allow_network: bool, tighten: bool) -> Result<Folder> {
        let stat = file::stat(path)?;
        if is_exposed(&stat) {
            if !tighten || !may_change(&stat) {
                return Err(Error::Exposed { path: path.to_owned(), mode: stat.mode });
            }
            file::set_mode(path, stat.mode & 0o700)?;
        }
        let on_network = match filesystem::network_kind(path)? {
            Some(kind) if !allow_network => return Err(Error::NetworkFileSystem { path: path.to_owned(), kind }),
            kind => kind.is_some(),
        };
        Ok(Folder { path: path.to_owned(), known_floor: 0, on_network })
    }

    /// Makes the folder if it is not there. The log is born with `checkpoint-0`; nothing is synced here.
    pub(crate) fn create(path: &Path, allow_network: bool) -> Result<Folder> {
        match Folder::open(path, allow_network, true) {
            Err(e) if e.is_not_found() => {}
            other => return other,
        }
        if let Some(parent) = path.parent() {
            // Checked before anything is made there.
            if let (Some(kind), false) = (filesystem::network_kind(parent)?, allow_network) {
                return Err(Error::NetworkFileSystem { path: path.to_owned(), kind });
            }
            if file::make_folder(path, file::FOLDER_MODE)? {
                file::own_like(path, &file::stat(parent)?)?;
            }
        }
        Folder::open(path, allow_network, true)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn segment_path(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:020}{SEGMENT_SUFFIX}"))
    }

    pub(crate) fn checkpoint_path(&self, floor: u64) -> PathBuf {
        self.path.join(checkpoint_name(floor))
    }

    /// A listing counts only if the highest checkpoint that it named still exists afterwards: `readdir` may miss what
    /// is added and what is removed while it runs. "No checkpoint at all" takes two listings that say so.
    pub(crate) fn list(&self) -> Result<Listing> {
        let mut none_before = false;
        for _ in 0..MOST_ATTEMPTS {
            let listing = parse(file::list(&self.path)?);
            match listing.checkpoints.last() {
                Some(floor) if file::stat_if_there(&self.checkpoint_path(*floor))?.is_some() => return Ok(listing),
                Some(_) => none_before = false,
                None if none_before => return Ok(listing),
                None => none_before = true,
            }
        }
        Err(Error::Unsettled { path: self.path.clone(), attempts: MOST_ATTEMPTS })
    }

    /// The floor in this listing, or the highest that this process ever saw.
    pub(crate) fn floor(&mut self, listing: &Listing, ignored: &[u64]) -> u64 {
        self.known_floor = self.known_floor.max(listing.floor(ignored));
        self.known_floor
    }

    /// The folder was replaced: what was known of the old one does not hold for this one.
    pub(crate) fn forget_floor(&mut self) {
        self.known_floor = 0;
    }

    /// Publishes `bytes` under a name with `link(2)`, so that nobody ever sees a part. Returns whether this call did;
    /// if not, the name was there already. With `sync` the content is on the disk before the name exists.
    pub(crate) fn publish(&self, path: &Path, bytes: &[u8], sync: bool) -> Result<bool> {
        for _ in 0..MOST_ATTEMPTS {
            let new = self.join(&format!("{NEW_PREFIX}{}", sys::fresh_suffix()));
            let made = File::create_new(&new, file::FILE_MODE).and_then(|file| {
                self.own(&file)?;
                file.write_all(bytes)?;
                if sync { file.sync_all() } else { Ok(()) }
            });
            let published = made.and_then(|()| match file::link(&new, path) {
                Ok(()) => Ok(Some(true)),
                Err(e) if e.is_already_there() => Ok(Some(false)),
                // A compactor took it for a leftover of a dead process: make it again.
                Err(e) if e.is_not_found() && file::stat_if_there(&self.path)?.is_some() => Ok(None),
                Err(e) => Err(e),
            });
            let removed = file::remove(&new);
            if let Some(here) = published? {
                return removed.map(|_| here);
            }
        }
        Err(Error::Unsettled { path: self.path.clone(), attempts: MOST_ATTEMPTS })
    }

    /// Makes these segments durable, and their names. One that is not there has nothing to lose.
    pub(crate) fn sync_segments(&self, from: u64, to: u64) -> Result<()> {
        for number in from..=to {
            match File::open_read(&self.segment_path(number)) {
                Ok(segment) => segment.sync_data()?,
                Err(e) if e.is_not_found() => {}
                Err(e) => return Err(e),
            }
        }
        file::sync_folder(&self.path)
    }

    /// Moves a file of the folder, or bytes copied from one, into `damaged/`; names there are never used again.
    pub(crate) fn damaged_path(&self, what: &str) -> Result<PathBuf> {
        let damaged = self.join("damaged");
        if file::make_folder(&damaged, file::FOLDER_MODE)? {
            file::own_like(&damaged, &file::stat(&self.path)?)?;
        }
        Ok(damaged.join(what))
    }

    /// A tool that root runs in another user's home leaves files that this user can use.
    pub(crate) fn own(&self, file: &File) -> Result<()> {
        if file::is_root() {
            let folder = file::stat(&self.path)?;
            if folder.uid != file::user() {
                file.set_owner(folder.uid, folder.gid)?;
            }
        }
        Ok(())
    }
}

/// Whether group or others can do anything with it.
pub(crate) fn is_exposed(stat: &Stat) -> bool {
    stat.mode & 0o077 != 0
}

pub(crate) fn may_change(stat: &Stat) -> bool {
    file::is_root() || stat.uid == file::user()
}

pub(crate) fn checkpoint_name(floor: u64) -> String {
    format!("{CHECKPOINT_PREFIX}{floor:020}")
}

fn parse(names: Vec<String>) -> Listing {
    let mut listing = Listing::default();
    for name in names {
        if let Some(number) = name.strip_suffix(SEGMENT_SUFFIX).and_then(number) {
            listing.segments.push(number);
        } else if let Some(floor) = name.strip_prefix(CHECKPOINT_PREFIX).and_then(number) {
            listing.checkpoints.push(floor);
        } else if name.starts_with(NEW_PREFIX) {
            listing.unpublished.push(name);
        }
    }
    listing.segments.sort_unstable();
    listing.segments.dedup();
    listing.checkpoints.sort_unstable();
    listing.checkpoints.dedup();
    listing
}

/// Exactly twenty digits: another spelling of the number would be another file.
fn number(digits: &str) -> Option<u64> {
    (digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_exact_and_sorted() {
        let names = [
            "00000000000000000010.seg",
            "00000000000000000002.seg",
            "3.seg",
            "0000000000000000000x.seg",
            "99999999999999999999.seg",
            "checkpoint-00000000000000000007",
            "checkpoint-7",
            "new-0123456789abcdef",
            "compact.lock",
        ];
        let listing = parse(names.map(String::from).to_vec());
        assert_eq!(listing.segments, [2, 10]);
        assert_eq!(listing.checkpoints, [7]);
        assert_eq!(listing.unpublished.len(), 1);
        assert_eq!((listing.floor(&[]), listing.floor(&[7])), (7, 0));
    }
}
