//! A multiple of one vector added to another, in place.

mod scalar;
mod simd;
mod threads;

use pointsman::{Backend, BuildError, Cap, DType, Handle, Op, Selector, Verify, Workload};

use crate::sample::floats;
use crate::team::WORTH_A_THREAD;

/// y ← a x + y of floats, over the length of the shorter vector.
///
/// A call that failed halfway must not be run again: what was added would be added twice.
#[derive(Clone, Copy, Debug, Default)]
pub struct Axpy;

impl Op for Axpy {
    type Args<'a> = (f32, &'a [f32], &'a mut [f32]);
    type Output = ();

    fn name(&self) -> &str {
        "axpy_f32"
    }

    #[inline]
    fn workload(&self, (_, x, y): &(f32, &[f32], &mut [f32])) -> Workload {
        let n = x.len().min(y.len());
        Workload::new([n])
            .dtype(DType::F32)
            .flops(2 * n)
            .bytes(12 * n)
    }

    fn may_run_again(&self) -> bool {
        false
    }
}

/// The factor of the samples: not a power of two, so that products round.
const FACTOR: f32 = 0.7;

impl Verify for Axpy {
    type Sample = (Vec<f32>, Vec<f32>);

    fn sample(&self, workload: &Workload, seed: u64) -> Self::Sample {
        let n = workload.size() as usize;
        (floats(n, seed, 0), floats(n, seed, 1))
    }

    fn args<'a>(&self, (x, y): &'a mut Self::Sample) -> (f32, &'a [f32], &'a mut [f32]) {
        (FACTOR, x, y)
    }

    fn agrees(&self, expected: (&Self::Sample, &()), got: (&Self::Sample, &())) -> bool {
        let (x, expected) = expected.0;
        let got = &got.0.1;
        let near = |((x, e), g): ((&f32, &f32), &f32)| {
            let (product, e, g) = (
                f64::from(FACTOR) * f64::from(*x),
                f64::from(*e),
                f64::from(*g),
            );
            // Both have an error of at most this, and y was at most |e| + |product|.
            (e - g).abs() <= 2.0 * error_bound(product, e.abs() + product.abs())
        };
        expected.len() == got.len() && x.iter().zip(expected).zip(got).all(near)
    }
}

/// How far from the exact a x + y the result may be, with or without a fused multiply-add: at most
/// two roundings, so γ₂ (|a x| + |y|) with γ₂ = 2 u / (1 − 2 u) (Higham, §3.1).
fn error_bound(product: f64, y: f64) -> f64 {
    let two_u = f64::from(f32::EPSILON);
    two_u / (1.0 - two_u) * (product.abs() + y.abs())
}

/// y ← a x + y with its variants: `scalar` (the reference), `simd` and `threads`, checked against
/// each other before they serve.
///
/// ```
/// # let selector = pointsman::Selector::builder().in_memory().build()?;
/// let axpy = pointsman_ops::axpy(&selector)?;
/// let mut y = [1.0, 1.0];
/// axpy.run((2.0, &[3.0, 4.0], &mut y));
/// assert_eq!(y, [7.0, 9.0]);
/// # Ok::<(), pointsman::BuildError>(())
/// ```
pub fn axpy(selector: &Selector) -> Result<Handle<Axpy>, BuildError> {
    let builder = selector
        .op(Axpy)
        .reference("scalar", Backend::Scalar, |(a, x, y)| {
            scalar::axpy(*a, x, y)
        })
        .variant("simd", Backend::Simd, |(a, x, y)| simd::axpy(*a, x, y));
    let builder = if cfg!(target_arch = "aarch64") {
        builder.requires(Cap::Neon)
    } else {
        builder.requires(Cap::Avx2).requires(Cap::Fma)
    };
    builder
        .variant("threads", Backend::Threads, |(a, x, y)| {
            threads::axpy(*a, x, y)
        })
        .min_size(WORTH_A_THREAD)
        .verified()
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::WIDE;

    type Body = fn(f32, &[f32], &mut [f32]);

    const VARIANTS: [(&str, Body); 3] = [
        ("scalar", scalar::axpy),
        ("simd", simd::axpy),
        ("threads", threads::axpy),
    ];

    #[test]
    fn every_variant_is_right_at_every_length() {
        let mut variants = VARIANTS.to_vec();
        #[cfg(not(target_arch = "aarch64"))]
        variants.push(("lanes without FMA", simd::plain));
        for n in (0..=4 * WIDE).chain([1000, 4097, 65_536, 100_003]) {
            let (x, before) = Axpy.sample(&Workload::new([n]), 5);
            for (name, axpy) in &variants {
                let mut y = before.clone();
                axpy(FACTOR, &x, &mut y);
                for i in 0..n {
                    let (product, old) =
                        (f64::from(FACTOR) * f64::from(x[i]), f64::from(before[i]));
                    let off = (f64::from(y[i]) - (product + old)).abs();
                    assert!(
                        off <= error_bound(product, old),
                        "{name} at {i} of {n}: {off}"
                    );
                }
            }
        }
    }

    #[test]
    fn beyond_the_shorter_vector_nothing_is_written() {
        for (name, axpy) in VARIANTS {
            for (xs, ys) in [(5, 100), (100, 5), (0, 3), (70, 71)] {
                let (x, mut y) = (vec![1.0; xs], vec![1.0; ys]);
                axpy(2.0, &x, &mut y);
                let written = xs.min(ys);
                assert!(y[..written].iter().all(|y| *y == 3.0), "{name}");
                assert!(y[written..].iter().all(|y| *y == 1.0), "{name}");
            }
        }
    }

    #[test]
    fn the_check_sees_one_wrong_element() {
        let right = {
            let mut sample = Axpy.sample(&Workload::new([100]), 1);
            let (a, x, y) = Axpy.args(&mut sample);
            scalar::axpy(a, x, y);
            sample
        };
        let agrees = |got: &(Vec<f32>, Vec<f32>)| Axpy.agrees((&right, &()), (got, &()));
        assert!(agrees(&right));
        for wrong in [0.0, f32::NAN, right.1[99] * 1.000_01] {
            let mut got = right.clone();
            got.1[99] = wrong;
            assert!(!agrees(&got), "{wrong}");
        }
    }
}
