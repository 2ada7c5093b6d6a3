//! One product after the other.

use crate::Float;

#[inline]
pub(super) fn dot<T: Float>(x: &[T], y: &[T]) -> T {
    x.iter().zip(y).map(|(a, b)| *a * *b).sum()
}
