//! In lanes that are added at the end.

use crate::Float;
use crate::lanes::{Kernel, MulAdd, NARROW, WIDE, vectorised, vectorised_512};

struct Dot<'a, T>(&'a [T], &'a [T]);

impl<T: Float> Kernel for Dot<'_, T> {
    type Output = T;

    #[inline(always)]
    fn run(self, ops: impl MulAdd) -> T {
        let n = self.0.len().min(self.1.len());
        let (x, y) = (&self.0[..n], &self.1[..n]);
        let (wide, x, y) = lanes::<T, WIDE>(x, y, ops);
        let (narrow, x, y) = lanes::<T, NARROW>(x, y, ops);
        let rest = x
            .iter()
            .zip(y)
            .fold(T::zero(), |sum, (a, b)| ops.mul_add(*a, *b, sum));
        let mut sums = narrow;
        for part in wide.as_chunks::<NARROW>().0 {
            (0..NARROW).for_each(|i| sums[i] += part[i]);
        }
        sums.into_iter().sum::<T>() + rest
    }
}

/// Sums in `N` lanes, and what is left of the vectors.
#[inline(always)]
fn lanes<'a, T: Float, const N: usize>(
    x: &'a [T],
    y: &'a [T],
    ops: impl MulAdd,
) -> ([T; N], &'a [T], &'a [T]) {
    let (xs, x_rest) = x.as_chunks::<N>();
    let (ys, y_rest) = y.as_chunks::<N>();
    let mut sums = [T::zero(); N];
    for (a, b) in xs.iter().zip(ys) {
        for i in 0..N {
            sums[i] = ops.mul_add(a[i], b[i], sums[i]);
        }
    }
    (sums, x_rest, y_rest)
}

#[inline]
pub(super) fn dot<T: Float>(x: &[T], y: &[T]) -> T {
    vectorised(Dot(x, y))
}

#[inline]
pub(super) fn dot_512<T: Float>(x: &[T], y: &[T]) -> T {
    vectorised_512(Dot(x, y))
}

#[cfg(all(test, not(target_arch = "aarch64")))]
pub(super) fn plain<T: Float>(x: &[T], y: &[T]) -> T {
    crate::lanes::plain(Dot(x, y))
}
