//! The plain sum of squares in lanes; where that is out of range, the same of scaled elements.

use super::{Args, Norm};
use crate::Float;
use crate::fold::{Fold, Term};
use crate::lanes::{Kernel, MulAdd};
use crate::team::Parts;
use crate::variants::Lanes;

/// The square of a multiple.
#[derive(Clone, Copy)]
struct Square<T>(T);

impl<T: Float> Term<T, 1> for Square<T> {
    #[inline(always)]
    fn add(self, sum: T, [x]: [T; 1], ops: impl MulAdd) -> T {
        let x = self.0 * x;
        ops.mul_add(x, x, sum)
    }
}

pub(crate) struct Length<'a, T>(&'a [T]);

impl<T: Float> Kernel for Length<'_, T> {
    type Output = T;

    #[inline(always)]
    fn run(self, ops: impl MulAdd) -> T {
        let squares = |factor| {
            let (term, x) = (Square(factor), [self.0]);
            Fold { term, x }.run(ops)
        };
        let plain = squares(T::one());
        // Squares that underflow lose at most half of the least denormal each. From here on that
        // is less than the rounding of the sum.
        let least = T::min_positive_value() * T::of(self.0.len() as f64);
        if plain.is_nan() || (plain >= least && plain.is_finite()) {
            return plain.sqrt();
        }
        let factor = if plain.is_infinite() { down() } else { up() };
        squares(factor).sqrt() / factor
    }
}

/// Brings the squares of the largest numbers into range, 2⁴⁰ of them; those of elements that are
/// too small then do not matter, since some are so large that the plain sum overflowed.
fn down<T: Float>() -> T {
    T::min_positive_value().sqrt() / T::of((1 << 21) as f64)
}

/// Brings the square of the least denormal into range. A sum that was below
/// [the least](Length::run) is far from overflow then.
fn up<T: Float>() -> T {
    (T::min_positive_value().sqrt() * T::epsilon()).recip()
}

impl<T: Float> Parts for Length<'_, T> {
    fn cut(self, share: usize, of: usize) -> (Self, Self) {
        let (first, rest) = self.0.split_at(crate::team::cut(self.0.len(), share, of));
        (Length(first), Length(rest))
    }

    fn join(first: T, rest: T) -> T {
        // An infinite side would hide that the other is not a number.
        if first.is_nan() || rest.is_nan() {
            return T::nan();
        }
        first.hypot(rest)
    }
}

impl<T: Float> Lanes for Norm<T> {
    type Kernel<'k> = Length<'k, T>;

    #[inline]
    fn kernel<'k>(args: &'k mut Args<'_, T>) -> Self::Kernel<'k> {
        Length(args.x)
    }
}
