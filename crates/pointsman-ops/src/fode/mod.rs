//! Initial value problems with a fractional derivative.

mod history;
mod steps;
#[cfg(test)]
mod tests;

use std::fmt;
use std::marker::PhantomData;

use libm::tgamma;
use pointsman::{Backend, BuildError, Handle, Op, Selector, Verify, Workload};

use crate::catalogue::Shaped;
use crate::lanes::needs_vectors;
use crate::sample::bounded;
use crate::{Error, Float, ShapeError, ValueError};

/// Solves D^α y = f(t, y) with Caputo's derivative of an order α above 0 and below 2, from t = 0 in
/// steps of h: y\[k\] ← y(k h).
///
/// `start` is y(0), and y'(0) for an order above 1. The error is of order h^(1+α), at most h², where
/// the derivative of the solution is smooth. The function is called twice a step, in order; if it
/// panics, so does the call, after the reference has tried as well.
///
/// ```
/// // D y = −y is solved by e^(−t).
/// let mut y = [0.0; 101];
/// pointsman_ops::fode(|_, y| -y, 1.0, &[1.0], 0.01, &mut y)?;
/// assert!((y[100] - (-1.0_f64).exp()).abs() < 1e-5);
/// # Ok::<(), pointsman_ops::Error>(())
/// ```
pub fn fode<T: Float>(
    rhs: impl Fn(T, T) -> T,
    order: T,
    start: &[T],
    step: T,
    y: &mut [T],
) -> Result<(), Error> {
    let args = Args::new(&rhs, order, start, step, y)?;
    T::ops()?.fode.run(args);
    Ok(())
}

/// The same as an op: `fode_f32`, `fode_f64`.
///
/// Rounding: each y is off by at most n u F t^α / Γ(1 + α) E, with F the largest |f|, u = 6 × 10⁻⁸ for
/// `f32` and 10⁻¹⁶ for `f64`, and E the factor by which the problem itself lets errors grow; with
/// spectra by 72 √n lg(2 n) in place of n.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fode<T>(PhantomData<T>);

/// A problem, and where its solution goes.
pub struct Args<'a, T> {
    rhs: &'a dyn Fn(T, T) -> T,
    order: T,
    start: &'a [T],
    step: T,
    y: &'a mut [T],
}

impl<T: fmt::Debug> fmt::Debug for Args<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Args")
            .field("order", &self.order)
            .field("start", &self.start)
            .field("step", &self.step)
            .field("points", &self.y.len())
            .finish_non_exhaustive()
    }
}

impl<'a, T: Float> Args<'a, T> {
    /// Checks numbers and lengths.
    pub fn new(
        rhs: &'a dyn Fn(T, T) -> T,
        order: T,
        start: &'a [T],
        step: T,
        y: &'a mut [T],
    ) -> Result<Self, Error> {
        let (alpha, h) = (order.wide(), step.wide());
        if !(alpha > 0.0 && alpha < 2.0) {
            return Err(ValueError::new("fode", "order", alpha, "above 0 and below 2").into());
        }
        if !(h > 0.0 && h.is_finite()) {
            return Err(ValueError::new("fode", "step", h, "above 0 and finite").into());
        }
        let needed = if alpha > 1.0 { 2 } else { 1 };
        if start.len() != needed {
            let rule = "the start must be y(0), and y'(0) for an order above 1";
            return Err(ShapeError::new("fode", &[start.len()], &[needed], rule).into());
        }
        Ok(Args {
            rhs,
            order,
            start,
            step,
            y,
        })
    }
}

impl<T: Float> Op for Fode<T> {
    type Args<'a> = Args<'a, T>;
    type Output = ();

    fn name(&self) -> &str {
        T::named("fode_f32", "fode_f64")
    }

    #[inline]
    fn workload(&self, args: &Args<'_, T>) -> Workload {
        self.shaped(&[args.y.len()])
    }
}

/// Of the samples: D^α y = t − y from t = 0 to 1, with y(0) = 1.
const ORDER: f64 = 0.6;

fn relax<T: Float>(t: T, y: T) -> T {
    t - y
}

impl<T: Float> Shaped for Fode<T> {
    const AXES: &'static [&'static str] = &["points"];

    #[inline]
    fn shaped(&self, shape: &[usize]) -> Workload {
        let n = shape[0];
        Workload::new([n])
            .dtype(T::DTYPE)
            // Of the direct sums: two of n²/2 products; the function's own are not known.
            .flops(2.0 * n as f64 * n as f64)
            .bytes(size_of::<T>() * n)
    }

    fn make(&self, shape: &[usize], _seed: u64) -> Self::Sample {
        (T::one(), vec![T::zero(); shape[0]])
    }
}

impl<T: Float> Verify for Fode<T> {
    /// y(0), and the points.
    type Sample = (T, Vec<T>);

    fn sample(&self, workload: &Workload, seed: u64) -> Self::Sample {
        let work = |shape: &[usize]| self.shaped(shape).flop_count();
        self.make(&bounded(workload, work), seed)
    }

    fn args<'a>(&self, (start, y): &'a mut Self::Sample) -> Args<'a, T> {
        Args {
            rhs: &relax::<T>,
            order: T::of(ORDER),
            start: std::slice::from_ref(start),
            step: T::of(1.0 / y.len().max(1) as f64),
            y,
        }
    }

    fn agrees(&self, expected: (&Self::Sample, &()), got: (&Self::Sample, &())) -> bool {
        let (expected, got) = (&expected.0.1, &got.0.1);
        let bound = 2.0 * error_bound::<T>(expected.len());
        let near = |(e, g): (&T, &T)| (e.wide() - g.wide()).abs() <= bound;
        expected.len() == got.len() && expected.iter().zip(got).all(near)
    }
}

/// How far a solution of the samples may be from the one without rounding.
///
/// The sums of a step are Σ w |f| ≤ t^α / Γ(1 + α) max |f| after their factor, and |f| ≤ 2 here. Added
/// up one by one, they are off by γₙ of that. A piece of n by spectra: 21 u lg(2 n) ‖w‖₁ ‖f‖₂, see
/// [`causal::error_bound`](crate::causal::error_bound), with ‖f‖₂ ≤ √n max |f|; pieces of n/2, n/4, …
/// together at most 1 / (1 − √½) < 3.42 times the largest. What goes wrong in one step enters the rates,
/// and grows by no more than E_α(t^α) (Gronwall), which is 4.3 for α = 0.6 at t = 1, and at most as
/// much again by the corrector.
fn error_bound<T: Float>(n: usize) -> f64 {
    let points = n.max(1) as f64;
    let spectra = 3.42 * 21.0 * (2.0 * points).log2() * points.sqrt();
    let sums = (points + 4.0).max(spectra) * T::ROUNDOFF * 2.0 / tgamma(1.0 + ORDER);
    sums * 2.0 * 4.3
}

/// Points below which threads are not worth waking.
const WORTH_THREADS: usize = 1024;

/// Declares it with its variants: `direct` (the reference), `simd`, `threads` and `fft`.
pub fn declare<T: Float>(selector: &Selector) -> Result<Handle<Fode<T>>, BuildError> {
    let builder = selector
        .op(Fode::<T>::default())
        .reference(
            "direct",
            Backend::Scalar,
            steps::solve::<T, history::Direct>,
        )
        .variant("simd", Backend::Simd, steps::solve::<T, history::Simd>);
    let builder = needs_vectors(builder)
        .variant(
            "threads",
            Backend::Threads,
            steps::solve::<T, history::Threads>,
        )
        .min_size(WORTH_THREADS)
        .variant("fft", Backend::Simd, steps::solve::<T, history::Spectra<T>>);
    needs_vectors(builder).verified().build()
}
