//! The same row by row, but a part of B at a time, so that it is still in the cache for the next
//! row of A.

use crate::{Float, View};

/// Rows and columns of a part of B: 64 KiB of `f32`, 128 KiB of `f64`, which the second-level cache
/// of every CPU of the last decade holds.
const ROWS: usize = 64;
const COLUMNS: usize = 256;

pub(super) fn multiply<T: Float>(a: View<'_, T>, b: View<'_, T>, c: &mut [T]) {
    c.fill(T::zero());
    let (m, k, n) = (a.rows(), a.columns(), b.columns());
    for column in (0..n).step_by(COLUMNS) {
        let columns = column..n.min(column + COLUMNS);
        for row in (0..k).step_by(ROWS) {
            for i in 0..m {
                let c = &mut c[i * n..][columns.clone()];
                for p in row..k.min(row + ROWS) {
                    let factor = a.row(i)[p];
                    for (c, b) in c.iter_mut().zip(&b.row(p)[columns.clone()]) {
                        *c += factor * *b;
                    }
                }
            }
        }
    }
}
