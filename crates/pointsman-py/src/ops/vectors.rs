//! Element-wise ops, sums and sorting.

use numpy::PyUntypedArrayMethods;
use pointsman_ops::{Float, add as adds, axpy as axpys, dot as dots, exp as exps, norm as norms};
use pointsman_ops::{relu as relus, scale as scales, sort as sorts, sum as sums};
use pyo3::prelude::*;

use super::arrays::{by_width, dimensions, floats, floats_mut, one_shape, output, width, zeros};
use super::setup::{Of, all};
use crate::errors;

type Any<'py> = Bound<'py, PyAny>;

/// A sum begins with -0.0 in Rust, which is what is left where there is nothing to add.
fn positive_zero<T: Float>(sum: T) -> f64 {
    sum.wide() + 0.0
}

/// x + y.
#[pyfunction]
pub(super) fn add<'py>(py: Python<'py>, x: &Any<'py>, y: &Any<'py>) -> PyResult<Any<'py>> {
    by_width!(width("add", "x", x)?, T => {
        let (x, y) = (floats::<T>("add", "x", x)?, floats::<T>("add", "y", y)?);
        one_shape("add", ["x", "y"], x.shape(), y.shape())?;
        let (a, b, all) = (x.slice()?, y.slice()?, all()?);
        let mut z = zeros::<T>("add", x.shape())?;
        py.detach(|| {
            let args = adds::Args::new(a, b, &mut z)?;
            all.run(|| T::handles(&all).add.run(args));
            Ok(())
        })
        .map_err(|error: pointsman_ops::ShapeError| errors::value(error))?;
        output(py, x.shape(), z)
    })
}

/// y += a x, in place.
#[pyfunction]
pub(super) fn axpy<'py>(py: Python<'py>, a: f64, x: &Any<'py>, y: &Any<'py>) -> PyResult<()> {
    by_width!(width("axpy", "x", x)?, T => {
        let (x, mut y) = (floats::<T>("axpy", "x", x)?, floats_mut::<T>("axpy", "y", y)?);
        one_shape("axpy", ["x", "y"], x.shape(), y.shape())?;
        let (x, all) = (x.slice()?, all()?);
        let y = y.as_slice_mut().map_err(errors::value)?;
        let args = axpys::Args::new(a as T, x, y).map_err(errors::value)?;
        py.detach(|| all.run(|| T::handles(&all).axpy.run(args)));
        Ok(())
    })
}

/// x *= a, in place.
#[pyfunction]
pub(super) fn scale<'py>(py: Python<'py>, a: f64, x: &Any<'py>) -> PyResult<()> {
    by_width!(width("scale", "x", x)?, T => {
        let mut x = floats_mut::<T>("scale", "x", x)?;
        let x = x.as_slice_mut().map_err(errors::value)?;
        let all = all()?;
        py.detach(|| all.run(|| T::handles(&all).scale.run(scales::Args::new(a as T, x))));
        Ok(())
    })
}

/// The sum of the products of two vectors.
#[pyfunction]
pub(super) fn dot<'py>(py: Python<'py>, x: &Any<'py>, y: &Any<'py>) -> PyResult<f64> {
    by_width!(width("dot", "x", x)?, T => {
        let (x, y) = (floats::<T>("dot", "x", x)?, floats::<T>("dot", "y", y)?);
        dimensions::<1>("dot", "x", x.shape())?;
        one_shape("dot", ["x", "y"], x.shape(), y.shape())?;
        let (x, y, all) = (x.slice()?, y.slice()?, all()?);
        let args = dots::Args::new(x, y).map_err(errors::value)?;
        Ok(positive_zero(py.detach(|| all.run(|| T::handles(&all).dot.run(args)))))
    })
}

/// The sum of all elements.
#[pyfunction]
pub(super) fn sum<'py>(py: Python<'py>, x: &Any<'py>) -> PyResult<f64> {
    by_width!(width("sum", "x", x)?, T => {
        let x = floats::<T>("sum", "x", x)?;
        let (x, all) = (x.slice()?, all()?);
        Ok(positive_zero(py.detach(|| all.run(|| T::handles(&all).sum.run(sums::Args::new(x))))))
    })
}

/// The Euclidean norm of all elements.
#[pyfunction]
pub(super) fn norm<'py>(py: Python<'py>, x: &Any<'py>) -> PyResult<f64> {
    by_width!(width("norm", "x", x)?, T => {
        let x = floats::<T>("norm", "x", x)?;
        let (x, all) = (x.slice()?, all()?);
        Ok(positive_zero(py.detach(|| all.run(|| T::handles(&all).norm.run(norms::Args::new(x))))))
    })
}

/// An op from one array to another of the same shape.
macro_rules! each {
    ($(#[$doc:meta])* $name:ident, $module:ident) => {
        $(#[$doc])*
        #[pyfunction]
        pub(super) fn $name<'py>(py: Python<'py>, x: &Any<'py>) -> PyResult<Any<'py>> {
            let op = stringify!($name);
            by_width!(width(op, "x", x)?, T => {
                let x = floats::<T>(op, "x", x)?;
                let (a, all) = (x.slice()?, all()?);
                let mut y = zeros::<T>(op, x.shape())?;
                let args = $module::Args::new(a, &mut y).map_err(errors::value)?;
                py.detach(|| all.run(|| T::handles(&all).$name.run(args)));
                output(py, x.shape(), y)
            })
        }
    };
}

each! {
    /// e to the power of each element.
    exp, exps
}

each! {
    /// What is negative becomes 0.
    relu, relus
}

/// The elements of a vector in ascending order.
#[pyfunction]
pub(super) fn sort<'py>(py: Python<'py>, x: &Any<'py>) -> PyResult<Any<'py>> {
    by_width!(width("sort", "x", x)?, T => {
        let x = floats::<T>("sort", "x", x)?;
        dimensions::<1>("sort", "x", x.shape())?;
        let (a, all) = (x.slice()?, all()?);
        let mut y = zeros::<T>("sort", x.shape())?;
        let args = sorts::Args::new(a, &mut y).map_err(errors::value)?;
        py.detach(|| {
            all.run(|| T::handles(&all).sort.run(args));
        });
        py.detach(|| {
            // In their total order those that are negative come first, in NumPy's all come last.
            let first = y.partition_point(|y| y.is_nan() && y.is_sign_negative());
            y.rotate_left(first);
        });
        output(py, x.shape(), y)
    })
}
