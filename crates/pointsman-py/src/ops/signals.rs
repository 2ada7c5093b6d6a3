//! Fourier transforms, fractional derivatives and differential equations.

use std::sync::Mutex;

use pointsman_ops::derivative::{CaputoL1, GrunwaldLetnikov, Method};
use pointsman_ops::fft::Direction;
use pointsman_ops::{Complex, derivative, fft as ffts, fode as fodes};
use pyo3::prelude::*;

use super::arrays::{Input, by_width, complex, dimensions, floats, output, width, zeros};
use super::setup::{All, Of, all};
use crate::errors;

type Any<'py> = Bound<'py, PyAny>;

/// The discrete Fourier transforms of the rows: along the last axis.
#[pyfunction]
pub(super) fn fft<'py>(py: Python<'py>, x: &Any<'py>) -> PyResult<Any<'py>> {
    transform(py, "fft", x, Direction::Forward)
}

/// The inverse of `fft`, with the factor 1/n that NumPy's has.
#[pyfunction]
pub(super) fn ifft<'py>(py: Python<'py>, x: &Any<'py>) -> PyResult<Any<'py>> {
    transform(py, "ifft", x, Direction::Inverse)
}

fn transform<'py>(
    py: Python<'py>,
    op: &str,
    x: &Any<'py>,
    direction: Direction,
) -> PyResult<Any<'py>> {
    let (width, is_complex) = complex(op, "x", x)?;
    by_width!(width, T => {
        if is_complex {
            let x = Input::<Complex<T>>::new(op, "x", x, "")?;
            return transformed(py, op, x.shape(), x.slice()?, direction);
        }
        let x = floats::<T>(op, "x", x)?;
        let mut widened = zeros::<Complex<T>>(op, x.shape())?;
        for (wide, x) in widened.iter_mut().zip(x.slice()?) {
            *wide = Complex::from(*x);
        }
        transformed(py, op, x.shape(), &widened, direction)
    })
}

fn transformed<'py, T: Of>(
    py: Python<'py>,
    op: &str,
    shape: &[usize],
    x: &[Complex<T>],
    direction: Direction,
) -> PyResult<Any<'py>>
where
    Complex<T>: numpy::Element,
{
    let n = match shape.last() {
        Some(0) | None => {
            let text =
                format!("{op}: x has no elements along its last axis; there must be at least one");
            return Err(errors::value(text));
        }
        Some(n) => *n,
    };
    let all = all()?;
    let mut y = zeros::<Complex<T>>(op, shape)?;
    let args = ffts::Args::new(direction, x, n, &mut y).map_err(errors::value)?;
    py.detach(|| all.run(|| T::handles(&all).fft.run(args)));
    if direction == Direction::Inverse {
        let factor = <T as pointsman_ops::Float>::of(1.0 / n as f64);
        py.detach(|| y.iter_mut().for_each(|y| *y = y.scale(factor)));
    }
    output(py, shape, y)
}

/// The derivative of an order between 0 and 2 by Grünwald and Letnikov, on a grid with this step.
#[pyfunction]
pub(super) fn grunwald_letnikov<'py>(
    py: Python<'py>,
    order: f64,
    step: f64,
    x: &Any<'py>,
) -> PyResult<Any<'py>> {
    by_width!(width("grunwald_letnikov", "x", x)?, T => {
        derived::<T, GrunwaldLetnikov>(py, "grunwald_letnikov", (order, step), x, |all, args| {
            T::handles(all).grunwald_letnikov.run(args);
        })
    })
}

/// Caputo's derivative of an order between 0 and 1 by the method L1, on a grid with this step.
#[pyfunction]
pub(super) fn caputo_l1<'py>(
    py: Python<'py>,
    order: f64,
    step: f64,
    x: &Any<'py>,
) -> PyResult<Any<'py>> {
    by_width!(width("caputo_l1", "x", x)?, T => {
        derived::<T, CaputoL1>(py, "caputo_l1", (order, step), x, |all, args| {
            T::handles(all).caputo_l1.run(args);
        })
    })
}

fn derived<'py, T: Of, M: Method + Send + Sync>(
    py: Python<'py>,
    op: &str,
    (order, step): (f64, f64),
    x: &Any<'py>,
    run: impl FnOnce(&All, derivative::Args<'_, T, M>) + Send,
) -> PyResult<Any<'py>> {
    let x = floats::<T>(op, "x", x)?;
    dimensions::<1>(op, "x", x.shape())?;
    let (values, all) = (x.slice()?, all()?);
    let mut y = zeros::<T>(op, x.shape())?;
    let (order, step) = (of::<T>(order), of::<T>(step));
    let args = derivative::Args::new(order, step, values, &mut y).map_err(errors::value)?;
    py.detach(|| all.run(|| run(&all, args)));
    output(py, x.shape(), y)
}

fn of<T: Of>(value: f64) -> T {
    <T as pointsman_ops::Float>::of(value)
}

/// The solution of D^order y = rhs(t, y) from these initial values, `n` points `step` apart.
///
/// `rhs` is called with numbers. Python's lock is held meanwhile: to take it for each call could mean to wait for others each time.
#[pyfunction]
pub(super) fn fode<'py>(
    py: Python<'py>,
    rhs: &Any<'py>,
    order: f64,
    start: Vec<f64>,
    step: f64,
    n: usize,
) -> PyResult<Any<'py>> {
    crate::op::callable("rhs", Some(rhs))?;
    let all = all()?;
    let (rhs, raised) = (rhs.clone().unbind(), Mutex::new(None));
    let raised_now = || raised.lock().unwrap_or_else(|e| e.into_inner());
    // After an exception there is nothing to solve.
    let slope = |t: f64, y: f64| {
        if raised_now().is_some() {
            return f64::NAN;
        }
        let told = Python::attach(|py| rhs.bind(py).call1((t, y))?.extract::<f64>());
        told.unwrap_or_else(|error| {
            *raised_now() = Some(error);
            f64::NAN
        })
    };
    let mut y = zeros::<f64>("fode", &[n])?;
    let solve = || {
        let args = fodes::Args::new(&slope, order, &start, step, &mut y)?;
        <f64 as Of>::handles(&all).fode.run(args);
        Ok::<_, pointsman_ops::Error>(())
    };
    all.run_attached(py, solve).map_err(errors::value)?;
    match raised.into_inner().unwrap_or_else(|e| e.into_inner()) {
        Some(error) => Err(error),
        None => output(py, &[n], y),
    }
}
