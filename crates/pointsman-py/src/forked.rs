//! What happens to us when Python forks, and when it ends.

use std::time::Duration;

use pyo3::prelude::*;

use crate::errors;
use crate::log;
use crate::ops;

/// Called by Python right before a fork.
#[pyfunction]
pub(crate) fn before_fork() {
    pointsman::fork::before();
}

/// Called by Python in the parent, after a fork.
#[pyfunction]
pub(crate) fn after_fork_in_parent() {
    pointsman::fork::in_parent();
}

/// Called by Python in the child, after a fork.
#[pyfunction]
pub(crate) fn after_fork_in_child() {
    pointsman::fork::in_child();
    log::forked();
    ops::forked();
}

/// Saves what every selector of the process has learned.
#[pyfunction]
pub(crate) fn flush_all(py: Python<'_>, seconds: f64) -> PyResult<()> {
    let within = Duration::try_from_secs_f64(seconds).map_err(errors::value)?;
    py.detach(|| pointsman::Selector::flush_all(within))
        .map_err(errors::store)
}
