//! One element after the other, in double precision: a sum of 40 million ones in single precision stops at 2²⁴.

use super::Args;
use crate::Float;

#[inline]
pub(super) fn sum<T: Float>(args: &mut Args<'_, T>) -> T {
    T::of(args.x.iter().map(|x| x.wide()).sum())
}
