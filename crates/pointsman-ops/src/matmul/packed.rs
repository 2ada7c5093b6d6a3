//! Packed for the cache by the crate `gemm`, on one thread or on all.

use crate::product::{self, Onto, Team};
use crate::{Float, View};

pub(super) fn multiply<T: Float>(a: View<'_, T>, b: View<'_, T>, c: &mut [T], team: Team) {
    product::multiply(a.into(), b.into(), c, b.columns(), Onto::Nothing, team);
}
