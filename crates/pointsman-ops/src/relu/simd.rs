//! In lanes.

use super::{Args, Relu, positive};
use crate::Float;
use crate::each::{Each, Map};
use crate::lanes::MulAdd;
use crate::variants::Lanes;

#[derive(Clone, Copy)]
pub(crate) struct Positive;

impl<T: Float> Map<T, 1> for Positive {
    #[inline(always)]
    fn of(self, [x]: [T; 1], _: T, _: impl MulAdd) -> T {
        positive(x)
    }
}

impl<T: Float> Lanes for Relu<T> {
    type Kernel<'k> = Each<'k, T, Positive, 1>;

    #[inline]
    fn kernel<'k>(args: &'k mut Args<'_, T>) -> Self::Kernel<'k> {
        Each {
            map: Positive,
            x: [args.x],
            y: args.y,
        }
    }
}
