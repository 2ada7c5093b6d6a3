//! One product after the other, added up in double precision.

use super::Args;
use crate::Float;

#[inline]
pub(super) fn dot<T: Float>(args: &mut Args<'_, T>) -> T {
    let products = args.x.iter().zip(args.y).map(|(a, b)| a.wide() * b.wide());
    T::of(products.sum())
}
