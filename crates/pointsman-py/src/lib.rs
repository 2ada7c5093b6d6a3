//! The Python package `pointsman`: the module `pointsman._core`.
//!
//! `Op` is what the decorator makes, and its call the line that a user's call goes down; `Selector`
//! chooses for callers who run the work themselves; `ops` has the ready operations on NumPy arrays.
#![forbid(unsafe_code)]

mod arguments;
mod attempts;
mod check;
mod compiled;
mod contents;
mod decorate;
mod errors;
mod forked;
mod kinds;
mod log;
mod memory;
mod method;
mod op;
mod ops;
mod plan;
mod ready;
mod refused;
mod report;
mod selector;
mod variant;
mod wait;
mod workload;

use pyo3::prelude::*;

/// The native part of `pointsman`.
#[pymodule(gil_used = true)]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::decorate::op;
    #[pymodule_export]
    use crate::errors::{NoVariantError, StoreError};
    #[pymodule_export]
    use crate::forked::{after_fork_in_child, after_fork_in_parent, before_fork, flush_all};
    #[pymodule_export]
    use crate::log::say_warnings;
    #[pymodule_export]
    use crate::method::Method;
    #[pymodule_export]
    use crate::op::Op;
    #[pymodule_export]
    use crate::ops::ops;
    #[pymodule_export]
    use crate::plan::Plan;
    #[pymodule_export]
    use crate::report::{Explanation, Stats};
    #[pymodule_export]
    use crate::selector::decision::Decision;
    #[pymodule_export]
    use crate::selector::{FakeClock, Selector, default_selector, select_backend};
    #[pymodule_export]
    use crate::variant::Variant;
    #[pymodule_export]
    use crate::workload::Workload;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        crate::log::install();
        super::known_backends()
    }
}

/// The usual libraries are backends that `POINTSMAN_FORCE` and `POINTSMAN_DISABLE` may name, also
/// where an op has no variant there.
fn known_backends() -> PyResult<()> {
    for name in ["cpu", "numpy", "numba", "jax", "torch", "cupy"] {
        pointsman::Backend::custom(name).map_err(errors::value)?;
    }
    Ok(())
}
