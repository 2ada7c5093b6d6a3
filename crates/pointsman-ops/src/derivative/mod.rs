//! Fractional derivatives on a uniform grid.

#[cfg(feature = "gpu")]
mod gpu;
mod method;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;

use pointsman::{Backend, BuildError, Handle, Op, Selector, Verify, Workload};

pub use self::method::{CaputoL1, GrunwaldLetnikov, Method};
use crate::catalogue::Shaped;
use crate::lanes::needs_vectors;
use crate::sample::{bounded, floats};
use crate::scratch::{kept, part};
use crate::{Error, Float, ShapeError, ValueError, causal};

/// The derivative of an order α between 0 and 2 by Grünwald and Letnikov's sums:
/// yₖ ← h^(−α) Σ wⱼ xₖ₋ⱼ with w₀ = 1 and wⱼ = wⱼ₋₁ (1 − (α + 1) / j).
///
/// Its error is of order h where the function begins with 0 and is smooth.
///
/// ```
/// // The half derivative of t is 2 √(t / π).
/// let h = 0.001;
/// let x: Vec<f64> = (0..=1000).map(|k| h * k as f64).collect();
/// let mut y = vec![0.0; x.len()];
/// pointsman_ops::grunwald_letnikov(0.5, h, &x, &mut y)?;
/// assert!((y[1000] - 2.0 / std::f64::consts::PI.sqrt()).abs() < h);
/// # Ok::<(), pointsman_ops::Error>(())
/// ```
pub fn grunwald_letnikov<T: Float>(order: T, step: T, x: &[T], y: &mut [T]) -> Result<(), Error> {
    let args = Args::new(order, step, x, y)?;
    T::ops()?.grunwald_letnikov.run(args);
    Ok(())
}

/// Caputo's derivative of an order α between 0 and 1 by the method L1:
/// yₖ ← h^(−α) / Γ(2 − α) Σ wⱼ (xₖ₋ⱼ − xₖ₋ⱼ₋₁) with wⱼ = (j + 1)^(1−α) − j^(1−α), and y₀ ← 0.
///
/// Its error is of order h^(2−α) for smooth functions.
///
/// ```
/// // A constant has none.
/// let mut y = [9.0; 3];
/// pointsman_ops::caputo_l1(0.5, 0.1, &[7.0; 3], &mut y)?;
/// assert_eq!(y, [0.0; 3]);
/// # Ok::<(), pointsman_ops::Error>(())
/// ```
pub fn caputo_l1<T: Float>(order: T, step: T, x: &[T], y: &mut [T]) -> Result<(), Error> {
    let args = Args::new(order, step, x, y)?;
    T::ops()?.caputo_l1.run(args);
    Ok(())
}

/// Both as ops: `grunwald_letnikov_f32`, `grunwald_letnikov_f64`, `caputo_l1_f32`, `caputo_l1_f64`.
///
/// Rounding: weights are right to a relative 3 n × 10⁻¹⁶ and then rounded to the element type. The
/// sums of n terms are off by at most n u h^(−α) ‖w‖₂ ‖x‖₂, with u = 6 × 10⁻⁸ for `f32` and 10⁻¹⁶ for
/// `f64`; by transforms by at most 21 u lg(4 n) h^(−α) ‖w‖₁ ‖x‖₂, the same for small results as for
/// large ones. (For Caputo's, x are the differences, and there is the factor 1 / Γ(2 − α).)
#[derive(Clone, Copy, Debug, Default)]
pub struct Derivative<T, M>(PhantomData<(T, M)>);

/// Order and step, and two vectors of one length.
#[derive(Debug)]
pub struct Args<'a, T, M> {
    order: T,
    step: T,
    x: &'a [T],
    y: &'a mut [T],
    method: PhantomData<M>,
}

impl<'a, T: Float, M: Method> Args<'a, T, M> {
    /// Checks numbers and lengths.
    pub fn new(order: T, step: T, x: &'a [T], y: &'a mut [T]) -> Result<Self, Error> {
        let [op, ..] = M::NAMES;
        let (alpha, h) = (order.wide(), step.wide());
        if !(alpha > 0.0 && alpha < M::BELOW) {
            return Err(ValueError::new(op, "order", alpha, M::RULE).into());
        }
        if !(h > 0.0 && h.is_finite()) {
            return Err(ValueError::new(op, "step", h, "above 0 and finite").into());
        }
        if x.len() != y.len() {
            let rule = "both vectors must be of one length";
            return Err(ShapeError::new(op, &[x.len()], &[y.len()], rule).into());
        }
        Ok(Args {
            order,
            step,
            x,
            y,
            method: PhantomData,
        })
    }
}

impl<T: Float, M: Method> Op for Derivative<T, M> {
    type Args<'a> = Args<'a, T, M>;
    type Output = ();

    fn name(&self) -> &str {
        let [_, single, double] = M::NAMES;
        T::named(single, double)
    }

    #[inline]
    fn workload(&self, args: &Args<'_, T, M>) -> Workload {
        self.shaped(&[args.x.len()])
    }
}

/// What a thread keeps: the weights of the last order, as powers take longer than sums.
#[derive(Default)]
struct Kept<T, M> {
    order: f64,
    weights: Vec<T>,
    differences: Vec<T>,
    method: PhantomData<M>,
}

impl<T: Float, M: Method> Kept<T, M> {
    /// The weights, and what they are for.
    fn terms<'a>(&'a mut self, order: f64, x: &'a [T]) -> (&'a [T], &'a [T]) {
        let n = x.len();
        if self.order != order || self.weights.len() < n {
            self.order = order;
            self.weights.clear();
            self.weights.extend(M::weights(order).take(n).map(T::of));
        }
        let weights = &self.weights[..n];
        if !M::DIFFERENCES || n == 0 {
            return (weights, x);
        }
        let differences = part(&mut self.differences, n);
        differences[0] = T::zero();
        for (d, x) in differences[1..].iter_mut().zip(x.windows(2)) {
            *d = x[1] - x[0];
        }
        (weights, differences)
    }
}

/// Applies a method with this way to convolve.
fn derive<T: Float, M: Method>(
    args: &mut Args<'_, T, M>,
    convolve: impl FnOnce(&[T], &[T], &mut [T]),
) {
    kept(|kept: &mut Kept<T, M>| {
        let order = args.order.wide();
        let (w, x) = kept.terms(order, args.x);
        convolve(w, x, args.y);
        let factor = T::of(M::factor(order, args.step.wide()));
        args.y.iter_mut().for_each(|y| *y *= factor);
    });
}

/// Of the samples: not a half, so that no square root stands in for a power.
const ORDER: f64 = 0.6;
const STEP: f64 = 0.125;

impl<T: Float, M: Method> Shaped for Derivative<T, M> {
    #[inline]
    fn shaped(&self, shape: &[usize]) -> Workload {
        let n = shape[0];
        Workload::new([n])
            .dtype(T::DTYPE)
            // Of the direct sums: n²/2 products.
            .flops(n as f64 * n as f64)
            .bytes(2 * size_of::<T>() * n)
    }

    fn make(&self, shape: &[usize], seed: u64) -> Self::Sample {
        (floats(shape[0], seed, 0), vec![T::zero(); shape[0]])
    }
}

impl<T: Float, M: Method> Verify for Derivative<T, M> {
    type Sample = (Vec<T>, Vec<T>);

    fn sample(&self, workload: &Workload, seed: u64) -> Self::Sample {
        let work = |shape: &[usize]| self.shaped(shape).flop_count();
        self.make(&bounded(workload, work), seed)
    }

    fn args<'a>(&self, (x, y): &'a mut Self::Sample) -> Args<'a, T, M> {
        Args {
            order: T::of(ORDER),
            step: T::of(STEP),
            x,
            y,
            method: PhantomData,
        }
    }

    fn agrees(&self, expected: (&Self::Sample, &()), got: (&Self::Sample, &())) -> bool {
        let (x, expected) = expected.0;
        let bound = 2.0 * error_bound::<T, M>(ORDER, STEP, x);
        let near = |(e, g): (&T, &T)| (e.wide() - g.wide()).abs() <= bound;
        expected.len() == got.0.1.len() && expected.iter().zip(&got.0.1).all(near)
    }
}

/// How far any result may be from the exact sum with the weights as rounded. The factor is one
/// rounding more, of results of at most ‖w‖₂ ‖x‖₂: below what the bound of the sums allows for.
fn error_bound<T: Float, M: Method>(order: f64, step: f64, x: &[T]) -> f64 {
    kept(|kept: &mut Kept<T, M>| {
        let (w, x) = kept.terms(T::of(order).wide(), x);
        causal::error_bound(w, x) * M::factor(order, step)
    })
}

/// Points below which threads are not worth waking: 130,000 products take some 3 µs.
const WORTH_THREADS: usize = 512;

/// Declares one of them with its variants: `direct` (the reference), `simd`, `threads` and `fft`.
pub fn declare<T: Float, M: Method>(
    selector: &Selector,
) -> Result<Handle<Derivative<T, M>>, BuildError> {
    let builder = selector
        .op(Derivative::<T, M>::default())
        .reference("direct", Backend::Scalar, |a| derive(a, causal::direct))
        .variant("simd", Backend::Simd, |a| derive(a, causal::simd));
    let builder = needs_vectors(builder)
        .variant("threads", Backend::Threads, |a| derive(a, causal::threads))
        .min_size(WORTH_THREADS)
        .variant("fft", Backend::Simd, |a| derive(a, causal::fft));
    let builder = needs_vectors(builder).verified();
    #[cfg(feature = "gpu")]
    let builder = gpu::variants(selector, builder);
    builder.build()
}
