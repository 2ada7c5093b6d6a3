//! In lanes.

use crate::Float;
use crate::lanes::{Kernel, MulAdd, NARROW, WIDE, vectorised, vectorised_512};

struct Axpy<'a, T>(T, &'a [T], &'a mut [T]);

impl<T: Float> Kernel for Axpy<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self, ops: impl MulAdd) {
        let Axpy(a, x, y) = self;
        let n = x.len().min(y.len());
        let (x, y) = lanes::<T, WIDE>(a, &x[..n], &mut y[..n], ops);
        let (x, y) = lanes::<T, NARROW>(a, x, y, ops);
        lanes::<T, 1>(a, x, y, ops);
    }
}

/// Adds in steps of `N`; what is left of the vectors.
#[inline(always)]
fn lanes<'a, T: Float, const N: usize>(
    a: T,
    x: &'a [T],
    y: &'a mut [T],
    ops: impl MulAdd,
) -> (&'a [T], &'a mut [T]) {
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
pub(super) fn axpy<T: Float>(a: T, x: &[T], y: &mut [T]) {
    vectorised(Axpy(a, x, y));
}

#[inline]
pub(super) fn axpy_512<T: Float>(a: T, x: &[T], y: &mut [T]) {
    vectorised_512(Axpy(a, x, y));
}

#[cfg(all(test, not(target_arch = "aarch64")))]
pub(super) fn plain<T: Float>(a: T, x: &[T], y: &mut [T]) {
    crate::lanes::plain(Axpy(a, x, y));
}
