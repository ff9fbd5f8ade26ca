//! Folders as a whole: what is in them, moving, exchanging, copying and removing them.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::error::{At, Error, Result};
use crate::sys::fault;
use crate::sys::file::{self, File, Stat};

/// What an entry of a folder is, symlinks not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Folder,
    Symlink,
    Other,
}

impl Kind {
    fn of(kind: fs::FileType) -> Kind {
        match kind {
            kind if kind.is_symlink() => Kind::Symlink,
            kind if kind.is_dir() => Kind::Folder,
            kind if kind.is_file() => Kind::File,
            _ => Kind::Other,
        }
    }
}

/// The entries of a folder, sorted by name.
#[allow(clippy::disallowed_methods)] // this is the place
pub(crate) fn entries(folder: &Path) -> Result<Vec<(OsString, Kind)>> {
    fault::point("list").at("list", folder)?;
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).at("list", folder)? {
        let entry = entry.at("list", folder)?;
        match entry.file_type() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {} // gone meanwhile
            kind => entries.push((entry.file_name(), Kind::of(kind.at("examine", entry.path())?))),
        }
    }
    entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    Ok(entries)
}

/// What is at a path, a symlink not followed.
pub(crate) fn kind(path: &Path) -> Result<Option<Kind>> {
    fault::point("stat").at("examine", path)?;
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        other => Ok(Some(Kind::of(other.at("examine", path)?.file_type()))),
    }
}

/// The path without symlinks.
pub(crate) fn canonical(path: &Path) -> Result<std::path::PathBuf> {
    fault::point("stat").at("follow", path)?;
    fs::canonicalize(path).at("follow", path)
}

/// Moves a folder to a name that is free. "Already there" is an error.
pub(crate) fn rename_new(from: &Path, to: &Path) -> Result<()> {
    fault::point("rename_new").at("move to", to)?;
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system does not know the flag. A folder never replaces one that has something in it.
        Err(Errno::INVAL | Errno::NOSYS) if kind(to)?.is_none() => file::rename(from, to),
        Err(Errno::INVAL | Errno::NOSYS) => Err(io::Error::from(io::ErrorKind::AlreadyExists)).at("move to", to),
        other => other.at("move to", to),
    }
}

/// Exchanges two folders in one step. `false`: the file system cannot, and nothing was done.
pub(crate) fn exchange(one: &Path, other: &Path) -> Result<bool> {
    let exchange = || renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).map_err(io::Error::from);
    match fault::point("exchange").and_then(|()| exchange()) {
        Ok(()) => Ok(true),
        Err(e) if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) => Ok(false),
        Err(e) => Err(e).at("replace", other),
    }
}

/// Removes a folder and everything in it; symlinks are removed, never followed. "Not there" is success.
pub(crate) fn remove_tree(path: &Path) -> Result<()> {
    fault::point("remove_tree").at("remove", path)?;
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.at("remove", path),
    }
}

/// Copies files and folders, their modes with them, and syncs them. Anything else in there, a symlink above all, is an
/// error: it could lead out of the folder.
pub(crate) fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    for (name, kind) in entries(from)? {
        let (from, to) = (from.join(&name), to.join(&name));
        let mode = file::stat(&from)?.mode;
        match kind {
            Kind::Folder => {
                file::make_folder(&to, mode | 0o700)?;
                copy_tree(&from, &to)?;
            }
            Kind::File => {
                let copy = File::create_new(&to, mode)?;
                copy.write_all(&file::read(&from)?)?;
                copy.sync_all()?;
            }
            Kind::Symlink | Kind::Other => {
                return Err(Error::Invalid {
                    what: "file of a skill",
                    found: from.display().to_string(),
                    allowed: "files and folders, no symlinks and no devices",
                });
            }
        }
    }
    file::sync_folder(to)
}

/// Everything in a tree belongs to the owner of a folder, where root made it.
pub(crate) fn own_like(path: &Path, folder: &Stat) -> Result<()> {
    if !file::is_root() || folder.uid == file::user() {
        return Ok(());
    }
    file::set_owner(path, folder.uid, folder.gid)?;
    if kind(path)? == Some(Kind::Folder) {
        for (name, kind) in entries(path)? {
            if kind != Kind::Symlink {
                own_like(&path.join(name), folder)?;
            }
        }
    }
    Ok(())
}
