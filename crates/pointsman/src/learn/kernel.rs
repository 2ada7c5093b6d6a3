//! How fast what one measurement says of another fades with their distance.

use std::f64::consts::{LN_2, LOG2_E};

/// A number so large that adding it rounds to a whole one, which is then in the lowest bits.
const ROUND: f64 = 6_755_399_441_055_744.0; // 1.5 · 2^52

/// `e^-x` for all `x` from 0 on, to ten digits.
///
/// Unlike that of the standard library it has no branches and no tables, so that the compiler
/// turns a loop over it into vector instructions: a prediction takes a thousand of them.
#[inline]
pub(crate) fn fade(x: f64) -> f64 {
    // Beyond 700 the result would be subnormal; it is nothing long before.
    let octaves = -x.min(700.0) * LOG2_E;
    let rounded = octaves + ROUND;
    let y = (octaves - (rounded - ROUND)) * LN_2;
    // Taylor's series: |y| is below 0.35, so that the next term is below 2e-10.
    let mut series = 1.0 / 40_320.0;
    for term in [5_040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0] {
        series = series * y + 1.0 / term;
    }
    series * f64::from_bits(rounded.to_bits().wrapping_add(1023) << 52)
}

/// `e^(-distance / length)` of each distance.
pub(crate) fn faded(distances: &[f64], length: f64) -> Vec<f64> {
    let per = length.recip();
    distances.iter().map(|d| fade(d * per)).collect()
}

/// Sum of products, in four sums at once; a longer list's surplus counts as multiplied by zero.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let shorter = a.len().min(b.len());
    let (a, a_rest) = a[..shorter].as_chunks::<4>();
    let (b, b_rest) = b[..shorter].as_chunks::<4>();
    let mut sums = [0.0; 4];
    for (a, b) in a.iter().zip(b) {
        for i in 0..4 {
            sums[i] += a[i] * b[i];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(x, y)| x * y).sum();
    (sums[0] + sums[2]) + (sums[1] + sums[3]) + rest
}

/// Takes `factor` times `what` from `from`.
#[inline]
pub(crate) fn subtract(from: &mut [f64], factor: f64, what: &[f64]) {
    for (from, what) in from.iter_mut().zip(what) {
        *from -= factor * what;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fading_is_the_exponential(x in 0.0..700.0f64) {
            let exact = (-x).exp();
            prop_assert!((fade(x) - exact).abs() <= 3e-10 * exact, "{x}");
        }

        #[test]
        fn products_of_any_length_are_summed(
            a in prop::collection::vec(-1.0..1.0f64, 0..20),
            b in prop::collection::vec(-1.0..1.0f64, 0..20),
        ) {
            let exact: f64 = a.iter().zip(&b).map(|(x, y)| x * y).sum();
            prop_assert!((dot(&a, &b) - exact).abs() <= 20.0 * 20.0 * f64::EPSILON);
        }
    }

    #[test]
    fn what_is_infinitely_far_says_nothing() {
        assert_eq!(fade(0.0), 1.0);
        assert!(fade(f64::INFINITY) < 1e-300);
    }
}
