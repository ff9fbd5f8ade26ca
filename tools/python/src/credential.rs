//! Credentials as Python sees them: read-only, with a secret only where one is asked for by name.

use hermes_log::event::REDACTED;
use hermes_log::view::auth;
use hermes_log::{Fields, Moment};
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMappingProxy, PyString};
use serde_json::{Map, Value};

use crate::json;
use crate::text::{self, Name};

/// See the stubs.
#[pyclass(frozen, eq, module = "hermes_log")]
#[derive(PartialEq)]
pub(crate) struct Secret(hermes_log::Secret);

/// See the stubs.
#[pyclass(frozen, module = "hermes_log")]
pub(crate) struct Credential {
    pub(crate) provider: String,
    pub(crate) id: String,
    pub(crate) known: auth::Credential,
}

/// See the stubs.
#[pyclass(frozen, module = "hermes_log")]
pub(crate) struct CredentialStatus(hermes_log::Status);

/// See the stubs.
#[pyclass(frozen, module = "hermes_log")]
pub(crate) struct Claim(auth::Claim);

/// See the stubs.
#[pyclass(frozen, module = "hermes_log")]
pub(crate) struct Alternate(auth::Alternate);

/// See the stubs.
#[pyclass(frozen, module = "hermes_log")]
pub(crate) struct Refreshed(pub(crate) hermes_log::auth::Refreshed);

/// All fields, secrets included.
pub(crate) fn revealed<'py>(py: Python<'py>, fields: &Fields) -> PyResult<Bound<'py, PyDict>> {
    let object: Map<String, Value> = serde_json::from_str(fields.reveal()).unwrap_or_default(); // it is an object
    json::record_to_python(py, &object)
}

fn redacted<'py>(py: Python<'py>, fields: &Fields) -> PyResult<Bound<'py, PyMappingProxy>> {
    Ok(PyMappingProxy::new(py, json::record_to_python(py, &fields.redacted())?.as_mapping()))
}

fn secret(fields: &Fields, name: Name) -> PyResult<Secret> {
    fields.text(&name.0).map(Secret).ok_or_else(|| PyKeyError::new_err(name.0))
}

/// Without this, Python would make an empty shell of it.
fn not_pickled() -> PyResult<()> {
    Err(PyTypeError::new_err("a secret cannot be pickled or copied: `reveal` gives it"))
}

#[pymethods]
impl Secret {
    fn reveal<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        text::from_log(py, self.0.reveal())
    }

    fn __repr__(&self) -> &'static str {
        REDACTED
    }

    fn __reduce__(&self) -> PyResult<()> {
        not_pickled()
    }
}

#[pymethods]
impl Credential {
    #[getter]
    fn provider<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        text::from_log(py, &self.provider)
    }

    #[getter]
    fn id<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        text::from_log(py, &self.id)
    }

    #[getter]
    fn generation(&self) -> u64 {
        self.known.generation()
    }

    #[getter]
    fn obtained_micros(&self) -> u64 {
        self.known.obtained_micros()
    }

    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMappingProxy>> {
        redacted(py, self.known.fields())
    }

    fn secret(&self, name: Name) -> PyResult<Secret> {
        secret(self.known.fields(), name)
    }

    fn reveal<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        revealed(py, self.known.fields())
    }

    #[getter]
    fn status(&self) -> Option<CredentialStatus> {
        self.known.status().cloned().map(CredentialStatus)
    }

    #[getter]
    fn claim(&self) -> Option<Claim> {
        self.known.claim().cloned().map(Claim)
    }

    #[getter]
    fn alternates(&self) -> Vec<Alternate> {
        self.known.alternates().iter().cloned().map(Alternate).collect()
    }

    #[getter]
    fn needs_login(&self) -> bool {
        self.known.needs_login()
    }

    #[getter]
    fn is_unknown(&self) -> bool {
        self.known.is_unknown(&Moment::now())
    }

    #[getter]
    fn is_refreshed(&self) -> bool {
        self.known.is_refreshed()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (provider, id) = (self.provider(py)?.repr()?, self.id(py)?.repr()?);
        Ok(format!("Credential({provider}, {id}, generation={})", self.known.generation()))
    }

    fn __reduce__(&self) -> PyResult<()> {
        not_pickled()
    }
}

#[pymethods]
impl CredentialStatus {
    #[getter]
    fn kind(&self) -> &'static str {
        self.0.kind.as_str()
    }

    #[getter]
    fn code(&self) -> Option<i64> {
        self.0.code
    }

    #[getter]
    fn reset_micros(&self) -> Option<i64> {
        self.0.reset_micros
    }

    #[getter]
    fn message<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyString>>> {
        self.0.message.as_deref().map(|message| text::from_log(py, message)).transpose()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let message = self.message(py)?.into_pyobject(py)?.repr()?;
        Ok(format!("CredentialStatus({:?}, message={message})", self.kind()))
    }
}

#[pymethods]
impl Claim {
    #[getter]
    fn holder<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        text::from_log(py, self.0.holder())
    }

    #[getter]
    fn left(&self) -> f64 {
        self.0.left(&Moment::now()).as_secs_f64()
    }

    #[getter]
    fn failure<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyString>>> {
        self.0.failure().map(|failure| text::from_log(py, failure)).transpose()
    }

    #[getter]
    fn is_held(&self) -> bool {
        self.0.is_held(&Moment::now())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Claim({}, left={:.1})", self.holder(py)?.repr()?, self.left()))
    }
}

#[pymethods]
impl Alternate {
    #[getter]
    fn base(&self) -> u64 {
        self.0.base
    }

    #[getter]
    fn obtained_micros(&self) -> u64 {
        self.0.obtained.wall_micros
    }

    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMappingProxy>> {
        redacted(py, &self.0.fields)
    }

    fn secret(&self, name: Name) -> PyResult<Secret> {
        secret(&self.0.fields, name)
    }

    fn reveal<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        revealed(py, &self.0.fields)
    }

    fn __repr__(&self) -> String {
        format!("Alternate(base={})", self.0.base)
    }

    fn __reduce__(&self) -> PyResult<()> {
        not_pickled()
    }
}

#[pymethods]
impl Refreshed {
    #[getter]
    fn generation(&self) -> u64 {
        self.0.generation
    }

    #[getter]
    fn is_own(&self) -> bool {
        self.0.is_own
    }

    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMappingProxy>> {
        redacted(py, &self.0.fields)
    }

    fn secret(&self, name: Name) -> PyResult<Secret> {
        secret(&self.0.fields, name)
    }

    fn reveal<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        revealed(py, &self.0.fields)
    }

    fn __repr__(&self) -> String {
        format!("Refreshed(generation={}, is_own={})", self.0.generation, if self.0.is_own { "True" } else { "False" })
    }

    fn __reduce__(&self) -> PyResult<()> {
        not_pickled()
    }
}
