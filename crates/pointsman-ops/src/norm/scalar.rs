//! Divided by the largest element first, so that no square overflows or underflows; added up in
//! double precision.

use super::Args;
use crate::Float;

#[inline]
pub(super) fn norm<T: Float>(args: &mut Args<'_, T>) -> T {
    let sizes = || args.x.iter().map(|x| x.abs());
    let largest = sizes().fold(T::zero(), T::max);
    if largest.is_zero() || largest.is_infinite() {
        return sizes().sum(); // not a number if any element is not
    }
    let squares = sizes().map(|x| (x / largest).wide().powi(2));
    largest * T::of(squares.sum::<f64>().sqrt())
}
