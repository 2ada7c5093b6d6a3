//! Row by row: to each row of C, every row of B times its factor.

use crate::{Float, View};

pub(super) fn multiply<T: Float>(a: View<'_, T>, b: View<'_, T>, c: &mut [T]) {
    c.fill(T::zero());
    let n = b.columns();
    for i in 0..a.rows() {
        let c = &mut c[i * n..][..n];
        for (p, factor) in a.row(i).iter().enumerate() {
            for (c, b) in c.iter_mut().zip(b.row(p)) {
                *c += *factor * *b;
            }
        }
    }
}
