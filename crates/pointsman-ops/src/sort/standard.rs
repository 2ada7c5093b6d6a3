//! What the standard library and rayon have.

use rayon::prelude::*;

use crate::Float;

pub(super) fn stable<T: Float>(x: &[T], y: &mut [T]) {
    y.copy_from_slice(x);
    y.sort_by(T::total);
}

pub(super) fn unstable<T: Float>(x: &[T], y: &mut [T]) {
    y.copy_from_slice(x);
    y.sort_unstable_by(T::total);
}

pub(super) fn threads<T: Float>(x: &[T], y: &mut [T]) {
    y.copy_from_slice(x);
    y.par_sort_unstable_by(T::total);
}
