//! Causal convolution: yₖ = Σ wₖ₋ⱼ xⱼ over j ≤ k, each result from what came before it. Sums over
//! a triangle of products, which is cut into rectangles: there, every lane has the same number of
//! terms.

use num_complex::Complex;

use crate::Float;
use crate::fourier::half;
use crate::lanes::{Kernel, MulAdd, NARROW, WIDE, vectorised};
use crate::scratch::{kept, part};

/// The definition.
pub(crate) fn direct<T: Float>(w: &[T], x: &[T], y: &mut [T]) {
    for (k, y) in y.iter_mut().enumerate() {
        *y = (0..=k).map(|j| w[k - j] * x[j]).sum();
    }
}

/// In lanes.
pub(crate) fn simd<T: Float>(w: &[T], x: &[T], y: &mut [T]) {
    y.fill(T::zero());
    triangle(w, x, y);
}

/// In lanes, on every thread a part with the same number of products.
pub(crate) fn threads<T: Float>(w: &[T], x: &[T], y: &mut [T]) {
    y.fill(T::zero());
    strips(w, x, 0, y, 4 * rayon::current_num_threads());
}

/// Results from the `from`th on, in so many strips.
fn strips<T: Float>(w: &[T], x: &[T], from: usize, y: &mut [T], count: usize) {
    let len = y.len();
    if count < 2 || len < WIDE {
        if from > 0 && len > 0 {
            rectangle(&w[1..], &x[..from], y);
        }
        return triangle(w, &x[from..from + len], y);
    }
    // Row k has k products: where both sides have as many.
    let (a, b) = (from as f64, (from + len) as f64);
    let middle = ((a * a + b * b) / 2.0).sqrt() as usize / WIDE * WIDE;
    let (left, right) = y.split_at_mut(middle.clamp(from, from + len) - from);
    let next = from + left.len();
    rayon::join(
        || strips(w, x, from, left, count / 2),
        || strips(w, x, next, right, count - count / 2),
    );
}

/// y += what the same positions of x contribute.
fn triangle<T: Float>(w: &[T], x: &[T], y: &mut [T]) {
    let len = y.len();
    if len <= NARROW {
        for k in 0..len {
            y[k] += (0..=k).map(|j| w[k - j] * x[j]).sum();
        }
        return;
    }
    // Whole steps of lanes on either side, as few narrow ones as can be.
    let step = if len > 2 * WIDE { WIDE } else { NARROW };
    let middle = (len / 2).next_multiple_of(step);
    let (left, right) = y.split_at_mut(middle);
    triangle(w, &x[..middle], left);
    rectangle(&w[1..], &x[..middle], right);
    triangle(w, &x[middle..], right);
}

/// yᵢ += Σ wᵢ₊ₘ x₋₁₋ₘ over all of x, where x₋₁ is its last element. There must be a weight for
/// each product: at least as many as elements in x and y together, less one.
pub(crate) fn rectangle<T: Float>(w: &[T], x: &[T], y: &mut [T]) {
    vectorised(Rectangle { w, x, y });
}

struct Rectangle<'a, T> {
    w: &'a [T],
    x: &'a [T],
    y: &'a mut [T],
}

impl<T: Float> Kernel for Rectangle<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self, ops: impl MulAdd) {
        let Rectangle { w, x, y } = self;
        let (w, y) = lanes::<T, WIDE>(w, x, y, ops);
        let (w, y) = lanes::<T, NARROW>(w, x, y, ops);
        lanes::<T, 1>(w, x, y, ops);
    }
}

/// Adds in steps of `N` results; what is left of them, and of their weights. With more than `WIDE`
/// lanes the sums no longer stay in registers, which halves the speed.
#[inline(always)]
fn lanes<'a, T: Float, const N: usize>(
    w: &'a [T],
    x: &[T],
    y: &'a mut [T],
    ops: impl MulAdd,
) -> (&'a [T], &'a mut [T]) {
    let (steps, rest) = y.as_chunks_mut::<N>();
    let mut w = w;
    for y in steps {
        let mut sums = [T::zero(); N];
        for (w, x) in w.windows(N).zip(x.iter().rev()) {
            for i in 0..N {
                sums[i] = ops.mul_add(w[i], *x, sums[i]);
            }
        }
        (0..N).for_each(|i| y[i] += sums[i]);
        w = w.get(N..).unwrap_or_default();
    }
    (w, rest)
}

#[derive(Default)]
struct Buffers<T> {
    real: Vec<T>,
    spectra: [Vec<Complex<T>>; 2],
}

/// As a product of spectra. One number that is not finite would spoil all results, also those
/// before it: then in lanes.
pub(crate) fn fft<T: Float>(w: &[T], x: &[T], y: &mut [T]) {
    let n = y.len();
    if n < 2 || !x.iter().all(|x| x.is_finite()) {
        return simd(w, x, y);
    }
    let length = length(2 * n - 1);
    let plan = T::spectrum(length);
    kept(|Buffers { real, spectra }: &mut Buffers<T>| {
        let real = part(real, length);
        let [a, b] = spectra.each_mut().map(|s| part(s, half(length)));
        for (from, spectrum) in [(w, &mut *a), (x, &mut *b)] {
            real[..n].copy_from_slice(&from[..n]);
            real[n..].fill(T::zero());
            plan.forward(real, spectrum);
        }
        let factor = T::of(1.0 / length as f64);
        for (a, b) in a.iter_mut().zip(&*b) {
            *a = *a * *b * factor;
        }
        plan.inverse(a, real);
        y.copy_from_slice(&real[..n]);
    });
}

/// The shortest length from here on with no prime factor but 2 and at most two 3s: fast, and never
/// a third too long.
fn length(least: usize) -> usize {
    let times = |odd: usize| odd * least.div_ceil(odd).next_power_of_two().max(2);
    times(1).min(times(3)).min(times(9))
}

/// How far any of n results may be from exact, by whichever way.
///
/// Added up in whatever order: γₙ Σ |wₖ₋ⱼ xⱼ|, at most γₙ ‖w‖₂ ‖x‖₂. As spectra: three transforms,
/// each with a relative error of 7 u lg m in the Euclidean norm (Higham, §24.1); the first two
/// contribute by ‖w‖₂ ‖x‖₂ each, the last by ‖w ∗ x‖₂ ≤ ‖w‖₁ ‖x‖₂; the products and their factor
/// are four roundings more. So results that are small beside the largest terms have few right
/// digits.
pub(crate) fn error_bound<T: Float>(w: &[T], x: &[T]) -> f64 {
    let n = w.len();
    let norm = |v: &[T]| v.iter().map(|v| v.wide().powi(2)).sum::<f64>().sqrt();
    let sum: f64 = w.iter().map(|w| w.wide().abs()).sum();
    let transforms = 7.0 * T::ROUNDOFF * (length((2 * n).max(2)) as f64).log2();
    let spectra = transforms * (2.0 * norm(w) + sum) + 4.0 * T::ROUNDOFF * norm(w);
    (crate::sample::gamma::<T>(n) * norm(w)).max(spectra) * norm(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::floats;

    type Body<T> = fn(&[T], &[T], &mut [T]);

    fn variants<T: Float>() -> [(&'static str, Body<T>); 4] {
        [
            ("direct", direct),
            ("simd", simd),
            ("threads", threads),
            ("fft", fft),
        ]
    }

    fn right<T: Float>(n: usize, offset: usize) {
        let (w, x): (Vec<T>, Vec<T>) = (floats(n + offset, 1, 0), floats(n + offset, 1, 1));
        let (w, x) = (&w[offset..], &x[offset..]);
        let exact = |k: usize| (0..=k).map(|j| w[k - j].wide() * x[j].wide()).sum::<f64>();
        let exact: Vec<f64> = (0..n).map(exact).collect();
        // Twice for an f64, as the exact one is an f64 sum itself.
        let bound = error_bound(w, x) * (1.0 + f64::from(T::ROUNDOFF == f64::EPSILON / 2.0));
        for (name, convolve) in variants::<T>() {
            let mut y = vec![T::nan(); n];
            convolve(w, x, &mut y);
            for (k, (y, exact)) in y.iter().zip(&exact).enumerate() {
                let off = (y.wide() - exact).abs();
                assert!(off <= bound, "{name}, {k} of {n}: {off} > {bound}");
            }
        }
    }

    #[test]
    fn every_way_is_right_at_every_length() {
        for n in (0..=4 * WIDE + 9).chain([200, 500, 1000, 1537]) {
            right::<f32>(n, 0);
            right::<f64>(n, 0);
        }
    }

    #[test]
    fn every_way_is_right_at_every_alignment() {
        (0..16).for_each(|offset| right::<f32>(150, offset));
    }

    #[test]
    #[cfg(not(target_arch = "aarch64"))]
    fn lanes_without_fma_are_right() {
        for len in [1, 7, 40, 100] {
            let (w, x): (Vec<f32>, Vec<f32>) = (floats(200, 1, 0), floats(90, 1, 1));
            let mut y = vec![0.0; len];
            let (w, x) = (&w[..], &x[..]);
            crate::lanes::without_fma(|| rectangle(w, x, &mut y));
            for (i, y) in y.iter().enumerate() {
                let terms = x.iter().rev().zip(&w[i..]);
                let exact: f64 = terms.map(|(x, w)| x.wide() * w.wide()).sum();
                assert!((y.wide() - exact).abs() <= error_bound(&w[..90], x) * 2.0);
            }
        }
    }

    #[test]
    fn what_is_not_finite_does_not_reach_back() {
        for (name, convolve) in variants::<f32>() {
            for (at, bad) in [(0, f32::NAN), (63, f32::INFINITY), (100, f32::NAN)] {
                let (w, mut x) = (vec![1.0; 200], vec![1.0; 200]);
                x[at] = bad;
                let mut y = vec![0.0; 200];
                convolve(&w, &x, &mut y);
                let first = y.iter().position(|y| !y.is_finite());
                assert_eq!(first, Some(at), "{name}");
                assert!(!y[199].is_finite(), "{name}");
            }
        }
    }

    #[test]
    fn padded_lengths_are_short() {
        for least in 1..5000 {
            let length = length(least);
            assert!(length >= least && length.is_multiple_of(2));
            assert!(
                least < 8 || 3 * length <= 4 * least + 36,
                "{least}: {length}"
            );
        }
    }
}
