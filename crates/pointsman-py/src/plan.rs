//! Hot loops: features are computed once.

use std::sync::Arc;

use pointsman::Workload;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::arguments::{Arguments, Features};
use crate::attempts::Call;
use crate::log;
use crate::ready::Ready;

/// An op for calls of one workload: see `Op.plan`. Only call it with arguments of the same shapes,
/// types and needs as those that it was made with.
#[pyclass(frozen, module = "pointsman")]
pub(crate) struct Plan {
    pub(crate) ready: Arc<Ready>,
    pub(crate) features: Features,
    pub(crate) workload: Workload,
    pub(crate) is_told_by_features: bool,
}

#[pymethods]
impl Plan {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let arguments = Arguments { args, kwargs };
        let done = match self.is_told_by_features {
            true => self.ready.run_by_features(arguments, &self.features),
            false => {
                let call = Call::new(arguments, &self.features, &self.workload);
                self.ready.run(call)
            }
        };
        log::say(args.py())?;
        done
    }

    fn __repr__(&self) -> String {
        format!("<pointsman.Plan for {}>", self.workload)
    }
}
