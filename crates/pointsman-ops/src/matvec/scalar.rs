//! One row after the other.

use super::Args;
use crate::Float;

#[inline]
pub(super) fn matvec<T: Float>(args: &mut Args<'_, T>) {
    for (row, y) in args.y.iter_mut().enumerate() {
        *y = args
            .a
            .row(row)
            .iter()
            .zip(args.x)
            .map(|(a, x)| *a * *x)
            .sum();
    }
}
