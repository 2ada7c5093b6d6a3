//! The dot product of two vectors.

mod scalar;
mod simd;
mod threads;

use pointsman::{Backend, BuildError, Cap, DType, Handle, Op, Selector, Verify, Workload};

use crate::sample::floats;
use crate::team::WORTH_A_THREAD;

/// Σ xᵢ yᵢ of floats, over the length of the shorter vector.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dot;

impl Op for Dot {
    type Args<'a> = (&'a [f32], &'a [f32]);
    type Output = f32;

    fn name(&self) -> &str {
        "dot_f32"
    }

    #[inline]
    fn workload(&self, (x, y): &(&[f32], &[f32])) -> Workload {
        let n = x.len().min(y.len());
        Workload::new([n])
            .dtype(DType::F32)
            .flops(2 * n)
            .bytes(8 * n)
    }
}

impl Verify for Dot {
    type Sample = (Vec<f32>, Vec<f32>);

    fn sample(&self, workload: &Workload, seed: u64) -> Self::Sample {
        let n = workload.size() as usize;
        (floats(n, seed, 0), floats(n, seed, 1))
    }

    fn args<'a>(&self, (x, y): &'a mut Self::Sample) -> (&'a [f32], &'a [f32]) {
        (x, y)
    }

    fn agrees(
        &self,
        ((x, y), expected): (&Self::Sample, &f32),
        got: (&Self::Sample, &f32),
    ) -> bool {
        // Both have an error of at most this.
        (f64::from(*expected) - f64::from(*got.1)).abs() <= 2.0 * error_bound(x, y)
    }
}

/// How far from the exact result a sum of `n` products may be, added in any order and with or
/// without fused multiply-adds: γₙ Σ |xᵢ yᵢ| with γₙ = n u / (1 − n u) (Higham, §3.1). For n beyond
/// 1/u the bound says nothing, and nothing is what it then demands.
fn error_bound(x: &[f32], y: &[f32]) -> f64 {
    let n = x.len().min(y.len()) as f64;
    let nu = n * f64::from(f32::EPSILON) / 2.0;
    let products = x
        .iter()
        .zip(y)
        .map(|(a, b)| (f64::from(*a) * f64::from(*b)).abs());
    let gamma = if nu < 1.0 {
        nu / (1.0 - nu)
    } else {
        f64::INFINITY
    };
    let total = products.sum::<f64>();
    if total == 0.0 { 0.0 } else { gamma * total }
}

/// The dot product with its variants: `scalar` (the reference), `simd` and `threads`, checked
/// against each other before they serve.
///
/// ```
/// # let selector = pointsman::Selector::builder().in_memory().build()?;
/// let dot = pointsman_ops::dot(&selector)?;
/// assert_eq!(dot.run((&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0])), 32.0);
/// # Ok::<(), pointsman::BuildError>(())
/// ```
pub fn dot(selector: &Selector) -> Result<Handle<Dot>, BuildError> {
    let builder = selector
        .op(Dot)
        .reference("scalar", Backend::Scalar, |(x, y)| scalar::dot(x, y))
        .variant("simd", Backend::Simd, |(x, y)| simd::dot(x, y));
    let builder = if cfg!(target_arch = "aarch64") {
        builder.requires(Cap::Neon)
    } else {
        builder.requires(Cap::Avx2).requires(Cap::Fma)
    };
    builder
        .variant("threads", Backend::Threads, |(x, y)| threads::dot(x, y))
        .min_size(WORTH_A_THREAD)
        .verified()
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::{NARROW, WIDE};

    /// In double precision: the error is below that of any float sum by nine orders of magnitude.
    fn exact(x: &[f32], y: &[f32]) -> f64 {
        x.iter()
            .zip(y)
            .map(|(a, b)| f64::from(*a) * f64::from(*b))
            .sum()
    }

    fn is_right(name: &str, got: f32, x: &[f32], y: &[f32]) {
        let off = (f64::from(got) - exact(x, y)).abs();
        let n = x.len().min(y.len());
        assert!(off <= error_bound(x, y), "{name} of {n} is off by {off}");
    }

    #[test]
    fn every_variant_is_right_at_every_length() {
        let lengths = (0..=4 * WIDE).chain([1000, 1023, 4097, 65_535, 65_536, 100_003]);
        for n in lengths {
            let (x, y) = Dot.sample(&Workload::new([n]), 7);
            is_right("scalar", scalar::dot(&x, &y), &x, &y);
            is_right("simd", simd::dot(&x, &y), &x, &y);
            is_right("threads", threads::dot(&x, &y), &x, &y);
            #[cfg(not(target_arch = "aarch64"))]
            is_right("lanes without FMA", simd::plain(&x, &y), &x, &y);
        }
    }

    #[test]
    fn the_shorter_vector_counts_and_alignment_does_not() {
        let (x, y) = Dot.sample(&Workload::new([1000]), 3);
        for (from, n) in [(1, 0), (1, NARROW), (3, WIDE + 5), (7, 500)] {
            let (x, long) = (&x[from..from + n], &y[from + 1..]);
            for got in [
                scalar::dot(x, long),
                simd::dot(x, long),
                threads::dot(long, x),
            ] {
                is_right("a part", got, x, &long[..n]);
            }
        }
    }

    #[test]
    fn infinities_and_nan_come_through() {
        for n in [1, 9, 65, 200] {
            let mut x = vec![1.0; n];
            x[n - 1] = f32::INFINITY;
            let y = vec![1.0; n];
            for dot in [scalar::dot, simd::dot, threads::dot] {
                assert_eq!(dot(&x, &y), f32::INFINITY);
            }
            x[0] = f32::NAN;
            for dot in [scalar::dot, simd::dot, threads::dot] {
                assert!(dot(&x, &y).is_nan());
            }
        }
    }

    #[test]
    fn the_check_accepts_rounding_and_nothing_more() {
        let mut sample = Dot.sample(&Workload::new([100]), 1);
        let (x, y) = Dot.args(&mut sample);
        let right = scalar::dot(x, y);
        let agrees = |got: f32| Dot.agrees((&sample, &right), (&sample, &got));
        assert!(agrees(right) && agrees(simd::dot(&sample.0, &sample.1)));
        let one_element_missing = scalar::dot(&sample.0[1..], &sample.1[1..]);
        assert!(!agrees(one_element_missing) && !agrees(f32::NAN) && !agrees(-right));
    }
}
