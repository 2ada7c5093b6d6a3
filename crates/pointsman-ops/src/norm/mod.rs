//! The Euclidean length of a vector.

mod scalar;
mod simd;

use std::marker::PhantomData;

use pointsman::{BuildError, Handle, Op, Selector, Verify, Workload};

use crate::catalogue::{Shaped, per_element};
use crate::sample::{floats, gamma, near, short};
use crate::variants::in_lanes;
use crate::{Error, Float};

/// √ Σ xᵢ², without overflow or underflow on the way. Not a number if any element is not.
///
/// ```
/// assert_eq!(pointsman_ops::norm(&[3.0, 4.0])?, 5.0);
/// let huge = 2_f64.powi(1000); // its square is infinite
/// assert_eq!(pointsman_ops::norm(&[3.0 * huge, 4.0 * huge])?, 5.0 * huge);
/// # Ok::<(), pointsman_ops::Error>(())
/// ```
pub fn norm<T: Float>(x: &[T]) -> Result<T, Error> {
    Ok(T::ops()?.norm.run(Args { x }))
}

/// The same as an op: `norm_f32`, `norm_f64`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Norm<T>(PhantomData<T>);

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

impl<T: Float> Op for Norm<T> {
    type Args<'a> = Args<'a, T>;
    type Output = T;

    fn name(&self) -> &str {
        T::named("norm_f32", "norm_f64")
    }

    #[inline]
    fn workload(&self, args: &Args<'_, T>) -> Workload {
        self.shaped(&[args.x.len()])
    }
}

impl<T: Float> Shaped for Norm<T> {
    #[inline]
    fn shaped(&self, shape: &[usize]) -> Workload {
        per_element::<T>(shape[0], 2, 1)
    }

    fn make(&self, shape: &[usize], seed: u64) -> Self::Sample {
        floats(shape[0], seed, 0)
    }
}

impl<T: Float> Verify for Norm<T> {
    type Sample = Vec<T>;

    fn sample(&self, workload: &Workload, seed: u64) -> Self::Sample {
        let mut x: Vec<T> = self.make(&short(workload), seed);
        // By the seed ordinary, or at one of the ends of the range.
        let ends = [T::one(), T::max_value().sqrt(), T::min_positive_value()];
        let factor = ends[(seed % 3) as usize];
        x.iter_mut().for_each(|x| *x *= factor);
        x
    }

    fn args<'a>(&self, x: &'a mut Self::Sample) -> Args<'a, T> {
        Args { x }
    }

    fn agrees(&self, expected: (&Self::Sample, &T), got: (&Self::Sample, &T)) -> bool {
        let (x, expected) = expected;
        near(*expected, *got.1, 2.0 * error_bound(x.len(), *expected))
    }
}

/// How far a result may be from the exact one: half of the relative error of a sum of n + 4 roundings
/// (terms, additions, a square of a quotient), and those of root, scaling and joined parts, of which
/// each may be denormal: a few of the least denormal.
fn error_bound<T: Float>(n: usize, exact: T) -> f64 {
    let least = T::min_positive_value() * T::epsilon();
    gamma::<T>(n / 2 + 8) * exact.wide() + 8.0 * least.wide()
}

/// Declares it with its variants: `scalar` (the reference), `simd`, `avx512` and `threads`.
pub fn declare<T: Float>(selector: &Selector) -> Result<Handle<Norm<T>>, BuildError> {
    in_lanes(selector, scalar::norm).build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variants::{bodies, lengths};

    /// A power of two brings the numbers to where their squares are exact enough.
    fn exact<T: Float>(x: &[T], power: f64) -> f64 {
        let squares = x.iter().map(|x| (x.wide() * power).powi(2));
        squares.sum::<f64>().sqrt() / power
    }

    fn right_at_every_length_and_scale<T: Float>(scales: [f64; 5]) {
        for n in lengths() {
            let x = floats::<T>(n, 7, 0);
            for scale in scales {
                let x: Vec<T> = x.iter().map(|x| *x * T::of(scale)).collect();
                let exact = exact(&x, 1.0 / scale);
                for (name, norm) in bodies::<Norm<T>>(scalar::norm) {
                    let got = norm(&mut Args::new(&x));
                    // For f64 the exact one is rounded as often.
                    let bound = 2.0 * error_bound(n, T::of(exact));
                    let off = (got.wide() - exact).abs();
                    assert!(
                        off <= bound,
                        "{name} of {n} by {scale}: {got:?}, not {exact}"
                    );
                }
            }
        }
    }

    #[test]
    fn no_variant_overflows_or_underflows_at_any_length() {
        // The last one makes denormals of all but the largest.
        let p = |e| 2f64.powi(e);
        right_at_every_length_and_scale::<f32>([1.0, p(64), p(110), p(-64), p(-130)]);
        right_at_every_length_and_scale::<f64>([1.0, p(512), p(1000), p(-512), p(-1015)]);
    }

    #[test]
    fn large_and_tiny_elements_together_are_right() {
        for (name, norm) in bodies::<Norm<f64>>(scalar::norm) {
            let norm = |x: &[f64]| norm(&mut Args::new(x));
            assert_eq!(norm(&[1e-300, 1e300, 1e-300]), 1e300, "{name}");
            assert_eq!(
                norm(&[f64::MAX; 2]),
                f64::INFINITY,
                "{name}: the norm itself is"
            );
            let tiny = [3, 4].map(f64::from_bits);
            assert_eq!(norm(&tiny), f64::from_bits(5), "{name}");
            assert_eq!(norm(&[0.0; 50]), 0.0, "{name}");
        }
    }

    #[test]
    fn what_is_not_finite_shows_wherever_it_is() {
        for (name, norm) in bodies::<Norm<f32>>(scalar::norm) {
            for at in [0, 7, 31, 63, 99] {
                let mut x = vec![1.0; 100];
                x[at] = f32::NEG_INFINITY;
                assert_eq!(norm(&mut Args::new(&x)), f32::INFINITY, "{name} at {at}");
                x[50] = f32::NAN;
                assert!(norm(&mut Args::new(&x)).is_nan(), "{name} at {at}");
            }
        }
    }

    #[test]
    fn the_check_sees_a_wrong_result() {
        let op = Norm::<f32>::default();
        let mut x = op.make(&[1000], 1);
        let right = scalar::norm(&mut op.args(&mut x));
        assert!(op.agrees((&x, &right), (&x, &right)));
        for wrong in [right * 1.001, -right, f32::NAN, f32::INFINITY] {
            assert!(!op.agrees((&x, &right), (&x, &wrong)), "{wrong}");
        }
    }
}
