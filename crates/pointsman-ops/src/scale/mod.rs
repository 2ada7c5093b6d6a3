//! A multiple of a vector, in place.

#[cfg(feature = "gpu")]
mod gpu;
mod scalar;
mod simd;
#[cfg(feature = "trueno")]
mod trueno;

use std::marker::PhantomData;

use pointsman::{BuildError, Handle, Op, Selector, Verify, Workload};

use crate::catalogue::{Shaped, per_element};
use crate::sample::{floats, near_all, rare, short, sprinkle};
use crate::variants::in_lanes;
use crate::{Error, Float};

/// x ← a x.
///
/// ```
/// let mut x = [1.0, 2.0];
/// pointsman_ops::scale(3.0, &mut x)?;
/// assert_eq!(x, [3.0, 6.0]);
/// # Ok::<(), pointsman_ops::Error>(())
/// ```
pub fn scale<T: Float>(a: T, x: &mut [T]) -> Result<(), Error> {
    T::ops()?.scale.run(Args { a, x });
    Ok(())
}

/// The same as an op: `scale_f32`, `scale_f64`.
///
/// A call that failed halfway must not be run again: some elements would be multiplied twice.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scale<T>(PhantomData<T>);

/// A factor and a vector.
#[derive(Debug)]
pub struct Args<'a, T> {
    a: T,
    x: &'a mut [T],
}

impl<'a, T: Float> Args<'a, T> {
    /// Any factor and any vector will do.
    pub fn new(a: T, x: &'a mut [T]) -> Self {
        Args { a, x }
    }
}

impl<T: Float> Op for Scale<T> {
    type Args<'a> = Args<'a, T>;
    type Output = ();

    fn name(&self) -> &str {
        T::named("scale_f32", "scale_f64")
    }

    #[inline]
    fn workload(&self, args: &Args<'_, T>) -> Workload {
        self.shaped(&[args.x.len()])
    }

    fn may_run_again(&self) -> bool {
        false
    }
}

impl<T: Float> Shaped for Scale<T> {
    #[inline]
    fn shaped(&self, shape: &[usize]) -> Workload {
        per_element::<T>(shape[0], 1, 2)
    }

    /// The factor is −1: however often it is run, the elements neither vanish nor overflow.
    fn make(&self, shape: &[usize], seed: u64) -> Self::Sample {
        (-T::one(), floats(shape[0], seed, 0))
    }
}

impl<T: Float> Verify for Scale<T> {
    type Sample = (T, Vec<T>);

    /// Another factor than the calls that are measured have: products round, so that an element that
    /// was multiplied twice or divided shows.
    fn sample(&self, workload: &Workload, seed: u64) -> Self::Sample {
        let (_, mut x) = self.make(&short(workload), seed);
        sprinkle(&mut x, &rare());
        (T::of(0.7), x)
    }

    fn args<'a>(&self, (a, x): &'a mut Self::Sample) -> Args<'a, T> {
        Args { a: *a, x }
    }

    fn agrees(&self, expected: (&Self::Sample, &()), got: (&Self::Sample, &())) -> bool {
        near_all(&expected.0.1, &got.0.1, |_| 0.0) // one rounding each: the same one
    }
}

/// Declares it with its variants: `scalar` (the reference), `simd`, `avx512`, `threads` and one for
/// each GPU.
pub fn declare<T: Float>(selector: &Selector) -> Result<Handle<Scale<T>>, BuildError> {
    let builder = in_lanes(selector, scalar::scale);
    #[cfg(feature = "gpu")]
    let builder = gpu::variants(selector, builder);
    #[cfg(feature = "trueno")]
    let builder = trueno::variants(builder);
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variants::{bodies, lengths};

    fn right_at_every_length<T: Float>() {
        let op = Scale::<T>::default();
        for n in lengths() {
            let (a, before) = op.sample(&op.shaped(&[n]), 5);
            for (name, scale) in bodies::<Scale<T>>(scalar::scale) {
                let mut x = before.clone();
                scale(&mut Args::new(a, &mut x));
                for (i, (x, before)) in x.iter().zip(&before).enumerate() {
                    let product = T::of(a.wide() * before.wide());
                    let same = *x == product || x.is_nan() && product.is_nan();
                    assert!(same, "{name}, {i} of {n}");
                }
            }
        }
    }

    #[test]
    fn every_variant_rounds_correctly_at_every_length() {
        right_at_every_length::<f32>();
        right_at_every_length::<f64>();
    }

    #[test]
    fn calls_that_are_measured_again_and_again_see_the_same_numbers() {
        let op = Scale::<f32>::default();
        let first = op.make(&[100], 3);
        let mut sample = first.clone();
        for _ in 0..1000 {
            scalar::scale(&mut op.args(&mut sample));
        }
        assert_eq!(sample, first);
    }

    #[test]
    fn the_check_sees_one_wrong_element() {
        let op = Scale::<f32>::default();
        let mut right = op.make(&[100], 1);
        scalar::scale(&mut op.args(&mut right));
        assert!(op.agrees((&right, &()), (&right, &())));
        for wrong in [f32::NAN, f32::INFINITY, right.1[99].next_up()] {
            let mut got = right.clone();
            got.1[99] = wrong;
            assert!(!op.agrees((&right, &()), (&got, &())), "{wrong}");
        }
    }
}
