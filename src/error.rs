//! One error enum, by cause: what happened, where, and what to do.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::log::Position;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong. `Display` is a sentence for people and is never matched by text.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed. Nothing was written on the strength of it.
    #[error("cannot {op} {}: {source}{}", path.display(), io_advice(source))]
    Io {
        /// What was tried, as a verb.
        op: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// Some events of an append are not in the log and will not be: `recorded` frames of the call are.
    #[error("not recorded: {} of {total} frames are in the log, the rest is not: {source}", recorded.len())]
    NotRecorded {
        /// Positions of the frames that are in the log, in the order of the call.
        recorded: Vec<Position>,
        /// How many frames the call had.
        total: usize,
        /// Why the rest is not.
        source: Box<Error>,
    },

    /// The events are in the log and counted, but the disk did not confirm them: a power loss may still take them.
    /// They must not be appended again, or they would count twice.
    #[error("recorded, but not durable: {source}; the events count, and only a power loss could still take them")]
    NotDurable {
        /// Positions of the frames.
        recorded: Vec<Position>,
        /// What the sync said.
        source: Box<Error>,
    },

    /// Events were written, but the system would not say where the write ended: they count 0 or 1 times, and the next view
    /// tells which.
    #[error("written, but not acknowledged: {source}; look at the view before appending again")]
    NotAcknowledged {
        /// Positions of the frames before them, which are in the log.
        recorded: Vec<Position>,
        /// How many frames it is about; the rest of the call was not written.
        uncertain: usize,
        /// What the system said.
        source: Box<Error>,
    },

    /// The caller's input is not allowed. Nothing was done.
    #[error("{what}: {found}; allowed: {allowed}")]
    Invalid {
        /// Which input.
        what: &'static str,
        /// What it was.
        found: String,
        /// What it may be.
        allowed: &'static str,
    },

    /// Neither `HERMES_HOME` nor `HOME` says where the profile is.
    #[error("no profile home: set HERMES_HOME, or pass --home")]
    NoHome,

    /// The profile, skill or segment is not there.
    #[error("{what} not found: {name}")]
    NotFound {
        /// What kind of thing.
        what: &'static str,
        /// Its name.
        name: String,
    },

    /// A newer version of hermes-log wrote this. It is left alone.
    #[error("{} has format version {found}, this program knows {known}: use a newer hermes-log", path.display())]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// The version it carries.
        found: u32,
        /// The newest version that this program can read.
        known: u32,
    },

    /// Appends of several hosts or mounts are not atomic on this file system.
    #[error(
        "{} is on {kind}, where appends of several hosts or mounts overwrite each other: move the profile to a local \
         disk, or allow it with --allow-network-fs (each append then takes a lock)",
        path.display()
    )]
    NetworkFileSystem {
        /// The log's folder.
        path: PathBuf,
        /// The file system.
        kind: &'static str,
    },

    /// Others can read a file or folder of the log, and this process may not, or must not, change that.
    #[error("{} can be read by others (mode {mode:04o}): run `chmod go-rwx {}`", path.display(), path.display())]
    Exposed {
        /// The file or folder.
        path: PathBuf,
        /// Its mode bits.
        mode: u32,
    },

    /// A lock could not be had in time. Nothing was done without it.
    #[error("{} is locked: waited {:.1} s{}", path.display(), waited.as_secs_f64(), held_by(holder))]
    LockTimeout {
        /// The lock's file.
        path: PathBuf,
        /// How long this process waited.
        waited: Duration,
        /// Who holds it, where `/proc` tells.
        holder: Option<String>,
    },

    /// The skill is left alone, and nothing was done.
    #[error("{skill} is left alone: {why}")]
    Refused {
        /// The skill.
        skill: String,
        /// Why, and what would help.
        why: String,
    },

    /// A skill's files were changed, and the event that says so is not in the log. The change must not be done again.
    #[error("the files of {skill} were changed, but the event is not in the log: {source}")]
    NotLogged {
        /// The skill.
        skill: String,
        /// Why it is not.
        source: Box<Error>,
    },

    /// A file is damaged in a way that cannot be read around.
    #[error("{} is damaged: {reason}; {advice}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What does not check out.
        reason: String,
        /// What to do.
        advice: &'static str,
    },

    /// The folder of the log changed under a process too many times in a row to go on.
    #[error("{}: the folder kept changing during {attempts} attempts; is something restoring or deleting it?", path.display())]
    Unsettled {
        /// The folder.
        path: PathBuf,
        /// How often it was tried.
        attempts: u32,
    },

    /// What stood at the position is in a checkpoint now (or belongs to another log), and no longer read event by event.
    /// To go on without a hole: open a [`View`](crate::View), which has the sums, and follow from its position.
    #[error(
        "position {position} is not in the log, or not any more: the oldest that can be read is {oldest}, and `show` has the sums"
    )]
    PositionCompacted {
        /// The position that was asked for.
        position: Position,
        /// The oldest one that can be read.
        oldest: Position,
    },

    /// The emitter could not be flushed in time; what was emitted is kept.
    #[error("not flushed within {:.1} s: another thread is still appending", waited.as_secs_f64())]
    FlushTimeout {
        /// How long the flush waited.
        waited: Duration,
    },

    /// The log cannot be written now. What was emitted is kept, and tried again.
    #[error("the log cannot be written, {frames} frames are kept and tried again: {source}")]
    Waiting {
        /// Frames that wait.
        frames: usize,
        /// Why.
        source: Arc<Error>,
    },

    /// The log could not be written for so long that events were given up.
    #[error("events were given up: no more than {bound} are kept while the log cannot be written: {source}")]
    GivenUp {
        /// How many are kept.
        bound: usize,
        /// Why the log could not be written.
        source: Arc<Error>,
    },

    /// The server refused the credential's tokens: trying again does not help. Nothing was sent.
    #[error("{provider} {credential}: the server refused its tokens ({message}); log in again")]
    LoginRequired {
        /// The provider.
        provider: String,
        /// The credential's id.
        credential: String,
        /// What the server said, without secrets.
        message: String,
    },

    /// An exchange of tokens failed, here or in the process that had the claim. The tokens stay as they were.
    #[error("{provider} {credential}: the refresh failed ({message}); the tokens are as they were, try again later")]
    RefreshFailed {
        /// The provider.
        provider: String,
        /// The credential's id.
        credential: String,
        /// What is known of the reason, without secrets.
        message: String,
    },

    /// Another process went on exchanging the tokens until the limit. The tokens stay as they were.
    #[error("{provider} {credential}: {holder} is refreshing it; waited {:.1} s", waited.as_secs_f64())]
    RefreshTimeout {
        /// The provider.
        provider: String,
        /// The credential's id.
        credential: String,
        /// Who has the claim.
        holder: String,
        /// How long this process waited.
        waited: Duration,
    },

    /// A position did not become visible in time.
    #[error("position {position} was not reached within {:.1} s", waited.as_secs_f64())]
    NotReached {
        /// The position that was waited for.
        position: Position,
        /// How long.
        waited: Duration,
    },
}

impl Error {
    /// The variant's name, for bindings that have one exception a variant.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.into()
    }

    /// Whether the cause, however deep, is a full disk or quota.
    #[must_use]
    pub fn is_full_disk(&self) -> bool {
        self.io().is_some_and(|e| matches!(e.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }

    /// Whether it may pass without anybody doing something about it: a full disk, a limit on files' sizes, no
    /// file descriptors, no memory.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        let is_short = |code| matches!(code, libc::EFBIG | libc::EMFILE | libc::ENFILE | libc::ENOMEM);
        self.is_full_disk() || self.io().and_then(io::Error::raw_os_error).is_some_and(is_short)
    }

    /// Whether the cause, however deep, is "no such file or folder".
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.io().is_some_and(|e| e.kind() == io::ErrorKind::NotFound)
    }

    /// Whether the system does not allow it.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.io().is_some_and(|e| e.kind() == io::ErrorKind::PermissionDenied)
    }

    /// Whether a name was already taken.
    pub(crate) fn is_already_there(&self) -> bool {
        self.io().is_some_and(|e| e.kind() == io::ErrorKind::AlreadyExists)
    }

    /// Whether it is there, and its content cannot be had by this process.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.io().is_some_and(|e| matches!(e.raw_os_error(), Some(libc::EACCES | libc::EISDIR)))
    }

    /// Whether something else than a folder, or a symlink, is where a folder should be.
    pub(crate) fn is_no_folder(&self) -> bool {
        self.io().is_some_and(|e| matches!(e.raw_os_error(), Some(libc::ENOTDIR | libc::ELOOP)))
    }

    fn io(&self) -> Option<&io::Error> {
        match self {
            Error::Io { source, .. } => Some(source),
            Error::NotLogged { source, .. }
            | Error::NotRecorded { source, .. }
            | Error::NotDurable { source, .. }
            | Error::NotAcknowledged { source, .. } => source.io(),
            Error::Waiting { source, .. } | Error::GivenUp { source, .. } => source.io(),
            _ => None,
        }
    }
}

fn io_advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => " (free some space; nothing was lost)",
        io::ErrorKind::PermissionDenied => " (check owner and mode)",
        io::ErrorKind::FileTooLarge => " (the process's file size limit, `ulimit -f`, is too small)",
        io::ErrorKind::ReadOnlyFilesystem => " (the file system is mounted read-only)",
        _ => "",
    }
}

fn held_by(holder: &Option<String>) -> String {
    holder.as_ref().map_or_else(|| ", its holder is not known".to_owned(), |h| format!(", held by {h}"))
}

/// Adds what was tried, and where, to an I/O error.
pub(crate) trait At<T> {
    fn at(self, op: &'static str, path: impl Into<PathBuf>) -> Result<T>;
}

impl<T, E: Into<io::Error>> At<T> for std::result::Result<T, E> {
    fn at(self, op: &'static str, path: impl Into<PathBuf>) -> Result<T> {
        self.map_err(|source| Error::Io { op, path: path.into(), source: source.into() })
    }
}
