//! Every filter by itself, on many neighbouring positions at once: where filters are too few for a
//! matrix product. For filters that move by one.

use super::Shape;
use crate::Float;
use crate::lanes::{Kernel, MulAdd, NARROW, vectorised};
use crate::scratch::{kept, part};

/// Rows and columns of a padded channel. Behind each row there is room for the last step, which
/// may reach beyond it.
fn padded(shape: &Shape) -> (usize, usize) {
    let edges = 2 * shape.padding;
    (shape.h + edges, shape.w + edges + NARROW)
}

/// Elements of scratch.
pub(super) fn scratch(shape: &Shape) -> usize {
    let (rows, columns) = padded(shape);
    shape.c * rows * columns
}

pub(super) fn convolve<T: Float>(shape: &Shape, x: &[T], filters: &[T], y: &mut [T]) {
    if y.is_empty() {
        return;
    }
    kept(|buffer: &mut Vec<T>| {
        let scratch = part(buffer, scratch(shape));
        scratch.fill(T::zero());
        for (image, y) in y.chunks_exact_mut(shape.k * shape.plane()).enumerate() {
            pad(shape, &x[image * shape.image()..], scratch);
            vectorised(Sliding {
                shape,
                x: scratch,
                filters,
                y,
            });
        }
    });
}

/// Copies an image to the middle of its padding.
fn pad<T: Float>(shape: &Shape, x: &[T], to: &mut [T]) {
    let (rows, columns) = padded(shape);
    for line in 0..shape.c * shape.h {
        let row = line / shape.h * rows + line % shape.h + shape.padding;
        let to = &mut to[row * columns + shape.padding..][..shape.w];
        to.copy_from_slice(&x[line * shape.w..][..shape.w]);
    }
}

/// All filters on one padded image.
struct Sliding<'a, T> {
    shape: &'a Shape,
    x: &'a [T],
    filters: &'a [T],
    y: &'a mut [T],
}

impl<T: Float> Kernel for Sliding<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self, ops: impl MulAdd) {
        let (rows, columns) = (self.shape.rows(), self.shape.columns());
        for (line, y) in self.y.chunks_exact_mut(columns).enumerate() {
            let (filter, row) = (line / rows, line % rows);
            let depth = self.shape.depth();
            let part = Line {
                shape: self.shape,
                x: self.x,
                filter: &self.filters[filter * depth..][..depth],
                row,
            };
            // Eight vectors of AVX for either type hide the latency of a multiply-add.
            let done = match size_of::<T>() {
                4 => part.steps::<64>(0, y, ops),
                _ => part.steps::<32>(0, y, ops),
            };
            let done = part.steps::<16>(done, y, ops);
            let done = part.steps::<NARROW>(done, y, ops);
            if done < columns {
                let last = part.sums::<NARROW>(done, ops);
                y[done..].copy_from_slice(&last[..columns - done]);
            }
        }
    }
}

/// One filter on one row of positions.
struct Line<'a, T> {
    shape: &'a Shape,
    x: &'a [T],
    filter: &'a [T],
    row: usize,
}

impl<T: Float> Line<'_, T> {
    /// Steps of `N` positions from this one on; the first that is not done.
    #[inline(always)]
    fn steps<const N: usize>(&self, from: usize, y: &mut [T], ops: impl MulAdd) -> usize {
        let (steps, _) = y[from..].as_chunks_mut::<N>();
        for (i, y) in steps.iter_mut().enumerate() {
            *y = self.sums(from + i * N, ops);
        }
        from + N * steps.len()
    }

    #[inline(always)]
    fn sums<const N: usize>(&self, column: usize, ops: impl MulAdd) -> [T; N] {
        let (rows, columns) = padded(self.shape);
        let &Shape { r, s, .. } = self.shape;
        let mut sums = [T::zero(); N];
        for (i, filter) in self.filter.chunks_exact(s.max(1)).enumerate() {
            let row = i / r * rows + self.row + i % r;
            let x = &self.x[row * columns + column..];
            for (x, g) in x.windows(N).zip(filter) {
                for j in 0..N {
                    sums[j] = ops.mul_add(x[j], *g, sums[j]);
                }
            }
        }
        sums
    }
}
