//! The product of two matrices.

mod blocked;
#[cfg(feature = "gpu")]
mod gpu;
mod naive;
mod packed;
mod register;
#[cfg(test)]
mod tests;
#[cfg(feature = "trueno")]
mod trueno;

use std::marker::PhantomData;

use pointsman::{Backend, BuildError, Handle, Op, Selector, Verify, Workload};

use crate::catalogue::Shaped;
use crate::lanes::needs_vectors;
use crate::product::{Bound, Team, WORTH_SHARING};
use crate::sample::{bounded, floats};
use crate::{Error, Float, Matrix, ShapeError, View};

/// A B.
///
/// ```
/// use pointsman_ops::{Matrix, matmul};
///
/// let a = Matrix::new(1, 2, vec![1.0, 2.0])?;
/// let b = Matrix::new(2, 2, vec![3.0, 4.0, 5.0, 6.0])?;
/// assert_eq!(matmul(&a, &b)?.elements(), [13.0, 16.0]);
/// # Ok::<(), pointsman_ops::Error>(())
/// ```
pub fn matmul<'a, T: Float>(
    a: impl Into<View<'a, T>>,
    b: impl Into<View<'a, T>>,
) -> Result<Matrix<T>, Error> {
    let (a, b) = (a.into(), b.into());
    fit(a, b)?;
    let mut c = Matrix::zeros(a.rows(), b.columns());
    let args = Args::new(a, b, c.elements_mut())?;
    T::ops()?.matmul.run(args);
    Ok(c)
}

/// The product as an op: `matmul_f32`, `matmul_f64`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Matmul<T>(PhantomData<T>);

/// Two matrices that can be multiplied, and room for their product.
#[derive(Debug)]
pub struct Args<'a, T> {
    a: View<'a, T>,
    b: View<'a, T>,
    c: &'a mut [T],
}

impl<'a, T: Float> Args<'a, T> {
    /// Checks the shapes; C is row-major too, and what it held does not matter.
    pub fn new(a: View<'a, T>, b: View<'a, T>, c: &'a mut [T]) -> Result<Self, ShapeError> {
        fit(a, b)?;
        let (m, n) = (a.rows(), b.columns());
        if m.checked_mul(n) != Some(c.len()) {
            let rule = "the output must have a row for each of A and a column for each of B";
            return Err(ShapeError::new("matmul", &[m, n], &[c.len()], rule));
        }
        Ok(Args { a, b, c })
    }
}

/// Whether A B exists.
fn fit<T: Float>(a: View<'_, T>, b: View<'_, T>) -> Result<(), ShapeError> {
    if a.columns() == b.rows() {
        return Ok(());
    }
    let (one, other) = ([a.rows(), a.columns()], [b.rows(), b.columns()]);
    let rule = "A must have as many columns as B has rows";
    Err(ShapeError::new("matmul", &one, &other, rule))
}

impl<T: Float> Op for Matmul<T> {
    type Args<'a> = Args<'a, T>;
    type Output = ();

    fn name(&self) -> &str {
        T::named("matmul_f32", "matmul_f64")
    }

    #[inline]
    fn workload(&self, args: &Args<'_, T>) -> Workload {
        self.shaped(&[args.a.rows(), args.a.columns(), args.b.columns()])
    }
}

/// Floating-point operations of a product.
fn flops(shape: &[usize]) -> f64 {
    shape.iter().fold(2.0, |product, n| product * *n as f64)
}

impl<T: Float> Shaped for Matmul<T> {
    const AXES: &'static [&'static str] = &["m", "k", "n"];

    #[inline]
    fn shaped(&self, shape: &[usize]) -> Workload {
        let [m, k, n] = [shape[0], shape[1], shape[2]];
        let elements = m as f64 * k as f64 + k as f64 * n as f64 + m as f64 * n as f64;
        Workload::new([m, k, n])
            .dtype(T::DTYPE)
            .flops(flops(shape))
            .bytes(size_of::<T>() as f64 * elements)
    }

    fn make(&self, shape: &[usize], seed: u64) -> Self::Sample {
        let [m, k, n] = [shape[0], shape[1], shape[2]];
        Sample {
            shape: [m, k, n],
            a: floats(m * k, seed, 0),
            b: floats(k * n, seed, 1),
            c: vec![T::nan(); m * n],
        }
    }

    fn of_size(&self, size: usize) -> Vec<usize> {
        vec![size.isqrt().max(1); 3]
    }
}

/// Arguments that own their elements.
#[derive(Clone, Debug)]
pub struct Sample<T> {
    shape: [usize; 3],
    a: Vec<T>,
    b: Vec<T>,
    /// NaN before the call, so that an element that is not written shows.
    c: Vec<T>,
}

impl<T: Float> Sample<T> {
    fn views(&self) -> [View<'_, T>; 2] {
        let [m, k, n] = self.shape;
        [View::of(m, k, &self.a), View::of(k, n, &self.b)]
    }

    fn bound(&self) -> Bound {
        let [a, b] = self.views();
        Bound::new(a.into(), b.into(), self.shape[1])
    }
}

impl<T: Float> Verify for Matmul<T> {
    type Sample = Sample<T>;

    fn sample(&self, workload: &Workload, seed: u64) -> Sample<T> {
        self.make(&bounded(workload, flops), seed)
    }

    fn args<'a>(&self, sample: &'a mut Sample<T>) -> Args<'a, T> {
        let [m, k, n] = sample.shape;
        Args {
            a: View::of(m, k, &sample.a),
            b: View::of(k, n, &sample.b),
            c: &mut sample.c,
        }
    }

    fn agrees(&self, expected: (&Sample<T>, &()), got: (&Sample<T>, &())) -> bool {
        let bound = expected.0.bound();
        bound.agree(&expected.0.c, &got.0.c, |_| 0.0)
    }
}

/// Declares it with its variants: `naive` (the reference), `blocked`, `register`, `gemm`,
/// `threads`, and two for each GPU.
pub fn declare<T: Float>(selector: &Selector) -> Result<Handle<Matmul<T>>, BuildError> {
    let builder = selector
        .op(Matmul::<T>::default())
        .reference("naive", Backend::Scalar, |g| naive::multiply(g.a, g.b, g.c))
        .variant("blocked", Backend::Scalar, |g| {
            blocked::multiply(g.a, g.b, g.c)
        })
        .variant("register", Backend::Simd, |g| {
            register::multiply(g.a, g.b, g.c)
        });
    let builder = needs_vectors(builder)
        .variant("gemm", Backend::Simd, |g| {
            packed::multiply(g.a, g.b, g.c, Team::One)
        })
        .variant("threads", Backend::Threads, |g| {
            packed::multiply(g.a, g.b, g.c, Team::All)
        })
        .min_size(WORTH_SHARING)
        .verified();
    #[cfg(feature = "gpu")]
    let builder = gpu::variants(selector, builder);
    #[cfg(feature = "trueno")]
    let builder = trueno::variants(builder);
    builder.build()
}
