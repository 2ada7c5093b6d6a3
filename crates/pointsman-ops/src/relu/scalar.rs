//! One element after the other.

use super::Args;
use crate::Float;

#[inline]
pub(super) fn relu<T: Float>(args: &mut Args<'_, T>) {
    for (x, y) in args.x.iter().zip(&mut *args.y) {
        *y = super::positive(*x);
    }
}
