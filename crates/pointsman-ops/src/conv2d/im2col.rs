//! As a matrix product: the filters are the rows of one matrix, the parts of the image that they
//! meet the columns of the other.

use std::ops::Range;

use super::Shape;
use crate::Float;
use crate::product::{Onto, Strided, Team, multiply};
use crate::scratch::{kept, part};

/// Elements of the matrix of columns that are built at a time: what the second-level cache holds.
const BLOCK: usize = 1 << 16;

/// Rows of the result that are computed at a time.
fn rows_at_a_time(shape: &Shape) -> usize {
    let row = (shape.depth() * shape.columns()).max(1);
    (BLOCK / row).clamp(1, shape.rows().max(1))
}

/// Elements of scratch that one thread needs.
pub(super) fn scratch(shape: &Shape) -> usize {
    if is_product(shape) {
        return 0;
    }
    shape.depth() * rows_at_a_time(shape) * shape.columns()
}

/// Whether the image itself is the matrix of columns.
fn is_product(shape: &Shape) -> bool {
    (shape.r, shape.s, shape.stride, shape.padding) == (1, 1, 1, 0)
}

pub(super) fn convolve<T: Float>(shape: &Shape, x: &[T], weights: &[T], y: &mut [T]) {
    let result = shape.k * shape.plane();
    if result == 0 {
        return;
    }
    for (image, y) in y.chunks_exact_mut(result).enumerate() {
        let x = &x[image * shape.image()..][..shape.image()];
        filter(shape, x, weights, y);
    }
}

/// Some of the filters on one image.
pub(super) fn filter<T: Float>(shape: &Shape, x: &[T], weights: &[T], y: &mut [T]) {
    let (rows, columns, plane) = (shape.rows(), shape.columns(), shape.plane());
    let (depth, filters) = (shape.depth(), y.len() / plane);
    let weights = Strided::new(weights, filters, depth, depth);
    if is_product(shape) {
        let image = Strided::new(x, depth, plane, plane);
        return multiply(weights, image, y, plane, Onto::Nothing, Team::One);
    }
    kept(|buffer: &mut Vec<T>| {
        let scratch = part(buffer, scratch(shape));
        let step = rows_at_a_time(shape);
        for row in (0..rows).step_by(step) {
            let rows = row..rows.min(row + step);
            let width = rows.len() * columns;
            let matrix = &mut scratch[..depth * width];
            unfold(shape, x, rows, matrix);
            let matrix = Strided::new(matrix, depth, width, width);
            let y = &mut y[row * columns..];
            multiply(weights, matrix, y, plane, Onto::Nothing, Team::One);
        }
    });
}

/// Writes the matrix of columns for these rows of the result: a row for each element of a filter.
fn unfold<T: Float>(shape: &Shape, x: &[T], rows: Range<usize>, matrix: &mut [T]) {
    let &Shape {
        h,
        w,
        r,
        s,
        stride,
        padding,
        ..
    } = shape;
    let columns = shape.columns();
    let mut lines = matrix.chunks_exact_mut(columns);
    for element in 0..shape.depth() {
        let (channel, i, j) = (element / (r * s), element / s % r, element % s);
        let inside = inside(columns, j, stride, padding, w);
        for row in rows.clone() {
            let Some(line) = lines.next() else {
                return;
            };
            let down = row * stride + i;
            if !(padding..padding + h).contains(&down) || inside.is_empty() {
                line.fill(T::zero());
                continue;
            }
            let x = &x[(channel * h + down - padding) * w..][..w];
            let x = &x[inside.start * stride + j - padding..];
            line[..inside.start].fill(T::zero());
            line[inside.end..].fill(T::zero());
            copy_every(stride, x, &mut line[inside.clone()]);
        }
    }
}

/// Copies every so many-th element.
#[inline(always)]
pub(super) fn copy_every<T: Float>(stride: usize, from: &[T], to: &mut [T]) {
    match stride {
        1 => to.copy_from_slice(&from[..to.len()]),
        // The compiler makes vectors of pairs, but not of steps.
        2 => {
            let (pairs, rest) = from.as_chunks::<2>();
            for (to, pair) in to.iter_mut().zip(pairs) {
                *to = pair[0];
            }
            if let (Some(to), Some(from)) = (to.get_mut(pairs.len()), rest.first()) {
                *to = *from;
            }
        }
        _ => {
            for (to, from) in to.iter_mut().zip(from.iter().step_by(stride)) {
                *to = *from;
            }
        }
    }
}

/// The positions, of so many, at which element `offset` of a filter meets the image and not its
/// padding.
pub(super) fn inside(
    positions: usize,
    offset: usize,
    stride: usize,
    padding: usize,
    image: usize,
) -> Range<usize> {
    let first = padding.saturating_sub(offset).div_ceil(stride);
    let end = (padding + image).saturating_sub(offset).div_ceil(stride);
    let first = first.min(positions);
    first..end.clamp(first, positions)
}
