//! In lanes that are added at the end.

use crate::lanes::{Kernel, MulAdd, NARROW, WIDE, vectorised};

struct Dot<'a>(&'a [f32], &'a [f32]);

impl Kernel for Dot<'_> {
    type Output = f32;

    #[inline(always)]
    fn run(self, ops: impl MulAdd) -> f32 {
        let n = self.0.len().min(self.1.len());
        let (x, y) = (&self.0[..n], &self.1[..n]);
        let (wide, x, y) = lanes::<WIDE>(x, y, ops);
        let (narrow, x, y) = lanes::<NARROW>(x, y, ops);
        let rest = x
            .iter()
            .zip(y)
            .fold(0.0, |sum, (a, b)| ops.mul_add(*a, *b, sum));
        let mut sums = narrow;
        for part in wide.as_chunks::<NARROW>().0 {
            (0..NARROW).for_each(|i| sums[i] += part[i]);
        }
        sums.iter().sum::<f32>() + rest
    }
}

/// Sums in `N` lanes, and what is left of the vectors.
#[inline(always)]
fn lanes<'a, const N: usize>(
    x: &'a [f32],
    y: &'a [f32],
    ops: impl MulAdd,
) -> ([f32; N], &'a [f32], &'a [f32]) {
    let (xs, x_rest) = x.as_chunks::<N>();
    let (ys, y_rest) = y.as_chunks::<N>();
    let mut sums = [0.0; N];
    for (a, b) in xs.iter().zip(ys) {
        for i in 0..N {
            sums[i] = ops.mul_add(a[i], b[i], sums[i]);
        }
    }
    (sums, x_rest, y_rest)
}

#[inline]
pub(super) fn dot(x: &[f32], y: &[f32]) -> f32 {
    vectorised(Dot(x, y))
}

#[cfg(all(test, not(target_arch = "aarch64")))]
pub(super) fn plain(x: &[f32], y: &[f32]) -> f32 {
    crate::lanes::plain(Dot(x, y))
}
