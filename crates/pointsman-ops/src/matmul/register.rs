//! In blocks of registers.

use crate::lanes::vectorised;
use crate::tile::Tiled;
use crate::{Float, View};

#[inline]
pub(super) fn multiply<T: Float>(a: View<'_, T>, b: View<'_, T>, c: &mut [T]) {
    let finish = ();
    vectorised(Tiled { a, b, c, finish });
}

#[cfg(all(test, not(target_arch = "aarch64")))]
pub(super) fn plain<T: Float>(a: View<'_, T>, b: View<'_, T>, c: &mut [T]) {
    let finish = ();
    crate::lanes::plain(Tiled { a, b, c, finish });
}
