//! Files and folders: one function a system call, errors that say what and where.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::{At, Error, Result};
use crate::sys::{fault, posix};

/// Mode of every file of the log; its folders have `FOLDER_MODE`.
pub(crate) const FILE_MODE: u32 = 0o600;
/// Mode of the log's folders.
pub(crate) const FOLDER_MODE: u32 = 0o700;

/// What `stat` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) len: u64,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) links: u64,
    /// Last change of the content, microseconds since the epoch.
    pub(crate) modified_micros: i64,
    /// Last change of content or inode, in nanoseconds: tells a file from the same file written again.
    pub(crate) changed: (i64, i64),
}

impl Stat {
    pub(super) fn of(m: &fs::Metadata) -> Stat {
        Stat {
            device: m.dev(),
            inode: m.ino(),
            len: m.len(),
            mode: m.mode() & 0o7777,
            uid: m.uid(),
            gid: m.gid(),
            links: m.nlink(),
            modified_micros: m.mtime().saturating_mul(1_000_000).saturating_add(m.mtime_nsec() / 1000),
            changed: (m.ctime(), m.ctime_nsec()),
        }
    }

    /// Whether both name the same file.
    pub(crate) fn same_file(&self, other: &Stat) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// An open file that knows its path. The descriptor is closed on exec.
#[derive(Debug)]
pub(crate) struct File {
    file: fs::File,
    path: PathBuf,
    /// Opened by a process with a file size limit, beyond which a write is a signal.
    is_limited: bool,
}

#[allow(clippy::disallowed_methods)] // this is the place
fn open(options: &fs::OpenOptions, op: &'static str, path: &Path) -> Result<File> {
    fault::point("open").at(op, path)?;
    let file = options.open(path).at(op, path)?;
    Ok(File { file, path: path.to_owned(), is_limited: file_size_limit().is_some() })
}

impl File {
    /// Opens for reading. Symlinks are followed; a FIFO is not waited for.
    pub(crate) fn open_read(path: &Path) -> Result<File> {
        open(fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK), "open", path)
    }

    /// Opens an existing file for appending and reading; a symlink is refused.
    pub(crate) fn open_append(path: &Path) -> Result<File> {
        let mut options = fs::OpenOptions::new();
        open(options.read(true).append(true).custom_flags(libc::O_NOFOLLOW), "open", path)
    }

    /// Opens an existing file for writing in place; a symlink is refused.
    pub(crate) fn open_write(path: &Path) -> Result<File> {
        open(fs::OpenOptions::new().write(true).custom_flags(libc::O_NOFOLLOW), "open", path)
    }

    /// Makes a file that was not there, for writing.
    pub(crate) fn create_new(path: &Path, mode: u32) -> Result<File> {
        open(fs::OpenOptions::new().write(true).create_new(true).mode(mode), "create", path)
    }

    /// Opens a lock's file, made if need be. Its content belongs to the lock's holder.
    pub(crate) fn open_lock(path: &Path, mode: u32) -> Result<File> {
        let mut options = fs::OpenOptions::new();
        open(options.read(true).append(true).create(true).mode(mode), "open the lock", path)
    }

    /// Opens a folder, to lock it; a symlink is refused.
    pub(crate) fn open_folder(path: &Path) -> Result<File> {
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
        open(fs::OpenOptions::new().read(true).custom_flags(flags), "open the folder", path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn std(&self) -> &fs::File {
        &self.file
    }

    /// One `write(2)`: how many bytes it took. Never continued here.
    // Inlined, like `offset` after it: the first return after a system call is a mispredicted one on processors that
    // clear their return predictor in the kernel, half as dear as the call itself.
    #[inline(always)]
    pub(crate) fn write_once(&self, bytes: &[u8]) -> Result<usize> {
        loop {
            let write = || rustix::io::write(&self.file, fault::shorten(bytes)).map_err(io::Error::from);
            let attempt = fault::point("write")
                .and_then(|()| if self.is_limited { posix::without_sigxfsz(write) } else { write() });
            match attempt {
                // Interrupted before anything was written.
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => return other.at("write to", &self.path),
            }
        }
    }

    /// Writes everything, for files that only this process has.
    pub(crate) fn write_all(&self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let taken = self.write_once(bytes)?;
            if taken == 0 {
                return Err(io::Error::from(io::ErrorKind::WriteZero)).at("write to", &self.path);
            }
            bytes = bytes.get(taken..).unwrap_or_default();
        }
        Ok(())
    }

    /// Where this descriptor's last append ended.
    #[inline(always)]
    pub(crate) fn offset(&self) -> Result<u64> {
        fault::point("offset").at("ask the offset of", &self.path)?;
        rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Current(0)).at("ask the offset of", &self.path)
    }

    /// The length, by `lseek`: half the price of `fstat` on a file that others append to.
    pub(crate) fn len(&self) -> Result<u64> {
        fault::point("length").at("ask the length of", &self.path)?;
        rustix::fs::seek(&self.file, rustix::fs::SeekFrom::End(0)).at("ask the length of", &self.path)
    }

    pub(crate) fn stat(&self) -> Result<Stat> {
        fault::point("stat").at("examine", &self.path)?;
        Ok(Stat::of(&self.file.metadata().at("examine", &self.path)?))
    }

    /// Reads from `offset` until `bytes` is full or the file ends; returns how many came.
    pub(crate) fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize> {
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.read_some(|| self.file.read_at(rest, offset.saturating_add(filled as u64)))? {
                0 => break,
                taken => filled += taken,
            }
        }
        Ok(filled)
    }

    /// Appends `len` bytes from `offset` to `bytes`, fewer if the file ends. What is read into is not zeroed first.
    pub(crate) fn read_into(&self, bytes: &mut Vec<u8>, len: usize, offset: u64) -> Result<()> {
        let begin = bytes.len();
        // What is reserved may be more than asked for, and a read fills all of it: the caller gets no more than it wants.
        bytes.reserve_exact(len);
        while bytes.len() - begin < len {
            let from = offset.saturating_add((bytes.len() - begin) as u64);
            let mut read = || {
                let spare = rustix::buffer::spare_capacity(bytes);
                rustix::io::pread(&self.file, spare, from).map_err(io::Error::from)
            };
            if self.read_some(&mut read)? == 0 {
                break;
            }
        }
        bytes.truncate(begin + len);
        Ok(())
    }

    /// One read, repeated while a signal interrupts it.
    fn read_some(&self, mut read: impl FnMut() -> io::Result<usize>) -> Result<usize> {
        loop {
            match fault::point("read").and_then(|()| read()) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => return other.at("read", &self.path),
            }
        }
    }

    /// Writes everything at an offset, for a descriptor without `O_APPEND` (with it, the offset would be ignored).
    pub(crate) fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        fault::point("write_at").and_then(|()| self.file.write_all_at(bytes, offset)).at("write to", &self.path)
    }

    /// Sets the length. Beyond the process's file size limit it is an error here, where the kernel would send a signal.
    pub(crate) fn truncate(&self, len: u64) -> Result<()> {
        if file_size_limit().is_some_and(|limit| len > limit) {
            return Err(io::Error::from_raw_os_error(libc::EFBIG)).at("set the length of", &self.path);
        }
        fault::point("truncate").at("set the length of", &self.path)?;
        rustix::fs::ftruncate(&self.file, len).at("set the length of", &self.path)
    }

    /// Content and length are on the disk when this returns.
    pub(crate) fn sync_data(&self) -> Result<()> {
        fault::point("fdatasync").at("sync", &self.path)?;
        self.file.sync_data().at("sync", &self.path)
    }

    /// Content and inode are on the disk when this returns.
    pub(crate) fn sync_all(&self) -> Result<()> {
        fault::point("fsync").at("sync", &self.path)?;
        self.file.sync_all().at("sync", &self.path)
    }

    pub(crate) fn set_mode(&self, mode: u32) -> Result<()> {
        fault::point("chmod").at("set the mode of", &self.path)?;
        self.file.set_permissions(fs::Permissions::from_mode(mode)).at("set the mode of", &self.path)
    }

    pub(crate) fn set_owner(&self, uid: u32, gid: u32) -> Result<()> {
        fault::point("chown").at("set the owner of", &self.path)?;
        std::os::unix::fs::fchown(&self.file, Some(uid), Some(gid)).at("set the owner of", &self.path)
    }
}

impl std::os::fd::AsRawFd for File {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.file.as_raw_fd()
    }
}

/// `RLIMIT_FSIZE`, where there is one.
fn file_size_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Fsize).current
}

/// Whether this process acts as root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The user that this process acts as.
pub(crate) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

pub(crate) fn stat(path: &Path) -> Result<Stat> {
    fault::point("stat").at("examine", path)?;
    Ok(Stat::of(&fs::metadata(path).at("examine", path)?))
}

/// `stat`, with "not there" as an answer.
pub(crate) fn stat_if_there(path: &Path) -> Result<Option<Stat>> {
    match stat(path) {
        Err(e) if e.is_not_found() => Ok(None),
        other => other.map(Some),
    }
}

/// The whole file. Unreadable is an error, never empty.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let file = File::open_read(path)?;
    let mut bytes = vec![0; usize::try_from(file.stat()?.len).unwrap_or(usize::MAX)];
    let mut filled = file.read_at(&mut bytes, 0)?;
    // Files of /proc have no length, and others may grow meanwhile: read until the end.
    while filled == bytes.len() {
        bytes.resize(filled + 4096, 0);
        let (_, rest) = bytes.split_at_mut(filled);
        match file.read_at(rest, filled as u64)? {
            0 => break,
            more => filled += more,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// The names in a folder. May miss what is added or removed while it runs.
#[allow(clippy::disallowed_methods)]
pub(crate) fn list(folder: &Path) -> Result<Vec<String>> {
    fault::point("list").at("list", folder)?;
    let entries = fs::read_dir(folder).at("list", folder)?;
    let mut names = Vec::new();
    for entry in entries {
        // What is not UTF-8 was not named by this program.
        names.extend(entry.at("list", folder)?.file_name().into_string().ok());
    }
    Ok(names)
}

/// Makes one folder; "already there" is success. Says whether it was made now.
pub(crate) fn make_folder(path: &Path, mode: u32) -> Result<bool> {
    fault::point("mkdir").at("create", path)?;
    match fs::DirBuilder::new().mode(mode).create(path) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(e).at("create", path),
    }
}

#[allow(clippy::disallowed_methods)]
pub(crate) fn link(from: &Path, to: &Path) -> Result<()> {
    fault::point("link").at("publish", to)?;
    fs::hard_link(from, to).at("publish", to)
}

#[allow(clippy::disallowed_methods)]
pub(crate) fn rename(from: &Path, to: &Path) -> Result<()> {
    fault::point("rename").at("replace", to)?;
    fs::rename(from, to).at("replace", to)
}

/// Removes a file; "not there" is success. Says whether it was there.
#[allow(clippy::disallowed_methods)]
pub(crate) fn remove(path: &Path) -> Result<bool> {
    fault::point("unlink").at("remove", path)?;
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e).at("remove", path),
    }
}

/// The entries of a folder are on the disk when this returns.
pub(crate) fn sync_folder(path: &Path) -> Result<()> {
    File::open_read(path)?.sync_all()
}

pub(crate) fn set_owner(path: &Path, uid: u32, gid: u32) -> Result<()> {
    fault::point("chown").at("set the owner of", path)?;
    std::os::unix::fs::chown(path, Some(uid), Some(gid)).at("set the owner of", path)
}

/// Gives something new to the owner of the folder that it is in, where root made it.
pub(crate) fn own_like(path: &Path, parent: &Stat) -> Result<()> {
    if is_root() && parent.uid != user() {
        set_owner(path, parent.uid, parent.gid)?;
    }
    Ok(())
}

pub(crate) fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fault::point("chmod").at("set the mode of", path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).at("set the mode of", path)
}

/// Where a chain of symlinks ends, the end itself need not exist.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf> {
    const MOST_LINKS: usize = 40; // as the kernel
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("/")).join(target),
            Err(e) if matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotFound) => return Ok(path),
            Err(e) => return Err(e).at("follow the link", &path),
        }
    }
    Err(Error::Io { op: "follow the link", path, source: io::Error::from_raw_os_error(libc::ELOOP) })
}
