//! An op as a method: the object comes first among the arguments, whatever is asked.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::op::Op;

/// An op bound to an object.
#[pyclass(frozen, module = "pointsman")]
pub(crate) struct Method {
    /// The op.
    #[pyo3(get, name = "__func__")]
    pub(crate) op: Py<Op>,
    /// The object.
    #[pyo3(get, name = "__self__")]
    pub(crate) object: Py<PyAny>,
}

impl Method {
    /// The arguments after the object.
    fn with<'py>(&self, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyTuple>> {
        let object = self.object.bind(args.py()).clone();
        let all: Vec<_> = std::iter::once(object).chain(args.iter()).collect();
        PyTuple::new(args.py(), all)
    }

    /// What the op's own method of this name says.
    fn ask<'py>(
        &self,
        name: &str,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let asked = self.op.bind(args.py()).getattr(name)?;
        asked.call(self.with(args)?, kwargs)
    }
}

#[pymethods]
impl Method {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.op.get().__call__(&self.with(args)?, kwargs)
    }

    /// Who would serve a call with these arguments, and why. Nothing is run.
    #[pyo3(signature = (*args, **kwargs))]
    fn explain<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.ask("explain", args, kwargs)
    }

    /// The workload of a call with these arguments.
    #[pyo3(signature = (*args, **kwargs))]
    fn workload<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.ask("workload", args, kwargs)
    }

    /// Runs every variant that may serve, and learns from it; `repeat` as with the op.
    #[pyo3(signature = (*args, **kwargs))]
    fn measure<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.ask("measure", args, kwargs)
    }

    /// The method for calls like this one.
    #[pyo3(signature = (*args, **kwargs))]
    fn plan<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        let plan = self.ask("plan", args, kwargs)?;
        let partial = py.import("functools")?.getattr("partial")?;
        partial.call1((plan, &self.object))
    }

    /// Everything else is the op's.
    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.op.bind(py).getattr(name)
    }

    /// As a method: found again at its object.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let name = self.op.bind(py).getattr(intern!(py, "__name__"))?;
        let getattr = py.import("builtins")?.getattr("getattr")?;
        let found = (&self.object, name).into_pyobject(py)?;
        PyTuple::new(py, [getattr, found.into_any()])
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Method>().is_ok_and(|other| {
            let other = other.get();
            self.op.is(&other.op) && self.object.bind(py).is(&other.object)
        })
    }

    fn __hash__(&self) -> u64 {
        (self.op.as_ptr() as u64) ^ (self.object.as_ptr() as u64).rotate_left(32)
    }

    /// The rest of a cycle can be broken.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.op)?;
        visit.call(&self.object)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let object = self.object.bind(py).repr()?;
        Ok(format!(
            "<method of {} of {object}>",
            self.op.bind(py).repr()?
        ))
    }
}
