//! Sparse matrices.

use pointsman_ops::{Csr as Core, spmv as spmvs};
use pyo3::prelude::*;

use super::arrays::{Width, dimensions, floats, output, text, width, zeros};
use super::setup::{Of, all};
use crate::errors;

type Any<'py> = Bound<'py, PyAny>;

enum Entries {
    Single(Core<f32>),
    Double(Core<f64>),
}

/// A sparse matrix: the entries of row r are those from `offsets[r]` up to `offsets[r + 1]`. It has a
/// copy of its own of what it is made from.
#[pyclass(frozen, module = "pointsman.ops")]
pub(super) struct Csr {
    entries: Entries,
}

#[pymethods]
impl Csr {
    #[new]
    #[pyo3(signature = (shape, offsets, indices, values, *, padded = true))]
    fn new(
        shape: (usize, usize),
        offsets: Vec<usize>,
        indices: Vec<u32>,
        values: &Any<'_>,
        padded: bool,
    ) -> PyResult<Self> {
        let entries = match width("Csr", "values", values)? {
            Width::Single => Entries::Single(made(shape, offsets, indices, values, padded)?),
            Width::Double => Entries::Double(made(shape, offsets, indices, values, padded)?),
        };
        Ok(Csr { entries })
    }

    /// Rows and columns.
    #[getter]
    fn shape(&self) -> (usize, usize) {
        match &self.entries {
            Entries::Single(a) => (a.rows(), a.columns()),
            Entries::Double(a) => (a.rows(), a.columns()),
        }
    }

    /// Number of entries.
    #[getter]
    fn nonzeros(&self) -> usize {
        match &self.entries {
            Entries::Single(a) => a.nonzeros(),
            Entries::Double(a) => a.nonzeros(),
        }
    }
}

fn made<T: Of>(
    (rows, columns): (usize, usize),
    offsets: Vec<usize>,
    indices: Vec<u32>,
    values: &Any<'_>,
    padded: bool,
) -> PyResult<Core<T>> {
    let values = floats::<T>("Csr", "values", values)?.slice()?.to_vec();
    let matrix = Core::new(rows, columns, offsets, indices, values).map_err(errors::value)?;
    Ok(if padded { matrix.padded() } else { matrix })
}

/// A x with a sparse matrix.
#[pyfunction]
pub(super) fn spmv<'py>(py: Python<'py>, a: &Bound<'py, Csr>, x: &Any<'py>) -> PyResult<Any<'py>> {
    match &a.get().entries {
        Entries::Single(a) => multiplied(py, a, x),
        Entries::Double(a) => multiplied(py, a, x),
    }
}

fn multiplied<'py, T: Of>(py: Python<'py>, a: &Core<T>, x: &Any<'py>) -> PyResult<Any<'py>> {
    let x = floats::<T>("spmv", "x", x)?;
    let [n] = dimensions("spmv", "x", x.shape())?;
    if n != a.columns() {
        let (one, other) = (text(&[a.rows(), a.columns()]), text(x.shape()));
        let rule = "a must have as many columns as x has elements";
        return Err(errors::value(format!(
            "spmv: shapes {one} and {other}: {rule}"
        )));
    }
    let mut y = zeros::<T>("spmv", &[a.rows()])?;
    let (x, all) = (x.slice()?, all()?);
    let args = spmvs::Args::new(a, x, &mut y).map_err(errors::value)?;
    py.detach(|| all.run(|| T::handles(&all).spmv.run(args)));
    output(py, &[a.rows()], y)
}
