//! The ready operations on NumPy arrays.
//!
//! Arrays are read and written where they are; nothing is copied. Python's lock is released while
//! an operation runs.

mod arrays;
mod matrices;
mod setup;
mod signals;
mod sparse;
mod vectors;

pub(crate) use setup::forked;

use pyo3::prelude::*;

/// Operations on NumPy arrays.
#[pymodule(gil_used = true)]
pub(crate) mod ops {
    #[pymodule_export]
    use super::matrices::{conv2d, dense, dense_backward, matmul, matvec};
    #[pymodule_export]
    use super::setup::{explain, names, stats};
    #[pymodule_export]
    use super::signals::{caputo_l1, fft, fode, grunwald_letnikov, ifft};
    #[pymodule_export]
    use super::sparse::{Csr, spmv};
    #[pymodule_export]
    use super::vectors::{add, axpy, dot, exp, norm, relu, scale, sort, sum};
}
