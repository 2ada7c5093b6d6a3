//! In lanes, a part on every thread.

use rayon::prelude::*;

use super::simd;
use crate::Float;
use crate::team::share;

pub(super) fn axpy<T: Float>(a: T, x: &[T], y: &mut [T]) {
    let share = share(x.len());
    let parts = x.par_chunks(share).zip(y.par_chunks_mut(share));
    parts.for_each(|(x, y)| simd::axpy(a, x, y));
}
