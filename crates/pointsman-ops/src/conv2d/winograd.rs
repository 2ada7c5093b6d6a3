//! Winograd's F(2×2, 3×3): tiles of 2×2 results from 4×4 elements with 16 products instead of 36
//! (Lavin and Gray, 2016). Y = Aᵀ [(G g Gᵀ) ⊙ (Bᵀ d B)] A, where
//!
//! ```text
//!      1  0 -1  0          1   0   0
//! Bᵀ = 0  1  1  0      G = ½   ½   ½      Aᵀ = 1  1  1  0
//!      0 -1  1  0          ½  -½   ½           0  1 -1 -1
//!      0  1  0 -1          0   0   1
//! ```
//!
//! The products of all channels, filters and tiles are 16 matrix products.

use std::ops::Range;

use super::Shape;
use super::im2col::{copy_every, inside};
use crate::Float;
use crate::lanes::{Kernel, MulAdd, vectorised};
use crate::product::{Onto, Strided, Team, multiply};
use crate::scratch::{kept, part};

/// Elements of a transformed tile.
const PLACES: usize = 16;

/// Elements of transformed images and results that are held at a time.
const BLOCK: usize = 1 << 18;

/// Roundings of one element on its longest way: 2 for B, 4 for G, 1 for the product, 4 for A, and
/// one for each channel.
pub(super) fn roundings(channels: usize) -> usize {
    channels + 11
}

/// By how much intermediate sums exceed the plain ones: |Aᵀ| |G| takes no element of a filter more
/// than twice, and |Bᵀ| adds two elements of the image, both down and across.
pub(super) const GROWTH: f64 = 16.0;

/// How an image is cut.
#[derive(Clone, Copy)]
struct Tiles {
    /// Tiles from left to right.
    across: usize,
    /// Tiles from top to bottom.
    down: usize,
    /// Rows of tiles that are computed at a time.
    step: usize,
}

impl Tiles {
    fn of(shape: &Shape) -> Self {
        let (across, down) = (shape.columns().div_ceil(2), shape.rows().div_ceil(2));
        let row = (PLACES * (shape.c + shape.k) * across).max(1);
        Tiles {
            across,
            down,
            step: (BLOCK / row).clamp(1, down.max(1)),
        }
    }

    /// Elements of: filters, images, results, and the lines of one row of tiles.
    fn scratch(&self, shape: &Shape) -> [usize; 4] {
        let tiles = self.step * self.across;
        [
            PLACES * shape.k * shape.c,
            PLACES * shape.c * tiles,
            PLACES * shape.k * tiles,
            10 * (self.across + 1),
        ]
    }
}

/// Elements of scratch.
pub(super) fn scratch(shape: &Shape) -> usize {
    Tiles::of(shape).scratch(shape).iter().sum()
}

pub(super) fn convolve<T: Float>(shape: &Shape, x: &[T], weights: &[T], y: &mut [T]) {
    if y.is_empty() {
        return;
    }
    let &Shape { c, k, .. } = shape;
    let tiles = Tiles::of(shape);
    let sizes = tiles.scratch(shape);
    kept(|buffer: &mut Vec<T>| {
        let scratch = part(buffer, sizes.iter().sum());
        let (filters, scratch) = scratch.split_at_mut(sizes[0]);
        let (images, scratch) = scratch.split_at_mut(sizes[1]);
        let (results, lines) = scratch.split_at_mut(sizes[2]);
        transform_filters(weights, filters);
        for (image, y) in y.chunks_exact_mut(k * shape.plane()).enumerate() {
            let x = &x[image * shape.image()..][..shape.image()];
            for first in (0..tiles.down).step_by(tiles.step) {
                let rows = first..tiles.down.min(first + tiles.step);
                let count = rows.len() * tiles.across;
                vectorised(Forward {
                    shape,
                    x,
                    rows: rows.clone(),
                    images,
                    lines,
                });
                for place in 0..PLACES {
                    let filters = Strided::new(&filters[place * k * c..], k, c, c);
                    let images = Strided::new(&images[place * c * count..], c, count, count);
                    let results = &mut results[place * k * count..][..k * count];
                    multiply(filters, images, results, count, Onto::Nothing, Team::One);
                }
                vectorised(Back {
                    shape,
                    results,
                    rows,
                    y,
                });
            }
        }
    });
}

/// G g Gᵀ of every filter and channel; place after place.
fn transform_filters<T: Float>(weights: &[T], filters: &mut [T]) {
    let half = T::of(0.5);
    let thrice = |[a, b, c]: [T; 3]| [a, (a + b + c) * half, (a - b + c) * half, c];
    let (weights, _) = weights.as_chunks::<9>();
    for (i, g) in weights.iter().enumerate() {
        let columns = [0, 1, 2].map(|j| thrice([g[j], g[3 + j], g[6 + j]]));
        for down in 0..4 {
            let row = thrice([columns[0][down], columns[1][down], columns[2][down]]);
            for (across, value) in row.into_iter().enumerate() {
                filters[(4 * down + across) * weights.len() + i] = value;
            }
        }
    }
}

/// The rows of Bᵀ: which two lines of a tile are added, or subtracted.
const DOWN: [(usize, usize, bool); 4] = [(0, 2, true), (1, 2, false), (2, 1, true), (1, 3, true)];

/// Bᵀ d B of some rows of tiles of every channel.
struct Forward<'a, T> {
    shape: &'a Shape,
    x: &'a [T],
    rows: Range<usize>,
    images: &'a mut [T],
    lines: &'a mut [T],
}

impl<T: Float> Kernel for Forward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self, _: impl MulAdd) {
        let &Shape {
            c, h, w, padding, ..
        } = self.shape;
        let across = self.shape.columns().div_ceil(2);
        let count = self.rows.len() * across;
        // Even and odd columns apart, so that neighbouring tiles are neighbours in memory.
        let width = across + 1;
        let (lines, sums) = self.lines.split_at_mut(8 * width);
        let (even, odd) = sums.split_at_mut(width);
        for (channel, row) in (0..c).flat_map(|c| (0..self.rows.len()).map(move |row| (c, row))) {
            let x = &self.x[channel * h * w..][..h * w];
            for (line, to) in lines.chunks_exact_mut(width).enumerate() {
                let (down, parity) = (2 * (self.rows.start + row) + line / 2, line % 2);
                let meets = inside(width, parity, 2, padding, w);
                if !(padding..padding + h).contains(&down) || meets.is_empty() {
                    to.fill(T::zero());
                    continue;
                }
                let from = &x[(down - padding) * w..][..w];
                let from = &from[2 * meets.start + parity - padding..];
                to[..meets.start].fill(T::zero());
                to[meets.end..].fill(T::zero());
                copy_every(2, from, &mut to[meets]);
            }
            for (i, (one, other, minus)) in DOWN.into_iter().enumerate() {
                for (parity, sum) in [(0, &mut *even), (1, &mut *odd)] {
                    let a = &lines[(2 * one + parity) * width..][..width];
                    let b = &lines[(2 * other + parity) * width..][..width];
                    for ((sum, a), b) in sum.iter_mut().zip(a).zip(b) {
                        *sum = if minus { *a - *b } else { *a + *b };
                    }
                }
                let (e, o) = (&even[..width], &odd[..width]);
                let write = |j: usize| {
                    let at = ((4 * i + j) * c + channel) * count + row * across;
                    let to = &mut self.images[at..][..across];
                    match j {
                        0 => (0..across).for_each(|t| to[t] = e[t] - e[t + 1]),
                        1 => (0..across).for_each(|t| to[t] = o[t] + e[t + 1]),
                        2 => (0..across).for_each(|t| to[t] = e[t + 1] - o[t]),
                        _ => (0..across).for_each(|t| to[t] = o[t] - o[t + 1]),
                    }
                };
                (0..4).for_each(write);
            }
        }
    }
}

/// Aᵀ m A of some rows of tiles of every filter.
struct Back<'a, T> {
    shape: &'a Shape,
    results: &'a [T],
    rows: Range<usize>,
    y: &'a mut [T],
}

impl<T: Float> Kernel for Back<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self, _: impl MulAdd) {
        let (k, rows, columns) = (self.shape.k, self.shape.rows(), self.shape.columns());
        let across = columns.div_ceil(2);
        let count = self.rows.len() * across;
        for (filter, y) in self.y.chunks_exact_mut(rows * columns).enumerate() {
            for (row, tile_row) in self.rows.clone().enumerate() {
                let m: [&[T]; PLACES] = std::array::from_fn(|place| {
                    &self.results[(place * k + filter) * count + row * across..][..across]
                });
                let (upper, lower) = y[2 * tile_row * columns..].split_at_mut(columns);
                line(&m, upper, |m, j| m[j] + m[4 + j] + m[8 + j]);
                if !lower.is_empty() {
                    let lower = &mut lower[..columns];
                    line(&m, lower, |m, j| m[4 + j] - m[8 + j] - m[12 + j]);
                }
            }
        }
    }
}

/// One line of results of a row of tiles, from sums down the four columns of each.
#[inline(always)]
fn line<T: Float>(m: &[&[T]; PLACES], y: &mut [T], sum: impl Fn(&[T; PLACES], usize) -> T) {
    let (pairs, rest) = y.as_chunks_mut::<2>();
    // As long as the pairs, so that no index needs a check.
    let whole: [&[T]; PLACES] = std::array::from_fn(|place| &m[place][..pairs.len()]);
    for (t, pair) in pairs.iter_mut().enumerate() {
        *pair = two(&whole, t, &sum);
    }
    if let [last] = rest {
        *last = two(m, pairs.len(), &sum)[0];
    }
}

/// Two neighbouring results of tile `t`.
#[inline(always)]
fn two<T: Float>(m: &[&[T]; PLACES], t: usize, sum: impl Fn(&[T; PLACES], usize) -> T) -> [T; 2] {
    let m: [T; PLACES] = std::array::from_fn(|place| m[place][t]);
    let s: [T; 4] = std::array::from_fn(|j| sum(&m, j));
    [s[0] + s[1] + s[2], s[1] - s[2] - s[3]]
}
