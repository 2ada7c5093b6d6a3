//! Every sum by itself.

use super::Shape;
use crate::Float;

pub(super) fn convolve<T: Float>(shape: &Shape, x: &[T], weights: &[T], y: &mut [T]) {
    let (rows, columns) = (shape.rows(), shape.columns());
    for (i, y) in y.iter_mut().enumerate() {
        let (row, column) = (i / columns % rows, i % columns);
        let (filter, image) = (
            i / (rows * columns) % shape.k,
            i / (rows * columns) / shape.k,
        );
        let x = &x[image * shape.image()..][..shape.image()];
        let weights = &weights[filter * shape.depth()..][..shape.depth()];
        *y = at(shape, x, weights, row * shape.stride, column * shape.stride);
    }
}

/// One filter on one image, its corner at this row and column of the padded image.
fn at<T: Float>(shape: &Shape, x: &[T], weights: &[T], row: usize, column: usize) -> T {
    let &Shape {
        h,
        w,
        r,
        s,
        padding,
        ..
    } = shape;
    let mut sum = T::zero();
    for c in 0..shape.c {
        for i in 0..r {
            for j in 0..s {
                let (down, right) = (row + i, column + j);
                let inside = (padding..padding + h).contains(&down)
                    && (padding..padding + w).contains(&right);
                if inside {
                    let x = x[(c * h + down - padding) * w + right - padding];
                    sum += x * weights[(c * r + i) * s + j];
                }
            }
        }
    }
    sum
}
