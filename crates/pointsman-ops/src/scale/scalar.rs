//! One element after the other.

use super::Args;
use crate::Float;

#[inline]
pub(super) fn scale<T: Float>(args: &mut Args<'_, T>) {
    for x in &mut *args.x {
        *x *= args.a;
    }
}
