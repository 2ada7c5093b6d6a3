//! As a matrix product, some filters on one image for each thread.

use rayon::prelude::*;

use super::{Shape, im2col};
use crate::Float;

pub(super) fn convolve<T: Float>(shape: &Shape, x: &[T], weights: &[T], y: &mut [T]) {
    if y.is_empty() {
        return;
    }
    let filters = filters_at_a_time(shape);
    let parts = shape.k.div_ceil(filters);
    let results = y.par_chunks_mut(shape.k * shape.plane());
    results.enumerate().for_each(|(image, y)| {
        let x = &x[image * shape.image()..][..shape.image()];
        let each = |part: usize, y: &mut [T]| {
            let weights = &weights[part * filters * shape.depth()..];
            im2col::filter(shape, x, weights, y);
        };
        if parts == 1 {
            return each(0, y);
        }
        let parts = y.par_chunks_mut(filters * shape.plane());
        parts.enumerate().for_each(|(part, y)| each(part, y));
    });
}

/// As many as there are if the images suffice for all threads: each part of the filters builds the
/// matrix of columns anew.
fn filters_at_a_time(shape: &Shape) -> usize {
    let threads_an_image = rayon::current_num_threads().div_ceil(shape.n.max(1));
    match threads_an_image {
        1 => shape.k,
        _ => shape.k.div_ceil(threads_an_image),
    }
    .max(1)
}

/// Elements of scratch that all threads together need.
pub(super) fn scratch(shape: &Shape) -> usize {
    im2col::scratch(shape).saturating_mul(rayon::current_num_threads())
}
