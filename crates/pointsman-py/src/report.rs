//! Explanations and statistics as Python sees them: attributes, a dictionary and a table to read.

use pyo3::exceptions::PyAttributeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;

use crate::errors;

/// Any serialisable value as plain Python objects.
pub(crate) fn plain<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).map_err(errors::value)?;
    py.import(intern!(py, "json"))?
        .call_method1(intern!(py, "loads"), (text,))
}

macro_rules! report {
    ($(#[$doc:meta])* $name:ident from $core:ty) => {
        $(#[$doc])*
        #[pyclass(frozen, module = "pointsman")]
        pub(crate) struct $name {
            fields: Py<PyDict>,
            text: String,
        }

        impl $name {
            pub(crate) fn new(py: Python<'_>, core: &$core) -> PyResult<Self> {
                let fields = plain(py, core)?.cast_into::<PyDict>()?.unbind();
                Ok($name { fields, text: core.to_string() })
            }
        }

        #[pymethods]
        impl $name {
            fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
                self.fields.bind(py).get_item(name)?.ok_or_else(|| {
                    let known = self.fields.bind(py).keys();
                    PyAttributeError::new_err(format!("{name:?}: there are {known}"))
                })
            }

            /// The same as a dictionary.
            fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
                self.fields.bind(py).copy()
            }

            fn __dir__(&self, py: Python<'_>) -> Vec<String> {
                let keys = self.fields.bind(py).keys();
                let names = keys.iter().map(|key| key.to_string());
                names.chain(["as_dict".to_owned()]).collect()
            }

            fn __str__(&self) -> &str {
                &self.text
            }

            fn __repr__(&self) -> &str {
                &self.text
            }
        }
    };
}

report! {
    /// Who serves a workload, and why. Prints as a table.
    Explanation from pointsman::Explanation
}

report! {
    /// What choosing has cost so far, and what it was worth. Prints as a table.
    Stats from pointsman::OpStats
}
