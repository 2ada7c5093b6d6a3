//! The exponential of each element.

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

pub(crate) use simd::Reduced;

/// y ← eˣ, element by element, within 2 ULP of the exact result where the platform's own exponential
/// is. What overflows is infinite, what underflows is denormal or 0, what is not a number stays so.
///
/// ```
/// let mut y = [0.0; 3];
/// pointsman_ops::exp(&[0.0, 1000.0, f64::NEG_INFINITY], &mut y)?;
/// assert_eq!(y, [1.0, f64::INFINITY, 0.0]);
/// # Ok::<(), pointsman_ops::Error>(())
/// ```
pub fn exp<T: Float>(x: &[T], y: &mut [T]) -> Result<(), Error> {
    let args = Args::new(x, y)?;
    T::ops()?.exp.run(args);
    Ok(())
}

/// The same as an op: `exp_f32`, `exp_f64`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exp<T>(PhantomData<T>);

/// Two vectors of one length.
#[derive(Debug)]
pub struct Args<'a, T> {
    x: &'a [T],
    y: &'a mut [T],
}

impl<'a, T: Float> Args<'a, T> {
    /// Checks the lengths.
    pub fn new(x: &'a [T], y: &'a mut [T]) -> Result<Self, ShapeError> {
        one_length("exp", x, y)?;
        Ok(Args { x, y })
    }
}

impl<T: Float> Op for Exp<T> {
    type Args<'a> = Args<'a, T>;
    type Output = ();

    fn name(&self) -> &str {
        T::named("exp_f32", "exp_f64")
    }

    #[inline]
    fn workload(&self, args: &Args<'_, T>) -> Workload {
        self.shaped(&[args.x.len()])
    }
}

impl<T: Float> Shaped for Exp<T> {
    #[inline]
    fn shaped(&self, shape: &[usize]) -> Workload {
        per_element::<T>(shape[0], 2 * T::DEGREE + 9, 2) // those of the polynomial
    }

    fn make(&self, shape: &[usize], seed: u64) -> Self::Sample {
        let x = floats::<T>(shape[0], seed, 0);
        (
            x.into_iter().map(|x| x * T::of(10.0)).collect(),
            vec![T::zero(); shape[0]],
        )
    }
}

impl<T: Float> Verify for Exp<T> {
    type Sample = (Vec<T>, Vec<T>);

    fn sample(&self, workload: &Workload, seed: u64) -> Self::Sample {
        let mut sample = self.make(&short(workload), seed);
        sprinkle(&mut sample.0, &rare());
        sprinkle(sample.0.get_mut(1..).unwrap_or_default(), &ends());
        sample
    }

    fn args<'a>(&self, (x, y): &'a mut Self::Sample) -> Args<'a, T> {
        Args { x, y }
    }

    fn agrees(&self, expected: (&Self::Sample, &()), got: (&Self::Sample, &())) -> bool {
        near_all(&expected.0.1, &got.0.1, |e| 2.0 * error_bound(e))
    }
}

/// How far the result may be from the exact one: 2 ULP.
fn error_bound<T: Float>(expected: T) -> f64 {
    let least = T::min_positive_value() * T::epsilon();
    2.0 * (2.0 * T::ROUNDOFF * expected.wide()).max(least.wide())
}

/// Arguments whose results are at the ends of the range: in turn large, infinite, denormal and 0.
fn ends<T: Float>() -> [T; 4] {
    let [most, least] = [T::max_value(), T::min_positive_value()].map(|x| x.ln());
    let by = T::of(1.001);
    [most / by, most * by, least * by, least * T::of(1.3)]
}

/// Declares it with its variants: `scalar` (the reference), `simd`, `avx512` and `threads`.
pub fn declare<T: Float>(selector: &Selector) -> Result<Handle<Exp<T>>, BuildError> {
    let builder = in_lanes(selector, scalar::exp);
    #[cfg(feature = "trueno")]
    let builder = trueno::variants(builder);
    builder.build()
}

#[cfg(test)]
mod tests;
