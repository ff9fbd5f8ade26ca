//! JSON values and records, from and to Python.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde_json::{Map, Number, Value};

use crate::text;

/// Deeper values are refused, as `json.dump` does at Python's own limit.
const MAX_DEPTH: usize = 128;

/// A value as Python's `json.loads` would make it.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(flag) => PyBool::new(py, *flag).to_owned().into_any(),
        Value::Number(number) => number_to_python(py, number)?,
        Value::String(plain) => text::from_log(py, plain)?.into_any(),
        Value::Array(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(to_python(py, item)?)?;
            }
            list.into_any()
        }
        Value::Object(fields) => record_to_python(py, fields)?.into_any(),
    })
}

pub(crate) fn record_to_python<'py>(py: Python<'py>, record: &Map<String, Value>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (field, value) in record {
        dict.set_item(text::from_log(py, field)?, to_python(py, value)?)?;
    }
    Ok(dict)
}

fn number_to_python<'py>(py: Python<'py>, number: &Number) -> PyResult<Bound<'py, PyAny>> {
    if let Some(whole) = number.as_i64() {
        return Ok(whole.into_pyobject(py)?.into_any());
    }
    let spelling = number.to_string();
    let class = if spelling.contains(['.', 'e', 'E']) { py.get_type::<PyFloat>() } else { py.get_type::<PyInt>() };
    class.call1((spelling,))
}

/// A value as Python's `json.dumps` would write it.
pub(crate) fn from_python(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    nested(value, MAX_DEPTH)
}

pub(crate) fn record_from_python(record: &Bound<'_, PyDict>) -> PyResult<Map<String, Value>> {
    fields(record, MAX_DEPTH)
}

fn fields(dict: &Bound<'_, PyDict>, depth: usize) -> PyResult<Map<String, Value>> {
    let mut map = Map::new();
    for (field, value) in dict {
        let value = nested(&value, depth)?;
        match field.cast::<PyString>() {
            Ok(field) => map.insert(text::to_log(field)?.into_owned(), value),
            Err(_) => map.insert(text::to_log(&field.str()?)?.into_owned(), value),
        };
    }
    Ok(map)
}

fn nested(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    if depth == 0 {
        return Err(PyValueError::new_err("nested too deeply"));
    }
    if let Ok(plain) = value.cast::<PyString>() {
        return Ok(Value::String(text::to_log(plain)?.into_owned()));
    }
    if value.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(Value::Bool(flag.is_true()));
    }
    if value.is_instance_of::<PyInt>() {
        return match value.extract::<i64>() {
            Ok(whole) => Ok(whole.into()),
            Err(_) => spelled(&value.str()?),
        };
    }
    if value.is_instance_of::<PyFloat>() {
        return spelled(&value.repr()?);
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        return Ok(Value::Object(fields(dict, depth - 1)?));
    }
    if let Ok(list) = value.cast::<PyList>() {
        return list.iter().map(|item| nested(&item, depth - 1)).collect::<PyResult<_>>().map(Value::Array);
    }
    if let Ok(tuple) = value.cast::<PyTuple>() {
        return tuple.iter().map(|item| nested(&item, depth - 1)).collect::<PyResult<_>>().map(Value::Array);
    }
    Err(PyTypeError::new_err(format!("{} is no JSON value", value.get_type().name()?)))
}

/// A number digit by digit, as Python spells it; not a number and infinity are none in JSON.
fn spelled(number: &Bound<'_, PyString>) -> PyResult<Value> {
    let spelling = number.to_str()?;
    let number: Number =
        serde_json::from_str(spelling).map_err(|_| PyValueError::new_err(format!("{spelling} is no JSON number")))?;
    Ok(Value::Number(number))
}
