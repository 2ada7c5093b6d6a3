//! A sparse matrix times a vector.

mod ell;
mod sample;
mod scalar;
mod simd;

use std::marker::PhantomData;

use pointsman::{Backend, BuildError, Handle, Op, Selector, Verify, Workload};

use crate::catalogue::Shaped;
use crate::lanes::{NARROW, needs_vectors};
use crate::matvec::fits;
use crate::sample::{floats, gamma, sizes};
use crate::variants::with_lanes;
use crate::{Csr, Error, Float, ShapeError};

use sample::Form;

/// y ← A x with a sparse matrix.
///
/// ```
/// use pointsman_ops::{Csr, spmv};
///
/// // 1 0 2
/// // 0 3 0
/// let a = Csr::new(2, 3, vec![0, 2, 3], vec![0, 2, 1], vec![1.0, 2.0, 3.0])?;
/// let mut y = [0.0; 2];
/// spmv(&a, &[1.0, 10.0, 100.0], &mut y)?;
/// assert_eq!(y, [201.0, 30.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn spmv<T: Float>(a: &Csr<T>, x: &[T], y: &mut [T]) -> Result<(), Error> {
    let args = Args::new(a, x, y)?;
    T::ops()?.spmv.run(args);
    Ok(())
}

/// The same as an op: `spmv_f32`, `spmv_f64`.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpMv<T>(PhantomData<T>);

/// A sparse matrix, a vector as long as its rows and one as long as its columns.
#[derive(Debug)]
pub struct Args<'a, T> {
    a: &'a Csr<T>,
    x: &'a [T],
    y: &'a mut [T],
}

impl<'a, T: Float> Args<'a, T> {
    /// Checks the lengths.
    pub fn new(a: &'a Csr<T>, x: &'a [T], y: &'a mut [T]) -> Result<Self, ShapeError> {
        fits("spmv", [a.rows(), a.columns()], x, y)?;
        Ok(Args { a, x, y })
    }
}

/// The elements of x in these columns.
#[inline(always)]
fn gathered<T: Float>(columns: &[u32; NARROW], x: &[T]) -> [T; NARROW] {
    columns.map(|column| x[column as usize])
}

impl<T: Float> Op for SpMv<T> {
    type Args<'a> = Args<'a, T>;
    type Output = ();

    fn name(&self) -> &str {
        T::named("spmv_f32", "spmv_f64")
    }

    #[inline]
    fn workload(&self, args: &Args<'_, T>) -> Workload {
        Form::of(args.a).workload::<T>()
    }
}

impl<T: Float> Shaped for SpMv<T> {
    const AXES: &'static [&'static str] = &["rows", "nonzeros per row"];

    #[inline]
    fn shaped(&self, shape: &[usize]) -> Workload {
        Form::typical(shape[0], shape[1]).workload::<T>()
    }

    fn make(&self, shape: &[usize], seed: u64) -> Self::Sample {
        made(Form::typical(shape[0], shape[1]), seed)
    }

    /// Sixteen entries in a row.
    fn of_size(&self, size: usize) -> Vec<usize> {
        vec![(size / 16).max(1), size.clamp(1, 16)]
    }
}

fn made<T: Float>(form: Form, seed: u64) -> (Csr<T>, Vec<T>, Vec<T>) {
    let (x, y) = (floats(form.columns, seed, 1), vec![T::zero(); form.rows]);
    (form.matrix(seed).padded(), x, y)
}

impl<T: Float> Verify for SpMv<T> {
    type Sample = (Csr<T>, Vec<T>, Vec<T>);

    fn sample(&self, workload: &Workload, seed: u64) -> Self::Sample {
        made(Form::possible(&sizes(workload)), seed)
    }

    fn args<'a>(&self, (a, x, y): &'a mut Self::Sample) -> Args<'a, T> {
        Args { a, x, y }
    }

    fn agrees(&self, expected: (&Self::Sample, &()), got: (&Self::Sample, &())) -> bool {
        let (a, x, expected) = expected.0;
        let got = &got.0.2;
        let near = |(row, (e, g)): (usize, (&T, &T))| {
            let bound = 2.0 * error_bound(a, row, x);
            (e.wide() - g.wide()).abs() <= bound
        };
        expected.len() == got.len() && expected.iter().zip(got).enumerate().all(near)
    }
}

/// How far from the exact one an element of y may be: that of a dot product as long as the row.
fn error_bound<T: Float>(a: &Csr<T>, row: usize, x: &[T]) -> f64 {
    let (columns, values) = a.row(row);
    let products = columns.iter().zip(values);
    let sizes = products.map(|(c, v)| (v.wide() * x[*c as usize].wide()).abs());
    gamma::<T>(values.len()) * sizes.sum::<f64>()
}

/// Declares it with its variants: `scalar` (the reference), `simd`, `avx512`, `threads` and `ell`,
/// which serves matrices with a [padded](Csr::padded) copy.
pub fn declare<T: Float>(selector: &Selector) -> Result<Handle<SpMv<T>>, BuildError> {
    let builder =
        selector
            .op(SpMv::<T>::default())
            .reference("scalar", Backend::Scalar, scalar::spmv);
    let builder = with_lanes(builder).variant("ell", Backend::Simd, ell::spmv);
    needs_vectors(builder)
        .when(|args| args.a.ell().is_some())
        .verified()
        .build()
}

#[cfg(test)]
mod tests;
