//! Events, from a kind and its arguments.

use hermes_log::event::{self, Line};
use hermes_log::view::records;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use serde_json::Value;

use crate::error::raise;
use crate::{json, text};

/// See the stubs.
#[pyclass(frozen, eq, module = "hermes_log")]
#[derive(PartialEq)]
pub(crate) struct Event(pub(crate) event::Event<'static>);

#[pymethods]
impl Event {
    #[new]
    #[pyo3(signature = (kind, skill, **args))]
    fn new(kind: &str, skill: &Bound<'_, PyAny>, args: Option<&Bound<'_, PyDict>>) -> PyResult<Event> {
        build(kind, skill, args).map(Event)
    }

    #[getter]
    fn kind<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.as_dict(py)?.as_any().get_item("event")
    }

    #[getter]
    fn skill<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyString>>> {
        self.0.skill().map(|name| text::from_log(py, name)).transpose()
    }

    fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        json::record_to_python(py, &Line::encode(&self.0))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Event({})", self.as_dict(py)?.repr()?))
    }
}

/// An event of a kind, checked.
pub(crate) fn build(
    kind: &str,
    skill: &Bound<'_, PyAny>,
    args: Option<&Bound<'_, PyDict>>,
) -> PyResult<event::Event<'static>> {
    let mut line = args.map(json::record_from_python).transpose()?.unwrap_or_default();
    line.insert("event".into(), kind.into());
    line.insert("skill".into(), json::from_python(skill)?);
    let event = Line::decode(&Value::Object(line).to_string()).map_err(raise)?;
    records::check_fields(&event).map_err(raise)?;
    Ok(event)
}

/// A name for a telemetry call. What is no name becomes one that the log refuses, and counts as refused.
pub(crate) fn lenient_name(skill: &Bound<'_, PyAny>) -> String {
    let name = skill.cast::<PyString>().ok().and_then(|name| text::to_log(name).ok().map(|name| name.into_owned()));
    name.unwrap_or_default()
}
