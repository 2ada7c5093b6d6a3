//! A dense matrix times a vector.

#[cfg(feature = "gpu")]
mod gpu;
mod scalar;
mod simd;

use std::marker::PhantomData;

use pointsman::{BuildError, Handle, Op, Selector, Verify, Workload};

use crate::catalogue::Shaped;
use crate::sample::{bounded, floats, gamma};
use crate::variants::in_lanes;
use crate::{Error, Float, Matrix, ShapeError, View};

/// y ← A x.
///
/// ```
/// use pointsman_ops::{Matrix, matvec};
///
/// let a = Matrix::new(2, 2, vec![1.0, 2.0, 3.0, 4.0])?;
/// let mut y = [0.0; 2];
/// matvec(&a, &[1.0, 10.0], &mut y)?;
/// assert_eq!(y, [21.0, 43.0]);
/// # Ok::<(), pointsman_ops::Error>(())
/// ```
pub fn matvec<'a, T: Float>(a: impl Into<View<'a, T>>, x: &[T], y: &mut [T]) -> Result<(), Error> {
    let args = Args::new(a.into(), x, y)?;
    T::ops()?.matvec.run(args);
    Ok(())
}

/// The same as an op: `matvec_f32`, `matvec_f64`.
#[derive(Clone, Copy, Debug, Default)]
pub struct MatVec<T>(PhantomData<T>);

/// A matrix, a vector as long as its rows and one as long as its columns.
#[derive(Debug)]
pub struct Args<'a, T> {
    a: View<'a, T>,
    x: &'a [T],
    y: &'a mut [T],
}

impl<'a, T: Float> Args<'a, T> {
    /// Checks the lengths.
    pub fn new(a: View<'a, T>, x: &'a [T], y: &'a mut [T]) -> Result<Self, ShapeError> {
        fits("matvec", [a.rows(), a.columns()], x, y)?;
        Ok(Args { a, x, y })
    }
}

/// Whether a matrix of this shape takes x to y.
pub(crate) fn fits<T>(
    op: &'static str,
    shape: [usize; 2],
    x: &[T],
    y: &[T],
) -> Result<(), ShapeError> {
    if x.len() != shape[1] {
        let rule = "x must have as many elements as the matrix has columns";
        return Err(ShapeError::new(op, &shape, &[x.len()], rule));
    }
    if y.len() != shape[0] {
        let rule = "y must have as many elements as the matrix has rows";
        return Err(ShapeError::new(op, &shape, &[y.len()], rule));
    }
    Ok(())
}

impl<T: Float> Op for MatVec<T> {
    type Args<'a> = Args<'a, T>;
    type Output = ();

    fn name(&self) -> &str {
        T::named("matvec_f32", "matvec_f64")
    }

    #[inline]
    fn workload(&self, args: &Args<'_, T>) -> Workload {
        self.shaped(&[args.a.rows(), args.a.columns()])
    }
}

impl<T: Float> Shaped for MatVec<T> {
    const AXES: &'static [&'static str] = &["rows", "columns"];

    #[inline]
    fn shaped(&self, shape: &[usize]) -> Workload {
        let [rows, columns] = [shape[0] as f64, shape[1] as f64];
        Workload::new([shape[0], shape[1]])
            .dtype(T::DTYPE)
            .flops(2.0 * rows * columns)
            .bytes(size_of::<T>() as f64 * (rows * columns + rows + columns))
    }

    fn make(&self, shape: &[usize], seed: u64) -> Self::Sample {
        let [rows, columns] = [shape[0], shape[1]];
        let mut a = Matrix::zeros(rows, columns);
        let elements = floats(rows * columns, seed, 0);
        a.elements_mut().copy_from_slice(&elements);
        (a, floats(columns, seed, 1), vec![T::zero(); rows])
    }

    fn of_size(&self, size: usize) -> Vec<usize> {
        let side = size.isqrt().max(1);
        vec![side, side]
    }
}

impl<T: Float> Verify for MatVec<T> {
    type Sample = (Matrix<T>, Vec<T>, Vec<T>);

    fn sample(&self, workload: &Workload, seed: u64) -> Self::Sample {
        let work = |s: &[usize]| 2.0 * s[0] as f64 * s[1] as f64;
        self.make(&bounded(workload, work), seed)
    }

    fn args<'a>(&self, (a, x, y): &'a mut Self::Sample) -> Args<'a, T> {
        let a = a.view();
        Args { a, x, y }
    }

    fn agrees(&self, expected: (&Self::Sample, &()), got: (&Self::Sample, &())) -> bool {
        let (a, x, expected) = expected.0;
        let got = &got.0.2;
        let near = |(row, (e, g)): (usize, (&T, &T))| {
            let bound = 2.0 * error_bound(a.row(row), x);
            (e.wide() - g.wide()).abs() <= bound
        };
        expected.len() == got.len() && expected.iter().zip(got).enumerate().all(near)
    }
}

/// How far from the exact one an element of y may be: that of a dot product.
fn error_bound<T: Float>(row: &[T], x: &[T]) -> f64 {
    let products = row.iter().zip(x).map(|(a, x)| (a.wide() * x.wide()).abs());
    gamma::<T>(row.len()) * products.sum::<f64>()
}

/// Declares it with its variants: `scalar` (the reference), `simd`, `avx512`, `threads` and one for
/// each GPU.
pub fn declare<T: Float>(selector: &Selector) -> Result<Handle<MatVec<T>>, BuildError> {
    let builder = in_lanes(selector, scalar::matvec);
    #[cfg(feature = "gpu")]
    let builder = gpu::variants(selector, builder);
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variants::bodies;

    fn right_at_every_shape<T: Float>() {
        let op = MatVec::<T>::default();
        let sides = [0, 1, 2, 3, 4, 5, 7, 8, 9, 17, 33, 65];
        let small = sides.iter().flat_map(|m| sides.map(|n| [*m, n]));
        for shape in small.chain([[3, 5000], [5000, 3], [257, 259]]) {
            let sample = op.make(&shape, 7);
            for (name, matvec) in bodies::<MatVec<T>>(scalar::matvec) {
                let (a, x, mut y) = sample.clone();
                y.fill(T::nan()); // must be overwritten
                matvec(&mut Args::new(a.view(), &x, &mut y).unwrap());
                for (i, y) in y.iter().enumerate() {
                    let products = a.row(i).iter().zip(&x).map(|(a, x)| a.wide() * x.wide());
                    let exact: f64 = products.sum();
                    // For f64 the exact one is rounded as often.
                    let bound = 2.0 * error_bound(a.row(i), &x);
                    let off = (y.wide() - exact).abs();
                    assert!(
                        off <= bound,
                        "{name}, row {i} of {shape:?}: {off} > {bound}"
                    );
                }
            }
        }
    }

    #[test]
    fn every_variant_is_right_at_every_shape() {
        right_at_every_shape::<f32>();
        right_at_every_shape::<f64>();
    }

    #[test]
    fn what_is_not_finite_shows_in_its_row_only() {
        for (name, matvec) in bodies::<MatVec<f32>>(scalar::matvec) {
            for (at, column) in [(0, 0), (5, 39), (8, 17), (9, 8)] {
                let mut a = Matrix::new(10, 40, vec![1.0; 400]).unwrap();
                for special in [f32::INFINITY, f32::NAN] {
                    a.elements_mut()[40 * at + column] = special;
                    let mut y = vec![0.0; 10];
                    matvec(&mut Args::new(a.view(), &[1.0; 40], &mut y).unwrap());
                    assert!(!y[at].is_finite(), "{name}");
                    assert_eq!(y[at].is_nan(), special.is_nan(), "{name}");
                    y.remove(at);
                    assert_eq!(y, [40.0; 9], "{name}");
                }
            }
        }
    }

    #[test]
    fn the_check_sees_one_wrong_element() {
        let op = MatVec::<f32>::default();
        let mut right = op.make(&[10, 20], 1);
        scalar::matvec(&mut op.args(&mut right));
        assert!(op.agrees((&right, &()), (&right, &())));
        for wrong in [f32::NAN, f32::INFINITY, right.2[9] + 0.001] {
            let mut got = right.clone();
            got.2[9] = wrong;
            assert!(!op.agrees((&right, &()), (&got, &())), "{wrong}");
        }
    }

    #[test]
    fn shapes_that_do_not_fit_are_an_error_that_names_both() {
        let a = Matrix::<f32>::zeros(2, 3);
        let error = |x: &[f32], y: &mut [f32]| {
            let error = Args::new(a.view(), x, y).unwrap_err();
            error.to_string()
        };
        assert!(error(&[0.0; 2], &mut [0.0; 2]).contains("2x3 and 2"));
        assert!(error(&[0.0; 3], &mut [0.0; 3]).contains("2x3 and 3"));
    }
}
