//! One element after the other.

use crate::Float;

#[inline]
pub(super) fn axpy<T: Float>(a: T, x: &[T], y: &mut [T]) {
    for (x, y) in x.iter().zip(y) {
        *y += a * *x;
    }
}
