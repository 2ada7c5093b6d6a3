//! In lanes: eˣ = 2ⁿ eʳ with n whole and |r| ≤ ln 2 / 2, eʳ by its Taylor polynomial.

use std::f64::consts::LOG2_E;

use super::{Args, Exp};
use crate::Float;
use crate::each::{Each, Map};
use crate::lanes::MulAdd;
use crate::variants::Lanes;

/// What the polynomial needs to know of an element type.
pub trait Reduced: Sized {
    /// Where the Taylor polynomial ends: what is left out, at most 0.35ᵏ⁺¹ / (k + 1)!, is below a
    /// tenth of the unit roundoff.
    const DEGREE: usize;
    /// Below, the result is 0.
    const LOWEST: Self;
    /// Above, the result is infinite.
    const HIGHEST: Self;
    /// ln 2 in two parts. The first has so few digits that n times it is exact.
    const LN_2: [Self; 2];
    /// A number so large that adding it rounds to whole numbers. Its low bits are twice the bias of
    /// the exponent, so that those of the sum are n plus that.
    const SHIFT: Self;

    /// 2ⁿ as two factors of which each is an ordinary number, from the sum of n and `SHIFT`.
    fn factors(shifted: Self) -> [Self; 2];
}

macro_rules! reduced {
    ($float:ident, $bits:ident, $bias:literal, $digits:literal, $degree:literal, $range:expr, $ln_2:expr) => {
        impl Reduced for $float {
            const DEGREE: usize = $degree;
            const LOWEST: Self = $range.0;
            const HIGHEST: Self = $range.1;
            const LN_2: [Self; 2] = $ln_2;
            const SHIFT: Self = 1.5 * (1_u64 << $digits) as Self + 2.0 * $bias as Self;

            #[inline(always)]
            fn factors(shifted: Self) -> [Self; 2] {
                let whole = (1.5 * (1_u64 << $digits) as Self).to_bits();
                let biased: $bits = shifted.to_bits().wrapping_sub(whole);
                let half = biased >> 1;
                [half, biased.wrapping_sub(half)].map(|e| Self::from_bits(e << $digits))
            }
        }
    };
}

// e^-104 is below half of the least denormal, 2^-149; e^89 is above the largest number.
#[rustfmt::skip]
reduced!(f32, u32, 127, 23, 7, (-104.0, 89.0), [0.693_359_4, -2.121_944_4e-4]);
// The same for 2^-1074.
#[rustfmt::skip]
reduced!(f64, u64, 1023, 52, 13, (-746.0, 710.0), [0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10]);

/// 1 / k!
const COEFFICIENTS: [f64; 14] = {
    let mut coefficients = [1.0; 14];
    let mut k = 1;
    while k < 14 {
        coefficients[k] = coefficients[k - 1] / k as f64;
        k += 1;
    }
    coefficients
};

#[derive(Clone, Copy)]
pub(crate) struct Power;

impl<T: Float> Map<T, 1> for Power {
    #[inline(always)]
    fn of(self, [x]: [T; 1], _: T, ops: impl MulAdd) -> T {
        // Comparisons that are false for what is not a number: it passes, and shows in the end.
        let x = if x < T::LOWEST { T::LOWEST } else { x };
        let x = if x > T::HIGHEST { T::HIGHEST } else { x };
        let shifted = ops.mul_add(x, T::of(LOG2_E), T::SHIFT);
        let n = shifted - T::SHIFT;
        let r = ops.mul_add(-n, T::LN_2[0], x);
        let r = ops.mul_add(-n, T::LN_2[1], r);
        let mut power = T::of(COEFFICIENTS[T::DEGREE]);
        for k in (0..T::DEGREE).rev() {
            power = ops.mul_add(power, r, T::of(COEFFICIENTS[k]));
        }
        // In this order only the last product can round, where the result is denormal.
        let [a, b] = T::factors(shifted);
        power * a * b
    }
}

impl<T: Float> Lanes for Exp<T> {
    type Kernel<'k> = Each<'k, T, Power, 1>;

    #[inline]
    fn kernel<'k>(args: &'k mut Args<'_, T>) -> Self::Kernel<'k> {
        Each {
            map: Power,
            x: [args.x],
            y: args.y,
        }
    }
}
