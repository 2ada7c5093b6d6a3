//! One element after the other.

use super::Args;
use crate::Float;

#[inline]
pub(super) fn sum<T: Float>(args: &mut Args<'_, T>) -> T {
    args.x.iter().copied().sum()
}
