//! Telemetry: calls that return at once and never raise.

use hermes_log::{EmitterOptions, Origin};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::raise;
use crate::event::{build, lenient_name};
use crate::profile::seconds;

/// See the stubs. The library's emitter looks after threads and forks itself.
#[pyclass(frozen, module = "hermes_log")]
pub(crate) struct Emitter(hermes_log::Emitter);

impl Emitter {
    pub(crate) fn open(profile: &hermes_log::Profile, origin: Origin<'static>, compact_after: Option<u64>) -> Emitter {
        let options = EmitterOptions { compact_after, ..EmitterOptions::default() };
        Emitter(hermes_log::Emitter::new(profile.clone(), origin, options))
    }

    fn counted(
        &self,
        make: fn(String, u64) -> hermes_log::Event<'static>,
        skill: &Bound<'_, PyAny>,
        count: &Bound<'_, PyAny>,
    ) {
        // A count that is none is refused, as zero is.
        self.0.emit(make(lenient_name(skill), count.extract().unwrap_or(0)));
    }
}

#[pymethods]
impl Emitter {
    #[pyo3(signature = (skill, count=None))]
    fn used(&self, skill: &Bound<'_, PyAny>, count: Option<&Bound<'_, PyAny>>) {
        match count {
            None => self.0.emit(hermes_log::Event::used(lenient_name(skill))),
            Some(count) => {
                self.counted(|skill, count| hermes_log::Event::Used { skill: skill.into(), count }, skill, count)
            }
        }
    }

    #[pyo3(signature = (skill, count=None))]
    fn viewed(&self, skill: &Bound<'_, PyAny>, count: Option<&Bound<'_, PyAny>>) {
        match count {
            None => self.0.emit(hermes_log::Event::viewed(lenient_name(skill))),
            Some(count) => {
                self.counted(|skill, count| hermes_log::Event::Viewed { skill: skill.into(), count }, skill, count)
            }
        }
    }

    #[pyo3(signature = (skill, count=None))]
    fn patched(&self, skill: &Bound<'_, PyAny>, count: Option<&Bound<'_, PyAny>>) {
        match count {
            None => self.0.emit(hermes_log::Event::patched(lenient_name(skill))),
            Some(count) => {
                self.counted(|skill, count| hermes_log::Event::Patched { skill: skill.into(), count }, skill, count)
            }
        }
    }

    #[pyo3(signature = (kind, skill, **args))]
    fn emit(&self, kind: &Bound<'_, PyAny>, skill: &Bound<'_, PyAny>, args: Option<&Bound<'_, PyDict>>) {
        let event = kind.extract::<String>().and_then(|kind| build(&kind, skill, args));
        // What is not allowed is refused by the log's own rules, which count it.
        self.0.emit(event.unwrap_or_else(|_| hermes_log::Event::used("")));
    }

    #[pyo3(signature = (limit=5.0))]
    fn flush(&self, py: Python<'_>, limit: f64) -> PyResult<()> {
        let limit = seconds(limit)?;
        py.detach(|| self.0.flush(limit)).map_err(raise)
    }

    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = py.detach(|| self.0.counters());
        let dict = PyDict::new(py);
        for (name, count) in [
            ("emitted", counters.emitted),
            ("merged", counters.merged),
            ("appended", counters.appended),
            ("voided", counters.voided),
            ("failed", counters.failed),
            ("refused", counters.refused),
            ("given_up", counters.given_up),
            ("unacknowledged", counters.unacknowledged),
            ("queued", counters.queued),
            ("waiting", counters.waiting),
        ] {
            dict.set_item(name, count)?;
        }
        Ok(dict)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// Flushes, without raising: the block's own exception is the one that counts.
    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, pyo3::types::PyTuple>) {
        let _ = py.detach(|| self.0.close());
    }
}
