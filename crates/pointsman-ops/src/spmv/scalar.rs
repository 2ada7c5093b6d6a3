//! One row after the other.

use super::Args;
use crate::Float;

#[inline]
pub(super) fn spmv<T: Float>(args: &mut Args<'_, T>) {
    for (row, y) in args.y.iter_mut().enumerate() {
        let (columns, values) = args.a.row(row);
        let products = columns.iter().zip(values);
        *y = products.map(|(c, v)| *v * args.x[*c as usize]).sum();
    }
}
