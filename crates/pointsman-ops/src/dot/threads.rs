//! In lanes, a part on every thread.

use rayon::prelude::*;

use super::simd;
use crate::Float;
use crate::team::share;

pub(super) fn dot<T: Float>(x: &[T], y: &[T]) -> T {
    let share = share(x.len());
    let parts: Vec<T> = x
        .par_chunks(share)
        .zip(y.par_chunks(share))
        .map(|(x, y)| simd::dot(x, y))
        .collect();
    parts.into_iter().sum()
}
