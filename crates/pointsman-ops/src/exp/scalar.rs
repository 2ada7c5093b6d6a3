//! The standard library's, one element after the other.

use super::Args;
use crate::Float;

#[inline]
pub(super) fn exp<T: Float>(args: &mut Args<'_, T>) {
    for (x, y) in args.x.iter().zip(&mut *args.y) {
        *y = x.exp();
    }
}
