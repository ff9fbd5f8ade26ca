//! Credentials that many processes share.

use std::path::PathBuf;

use hermes_log::auth::{Auth as LogAuth, RefreshFailure, RefreshOptions};
use hermes_log::event::REDACTED;
use hermes_log::{Error, Fields, Origin, Status, StatusKind};
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyString};
use serde_json::{Map, Value};

use crate::credential::{Credential, Refreshed, revealed};
use crate::error::{Result, raise};
use crate::json;
use crate::profile::seconds;
use crate::reports::Gap;
use crate::shared::{Shared, locked};
use crate::text::{self, Name};

pyo3::create_exception!(
    hermes_log,
    RefreshRefused,
    PyException,
    "Raised by an exchange when the server refused the tokens: nobody tries again before the next login."
);

/// See the stubs.
#[pyclass(frozen, module = "hermes_log")]
pub(crate) struct Auth {
    profile: hermes_log::Profile,
    origin: Origin<'static>,
    shared: Shared<LogAuth>,
}

/// See the stubs.
#[pyclass(frozen, get_all, module = "hermes_log")]
pub(crate) struct Imported {
    new: usize,
    updated: usize,
    unchanged: usize,
    old: usize,
    problems: Vec<String>,
}

/// See the stubs.
#[pyclass(frozen, get_all, module = "hermes_log")]
pub(crate) struct Exported {
    written: usize,
    unknown: Vec<String>,
    set_aside: Option<PathBuf>,
}

impl Auth {
    pub(crate) fn open(profile: hermes_log::Profile, origin: Origin<'static>) -> Result<Auth> {
        let shared = Shared::new(profile.auth(origin.clone())?);
        Ok(Auth { profile, origin, shared })
    }

    fn with<T: Send>(&self, py: Python<'_>, work: impl Send + FnOnce(&mut LogAuth) -> T) -> PyResult<T> {
        let auth = self.shared.get(|| self.apart()).map_err(raise)?;
        Ok(py.detach(|| work(&mut locked(&auth))))
    }

    fn change<T: Send>(&self, py: Python<'_>, work: impl Send + FnOnce(&mut LogAuth) -> Result<T>) -> PyResult<T> {
        self.with(py, work)?.map_err(raise)
    }

    /// One that no other thread waits for, for what takes long.
    fn apart(&self) -> Result<LogAuth> {
        self.profile.auth(self.origin.clone())
    }
}

#[pymethods]
impl Auth {
    fn refresh(&self, py: Python<'_>) -> PyResult<()> {
        self.change(py, |auth| auth.refresh().map(drop))
    }

    fn credential(&self, py: Python<'_>, provider: Name, credential: Name) -> PyResult<Option<Credential>> {
        let known = self.with(py, |auth| auth.view().credential(&provider.0, &credential.0).cloned())?;
        Ok(known.map(|known| Credential { provider: provider.0, id: credential.0, known }))
    }

    fn credentials(&self, py: Python<'_>) -> PyResult<Vec<Credential>> {
        self.with(py, |auth| {
            let owned = |(provider, id, known): (&str, &str, &hermes_log::view::auth::Credential)| Credential {
                provider: provider.to_owned(),
                id: id.to_owned(),
                known: known.clone(),
            };
            auth.view().credentials().map(owned).collect()
        })
    }

    #[getter]
    fn active_provider<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyString>>> {
        let active = self.with(py, |auth| auth.view().active_provider().map(str::to_owned))?;
        active.map(|active| text::from_log(py, &active)).transpose()
    }

    fn is_suppressed(&self, py: Python<'_>, provider: Name, source: Name) -> PyResult<bool> {
        self.with(py, |auth| auth.view().is_suppressed(&provider.0, &source.0))
    }

    #[getter]
    fn gaps(&self, py: Python<'_>) -> PyResult<Vec<Gap>> {
        self.with(py, |auth| auth.gaps().iter().map(Gap::from).collect())
    }

    #[pyo3(signature = (provider, credential, fields, *, secrets=Vec::new()))]
    fn set(
        &self,
        py: Python<'_>,
        provider: Name,
        credential: Name,
        fields: &Bound<'_, PyMapping>,
        secrets: Vec<Name>,
    ) -> PyResult<u64> {
        let object = PyDict::new(py);
        object.update(fields)?;
        let object = json::record_from_python(&object)?;
        if object.values().any(is_redacted) {
            return Err(raise(Error::Invalid {
                what: "credential",
                found: format!("{REDACTED} in the place of a secret"),
                allowed: "the secrets themselves, as `reveal` gives them",
            }));
        }
        let fields = Fields::new(object, secrets.into_iter().map(|name| name.0).collect());
        self.change(py, |auth| auth.set(&provider.0, &credential.0, fields))
    }

    fn remove(&self, py: Python<'_>, provider: Name, credential: Name) -> PyResult<()> {
        self.change(py, |auth| auth.remove(&provider.0, &credential.0))
    }

    #[pyo3(signature = (provider, credential, generation, kind, *, code=None, reset_micros=None, message=None))]
    #[expect(clippy::too_many_arguments, reason = "by name, in Python")]
    fn set_status(
        &self,
        py: Python<'_>,
        provider: Name,
        credential: Name,
        generation: u64,
        kind: &str,
        code: Option<i64>,
        reset_micros: Option<i64>,
        message: Option<Name>,
    ) -> PyResult<()> {
        let kind = [StatusKind::Ok, StatusKind::Exhausted, StatusKind::LoginRequired]
            .into_iter()
            .find(|known| known.as_str() == kind)
            .ok_or_else(|| {
                let (found, allowed) = (kind.to_owned(), "ok, exhausted, login_required");
                raise(Error::Invalid { what: "status", found, allowed })
            })?;
        let status = Status { kind, code, reset_micros, message: message.map(|message| message.0) };
        self.change(py, |auth| auth.set_status(&provider.0, &credential.0, generation, status))
    }

    fn set_active(&self, py: Python<'_>, provider: Option<Name>) -> PyResult<()> {
        self.change(py, |auth| auth.set_active(provider.as_ref().map(|name| name.0.as_str())))
    }

    fn suppress(&self, py: Python<'_>, provider: Name, source: Name) -> PyResult<()> {
        self.change(py, |auth| auth.suppress(&provider.0, &source.0))
    }

    fn unsuppress(&self, py: Python<'_>, provider: Name, source: Name) -> PyResult<()> {
        self.change(py, |auth| auth.unsuppress(&provider.0, &source.0))
    }

    fn import_file(&self, py: Python<'_>, path: PathBuf) -> PyResult<Imported> {
        let hermes_log::auth::Imported { new, updated, unchanged, old, problems } =
            self.change(py, |auth| auth.import(&path))?;
        Ok(Imported { new, updated, unchanged, old, problems })
    }

    fn export_file(&self, py: Python<'_>, path: PathBuf) -> PyResult<Exported> {
        let hermes_log::auth::Exported { written, unknown, set_aside } = self.change(py, |auth| auth.export(&path))?;
        Ok(Exported { written, unknown, set_aside })
    }

    fn wait_for_generation(
        &self,
        py: Python<'_>,
        provider: Name,
        credential: Name,
        generation: u64,
        limit: f64,
    ) -> PyResult<Option<u64>> {
        let limit = seconds(limit)?;
        let wait = || self.apart()?.wait_for_generation(&provider.0, &credential.0, generation, limit);
        let found = py.detach(wait).map_err(raise)?;
        self.refresh(py)?;
        Ok(found)
    }

    #[pyo3(signature = (provider, credential, generation, exchange, *, lease=30.0, wait=60.0))]
    #[expect(clippy::too_many_arguments, reason = "by name, in Python")]
    fn refresh_with(
        &self,
        py: Python<'_>,
        provider: Name,
        credential: Name,
        generation: u64,
        exchange: Py<PyAny>,
        lease: f64,
        wait: f64,
    ) -> PyResult<Refreshed> {
        let options = RefreshOptions { lease: seconds(lease)?, wait: seconds(wait)? };
        let mut raised = None;
        let done = py.detach(|| {
            self.apart()?.refresh_with(&provider.0, &credential.0, generation, options, |fields| {
                Python::attach(|py| ask(exchange.bind(py), fields, &mut raised))
            })
        });
        let refreshed = self.refresh(py);
        if let Some(raised) = raised {
            match done {
                Ok(_) | Err(Error::RefreshFailed { .. }) => {}
                // What keeps it from being recorded is said as well.
                Err(error) => drop(raised.value(py).call_method1("add_note", (error.to_string(),))?),
            }
            return Err(raised);
        }
        let done = done.map_err(raise)?;
        refreshed?;
        Ok(Refreshed(done))
    }
}

/// Lets Python exchange the tokens. What is to be raised after that is put into `raised`.
fn ask(
    exchange: &Bound<'_, PyAny>,
    fields: &Fields,
    raised: &mut Option<PyErr>,
) -> std::result::Result<Fields, RefreshFailure> {
    let py = exchange.py();
    let answer = revealed(py, fields).and_then(|fields| exchange.call1((fields,))).and_then(|answer| taken(&answer));
    let error = match answer {
        Ok((fields, problem)) => {
            *raised = problem;
            return Ok(fields);
        }
        Err(error) => error,
    };
    let value = error.value(py);
    let text = value.str().and_then(|text| Ok(text::to_log(&text)?.into_owned())).unwrap_or_default();
    if error.is_instance_of::<RefreshRefused>(py) {
        return Err(RefreshFailure::Refused(text));
    }
    let class = value.get_type().name().map(|name| name.to_string()).unwrap_or_default();
    *raised = Some(error);
    Err(RefreshFailure::Failed(format!("{class}: {text}")))
}

/// The fields of an answer. One that is no JSON costs only itself: the tokens beside it came back, and must not be lost.
fn taken(answer: &Bound<'_, PyAny>) -> PyResult<(Fields, Option<PyErr>)> {
    let py = answer.py();
    let Ok(mapping) = answer.cast::<PyMapping>() else {
        return Err(PyTypeError::new_err(format!("the exchange returned {}, no mapping", answer.get_type().name()?)));
    };
    let object = PyDict::new(py);
    object.update(mapping)?;
    let (mut taken, mut left) = (Map::new(), Vec::new());
    for (name, value) in object {
        let field = PyDict::new(py);
        field.set_item(&name, value)?;
        match json::record_from_python(&field) {
            Ok(field) if !field.values().any(is_redacted) => taken.extend(field),
            _ => left.push(name.to_string()),
        }
    }
    let problem = (!left.is_empty())
        .then(|| PyTypeError::new_err(format!("no JSON, left out of what the exchange returned: {}", left.join(", "))));
    match problem {
        Some(problem) if taken.is_empty() => Err(problem),
        problem => Ok((Fields::new(taken, Vec::new()), problem)),
    }
}

/// Whether it is, or holds, what stands in the place of a secret where fields are shown.
fn is_redacted(value: &Value) -> bool {
    match value {
        Value::String(text) => text == REDACTED,
        Value::Array(values) => values.iter().any(is_redacted),
        Value::Object(object) => object.values().any(is_redacted),
        _ => false,
    }
}
