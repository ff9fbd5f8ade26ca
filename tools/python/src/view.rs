//! Views.

use hermes_log::View as LogView;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::error::raise;
use crate::profile::seconds;
use crate::reports::{Gap, Position, problems};
use crate::shared::{Shared, locked};
use crate::{json, text};

/// See the stubs.
#[pyclass(frozen, module = "hermes_log._native")]
pub(crate) struct View {
    profile: hermes_log::Profile,
    shared: Shared<LogView>,
}

impl View {
    pub(crate) fn open(profile: hermes_log::Profile) -> crate::error::Result<View> {
        let shared = Shared::new(profile.view()?);
        Ok(View { profile, shared })
    }

    fn with<T: Send>(&self, py: Python<'_>, work: impl Send + FnOnce(&mut LogView) -> T) -> PyResult<T> {
        let view = self.shared.get(|| self.profile.view()).map_err(raise)?;
        Ok(py.detach(|| work(&mut locked(&view))))
    }
}

#[pymethods]
impl View {
    fn refresh(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, LogView::refresh)?.map_err(raise)
    }

    fn wait_for(&self, py: Python<'_>, position: &Position, limit: f64) -> PyResult<()> {
        let limit = seconds(limit)?;
        self.with(py, |view| view.wait_for(position.0, limit))?.map_err(raise)
    }

    fn record<'py>(&self, py: Python<'py>, skill: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let name = text::to_log(skill)?;
        let record = self.with(py, |view| view.skill(&name).map(|skill| skill.record()))?;
        record.map(|record| json::record_to_python(py, &record)).transpose()
    }

    fn records<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let records = self.with(py, |view| {
            view.skills().into_iter().map(|(name, skill)| (name.to_owned(), skill.record())).collect::<Vec<_>>()
        })?;
        let dict = PyDict::new(py);
        for (name, record) in records {
            dict.set_item(text::from_log(py, &name)?, json::record_to_python(py, &record)?)?;
        }
        Ok(dict)
    }

    fn names<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyString>>> {
        let names =
            self.with(py, |view| view.skills().into_iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>())?;
        names.iter().map(|name| text::from_log(py, name)).collect()
    }

    #[getter]
    fn position(&self, py: Python<'_>) -> PyResult<Position> {
        self.with(py, |view| Position(view.position()))
    }

    #[getter]
    fn floor(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |view| view.floor())
    }

    #[getter]
    fn events(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |view| view.events())
    }

    #[getter]
    fn frames(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |view| view.frames())
    }

    #[getter]
    fn gaps(&self, py: Python<'_>) -> PyResult<Vec<Gap>> {
        self.with(py, |view| view.gaps().newest.iter().map(Gap::from).collect())
    }

    #[getter]
    fn gap_count(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |view| view.gaps().count)
    }

    #[getter]
    fn snapshot_problems(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.with(py, |view| problems(view.snapshot_problems()))
    }
}
