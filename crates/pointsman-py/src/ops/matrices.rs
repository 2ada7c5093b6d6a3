//! Products of matrices, layers and convolutions.

use pointsman_ops::dense::{Activation, backward};
use pointsman_ops::{Matrix, View, conv2d as convs, dense as denses, matmul as matmuls};
use pointsman_ops::{ShapeError, matvec as matvecs};
use pyo3::prelude::*;

use super::arrays::{Input, by_width, dimensions, floats, one_shape, output, text, width, zeros};
use super::setup::{Of, all};
use crate::errors;

type Any<'py> = Bound<'py, PyAny>;

/// A matrix to read.
fn matrix<'a, T: Of>(op: &str, name: &str, input: &'a Input<'_, T>) -> PyResult<View<'a, T>> {
    let [rows, columns] = dimensions(op, name, input.shape())?;
    View::new(rows, columns, input.slice()?).map_err(errors::value)
}

/// A matrix of the shape of another one, to write to.
fn empty<T: Of>(op: &str, like: View<'_, T>) -> PyResult<Matrix<T>> {
    let shape = [like.rows(), like.columns()];
    Matrix::new(shape[0], shape[1], zeros(op, &shape)?).map_err(errors::value)
}

/// A B.
#[pyfunction]
pub(super) fn matmul<'py>(py: Python<'py>, a: &Any<'py>, b: &Any<'py>) -> PyResult<Any<'py>> {
    by_width!(width("matmul", "a", a)?, T => {
        let (a, b) = (floats::<T>("matmul", "a", a)?, floats::<T>("matmul", "b", b)?);
        let (left, right) = (matrix("matmul", "a", &a)?, matrix("matmul", "b", &b)?);
        let shape = [left.rows(), right.columns()];
        if left.columns() != right.rows() {
            let (one, other) = (text(a.shape()), text(b.shape()));
            let rule = "a must have as many columns as b has rows";
            return Err(errors::value(format!("matmul: shapes {one} and {other}: {rule}")));
        }
        let mut c = zeros::<T>("matmul", &shape)?;
        let all = all()?;
        let args = matmuls::Args::new(left, right, &mut c).map_err(errors::value)?;
        py.detach(|| all.run(|| T::handles(&all).matmul.run(args)));
        output(py, &shape, c)
    })
}

/// A x.
#[pyfunction]
pub(super) fn matvec<'py>(py: Python<'py>, a: &Any<'py>, x: &Any<'py>) -> PyResult<Any<'py>> {
    by_width!(width("matvec", "a", a)?, T => {
        let (a, x) = (floats::<T>("matvec", "a", a)?, floats::<T>("matvec", "x", x)?);
        let left = matrix("matvec", "a", &a)?;
        let [n] = dimensions("matvec", "x", x.shape())?;
        if left.columns() != n {
            let (one, other) = (text(a.shape()), text(x.shape()));
            let rule = "a must have as many columns as x has elements";
            return Err(errors::value(format!("matvec: shapes {one} and {other}: {rule}")));
        }
        let mut y = zeros::<T>("matvec", &[left.rows()])?;
        let (x, all) = (x.slice()?, all()?);
        let args = matvecs::Args::new(left, x, &mut y).map_err(errors::value)?;
        py.detach(|| all.run(|| T::handles(&all).matvec.run(args)));
        output(py, &[left.rows()], y)
    })
}

fn activation(op: &str, name: Option<&str>) -> PyResult<Activation> {
    match name {
        None | Some("identity") => Ok(Activation::Identity),
        Some("relu") => Ok(Activation::Relu),
        Some(other) => {
            let text =
                format!("{op}: activation {other:?}: valid are None, \"identity\" and \"relu\"");
            Err(errors::value(text))
        }
    }
}

/// f(X W + b); with `sums=True` also X W + b, which the gradients need.
#[pyfunction]
#[pyo3(signature = (x, w, b, activation = None, *, sums = false))]
pub(super) fn dense<'py>(
    py: Python<'py>,
    x: &Any<'py>,
    w: &Any<'py>,
    b: &Any<'py>,
    activation: Option<&str>,
    sums: bool,
) -> PyResult<Any<'py>> {
    let f = self::activation("dense", activation)?;
    by_width!(width("dense", "x", x)?, T => {
        let (x, w) = (floats::<T>("dense", "x", x)?, floats::<T>("dense", "w", w)?);
        let b = floats::<T>("dense", "b", b)?;
        let (input, weights) = (matrix("dense", "x", &x)?, matrix("dense", "w", &w)?);
        layered("dense", &x, &w)?;
        let shape = [input.rows(), weights.columns()];
        one_shape("dense", ["b", "a row of w"], b.shape(), &shape[1..])?;
        let mut y = zeros::<T>("dense", &shape)?;
        let mut kept = if sums { zeros::<T>("dense", &shape)? } else { Vec::new() };
        let (bias, all) = (b.slice()?, all()?);
        let mut args = denses::Args::new(input, weights, bias, f, &mut y).map_err(errors::value)?;
        if sums {
            args = args.with_gradient(&mut kept).map_err(errors::value)?;
        }
        py.detach(|| all.run(|| T::handles(&all).dense.run(args)));
        let y = output(py, &shape, y)?;
        match sums {
            true => Ok((y, output(py, &shape, kept)?).into_pyobject(py)?.into_any()),
            false => Ok(y),
        }
    })
}

fn layered<T: Of>(op: &str, x: &Input<'_, T>, w: &Input<'_, T>) -> PyResult<()> {
    if x.shape()[1] == w.shape()[0] {
        return Ok(());
    }
    let (one, other) = (text(x.shape()), text(w.shape()));
    let rule = "x must have as many columns as w has rows";
    Err(errors::value(format!(
        "{op}: shapes {one} and {other}: {rule}"
    )))
}

/// The gradients of x, w and b, from that of the outputs and the sums that the forward pass kept.
#[pyfunction]
#[pyo3(signature = (x, w, sums, dy, activation = None))]
pub(super) fn dense_backward<'py>(
    py: Python<'py>,
    x: &Any<'py>,
    w: &Any<'py>,
    sums: &Any<'py>,
    dy: &Any<'py>,
    activation: Option<&str>,
) -> PyResult<Any<'py>> {
    const OP: &str = "dense_backward";
    let f = self::activation(OP, activation)?;
    by_width!(width(OP, "x", x)?, T => {
        let (x, w) = (floats::<T>(OP, "x", x)?, floats::<T>(OP, "w", w)?);
        let (sums, dy) = (floats::<T>(OP, "sums", sums)?, floats::<T>(OP, "dy", dy)?);
        let (input, weights) = (matrix(OP, "x", &x)?, matrix(OP, "w", &w)?);
        layered(OP, &x, &w)?;
        let shape = [input.rows(), weights.columns()];
        one_shape(OP, ["sums", "the output"], sums.shape(), &shape)?;
        one_shape(OP, ["dy", "the output"], dy.shape(), &shape)?;
        let (kept, slope, all) = (sums.slice()?, dy.slice()?, all()?);
        let mut out = backward::Gradients {
            x: empty(OP, input)?,
            w: empty(OP, weights)?,
            b: zeros::<T>(OP, &shape[1..])?,
        };
        let args = backward::Args::new(input, weights, f, kept, slope, &mut out);
        let args = args.map_err(errors::value)?;
        py.detach(|| all.run(|| T::handles(&all).dense_backward.run(args)));
        let dx = output(py, x.shape(), out.x.into_elements())?;
        let dw = output(py, w.shape(), out.w.into_elements())?;
        let db = output(py, &shape[1..], out.b)?;
        Ok((dx, dw, db).into_pyobject(py)?.into_any())
    })
}

/// Filters (k, c, r, s) slid over images (n, c, h, w).
#[pyfunction]
#[pyo3(signature = (x, filters, *, stride = 1, padding = 0))]
pub(super) fn conv2d<'py>(
    py: Python<'py>,
    x: &Any<'py>,
    filters: &Any<'py>,
    stride: usize,
    padding: usize,
) -> PyResult<Any<'py>> {
    if stride == 0 {
        return Err(errors::value("conv2d: stride 0: it must be at least 1"));
    }
    by_width!(width("conv2d", "x", x)?, T => {
        let (x, f) = (floats::<T>("conv2d", "x", x)?, floats::<T>("conv2d", "filters", filters)?);
        let [n, c, h, w] = dimensions("conv2d", "x", x.shape())?;
        let [k, channels, r, s] = dimensions("conv2d", "filters", f.shape())?;
        if c != channels {
            let (one, other) = (text(x.shape()), text(f.shape()));
            let rule = "images and filters must have as many channels";
            return Err(errors::value(format!("conv2d: shapes {one} and {other}: {rule}")));
        }
        let shape = convs::Shape { n, c, h, w, k, r, s, stride, padding };
        let mut y = zeros::<T>("conv2d", &shape.output())?;
        let (images, filters, all) = (x.slice()?, f.slice()?, all()?);
        let args = convs::Args::new(shape, images, filters, &mut y);
        let args = args.map_err(|error: ShapeError| errors::value(error))?;
        py.detach(|| all.run(|| T::handles(&all).conv2d.run(args)));
        output(py, &shape.output(), y)
    })
}
