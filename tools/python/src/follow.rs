//! Following.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use hermes_log::{Followed, Start};
use pyo3::prelude::*;

use crate::error::raise;
use crate::event::Event;
use crate::profile::seconds;
use crate::reports::{Gap, Position};
use crate::shared::{Shared, locked};

/// How often an iteration that waits asks for signals, such as Ctrl-C.
const SIGNALS: Duration = Duration::from_millis(100);

/// See the stubs.
#[pyclass(frozen, module = "hermes_log")]
pub(crate) struct Follower {
    profile: hermes_log::Profile,
    idle_limit: Option<Duration>,
    shared: Shared<hermes_log::Follower>,
    /// Read, and not yielded yet, each with the position where it begins.
    ready: Mutex<VecDeque<(Option<hermes_log::Position>, Py<PyAny>)>>,
    /// Up to where was read; known to a forked child as well.
    position: Mutex<hermes_log::Position>,
}

/// See the stubs.
#[pyclass(frozen, get_all, module = "hermes_log")]
pub(crate) struct Frame {
    position: Position,
    time_micros: u64,
    kind: String,
    process: u32,
    session: Option<String>,
    events: Vec<Py<Event>>,
}

/// See the stubs.
#[pyclass(frozen, get_all, module = "hermes_log")]
pub(crate) struct Compacted {
    floor: u64,
}

impl Follower {
    pub(crate) fn open(
        profile: hermes_log::Profile,
        start: Start,
        idle_limit: Option<Duration>,
    ) -> crate::error::Result<Follower> {
        let follower = profile.follow(start)?;
        let position = Mutex::new(follower.position());
        Ok(Follower { profile, idle_limit, shared: Shared::new(follower), ready: Mutex::default(), position })
    }

    /// Reads on into `ready`. Returns whether there was anything.
    fn read(&self, py: Python<'_>, limit: Duration) -> PyResult<bool> {
        let from = *locked(&self.position);
        let follower = self.shared.get(|| self.profile.follow(Start::At(from))).map_err(raise)?;
        let (items, position) = py
            .detach(|| {
                let mut follower = locked(&follower);
                follower.next_batch(limit).map(|items| (items, follower.position()))
            })
            .map_err(raise)?;
        *locked(&self.position) = position;
        let items = items.into_iter().map(|item| followed(py, item)).collect::<PyResult<Vec<_>>>()?;
        let is_something = !items.is_empty();
        locked(&self.ready).extend(items);
        Ok(is_something)
    }
}

#[pymethods]
impl Follower {
    #[getter]
    fn position(&self) -> Position {
        let first = locked(&self.ready).iter().find_map(|(position, _)| *position);
        Position(first.unwrap_or_else(|| *locked(&self.position)))
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let from = *locked(&self.position);
        let follower = self.shared.get(|| self.profile.follow(Start::At(from))).map_err(raise)?;
        py.detach(|| locked(&follower).sync()).map_err(raise)
    }

    #[pyo3(signature = (limit=0.0))]
    fn next_batch<'py>(&self, py: Python<'py>, limit: f64) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let (start, limit) = (Instant::now(), seconds(limit)?);
        loop {
            let left = limit.saturating_sub(start.elapsed());
            if !locked(&self.ready).is_empty() || self.read(py, left.min(SIGNALS))? || left.is_zero() {
                let ready = std::mem::take(&mut *locked(&self.ready));
                return Ok(ready.into_iter().map(|(_, item)| item.into_bound(py)).collect());
            }
            py.check_signals()?;
        }
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let start = Instant::now();
        loop {
            if let Some((_, item)) = locked(&self.ready).pop_front() {
                return Ok(Some(item.into_bound(py)));
            }
            let left = self.idle_limit.map(|limit| limit.saturating_sub(start.elapsed()));
            let is_something = self.read(py, left.unwrap_or(SIGNALS).min(SIGNALS))?;
            py.check_signals()?;
            if !is_something && left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
        }
    }
}

/// An item, with the position where it begins.
fn followed(py: Python<'_>, item: Followed) -> PyResult<(Option<hermes_log::Position>, Py<PyAny>)> {
    Ok(match item {
        Followed::Frame { position, time_micros, origin, events } => {
            let events = events.into_iter().map(|event| Py::new(py, Event(event))).collect::<PyResult<_>>()?;
            let session = origin.session.map(|session| session.into_owned());
            let (kind, process) = (origin.kind.into_owned(), origin.process);
            let frame = Frame { position: Position(position), time_micros, kind, process, session, events };
            (Some(position), Py::new(py, frame)?.into_any())
        }
        Followed::Gap(gap) => (Some(gap.position), Py::new(py, Gap::from(&gap))?.into_any()),
        Followed::Compaction { floor } => (None, Py::new(py, Compacted { floor })?.into_any()),
        _ => (None, py.None()), // of a newer library
    })
}
