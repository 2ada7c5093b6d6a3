//! In blocks of registers.

use crate::lanes::vectorised;
use crate::tile::Tiled;
use crate::{Float, View};

#[inline]
pub(super) fn multiply<T: Float>(a: View<'_, T>, b: View<'_, T>, c: &mut [T]) {
    vectorised(tiled(a, b, c));
}

#[inline]
fn tiled<'a, T: Float>(
    a: View<'a, T>,
    b: View<'a, T>,
    c: &'a mut [T],
) -> Tiled<'a, T, impl Fn(usize, T) -> T> {
    Tiled {
        a,
        b,
        c,
        finish: |_, sum| sum,
    }
}

#[cfg(all(test, not(target_arch = "aarch64")))]
pub(super) fn plain<T: Float>(a: View<'_, T>, b: View<'_, T>, c: &mut [T]) {
    crate::lanes::plain(tiled(a, b, c));
}
