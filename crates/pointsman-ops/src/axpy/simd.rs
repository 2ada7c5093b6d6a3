//! In lanes.

use super::{Args, Axpy};
use crate::Float;
use crate::each::{Each, Map};
use crate::lanes::MulAdd;
use crate::variants::Lanes;

#[derive(Clone, Copy)]
pub(crate) struct AddTimes<T>(T);

impl<T: Float> Map<T, 1> for AddTimes<T> {
    #[inline(always)]
    fn of(self, [x]: [T; 1], y: T, ops: impl MulAdd) -> T {
        ops.mul_add(self.0, x, y)
    }
}

impl<T: Float> Lanes for Axpy<T> {
    type Kernel<'k> = Each<'k, T, AddTimes<T>, 1>;

    #[inline]
    fn kernel<'k>(args: &'k mut Args<'_, T>) -> Self::Kernel<'k> {
        Each {
            map: AddTimes(args.a),
            x: [args.x],
            y: args.y,
        }
    }
}
