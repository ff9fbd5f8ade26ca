//! Appending in the caller, acknowledged or raised.

use hermes_log::{Durability, Event as LogEvent, Origin};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::raise;
use crate::event::{Event, build};
use crate::reports::Position;
use crate::shared::{Shared, locked};

/// See the stubs.
#[pyclass(frozen, module = "hermes_log")]
pub(crate) struct Writer {
    profile: hermes_log::Profile,
    origin: Origin<'static>,
    shared: Shared<hermes_log::Writer>,
}

impl Writer {
    pub(crate) fn open(profile: hermes_log::Profile, origin: Origin<'static>) -> crate::error::Result<Writer> {
        let shared = Shared::new(profile.writer(origin.clone())?);
        Ok(Writer { profile, origin, shared })
    }

    fn batch(&self, py: Python<'_>, events: &[LogEvent<'static>], durable: bool) -> PyResult<Position> {
        let durability = if durable { Durability::Disk } else { Durability::Process };
        let origin = Origin { process: hermes_log::process_id(), ..self.origin.clone() };
        let writer = self.shared.get(|| self.profile.writer(origin)).map_err(raise)?;
        py.detach(|| locked(&writer).append_batch(events, durability)).map(Position).map_err(raise)
    }
}

#[pymethods]
impl Writer {
    #[pyo3(signature = (kind, skill, *, durable=false, **args))]
    fn append(
        &self,
        py: Python<'_>,
        kind: &str,
        skill: &Bound<'_, PyAny>,
        durable: bool,
        args: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Position> {
        self.batch(py, &[build(kind, skill, args)?], durable)
    }

    #[pyo3(signature = (events, *, durable=false))]
    fn append_batch(&self, py: Python<'_>, events: Vec<Bound<'_, Event>>, durable: bool) -> PyResult<Position> {
        let events: Vec<_> = events.iter().map(|event| event.get().0.clone()).collect();
        self.batch(py, &events, durable)
    }
}
