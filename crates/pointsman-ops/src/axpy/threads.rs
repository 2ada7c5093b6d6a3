//! In lanes, a part on every core.

use super::simd;
use crate::team;

pub(super) fn axpy(a: f32, x: &[f32], y: &mut [f32]) {
    let n = x.len().min(y.len());
    let share = team::share(n);
    let parts = x[..n].chunks(share).zip(y[..n].chunks_mut(share)).collect();
    team::run(parts, |(x, y)| simd::axpy(a, x, y));
}
