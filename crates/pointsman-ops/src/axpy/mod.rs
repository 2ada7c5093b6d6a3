//! A multiple of one vector added to another, in place.

mod scalar;
mod simd;
mod threads;

use std::marker::PhantomData;

use pointsman::{Backend, BuildError, Handle, Op, Selector, Verify, Workload};

use crate::catalogue::Shaped;
use crate::lanes::{needs_vectors, needs_wide_vectors};
use crate::sample::{floats, gamma, sizes};
use crate::team::WORTH_SHARING;
use crate::{Error, Float, ShapeError};

/// y ← a x + y.
///
/// ```
/// let mut y = [1.0, 1.0];
/// pointsman_ops::axpy(2.0, &[3.0, 4.0], &mut y)?;
/// assert_eq!(y, [7.0, 9.0]);
/// # Ok::<(), pointsman_ops::Error>(())
/// ```
pub fn axpy<T: Float>(a: T, x: &[T], y: &mut [T]) -> Result<(), Error> {
    let args = Args::new(a, x, y)?;
    T::ops()?.axpy.run(args);
    Ok(())
}

/// The same as an op: `axpy_f32`, `axpy_f64`.
///
/// A call that failed halfway must not be run again: what was added would be added twice.
#[derive(Clone, Copy, Debug, Default)]
pub struct Axpy<T>(PhantomData<T>);

/// A factor and two vectors of one length.
#[derive(Debug)]
pub struct Args<'a, T> {
    a: T,
    x: &'a [T],
    y: &'a mut [T],
}

impl<'a, T: Float> Args<'a, T> {
    /// Checks the lengths.
    pub fn new(a: T, x: &'a [T], y: &'a mut [T]) -> Result<Self, ShapeError> {
        if x.len() != y.len() {
            let rule = "both vectors must be of one length";
            return Err(ShapeError::new("axpy", &[x.len()], &[y.len()], rule));
        }
        Ok(Args { a, x, y })
    }
}

impl<T: Float> Op for Axpy<T> {
    type Args<'a> = Args<'a, T>;
    type Output = ();

    fn name(&self) -> &str {
        T::named("axpy_f32", "axpy_f64")
    }

    #[inline]
    fn workload(&self, args: &Args<'_, T>) -> Workload {
        self.shaped(&[args.x.len()])
    }

    fn may_run_again(&self) -> bool {
        false
    }
}

/// The factor of the samples: not a power of two, so that products round.
const FACTOR: f64 = 0.7;

impl<T: Float> Shaped for Axpy<T> {
    const AXES: &'static [&'static str] = &["n"];

    #[inline]
    fn shaped(&self, shape: &[usize]) -> Workload {
        let n = shape[0];
        Workload::new([n])
            .dtype(T::DTYPE)
            .flops(2 * n)
            .bytes(3 * size_of::<T>() * n)
    }

    fn make(&self, shape: &[usize], seed: u64) -> Self::Sample {
        (floats(shape[0], seed, 0), floats(shape[0], seed, 1))
    }

    fn of_size(&self, size: usize) -> Vec<usize> {
        vec![size]
    }
}

impl<T: Float> Verify for Axpy<T> {
    type Sample = (Vec<T>, Vec<T>);

    fn sample(&self, workload: &Workload, seed: u64) -> Self::Sample {
        self.make(&sizes(workload), seed)
    }

    fn args<'a>(&self, (x, y): &'a mut Self::Sample) -> Args<'a, T> {
        let a = T::of(FACTOR);
        Args { a, x, y }
    }

    fn agrees(&self, expected: (&Self::Sample, &()), got: (&Self::Sample, &())) -> bool {
        let (x, expected) = expected.0;
        let got = &got.0.1;
        let near = |((x, e), g): ((&T, &T), &T)| {
            let product = T::of(FACTOR).wide() * x.wide();
            let (e, g) = (e.wide(), g.wide());
            // Both have an error of at most this, and y was at most |e| + |product|.
            (e - g).abs() <= 2.0 * error_bound::<T>(product, e.abs() + product.abs())
        };
        expected.len() == got.len() && x.iter().zip(expected).zip(got).all(near)
    }
}

/// How far from the exact a x + y the result may be, with or without a fused multiply-add: at most
/// two roundings.
fn error_bound<T: Float>(product: f64, y: f64) -> f64 {
    gamma::<T>(2) * (product.abs() + y.abs())
}

/// Declares it with its variants: `scalar` (the reference), `simd`, `avx512` and `threads`.
pub fn declare<T: Float>(selector: &Selector) -> Result<Handle<Axpy<T>>, BuildError> {
    let builder = selector
        .op(Axpy::<T>::default())
        .reference("scalar", Backend::Scalar, |g| scalar::axpy(g.a, g.x, g.y))
        .variant("simd", Backend::Simd, |g| simd::axpy(g.a, g.x, g.y));
    let builder =
        needs_vectors(builder).variant("avx512", Backend::Simd, |g| simd::axpy_512(g.a, g.x, g.y));
    needs_wide_vectors(builder)
        .variant("threads", Backend::Threads, |g| {
            threads::axpy(g.a, g.x, g.y)
        })
        .min_size(WORTH_SHARING)
        .verified()
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::WIDE;

    type Body = fn(f32, &[f32], &mut [f32]);

    const VARIANTS: [(&str, Body); 4] = [
        ("scalar", scalar::axpy),
        ("simd", simd::axpy),
        ("avx512", simd::axpy_512),
        ("threads", threads::axpy),
    ];

    #[test]
    fn every_variant_is_right_at_every_length() {
        let mut variants = VARIANTS.to_vec();
        #[cfg(not(target_arch = "aarch64"))]
        variants.push(("lanes without FMA", simd::plain));
        for n in (0..=4 * WIDE).chain([1000, 4097, 65_536, 100_003]) {
            let (x, before) = Axpy::<f32>::default().make(&[n], 5);
            for (name, axpy) in &variants {
                let mut y = before.clone();
                axpy(FACTOR as f32, &x, &mut y);
                for i in 0..n {
                    let (product, old) = (
                        f64::from(FACTOR as f32) * f64::from(x[i]),
                        f64::from(before[i]),
                    );
                    let off = (f64::from(y[i]) - (product + old)).abs();
                    assert!(
                        off <= error_bound::<f32>(product, old),
                        "{name} at {i} of {n}: {off}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_check_sees_one_wrong_element() {
        let op = Axpy::<f32>::default();
        let right = {
            let mut sample = op.make(&[100], 1);
            let args = op.args(&mut sample);
            scalar::axpy(args.a, args.x, args.y);
            sample
        };
        let agrees = |got: &(Vec<f32>, Vec<f32>)| op.agrees((&right, &()), (got, &()));
        assert!(agrees(&right));
        for wrong in [0.0, f32::NAN, right.1[99] * 1.000_01] {
            let mut got = right.clone();
            got.1[99] = wrong;
            assert!(!agrees(&got), "{wrong}");
        }
    }
}
