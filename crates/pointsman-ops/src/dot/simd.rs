//! In lanes that are added at the end.

use super::{Args, Dot};
use crate::Float;
use crate::fold::{Fold, Term};
use crate::lanes::MulAdd;
use crate::variants::Lanes;

#[derive(Clone, Copy)]
pub(crate) struct Product;

impl<T: Float> Term<T, 2> for Product {
    #[inline(always)]
    fn add(self, sum: T, [x, y]: [T; 2], ops: impl MulAdd) -> T {
        ops.mul_add(x, y, sum)
    }
}

impl<T: Float> Lanes for Dot<T> {
    type Kernel<'k> = Fold<'k, T, Product, 2>;

    #[inline]
    fn kernel<'k>(args: &'k mut Args<'_, T>) -> Self::Kernel<'k> {
        Fold {
            term: Product,
            x: [args.x, args.y],
        }
    }
}
