//! Errors of the library as Python exceptions.

use std::fmt::Display;

use pointsman::FlushError;
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;
use pyo3::{create_exception, intern};

create_exception!(
    pointsman,
    NoVariantError,
    PyRuntimeError,
    "No variant may serve this call, for example because none of them gives the gradients that it needs."
);
create_exception!(
    pointsman,
    StoreError,
    PyRuntimeError,
    "What was learned could not be saved, read or forgotten."
);

/// A value that makes no sense.
pub(crate) fn value(error: impl Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A value of the wrong type.
pub(crate) fn wrong_type(error: impl Display) -> PyErr {
    PyTypeError::new_err(error.to_string())
}

/// More memory than there is.
pub(crate) fn memory(error: impl Display) -> PyErr {
    PyMemoryError::new_err(error.to_string())
}

pub(crate) fn store(error: FlushError) -> PyErr {
    StoreError::new_err(error.to_string())
}

/// Whether an exception is a failure, and not a request to stop, such as `KeyboardInterrupt`.
pub(crate) fn is_failure(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<pyo3::exceptions::PyException>(py)
}

/// Whether it was raised for want of memory, on the host or on a device.
pub(crate) fn is_out_of_memory(py: Python<'_>, error: &PyErr) -> bool {
    if error.is_instance_of::<PyMemoryError>(py) {
        return true;
    }
    let kind = error.get_type(py).name();
    let kind = kind.map(|name| name.to_string()).unwrap_or_default();
    match kind.as_str() {
        "OutOfMemoryError" => true, // torch and CuPy
        "XlaRuntimeError" | "JaxRuntimeError" => error.to_string().contains("RESOURCE_EXHAUSTED"),
        _ => false,
    }
}

/// Adds a line to an exception, which is shown below it.
pub(crate) fn add_note(py: Python<'_>, error: &PyErr, note: &str) {
    let value = error.value(py);
    let added = value.call_method1(intern!(py, "add_note"), (note,));
    if added.is_err() {
        // Before Python 3.11 there is no such method; tools look for the attribute.
        let notes = intern!(py, "__notes__");
        let list = match value.getattr(notes) {
            Ok(list) => list,
            Err(_) => PyList::empty(py).into_any(),
        };
        let _ = list.call_method1("append", (note,));
        let _ = value.setattr(notes, list);
    }
}
