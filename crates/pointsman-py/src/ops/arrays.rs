//! NumPy arrays as slices, and slices as arrays.

use numpy::{
    BorrowError, Element, PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn,
    PyReadwriteArrayDyn, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::intern;
use pyo3::prelude::*;

use super::setup::Of;
use crate::errors;

/// The element types that ops take.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Single,
    Double,
}

/// Does something for the element type of an array.
macro_rules! by_width {
    ($width:expr, $T:ident => $body:expr) => {
        match $width {
            crate::ops::arrays::Width::Single => {
                type $T = f32;
                $body
            }
            crate::ops::arrays::Width::Double => {
                type $T = f64;
                $body
            }
        }
    };
}
pub(super) use by_width;

/// What is wrong with an argument, and what would be right.
fn wrong(op: &str, name: &str, found: impl std::fmt::Display, right: &str) -> PyErr {
    errors::wrong_type(format!("{op}: {name} is {found}; it must be {right}"))
}

fn untyped<'a, 'py>(
    op: &str,
    name: &str,
    array: &'a Bound<'py, PyAny>,
    right: &str,
) -> PyResult<&'a Bound<'py, PyUntypedArray>> {
    let wrong_type = || {
        let kind = array.get_type().fully_qualified_name();
        let kind = kind.map(|name| name.to_string()).unwrap_or_default();
        wrong(op, name, format!("of type {kind}"), right)
    };
    // Of a masked array the elements alone would be another array.
    match array.cast::<PyUntypedArray>() {
        Ok(found) if found.is_exact_instance_of::<PyUntypedArray>() => Ok(found),
        Ok(found) if !found.hasattr(intern!(found.py(), "mask"))? => Ok(found),
        _ => Err(wrong_type()),
    }
}

const FLOATS: &str = "a NumPy array of float32 or float64";
const COMPLEX: &str = "a NumPy array of complex64 or complex128, or of float32 or float64";

/// The element type of an array of floats.
pub(super) fn width(op: &str, name: &str, array: &Bound<'_, PyAny>) -> PyResult<Width> {
    let dtype = untyped(op, name, array, FLOATS)?.dtype();
    match (dtype.num(), dtype.is_native_byteorder()) {
        (11, Some(true)) => Ok(Width::Single),
        (12, Some(true)) => Ok(Width::Double),
        _ => Err(wrong(op, name, format!("of dtype {dtype}"), FLOATS)),
    }
}

/// The width of an array that is transformed, and whether it is complex.
pub(super) fn complex(op: &str, name: &str, array: &Bound<'_, PyAny>) -> PyResult<(Width, bool)> {
    let dtype = untyped(op, name, array, COMPLEX)?.dtype();
    match (dtype.num(), dtype.is_native_byteorder()) {
        (11, Some(true)) => Ok((Width::Single, false)),
        (12, Some(true)) => Ok((Width::Double, false)),
        (14, Some(true)) => Ok((Width::Single, true)),
        (15, Some(true)) => Ok((Width::Double, true)),
        _ => Err(wrong(op, name, format!("of dtype {dtype}"), COMPLEX)),
    }
}

fn typed<'a, 'py, T: Element>(
    op: &str,
    name: &str,
    array: &'a Bound<'py, PyAny>,
    right: &str,
    is_written: bool,
) -> PyResult<&'a Bound<'py, PyArrayDyn<T>>> {
    let found = untyped(op, name, array, right)?;
    let typed = array
        .cast::<PyArrayDyn<T>>()
        .map_err(|_| wrong(op, name, format!("of dtype {}", found.dtype()), right))?;
    if typed.is_c_contiguous() && typed.is_aligned() {
        return Ok(typed);
    }
    let what = match typed.is_aligned() {
        true => "C-contiguous",
        false => "aligned in memory",
    };
    // A copy of what is written to would change, and not the array itself.
    let advice = match is_written {
        true => String::new(),
        false => format!("; pass numpy.array({name}, order=\"C\")"),
    };
    Err(errors::value(format!(
        "{op}: {name} is not {what}, and nothing is copied unasked{advice}"
    )))
}

/// An array to read.
pub(super) struct Input<'py, T: Element> {
    array: PyReadonlyArrayDyn<'py, T>,
}

impl<'py, T: Element> Input<'py, T> {
    pub(super) fn new(
        op: &str,
        name: &str,
        array: &Bound<'py, PyAny>,
        right: &str,
    ) -> PyResult<Self> {
        let array = typed::<T>(op, name, array, right, false)?.try_readonly();
        let array = array.map_err(|error| shared(op, name, &error))?;
        Ok(Input { array })
    }

    pub(super) fn shape(&self) -> &[usize] {
        self.array.shape()
    }

    pub(super) fn slice(&self) -> PyResult<&[T]> {
        self.array.as_slice().map_err(errors::value)
    }
}

/// An array of floats to read.
pub(super) fn floats<'py, T: Of>(
    op: &str,
    name: &str,
    array: &Bound<'py, PyAny>,
) -> PyResult<Input<'py, T>> {
    Input::new(
        op,
        name,
        array,
        &format!("a NumPy array of {} like the first", T::NAME),
    )
}

/// An array of floats to change.
pub(super) fn floats_mut<'py, T: Of>(
    op: &str,
    name: &str,
    array: &Bound<'py, PyAny>,
) -> PyResult<PyReadwriteArrayDyn<'py, T>> {
    let right = format!("a NumPy array of {} like the first", T::NAME);
    let array = typed::<T>(op, name, array, &right, true)?.try_readwrite();
    array.map_err(|error| shared(op, name, &error))
}

/// Why an array may not be read, or written to.
fn shared(op: &str, name: &str, error: &BorrowError) -> PyErr {
    let why = match error {
        BorrowError::AlreadyBorrowed => {
            "shares memory with another argument, or with a call on another thread, one of which writes to it"
        }
        _ => "may not be written to",
    };
    errors::value(format!("{op}: {name} {why}"))
}

/// Bytes of a result from which on it is asked whether there are as many: what cannot be had would end the process.
const LARGE: usize = 1 << 28;

/// Zeros for a result of this shape.
pub(super) fn zeros<T: Clone + Default>(op: &str, shape: &[usize]) -> PyResult<Vec<T>> {
    let elements = shape.iter().try_fold(1usize, |all, n| all.checked_mul(*n));
    let elements = elements.filter(|n| {
        let bytes = n.saturating_mul(size_of::<T>());
        bytes < LARGE || Vec::<T>::new().try_reserve_exact(*n).is_ok()
    });
    match elements {
        Some(elements) => Ok(vec![T::default(); elements]),
        None => Err(errors::memory(format!(
            "{op}: there is no room for a result of shape {}",
            text(shape)
        ))),
    }
}

/// A new array of this shape, and what its elements are.
pub(super) fn output<'py, T: Element>(
    py: Python<'py>,
    shape: &[usize],
    elements: Vec<T>,
) -> PyResult<Bound<'py, PyAny>> {
    let array = numpy::PyArray1::from_vec(py, elements);
    Ok(array.reshape(shape.to_vec())?.into_any())
}

/// A shape as Python writes it.
pub(super) fn text(shape: &[usize]) -> String {
    match shape {
        [n] => format!("({n},)"),
        shape => {
            let numbers: Vec<String> = shape.iter().map(usize::to_string).collect();
            format!("({})", numbers.join(", "))
        }
    }
}

/// Whether two arrays are of one shape.
pub(super) fn one_shape(
    op: &str,
    names: [&str; 2],
    one: &[usize],
    other: &[usize],
) -> PyResult<()> {
    if one == other {
        return Ok(());
    }
    let ([a, b], one, other) = (names, text(one), text(other));
    Err(errors::value(format!(
        "{op}: {a} has shape {one} and {b} {other}; they must be equal"
    )))
}

/// The dimensions of an array that must have so many.
pub(super) fn dimensions<const N: usize>(
    op: &str,
    name: &str,
    shape: &[usize],
) -> PyResult<[usize; N]> {
    shape.try_into().map_err(|_| {
        let shape = text(shape);
        errors::value(format!(
            "{op}: {name} has shape {shape}; it must have {N} dimensions"
        ))
    })
}
