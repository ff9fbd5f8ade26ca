//! Exit codes, the one table, and what leads to them.

use std::fmt::Write as _;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use crate::error::Error;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Done = 0,
    NotFound = 1,
    Usage = 2,
    Gaps = 3,
    Failed = 4,
    Locked = 75,
}

const TABLE: [(Exit, &str); 6] = [
    (Exit::Done, "done"),
    (Exit::NotFound, "not found: the profile, skill, credential or segment is not there"),
    (Exit::Usage, "usage: an argument or an input line is not allowed; it was not appended"),
    (Exit::Gaps, "done, but with gaps: something in the log or in .usage.json cannot be read"),
    (Exit::Failed, "failed"),
    (Exit::Locked, "a lock could not be had in time, or somebody else's refresh took longer than the wait"),
];

/// The table, for `--help`.
pub(crate) fn table() -> String {
    let mut text = String::from("Exit codes:\n");
    for (exit, meaning) in TABLE {
        let _ = writeln!(text, "  {:>2}  {meaning}", exit as u8); // writing to a string does not fail
    }
    text
}

impl Exit {
    /// The code that an error leads to.
    pub(crate) fn of(error: &Error) -> Exit {
        match error {
            Error::Invalid { .. } => Exit::Usage,
            Error::NotFound { .. } | Error::NoHome => Exit::NotFound,
            Error::LockTimeout { .. } | Error::RefreshTimeout { .. } => Exit::Locked,
            // An append on a network file system waits for a lock.
            Error::NotRecorded { source, .. } if matches!(**source, Error::LockTimeout { .. }) => Exit::Locked,
            _ => Exit::Failed,
        }
    }

    /// `Gaps` if there were any.
    pub(crate) fn with_gaps(gaps: bool) -> Exit {
        if gaps { Exit::Gaps } else { Exit::Done }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// What is passed on of a command that was run: its exit code, 128 and its number for a signal.
pub(crate) fn passed_on(status: ExitStatus) -> i32 {
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(Exit::Failed as i32)
}

/// Why a command stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Library(#[from] Error),
    #[error("cannot write to stdout: {0}")]
    Output(#[from] io::Error),
    #[error("{text}")]
    Said { exit: Exit, text: String },
}

impl Failure {
    pub(crate) fn usage(text: impl Into<String>) -> Failure {
        Failure::Said { exit: Exit::Usage, text: text.into() }
    }

    pub(crate) fn failed(text: impl Into<String>) -> Failure {
        Failure::Said { exit: Exit::Failed, text: text.into() }
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            Failure::Library(error) => Exit::of(error),
            Failure::Output(_) => Exit::Failed,
            Failure::Said { exit, .. } => *exit,
        }
    }

    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Failure::Output(e) if e.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// What clap says, without its "error: " and its colours.
pub(crate) fn usage(error: &clap::Error) -> String {
    let text = error.render().to_string();
    text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_owned()
}
