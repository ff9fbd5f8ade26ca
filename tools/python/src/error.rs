//! The error enum, raised: one class a variant, of the same name, in `hermes_log.errors`.

use hermes_log::Error;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::reports::Position;
use crate::text;

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// The exception of an error, with what the variant knows as attributes.
pub(crate) fn raise(error: Error) -> PyErr {
    Python::attach(|py| exception(py, &error).unwrap_or_else(|other| other))
}

fn exception(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let errors = py.import("hermes_log.errors")?;
    // A variant that the package does not have yet is the base class.
    let class = errors.getattr(error.name()).or_else(|_| errors.getattr("Error"))?;
    let fields = PyDict::new(py);
    describe(error, &fields)?;
    Ok(PyErr::from_value(class.call((error.to_string(),), Some(&fields))?))
}

fn describe(error: &Error, fields: &Bound<'_, PyDict>) -> PyResult<()> {
    let positions = |recorded: &[hermes_log::Position]| recorded.iter().map(|at| Position(*at)).collect::<Vec<_>>();
    match error {
        Error::Io { path, source, .. } => {
            fields.set_item("path", path)?;
            fields.set_item("errno", source.raw_os_error())?;
        }
        Error::NotRecorded { recorded, total, source } => {
            fields.set_item("recorded", positions(recorded))?;
            fields.set_item("total", total)?;
            fields.set_item("__cause__", exception(fields.py(), source)?)?;
        }
        Error::NotDurable { recorded, source } => {
            fields.set_item("recorded", positions(recorded))?;
            fields.set_item("__cause__", exception(fields.py(), source)?)?;
        }
        Error::NotAcknowledged { recorded, uncertain, source } => {
            fields.set_item("recorded", positions(recorded))?;
            fields.set_item("uncertain", uncertain)?;
            fields.set_item("__cause__", exception(fields.py(), source)?)?;
        }
        Error::Waiting { source, .. } | Error::GivenUp { source, .. } => {
            fields.set_item("__cause__", exception(fields.py(), source)?)?;
        }
        Error::LockTimeout { path, waited, holder } => {
            fields.set_item("path", path)?;
            fields.set_item("waited", waited.as_secs_f64())?;
            fields.set_item("holder", holder)?;
        }
        Error::Refused { skill, why } => {
            fields.set_item("skill", text::from_log(fields.py(), skill)?)?;
            fields.set_item("why", why)?;
        }
        Error::NotLogged { skill, source } => {
            fields.set_item("skill", text::from_log(fields.py(), skill)?)?;
            fields.set_item("__cause__", exception(fields.py(), source)?)?;
        }
        Error::LoginRequired { provider, credential, message }
        | Error::RefreshFailed { provider, credential, message } => {
            about(provider, credential, fields)?;
            fields.set_item("reason", message)?;
        }
        Error::RefreshTimeout { provider, credential, holder, waited } => {
            about(provider, credential, fields)?;
            fields.set_item("holder", holder)?;
            fields.set_item("waited", waited.as_secs_f64())?;
        }
        Error::NewerFormat { path, .. }
        | Error::NetworkFileSystem { path, .. }
        | Error::Exposed { path, .. }
        | Error::Damaged { path, .. }
        | Error::Unsettled { path, .. } => fields.set_item("path", path)?,
        Error::PositionCompacted { position, oldest } => {
            fields.set_item("position", Position(*position))?;
            fields.set_item("oldest", Position(*oldest))?;
        }
        Error::FlushTimeout { waited } => fields.set_item("waited", waited.as_secs_f64())?,
        Error::NotReached { position, waited } => {
            fields.set_item("position", Position(*position))?;
            fields.set_item("waited", waited.as_secs_f64())?;
        }
        _ => {}
    }
    Ok(())
}

fn about(provider: &str, credential: &str, fields: &Bound<'_, PyDict>) -> PyResult<()> {
    fields.set_item("provider", text::from_log(fields.py(), provider)?)?;
    fields.set_item("credential", text::from_log(fields.py(), credential)?)
}
