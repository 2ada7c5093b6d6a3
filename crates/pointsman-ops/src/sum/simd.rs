//! In lanes that are added at the end.

use super::{Args, Sum};
use crate::Float;
use crate::fold::{Fold, Term};
use crate::lanes::MulAdd;
use crate::variants::Lanes;

#[derive(Clone, Copy)]
pub(crate) struct Element;

impl<T: Float> Term<T, 1> for Element {
    #[inline(always)]
    fn add(self, sum: T, [x]: [T; 1], _: impl MulAdd) -> T {
        sum + x
    }
}

impl<T: Float> Lanes for Sum<T> {
    type Kernel<'k> = Fold<'k, T, Element, 1>;

    #[inline]
    fn kernel<'k>(args: &'k mut Args<'_, T>) -> Self::Kernel<'k> {
        Fold {
            term: Element,
            x: [args.x],
        }
    }
}
