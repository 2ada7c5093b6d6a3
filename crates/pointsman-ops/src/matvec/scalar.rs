//! One row after the other, added up in double precision.

use super::Args;
use crate::Float;

#[inline]
pub(super) fn matvec<T: Float>(args: &mut Args<'_, T>) {
    for (row, y) in args.y.iter_mut().enumerate() {
        let row = args.a.row(row).iter().zip(args.x);
        *y = T::of(row.map(|(a, x)| a.wide() * x.wide()).sum());
    }
}
