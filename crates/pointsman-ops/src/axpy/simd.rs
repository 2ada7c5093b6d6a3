//! In lanes.

use crate::lanes::{Kernel, MulAdd, NARROW, WIDE, vectorised};

struct Axpy<'a>(f32, &'a [f32], &'a mut [f32]);

impl Kernel for Axpy<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self, ops: impl MulAdd) {
        let Axpy(a, x, y) = self;
        let n = x.len().min(y.len());
        let (x, y) = lanes::<WIDE>(a, &x[..n], &mut y[..n], ops);
        let (x, y) = lanes::<NARROW>(a, x, y, ops);
        lanes::<1>(a, x, y, ops);
    }
}

/// Adds in steps of `N`; what is left of the vectors.
#[inline(always)]
fn lanes<'a, const N: usize>(
    a: f32,
    x: &'a [f32],
    y: &'a mut [f32],
    ops: impl MulAdd,
) -> (&'a [f32], &'a mut [f32]) {
    let (xs, x_rest) = x.as_chunks::<N>();
    let (ys, y_rest) = y.as_chunks_mut::<N>();
    for (x, y) in xs.iter().zip(ys) {
        for i in 0..N {
            y[i] = ops.mul_add(a, x[i], y[i]);
        }
    }
    (x_rest, y_rest)
}

#[inline]
pub(super) fn axpy(a: f32, x: &[f32], y: &mut [f32]) {
    vectorised(Axpy(a, x, y));
}

#[cfg(all(test, not(target_arch = "aarch64")))]
pub(super) fn plain(a: f32, x: &[f32], y: &mut [f32]) {
    crate::lanes::plain(Axpy(a, x, y));
}
