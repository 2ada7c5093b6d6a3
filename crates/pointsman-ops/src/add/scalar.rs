//! One element after the other.

use super::Args;
use crate::Float;

#[inline]
pub(super) fn add<T: Float>(args: &mut Args<'_, T>) {
    for ((x, y), z) in args.x.iter().zip(args.y).zip(&mut *args.z) {
        *z = *x + *y;
    }
}
