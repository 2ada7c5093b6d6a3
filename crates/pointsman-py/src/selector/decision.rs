//! A choice for a caller who runs the work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pointsman::{Chosen, Cost, Rejection, Workload};
use pyo3::prelude::*;

use super::{Group, cost_of};

/// A choice for a caller who runs the work and reports what happened, once.
#[pyclass(frozen, module = "pointsman")]
pub(crate) struct Decision {
    pub(super) group: Arc<Group>,
    pub(super) chosen: Chosen,
    pub(super) workload: Workload,
    pub(super) reported: AtomicBool,
}

#[pymethods]
impl Decision {
    /// Name of the backend to run.
    #[getter]
    fn backend(&self, py: Python<'_>) -> Py<PyAny> {
        self.group.names[self.chosen.index()]
            .clone_ref(py)
            .into_any()
    }

    /// Why it was chosen.
    #[getter]
    fn reason(&self) -> &'static str {
        self.chosen.reason().name()
    }

    /// Probability that it is within 5 % of the fastest.
    #[getter]
    fn confidence(&self) -> f64 {
        self.chosen.confidence()
    }

    /// Whether it is to be learned from. A caller who wants to save the clock may leave out the
    /// report of others.
    #[getter]
    fn timed(&self) -> bool {
        self.chosen.is_timed()
    }

    /// It ran and took this many seconds.
    fn took(&self, seconds: f64) -> PyResult<()> {
        let cost = cost_of(seconds)?;
        self.served(cost);
        Ok(())
    }

    /// It ran, but its time says nothing about the next call: it was compiled, or filled caches.
    fn warm_up(&self) {
        self.served(Err(Rejection::WarmUp));
    }

    /// It failed.
    #[pyo3(signature = (why = "the caller reported a failure"))]
    fn failed(&self, why: &str) {
        if self.is_first() {
            self.group
                .ready
                .prepared
                .failed(&self.chosen, &self.workload, why);
        }
    }

    /// It never ran.
    fn cancel(&self) {
        if self.is_first() {
            self.group.ready.prepared.cancelled(&self.chosen);
        }
    }

    fn __repr__(&self) -> String {
        let name = &self.group.ready.variants[self.chosen.index()].get().name;
        format!(
            "<pointsman.Decision {name} ({}) for {}>",
            self.chosen.reason(),
            self.workload
        )
    }
}

impl Decision {
    /// Whether nothing was reported so far: what is reported twice counts once.
    fn is_first(&self) -> bool {
        !self.reported.swap(true, Relaxed)
    }

    fn served(&self, cost: Result<Cost, Rejection>) {
        if self.is_first() && self.chosen.is_timed() {
            self.group
                .ready
                .prepared
                .served(&self.chosen, &self.workload, cost);
        }
    }
}
