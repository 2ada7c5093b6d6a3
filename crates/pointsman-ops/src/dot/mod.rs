//! The dot product of two vectors.

#[cfg(feature = "gpu")]
mod gpu;
mod scalar;
mod simd;
#[cfg(feature = "trueno")]
mod trueno;

use std::marker::PhantomData;

use pointsman::{BuildError, Handle, Op, Selector, Verify, Workload};

use crate::catalogue::{Shaped, per_element};
use crate::error::one_length;
use crate::sample::{floats, gamma, short};
use crate::variants::in_lanes;
use crate::{Error, Float, ShapeError};

pub(crate) use simd::Product;

/// Σ xᵢ yᵢ.
///
/// ```
/// assert_eq!(pointsman_ops::dot(&[1.0, 2.0], &[3.0, 4.0])?, 11.0);
/// # Ok::<(), pointsman_ops::Error>(())
/// ```
pub fn dot<T: Float>(x: &[T], y: &[T]) -> Result<T, Error> {
    let args = Args::new(x, y)?;
    Ok(T::ops()?.dot.run(args))
}

/// The dot product as an op: `dot_f32`, `dot_f64`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dot<T>(PhantomData<T>);

/// Two vectors of one length.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a, T> {
    x: &'a [T],
    y: &'a [T],
}

impl<'a, T: Float> Args<'a, T> {
    /// Checks the lengths.
    pub fn new(x: &'a [T], y: &'a [T]) -> Result<Self, ShapeError> {
        one_length("dot", x, y)?;
        Ok(Args { x, y })
    }
}

impl<T: Float> Op for Dot<T> {
    type Args<'a> = Args<'a, T>;
    type Output = T;

    fn name(&self) -> &str {
        T::named("dot_f32", "dot_f64")
    }

    #[inline]
    fn workload(&self, args: &Args<'_, T>) -> Workload {
        self.shaped(&[args.x.len()])
    }
}

impl<T: Float> Shaped for Dot<T> {
    #[inline]
    fn shaped(&self, shape: &[usize]) -> Workload {
        per_element::<T>(shape[0], 2, 2)
    }

    fn make(&self, shape: &[usize], seed: u64) -> Self::Sample {
        (floats(shape[0], seed, 0), floats(shape[0], seed, 1))
    }
}

impl<T: Float> Verify for Dot<T> {
    type Sample = (Vec<T>, Vec<T>);

    fn sample(&self, workload: &Workload, seed: u64) -> Self::Sample {
        self.make(&short(workload), seed)
    }

    fn args<'a>(&self, (x, y): &'a mut Self::Sample) -> Args<'a, T> {
        Args { x, y }
    }

    fn agrees(&self, expected: (&Self::Sample, &T), got: (&Self::Sample, &T)) -> bool {
        let (x, y) = expected.0;
        (expected.1.wide() - got.1.wide()).abs() <= 2.0 * error_bound(x, y)
    }
}

/// How far from the exact sum a result may be, in whatever order it was added up: γₙ Σ |xᵢ yᵢ|.
fn error_bound<T: Float>(x: &[T], y: &[T]) -> f64 {
    let sum: f64 = x
        .iter()
        .zip(y)
        .map(|(a, b)| (a.wide() * b.wide()).abs())
        .sum();
    gamma::<T>(x.len()) * sum
}

/// Declares it with its variants: `scalar` (the reference), `simd`, `avx512`, `threads` and one for
/// each GPU.
pub fn declare<T: Float>(selector: &Selector) -> Result<Handle<Dot<T>>, BuildError> {
    let builder = in_lanes(selector, scalar::dot);
    #[cfg(feature = "gpu")]
    let builder = gpu::variants(selector, builder);
    #[cfg(feature = "trueno")]
    let builder = trueno::variants(builder);
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variants::{Body, bodies, lengths};

    fn variants<T: Float>() -> Vec<(&'static str, Body<Dot<T>>)> {
        bodies::<Dot<T>>(scalar::dot)
    }

    fn right_at_every_length<T: Float>() {
        for n in lengths() {
            let (x, y) = Dot::<T>::default().make(&[n], 7);
            let exact: f64 = x.iter().zip(&y).map(|(a, b)| a.wide() * b.wide()).sum();
            for (name, dot) in variants::<T>() {
                let off = (dot(&mut Args { x: &x, y: &y }).wide() - exact).abs();
                // The exact one is an f64 sum itself.
                let bound =
                    error_bound(&x, &y) * (1.0 + f64::from(T::ROUNDOFF == f64::EPSILON / 2.0));
                assert!(off <= bound, "{name} of {n}: {off} > {bound}");
            }
        }
    }

    #[test]
    fn every_variant_is_right_at_every_length() {
        right_at_every_length::<f32>();
        right_at_every_length::<f64>();
    }

    #[test]
    fn every_variant_is_right_at_every_alignment() {
        let (x, y) = Dot::<f32>::default().make(&[300], 3);
        for (name, dot) in variants::<f32>() {
            for (from_x, from_y) in (0..16).flat_map(|a| (0..16).map(move |b| (a, b))) {
                let (x, y) = (&x[from_x..from_x + 200], &y[from_y..from_y + 200]);
                let exact: f64 = x.iter().zip(y).map(|(a, b)| a.wide() * b.wide()).sum();
                let off = (dot(&mut Args { x, y }).wide() - exact).abs();
                assert!(
                    off <= error_bound(x, y),
                    "{name}, {from_x} and {from_y} off"
                );
            }
        }
    }

    #[test]
    fn what_is_not_finite_shows_wherever_it_is() {
        for (name, dot) in variants::<f32>() {
            for at in [0, 7, 31, 63, 99] {
                let (mut x, y) = (vec![1.0; 100], vec![1.0; 100]);
                x[at] = f32::INFINITY;
                let inf = dot(&mut Args { x: &x, y: &y });
                assert_eq!(inf, f32::INFINITY, "{name} at {at}");
                x[at] = f32::NAN;
                let nan = dot(&mut Args { x: &x, y: &y });
                assert!(nan.is_nan(), "{name} at {at}");
            }
            let tiny = vec![f32::from_bits(1); 100];
            let sum = dot(&mut Args {
                x: &tiny,
                y: &[1.0; 100],
            });
            assert_eq!(sum, f32::from_bits(100), "{name}");
        }
    }

    #[test]
    fn the_check_sees_a_wrong_result() {
        let op = Dot::<f32>::default();
        let mut sample = op.make(&[1000], 1);
        let right = scalar::dot(&mut op.args(&mut sample));
        assert!(op.agrees((&sample, &right), (&sample, &right)));
        for wrong in [right + 0.1, f32::NAN, f32::INFINITY] {
            assert!(!op.agrees((&sample, &right), (&sample, &wrong)), "{wrong}");
        }
    }

    #[test]
    fn lengths_that_differ_are_an_error_that_names_both() {
        let error = Args::new(&[1.0_f32; 3], &[1.0; 4]).unwrap_err().to_string();
        assert!(error.contains("shapes 3 and 4"), "{error}");
    }
}
