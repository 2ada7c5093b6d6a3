//! The sum of a vector's elements.

#[cfg(feature = "gpu")]
mod gpu;
mod scalar;
mod simd;
#[cfg(feature = "trueno")]
mod trueno;

use std::marker::PhantomData;

use pointsman::{BuildError, Handle, Op, Selector, Verify, Workload};

use crate::catalogue::{Shaped, per_element};
use crate::sample::{floats, gamma, short};
use crate::variants::in_lanes;
use crate::{Error, Float};

/// Σ xᵢ.
///
/// ```
/// assert_eq!(pointsman_ops::sum(&[1.0, 2.0, 3.0])?, 6.0);
/// # Ok::<(), pointsman_ops::Error>(())
/// ```
pub fn sum<T: Float>(x: &[T]) -> Result<T, Error> {
    Ok(T::ops()?.sum.run(Args { x }))
}

/// The same as an op: `sum_f32`, `sum_f64`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum<T>(PhantomData<T>);

/// A vector.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a, T> {
    x: &'a [T],
}

impl<'a, T: Float> Args<'a, T> {
    /// Any vector will do.
    pub fn new(x: &'a [T]) -> Self {
        Args { x }
    }
}

impl<T: Float> Op for Sum<T> {
    type Args<'a> = Args<'a, T>;
    type Output = T;

    fn name(&self) -> &str {
        T::named("sum_f32", "sum_f64")
    }

    #[inline]
    fn workload(&self, args: &Args<'_, T>) -> Workload {
        self.shaped(&[args.x.len()])
    }
}

impl<T: Float> Shaped for Sum<T> {
    #[inline]
    fn shaped(&self, shape: &[usize]) -> Workload {
        per_element::<T>(shape[0], 1, 1)
    }

    fn make(&self, shape: &[usize], seed: u64) -> Self::Sample {
        floats(shape[0], seed, 0)
    }
}

impl<T: Float> Verify for Sum<T> {
    type Sample = Vec<T>;

    fn sample(&self, workload: &Workload, seed: u64) -> Self::Sample {
        self.make(&short(workload), seed)
    }

    fn args<'a>(&self, x: &'a mut Self::Sample) -> Args<'a, T> {
        Args { x }
    }

    fn agrees(&self, expected: (&Self::Sample, &T), got: (&Self::Sample, &T)) -> bool {
        (expected.1.wide() - got.1.wide()).abs() <= 2.0 * error_bound(expected.0)
    }
}

/// How far from the exact sum a result may be, in whatever order it was added up: γₙ Σ |xᵢ|.
fn error_bound<T: Float>(x: &[T]) -> f64 {
    gamma::<T>(x.len()) * x.iter().map(|x| x.wide().abs()).sum::<f64>()
}

/// Declares it with its variants: `scalar` (the reference), `simd`, `avx512`, `threads` and one for
/// each GPU.
pub fn declare<T: Float>(selector: &Selector) -> Result<Handle<Sum<T>>, BuildError> {
    let builder = in_lanes(selector, scalar::sum);
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
        for n in lengths() {
            let x = floats::<T>(n, 7, 0);
            // Whole numbers of 2^-23 below 2^53 of them: exact.
            let exact: f64 = x.iter().map(|x| x.wide()).sum();
            for (name, sum) in bodies::<Sum<T>>(scalar::sum) {
                let off = (sum(&mut Args::new(&x)).wide() - exact).abs();
                assert!(off <= error_bound(&x), "{name} of {n}: {off}");
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
        let x = floats::<f32>(300, 3, 0);
        for (name, sum) in bodies::<Sum<f32>>(scalar::sum) {
            for from in 0..16 {
                let x = &x[from..from + 200];
                let exact: f64 = x.iter().map(|x| x.wide()).sum();
                let off = (sum(&mut Args::new(x)).wide() - exact).abs();
                assert!(off <= error_bound(x), "{name}, {from} off");
            }
        }
    }

    #[test]
    fn what_is_not_finite_shows_wherever_it_is() {
        for (name, sum) in bodies::<Sum<f32>>(scalar::sum) {
            for at in [0, 7, 31, 63, 99] {
                let mut x = vec![1.0; 100];
                x[at] = f32::INFINITY;
                assert_eq!(sum(&mut Args::new(&x)), f32::INFINITY, "{name} at {at}");
                x[at] = f32::NAN;
                assert!(sum(&mut Args::new(&x)).is_nan(), "{name} at {at}");
            }
            let tiny = vec![f32::from_bits(1); 100];
            assert_eq!(sum(&mut Args::new(&tiny)), f32::from_bits(100), "{name}");
        }
    }

    #[test]
    fn the_check_sees_a_wrong_result() {
        let op = Sum::<f32>::default();
        let mut x = op.make(&[1000], 1);
        let right = scalar::sum(&mut op.args(&mut x));
        assert!(op.agrees((&x, &right), (&x, &right)));
        for wrong in [right + 0.1, f32::NAN, f32::INFINITY] {
            assert!(!op.agrees((&x, &right), (&x, &wrong)), "{wrong}");
        }
    }
}
