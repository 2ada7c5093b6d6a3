//! The sum of two vectors, element by element.

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
use crate::sample::{floats, near_all, rare, short, sprinkle};
use crate::variants::in_lanes;
use crate::{Error, Float, ShapeError};

/// z ← x + y.
///
/// ```
/// let mut z = [0.0; 2];
/// pointsman_ops::add(&[1.0, 2.0], &[3.0, 4.0], &mut z)?;
/// assert_eq!(z, [4.0, 6.0]);
/// # Ok::<(), pointsman_ops::Error>(())
/// ```
pub fn add<T: Float>(x: &[T], y: &[T], z: &mut [T]) -> Result<(), Error> {
    let args = Args::new(x, y, z)?;
    T::ops()?.add.run(args);
    Ok(())
}

/// The same as an op: `add_f32`, `add_f64`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Add<T>(PhantomData<T>);

/// Three vectors of one length.
#[derive(Debug)]
pub struct Args<'a, T> {
    x: &'a [T],
    y: &'a [T],
    z: &'a mut [T],
}

impl<'a, T: Float> Args<'a, T> {
    /// Checks the lengths.
    pub fn new(x: &'a [T], y: &'a [T], z: &'a mut [T]) -> Result<Self, ShapeError> {
        one_length("add", x, y)?;
        one_length("add", x, z)?;
        Ok(Args { x, y, z })
    }
}

impl<T: Float> Op for Add<T> {
    type Args<'a> = Args<'a, T>;
    type Output = ();

    fn name(&self) -> &str {
        T::named("add_f32", "add_f64")
    }

    #[inline]
    fn workload(&self, args: &Args<'_, T>) -> Workload {
        self.shaped(&[args.x.len()])
    }
}

impl<T: Float> Shaped for Add<T> {
    #[inline]
    fn shaped(&self, shape: &[usize]) -> Workload {
        per_element::<T>(shape[0], 1, 3)
    }

    fn make(&self, shape: &[usize], seed: u64) -> Self::Sample {
        let n = shape[0];
        [floats(n, seed, 0), floats(n, seed, 1), vec![T::zero(); n]]
    }
}

impl<T: Float> Verify for Add<T> {
    type Sample = [Vec<T>; 3];

    fn sample(&self, workload: &Workload, seed: u64) -> Self::Sample {
        let mut sample = self.make(&short(workload), seed);
        sprinkle(&mut sample[0], &rare());
        sample
    }

    fn args<'a>(&self, [x, y, z]: &'a mut Self::Sample) -> Args<'a, T> {
        Args { x, y, z }
    }

    fn agrees(&self, expected: (&Self::Sample, &()), got: (&Self::Sample, &())) -> bool {
        near_all(&expected.0[2], &got.0[2], |_| 0.0) // one rounding each: the same one
    }
}

/// Declares it with its variants: `scalar` (the reference), `simd`, `avx512`, `threads` and one for
/// each GPU.
pub fn declare<T: Float>(selector: &Selector) -> Result<Handle<Add<T>>, BuildError> {
    let builder = in_lanes(selector, scalar::add);
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
        let op = Add::<T>::default();
        for n in lengths() {
            let sample = op.sample(&op.shaped(&[n]), 5);
            for (name, add) in bodies::<Add<T>>(scalar::add) {
                let mut got = sample.clone();
                add(&mut op.args(&mut got));
                for i in 0..n {
                    let sum = T::of(sample[0][i].wide() + sample[1][i].wide());
                    let z = got[2][i];
                    assert!(z == sum || z.is_nan() && sum.is_nan(), "{name}, {i} of {n}");
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
    fn the_check_sees_one_wrong_element() {
        let op = Add::<f32>::default();
        let mut right = op.make(&[100], 1);
        scalar::add(&mut op.args(&mut right));
        assert!(op.agrees((&right, &()), (&right, &())));
        for wrong in [f32::NAN, f32::INFINITY, right[2][99].next_up()] {
            let mut got = right.clone();
            got[2][99] = wrong;
            assert!(!op.agrees((&right, &()), (&got, &())), "{wrong}");
        }
    }

    #[test]
    fn lengths_that_differ_are_an_error_that_names_both() {
        let error = |y, z: &mut [f32]| Args::new(&[1.0; 3], y, z).unwrap_err().to_string();
        assert!(error(&[1.0; 4], &mut [0.0; 3]).contains("3 and 4"));
        assert!(error(&[1.0; 3], &mut [0.0; 5]).contains("3 and 5"));
    }
}
