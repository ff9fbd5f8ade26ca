//! Plain results: positions, gaps, what a compaction did and a verification found.

use std::path::PathBuf;
use std::str::FromStr;

use hermes_log::compact::{self, Snapshot};
use pyo3::prelude::*;

use crate::error::raise;

/// See the stubs.
#[pyclass(frozen, eq, ord, hash, str, module = "hermes_log")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Position(pub(crate) hermes_log::Position);

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[pymethods]
impl Position {
    #[new]
    fn new(segment: u64, offset: u64) -> Position {
        Position(hermes_log::Position { segment, offset })
    }

    #[staticmethod]
    fn parse(text: &str) -> PyResult<Position> {
        hermes_log::Position::from_str(text).map(Position).map_err(raise)
    }

    #[getter]
    fn segment(&self) -> u64 {
        self.0.segment
    }

    #[getter]
    fn offset(&self) -> u64 {
        self.0.offset
    }

    fn __repr__(&self) -> String {
        format!("Position({}, {})", self.0.segment, self.0.offset)
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, (u64, u64))> {
        Ok((py.get_type::<Position>().into_any().unbind(), (self.0.segment, self.0.offset)))
    }
}

/// See the stubs.
#[pyclass(frozen, get_all, module = "hermes_log")]
#[derive(Clone)]
pub(crate) struct Gap {
    position: Position,
    len: Option<u64>,
    reason: String,
}

impl From<&hermes_log::Gap> for Gap {
    fn from(gap: &hermes_log::Gap) -> Gap {
        Gap { position: Position(gap.position), len: gap.len, reason: gap.reason.to_string() }
    }
}

#[pymethods]
impl Gap {
    fn __repr__(&self) -> String {
        format!("Gap({}, len={:?}, reason={:?})", self.position, self.len, self.reason)
    }
}

/// See the stubs.
#[pyclass(frozen, get_all, module = "hermes_log")]
pub(crate) struct Compaction {
    floor: u64,
    events: u64,
    segments_folded: u64,
    segments_deleted: u64,
    snapshot: &'static str,
    external: usize,
    problem: Option<String>,
    gaps: Vec<Gap>,
    set_aside: Vec<PathBuf>,
}

impl From<hermes_log::Compaction> for Compaction {
    fn from(done: hermes_log::Compaction) -> Compaction {
        let (snapshot, external, problem) = match done.snapshot {
            Snapshot::Unchanged => ("unchanged", 0, None),
            Snapshot::Written { external } => ("written", external, None),
            Snapshot::Busy(e) => ("busy", 0, Some(e.to_string())),
            Snapshot::Failed(e) => ("failed", 0, Some(e.to_string())),
            _ => ("unknown", 0, None),
        };
        Compaction {
            floor: done.floor,
            events: done.events,
            segments_folded: done.segments_folded,
            segments_deleted: done.segments_deleted,
            snapshot,
            external,
            problem,
            gaps: done.gaps.iter().map(Gap::from).collect(),
            set_aside: done.set_aside,
        }
    }
}

/// See the stubs.
#[pyclass(frozen, get_all, module = "hermes_log")]
pub(crate) struct Status {
    started_micros: u64,
    ended_micros: u64,
    floor: Option<u64>,
    error: Option<String>,
}

impl From<compact::Status> for Status {
    fn from(status: compact::Status) -> Status {
        let compact::Status { started_micros, ended_micros, floor, error } = status;
        Status { started_micros, ended_micros, floor, error }
    }
}

/// See the stubs.
#[pyclass(frozen, get_all, module = "hermes_log")]
pub(crate) struct Verified {
    is_sound: bool,
    checkpoints: Vec<u64>,
    damaged_checkpoints: Vec<u64>,
    checkpoint_agrees: Option<bool>,
    frames: u64,
    events: u64,
    voids: u64,
    carried: usize,
    gaps: Vec<Gap>,
    snapshot_problems: Vec<String>,
    position: Position,
}

impl From<hermes_log::Verified> for Verified {
    fn from(found: hermes_log::Verified) -> Verified {
        Verified {
            is_sound: found.is_sound(),
            checkpoints: found.checkpoints,
            damaged_checkpoints: found.damaged_checkpoints,
            checkpoint_agrees: found.checkpoint_agrees,
            frames: found.frames,
            events: found.events,
            voids: found.voids,
            carried: found.carried,
            gaps: found.gaps.iter().map(Gap::from).collect(),
            snapshot_problems: problems(&found.snapshot_problems),
            position: Position(found.position),
        }
    }
}

/// What is wrong with `.usage.json`, as phrases.
pub(crate) fn problems(found: &[hermes_log::view::records::Problem]) -> Vec<String> {
    found.iter().map(|problem| format!("offset {}: {}", problem.offset, problem.what)).collect()
}
