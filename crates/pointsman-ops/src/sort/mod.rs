//! Sorting.

mod key;
mod radix;
mod standard;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;

use pointsman::{Backend, BuildError, Handle, Op, Selector, Verify, Workload};

pub(crate) use self::key::Key;
use crate::catalogue::Shaped;
use crate::sample::{bounded, floats};
use crate::team::WORTH_SHARING;
use crate::{Error, Float, ShapeError};

/// y ← x in ascending order.
///
/// The order is that of [`f64::total_cmp`]: −NaN, −∞, negative numbers, −0, +0, positive numbers,
/// +∞, NaN. Numbers that are equal in it have the same bits, so there is no more than one result.
///
/// ```
/// let mut y = [0.0; 4];
/// pointsman_ops::sort(&[3.0, -1.0, 0.0, -0.0], &mut y)?;
/// assert_eq!(y, [-1.0, -0.0, 0.0, 3.0]);
/// # Ok::<(), pointsman_ops::Error>(())
/// ```
pub fn sort<T: Float>(x: &[T], y: &mut [T]) -> Result<(), Error> {
    let args = Args::new(x, y)?;
    T::ops()?.sort.run(args);
    Ok(())
}

/// The same as an op: `sort_f32`, `sort_f64`.
///
/// From one vector to another, not in place: a variant that fails halfway has lost nothing, and a
/// call that is measured again is not given what is already sorted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sort<T>(PhantomData<T>);

/// Two vectors of one length.
#[derive(Debug)]
pub struct Args<'a, T> {
    x: &'a [T],
    y: &'a mut [T],
}

impl<'a, T: Float> Args<'a, T> {
    /// Checks the lengths.
    pub fn new(x: &'a [T], y: &'a mut [T]) -> Result<Self, ShapeError> {
        if x.len() != y.len() {
            let rule = "both vectors must be of one length";
            return Err(ShapeError::new("sort", &[x.len()], &[y.len()], rule));
        }
        Ok(Args { x, y })
    }
}

impl<T: Float> Op for Sort<T> {
    type Args<'a> = Args<'a, T>;
    type Output = ();

    fn name(&self) -> &str {
        T::named("sort_f32", "sort_f64")
    }

    #[inline]
    fn workload(&self, args: &Args<'_, T>) -> Workload {
        self.shaped(&[args.x.len()])
    }
}

impl<T: Float> Shaped for Sort<T> {
    #[inline]
    fn shaped(&self, shape: &[usize]) -> Workload {
        let n = shape[0];
        Workload::new([n])
            .dtype(T::DTYPE)
            // Comparisons: about n lg n.
            .flops(n as f64 * (n.max(1) as f64).log2())
            .bytes(2 * size_of::<T>() * n)
    }

    fn make(&self, shape: &[usize], seed: u64) -> Self::Sample {
        let mut x: Vec<T> = floats(shape[0], seed, 0);
        // Now and then what is not simply less or more.
        let odd = [T::nan(), -T::nan(), T::neg_infinity(), T::neg_zero()];
        let odd = odd.into_iter().chain([T::zero(), T::infinity()]).cycle();
        x.iter_mut()
            .skip(5)
            .step_by(97)
            .zip(odd)
            .for_each(|(x, odd)| *x = odd);
        let y = vec![T::zero(); x.len()];
        (x, y)
    }
}

impl<T: Float> Verify for Sort<T> {
    type Sample = (Vec<T>, Vec<T>);

    fn sample(&self, workload: &Workload, seed: u64) -> Self::Sample {
        let work = |shape: &[usize]| self.shaped(shape).flop_count();
        self.make(&bounded(workload, work), seed)
    }

    fn args<'a>(&self, (x, y): &'a mut Self::Sample) -> Args<'a, T> {
        Args { x, y }
    }

    fn agrees(&self, expected: (&Self::Sample, &()), got: (&Self::Sample, &())) -> bool {
        let [expected, got] = [expected, got].map(|(sample, ())| sample.1.iter().map(|y| y.key()));
        expected.eq(got)
    }
}

/// Declares it with its variants: `std_stable` (the reference), `std_unstable`, `radix` and
/// `threads`.
pub fn declare<T: Float>(selector: &Selector) -> Result<Handle<Sort<T>>, BuildError> {
    selector
        .op(Sort::<T>::default())
        .reference("std_stable", Backend::Scalar, |a| {
            standard::stable(a.x, a.y)
        })
        .variant("std_unstable", Backend::Scalar, |a| {
            standard::unstable(a.x, a.y)
        })
        .variant("radix", Backend::Scalar, |a| radix::sort(a.x, a.y))
        .variant("threads", Backend::Threads, |a| standard::threads(a.x, a.y))
        .min_size(WORTH_SHARING)
        .verified()
        .build()
}
