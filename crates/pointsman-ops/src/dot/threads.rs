//! In lanes, a part on every core.

use super::simd;
use crate::team;

pub(super) fn dot(x: &[f32], y: &[f32]) -> f32 {
    let n = x.len().min(y.len());
    let share = team::share(n);
    let parts = x[..n].chunks(share).zip(y[..n].chunks(share)).collect();
    team::run(parts, |(x, y)| simd::dot(x, y)).iter().sum()
}
