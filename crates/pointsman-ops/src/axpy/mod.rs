//! A multiple of one vector added to another, in place.

#[cfg(feature = "gpu")]
mod gpu;
mod scalar;
mod simd;

use std::marker::PhantomData;

use pointsman::{BuildError, Handle, Op, Selector, Verify, Workload};

use crate::catalogue::{Shaped, per_element};
use crate::error::one_length;
use crate::sample::{floats, gamma, short};
use crate::variants::in_lanes;
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
        one_length("axpy", x, y)?;
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
    #[inline]
    fn shaped(&self, shape: &[usize]) -> Workload {
        per_element::<T>(shape[0], 2, 3)
    }

    fn make(&self, shape: &[usize], seed: u64) -> Self::Sample {
        (floats(shape[0], seed, 0), floats(shape[0], seed, 1))
    }
}

impl<T: Float> Verify for Axpy<T> {
    type Sample = (Vec<T>, Vec<T>);

    fn sample(&self, workload: &Workload, seed: u64) -> Self::Sample {
        self.make(&short(workload), seed)
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

/// Declares it with its variants: `scalar` (the reference), `simd`, `avx512`, `threads` and one for
/// each GPU.
pub fn declare<T: Float>(selector: &Selector) -> Result<Handle<Axpy<T>>, BuildError> {
    let builder = in_lanes(selector, scalar::axpy);
    #[cfg(feature = "gpu")]
    let builder = gpu::variants(selector, builder);
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variants::{Body, bodies, lengths};

    fn variants<T: Float>() -> Vec<(&'static str, Body<Axpy<T>>)> {
        bodies::<Axpy<T>>(scalar::axpy)
    }

    fn right_at_every_length<T: Float>() {
        let op = Axpy::<T>::default();
        for n in lengths() {
            let before = op.make(&[n], 5);
            for (name, axpy) in variants() {
                let mut after = before.clone();
                axpy(&mut op.args(&mut after));
                for i in 0..n {
                    let product = T::of(FACTOR).wide() * before.0[i].wide();
                    let old = before.1[i].wide();
                    let off = (after.1[i].wide() - (product + old)).abs();
                    // For f64 the exact one is rounded itself.
                    let bound = 2.0 * error_bound::<T>(product, old);
                    assert!(off <= bound, "{name} at {i} of {n}: {off}");
                }
            }
        }
    }

    #[test]
    fn every_variant_is_right_at_every_length() {
        right_at_every_length::<f32>();
        right_at_every_length::<f64>();
    }

    #[test]
    fn what_is_not_finite_stays_where_it_is() {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        for (name, axpy) in variants::<f32>() {
            for (special, expected) in [(inf, inf), (-inf, -inf), (nan, nan)] {
                let mut x = vec![1.0; 100];
                x[77] = special;
                let mut y = vec![1.0; 100];
                axpy(&mut Args::new(2.0, &x, &mut y).unwrap());
                assert_eq!(y[77].to_bits(), expected.to_bits(), "{name}, {special}");
                y.remove(77);
                assert!(y.iter().all(|y| *y == 3.0), "{name}, {special}");
            }
            let tiny = vec![f32::from_bits(1); 100];
            let mut y = tiny.clone();
            axpy(&mut Args::new(2.0, &tiny, &mut y).unwrap());
            assert_eq!(y, vec![f32::from_bits(3); 100], "{name}");
        }
    }

    #[test]
    fn lengths_that_differ_are_an_error_that_names_both() {
        let error = Args::new(1.0, &[1.0_f32; 3], &mut [1.0; 4]).unwrap_err();
        assert!(error.to_string().contains("shapes 3 and 4"), "{error}");
    }

    #[test]
    fn the_check_sees_one_wrong_element() {
        let op = Axpy::<f32>::default();
        let right = {
            let mut sample = op.make(&[100], 1);
            scalar::axpy(&mut op.args(&mut sample));
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
