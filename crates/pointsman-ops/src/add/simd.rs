//! In lanes.

use super::{Add, Args};
use crate::Float;
use crate::each::{Each, Map};
use crate::lanes::MulAdd;
use crate::variants::Lanes;

#[derive(Clone, Copy)]
pub(crate) struct Plus;

impl<T: Float> Map<T, 2> for Plus {
    #[inline(always)]
    fn of(self, [x, y]: [T; 2], _: T, _: impl MulAdd) -> T {
        x + y
    }
}

impl<T: Float> Lanes for Add<T> {
    type Kernel<'k> = Each<'k, T, Plus, 2>;

    #[inline]
    fn kernel<'k>(args: &'k mut Args<'_, T>) -> Self::Kernel<'k> {
        Each {
            map: Plus,
            x: [args.x, args.y],
            y: args.z,
        }
    }
}
