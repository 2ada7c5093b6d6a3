//! In blocks of registers.

use crate::lanes::vectorised;
use crate::tile::Tiled;
use crate::{Float, View};

#[inline]
pub(super) fn multiply<T: Float>(a: View<'_, T>, b: View<'_, T>, c: &mut [T]) {
    let finish = ();
    vectorised(Tiled { a, b, c, finish });
}
