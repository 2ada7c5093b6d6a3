//! The positive part of each element.

#[cfg(feature = "gpu")]
mod gpu;
mod scalar;
mod simd;

use std::marker::PhantomData;

use pointsman::{BuildError, Handle, Op, Selector, Verify, Workload};

use crate::catalogue::{Shaped, per_element};
use crate::error::one_length;
use crate::sample::{floats, near_all, rare, short, sprinkle};
use crate::variants::in_lanes;
use crate::{Error, Float, ShapeError};

/// y ← max(x, 0), element by element. What is not a number stays so.
///
/// ```
/// let mut y = [0.0; 3];
/// pointsman_ops::relu(&[-1.0, 2.0, f64::NAN], &mut y)?;
/// assert_eq!(y[..2], [0.0, 2.0]);
/// assert!(y[2].is_nan());
/// # Ok::<(), pointsman_ops::Error>(())
/// ```
pub fn relu<T: Float>(x: &[T], y: &mut [T]) -> Result<(), Error> {
    let args = Args::new(x, y)?;
    T::ops()?.relu.run(args);
    Ok(())
}

/// The same as an op: `relu_f32`, `relu_f64`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Relu<T>(PhantomData<T>);

/// Two vectors of one length.
#[derive(Debug)]
pub struct Args<'a, T> {
    x: &'a [T],
    y: &'a mut [T],
}

impl<'a, T: Float> Args<'a, T> {
    /// Checks the lengths.
    pub fn new(x: &'a [T], y: &'a mut [T]) -> Result<Self, ShapeError> {
        one_length("relu", x, y)?;
        Ok(Args { x, y })
    }
}

/// Not `max`, which would make 0 of what is not a number.
#[inline(always)]
fn positive<T: Float>(x: T) -> T {
    if x < T::zero() { T::zero() } else { x }
}

impl<T: Float> Op for Relu<T> {
    type Args<'a> = Args<'a, T>;
    type Output = ();

    fn name(&self) -> &str {
        T::named("relu_f32", "relu_f64")
    }

    #[inline]
    fn workload(&self, args: &Args<'_, T>) -> Workload {
        self.shaped(&[args.x.len()])
    }
}

impl<T: Float> Shaped for Relu<T> {
    #[inline]
    fn shaped(&self, shape: &[usize]) -> Workload {
        per_element::<T>(shape[0], 1, 2)
    }

    fn make(&self, shape: &[usize], seed: u64) -> Self::Sample {
        (floats(shape[0], seed, 0), vec![T::one(); shape[0]])
    }
}

impl<T: Float> Verify for Relu<T> {
    type Sample = (Vec<T>, Vec<T>);

    fn sample(&self, workload: &Workload, seed: u64) -> Self::Sample {
        let mut sample = self.make(&short(workload), seed);
        sprinkle(&mut sample.0, &rare());
        sample
    }

    fn args<'a>(&self, (x, y): &'a mut Self::Sample) -> Args<'a, T> {
        Args { x, y }
    }

    fn agrees(&self, expected: (&Self::Sample, &()), got: (&Self::Sample, &())) -> bool {
        near_all(&expected.0.1, &got.0.1, |_| 0.0) // nothing rounds
    }
}

/// Declares it with its variants: `scalar` (the reference), `simd`, `avx512`, `threads` and one for
/// each GPU.
pub fn declare<T: Float>(selector: &Selector) -> Result<Handle<Relu<T>>, BuildError> {
    let builder = in_lanes(selector, scalar::relu);
    #[cfg(feature = "gpu")]
    let builder = gpu::variants(selector, builder);
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variants::{bodies, lengths};

    fn right_at_every_length<T: Float>() {
        let op = Relu::<T>::default();
        for n in lengths() {
            let sample = op.sample(&op.shaped(&[n]), 5);
            for (name, relu) in bodies::<Relu<T>>(scalar::relu) {
                let mut got = sample.clone();
                relu(&mut op.args(&mut got));
                for (i, (x, y)) in sample.0.iter().zip(&got.1).enumerate() {
                    let right = match x.wide() {
                        x if x.is_nan() => y.is_nan(),
                        x if x > 0.0 => y.wide() == x,
                        _ => y.wide() == 0.0,
                    };
                    assert!(right, "{name}, {i} of {n}: {x:?} gave {y:?}");
                }
            }
        }
    }

    #[test]
    fn every_variant_keeps_what_is_positive_or_not_a_number() {
        right_at_every_length::<f32>();
        right_at_every_length::<f64>();
    }

    #[test]
    fn the_check_sees_one_wrong_element() {
        let op = Relu::<f32>::default();
        let mut right = op.make(&[100], 1);
        scalar::relu(&mut op.args(&mut right));
        assert!(op.agrees((&right, &()), (&right, &())));
        for wrong in [f32::NAN, -1.0, right.1[99].next_up()] {
            let mut got = right.clone();
            got.1[99] = wrong;
            assert!(!op.agrees((&right, &()), (&got, &())), "{wrong}");
        }
    }

    #[test]
    fn lengths_that_differ_are_an_error_that_names_both() {
        let error = Args::new(&[1.0_f32; 3], &mut [1.0; 4]).unwrap_err();
        assert!(error.to_string().contains("shapes 3 and 4"), "{error}");
    }
}
