//! One product after the other.

use super::Args;
use crate::Float;

#[inline]
pub(super) fn dot<T: Float>(args: &mut Args<'_, T>) -> T {
    args.x.iter().zip(args.y).map(|(a, b)| *a * *b).sum()
}
