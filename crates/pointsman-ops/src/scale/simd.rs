//! In lanes.

use super::{Args, Scale};
use crate::Float;
use crate::each::{Each, Map};
use crate::lanes::MulAdd;
use crate::variants::Lanes;

#[derive(Clone, Copy)]
pub(crate) struct Times<T>(T);

impl<T: Float> Map<T, 0> for Times<T> {
    #[inline(always)]
    fn of(self, _: [T; 0], x: T, _: impl MulAdd) -> T {
        self.0 * x
    }
}

impl<T: Float> Lanes for Scale<T> {
    type Kernel<'k> = Each<'k, T, Times<T>, 0>;

    #[inline]
    fn kernel<'k>(args: &'k mut Args<'_, T>) -> Self::Kernel<'k> {
        Each {
            map: Times(args.a),
            x: [],
            y: args.x,
        }
    }
}
