//! As products of spectra: the image is cut into tiles that overlap by a filter less one, and of the
//! cyclic correlation of each tile with a filter, the positions at which the filter does not wrap
//! around are results (overlap-save). For filters that move by one.
//!
//! Transforms are shared by all filters and channels; what is left for each pair of them is one
//! product per frequency.

use std::ops::Range;
use std::sync::Arc;

use num_complex::Complex;

use super::Shape;
use super::im2col::{self, inside};
use crate::Float;
use crate::fourier::{Engine, Spectrum, Transform, half};
use crate::lanes::{Kernel, MulAdd, vectorised};
use crate::sample::gamma;
use crate::scratch::{kept, part};

/// Elements of the spectra of tiles and results that are held at a time: all filters' spectra are
/// read once for each such part.
const BLOCK: usize = 1 << 20;

/// What one level of a transform costs for each element, in complex products.
const LEVEL: f64 = 2.0;

/// How images are cut.
#[derive(Clone, Copy, Debug)]
struct Tiles {
    /// Rows and columns of a tile.
    height: usize,
    width: usize,
    /// Tiles from top to bottom and from left to right.
    down: usize,
    across: usize,
    /// Tiles that are computed at a time.
    step: usize,
}

impl Tiles {
    /// The size with the least work: small tiles are mostly overlap, and large ones make large
    /// spectra of the filters.
    fn of(shape: &Shape) -> Self {
        let (h, w) = (shape.h + 2 * shape.padding, shape.w + 2 * shape.padding);
        let least = shape.r.max(shape.s);
        let mut best = (f64::INFINITY, Tiles::sized(shape, length(h), length(w)));
        for side in lengths().skip_while(|side| *side < least) {
            let tiles = Tiles::sized(shape, side.min(length(h)), side.min(length(w)));
            let work = tiles.work(shape);
            if work < best.0 {
                best = (work, tiles);
            }
            if side >= h.max(w) {
                break;
            }
        }
        best.1
    }

    fn sized(shape: &Shape, height: usize, width: usize) -> Self {
        let down = shape.rows().div_ceil(height - shape.r + 1);
        let across = shape.columns().div_ceil(width - shape.s + 1);
        let spectra = 2 * height * half(width) * (shape.c + shape.k);
        Tiles {
            height,
            width,
            down,
            across,
            step: (BLOCK / spectra).clamp(1, (shape.n * down * across).max(1)),
        }
    }

    /// In complex products.
    fn work(&self, shape: &Shape) -> f64 {
        let [n, c, k] = [shape.n * self.down * self.across, shape.c, shape.k].map(|n| n as f64);
        let transforms = n * c + k * c + n * k;
        let area = (self.height * self.width) as f64;
        area * (transforms * LEVEL * area.log2() + n * c * k)
    }

    /// Frequencies of a tile: those beyond are conjugates of these.
    fn frequencies(&self) -> usize {
        self.height * half(self.width)
    }

    /// Elements of the spectra of all filters, and of some tiles and their results.
    fn spectra(&self, shape: &Shape) -> [usize; 3] {
        let &Shape { c, k, .. } = shape;
        [k * c, self.step * c, self.step * k].map(|spectra| 2 * self.frequencies() * spectra)
    }
}

/// Lengths of fast transforms, all multiples of the lanes.
fn lengths() -> impl Iterator<Item = usize> {
    (3..usize::BITS - 1).flat_map(|power| {
        [1 << power, 3 << (power - 1)]
            .into_iter()
            .filter(|n| n % 8 == 0)
    })
}

/// The shortest of them that holds so many.
fn length(least: usize) -> usize {
    lengths().find(|n| *n >= least).unwrap_or(least)
}

/// Elements of scratch.
pub(super) fn scratch(shape: &Shape) -> usize {
    if !shape.suits_spectra() {
        return 0;
    }
    let tiles = Tiles::of(shape);
    let between = tiles.height * tiles.width + 4 * tiles.frequencies();
    tiles.spectra(shape).iter().sum::<usize>() + between
}

/// How far a filter's results may be from exact, by its channels' elements and the largest norm of a
/// channel of an image.
///
/// Transforms have a relative error of 7 u lg m each in the Euclidean norm (Higham, §24.1). Those of
/// image and filter contribute by ‖x‖₂ ‖g‖₂, that of the result by ‖g ∗ x‖₂ ≤ ‖g‖₁ ‖x‖₂. The sums of
/// products take two roundings for each channel in each part of a complex number, less than
/// γ₃ₖ of ‖x‖₂ ‖g‖₂ together, and the factor one more.
pub(super) fn error_bound<T: Float>(shape: &Shape, filter: &[T], x: f64) -> f64 {
    let tiles = Tiles::of(shape);
    let levels = ((tiles.height * tiles.width) as f64).log2();
    let transform = 7.0 * T::ROUNDOFF * levels;
    let products = gamma::<T>(3 * shape.c + 1);
    let channel = |g: &[T]| {
        let sum: f64 = g.iter().map(|g| g.wide().abs()).sum();
        let norm = g.iter().map(|g| g.wide().powi(2)).sum::<f64>().sqrt();
        x * (transform * (2.0 * norm + sum) + products * norm)
    };
    filter.chunks(shape.r * shape.s).map(channel).sum()
}

pub(super) fn convolve<T: Float>(shape: &Shape, x: &[T], filters: &[T], y: &mut [T]) {
    if y.is_empty() || shape.depth() == 0 {
        return y.fill(T::zero());
    }
    let tiles = Tiles::of(shape);
    // One number that is not finite, or sums that overflow, would spoil all results of a tile.
    let area = (tiles.height * tiles.width) as f64;
    let most = (T::max_value().wide() / (shape.depth() as f64 * area * area)).sqrt();
    let most = T::of(most);
    if !x.iter().chain(filters).all(|x| x.abs() <= most) {
        return im2col::convolve(shape, x, filters, y);
    }
    // As many lanes as one vector of AVX holds: two tiles and two filters then fit the registers.
    match size_of::<T>() {
        4 => in_lanes::<T, 8>(shape, tiles, x, filters, y),
        _ => in_lanes::<T, 4>(shape, tiles, x, filters, y),
    }
}

#[derive(Default)]
struct Buffers<T> {
    spectra: [Vec<T>; 3],
    real: Vec<T>,
    complex: [Vec<Complex<T>>; 2],
}

fn in_lanes<T: Float, const N: usize>(
    shape: &Shape,
    tiles: Tiles,
    x: &[T],
    filters: &[T],
    y: &mut [T],
) {
    let &Shape { n, c, k, r, s, .. } = shape;
    kept(|buffers: &mut Buffers<T>| {
        let Buffers {
            spectra,
            real,
            complex,
        } = buffers;
        let mut plane = Plane {
            height: tiles.height,
            width: tiles.width,
            across: T::spectrum(tiles.width),
            down: T::transform(Engine::Simd, false, tiles.height),
            up: T::transform(Engine::Simd, true, tiles.height),
            real: part(real, tiles.height * tiles.width),
            complex: complex.each_mut().map(|c| part(c, tiles.frequencies())),
        };
        let [of_filters, of_tiles, of_results] = spectra;
        let [len, tiles_len, results_len] = tiles.spectra(shape);
        let of_filters = lanes::<T, N>(part(of_filters, len));
        for (i, filter) in filters.chunks_exact(r * s).enumerate() {
            for (row, filter) in plane.rows_mut().zip(filter.chunks_exact(s)) {
                row[..s].copy_from_slice(filter);
                row[s..].fill(T::zero());
            }
            plane.forward(r);
            plane.store(of_filters, i, k * c);
        }
        let of_tiles = lanes::<T, N>(part(of_tiles, tiles_len));
        let of_results = lanes::<T, N>(part(of_results, results_len));
        let all = n * tiles.down * tiles.across;
        for first in (0..all).step_by(tiles.step) {
            let some = first..all.min(first + tiles.step);
            let count = some.len();
            for (i, (tile, channel)) in some
                .clone()
                .flat_map(|tile| (0..c).map(move |channel| (tile, channel)))
                .enumerate()
            {
                let place = Place::new(shape, &tiles, tile);
                let x = &x[(place.image * c + channel) * shape.h * shape.w..];
                let used = place.cut(shape, x, &mut plane);
                plane.forward(used);
                plane.store(of_tiles, i, count * c);
            }
            vectorised(Products {
                filters: of_filters,
                tiles: of_tiles,
                results: of_results,
                sizes: [k, count, c],
            });
            for (i, tile) in some.enumerate() {
                let place = Place::new(shape, &tiles, tile);
                for filter in 0..k {
                    plane.load(of_results, filter * count + i, k * count);
                    plane.inverse(place.rows.len());
                    let y = &mut y[(place.image * k + filter) * shape.plane()..];
                    place.paste(shape, &plane, y);
                }
            }
        }
    });
}

/// The real and imaginary parts of neighbouring frequencies.
type Lanes<T, const N: usize> = [[T; N]; 2];

fn lanes<T, const N: usize>(elements: &mut [T]) -> &mut [Lanes<T, N>] {
    elements.as_chunks_mut::<N>().0.as_chunks_mut::<2>().0
}

/// Where a tile is: its image, and the results that it gives.
struct Place {
    image: usize,
    rows: Range<usize>,
    columns: Range<usize>,
}

impl Place {
    fn new(shape: &Shape, tiles: &Tiles, tile: usize) -> Self {
        let (across, down) = (tile % tiles.across, tile / tiles.across % tiles.down);
        let part = |at: usize, step: usize, all: usize| at * step..all.min((at + 1) * step);
        Place {
            image: tile / tiles.across / tiles.down,
            rows: part(down, tiles.height - shape.r + 1, shape.rows()),
            columns: part(across, tiles.width - shape.s + 1, shape.columns()),
        }
    }

    /// Copies the tile of a channel with its padding; how many rows there are, all others being 0.
    fn cut<T: Float>(&self, shape: &Shape, x: &[T], plane: &mut Plane<'_, T>) -> usize {
        let &Shape { h, w, padding, .. } = shape;
        let down = self.rows.start;
        let used = (padding + h).saturating_sub(down).min(plane.height);
        let meets = inside(plane.width, self.columns.start, 1, padding, w);
        for (row, to) in (down..down + used).zip(plane.rows_mut()) {
            if row < padding || meets.is_empty() {
                to.fill(T::zero());
                continue;
            }
            let from = (row - padding) * w + self.columns.start + meets.start - padding;
            to[..meets.start].fill(T::zero());
            to[meets.end..].fill(T::zero());
            to[meets.clone()].copy_from_slice(&x[from..][..meets.len()]);
        }
        used
    }

    /// Copies the results of a filter.
    fn paste<T: Float>(&self, shape: &Shape, plane: &Plane<'_, T>, y: &mut [T]) {
        let factor = T::of(1.0 / (plane.height * plane.width) as f64);
        let rows = self.rows.clone().zip(plane.real.chunks_exact(plane.width));
        for (row, from) in rows {
            let to = &mut y[row * shape.columns()..][self.columns.clone()];
            for (to, from) in to.iter_mut().zip(from) {
                *to = *from * factor;
            }
        }
    }
}

/// One channel of a tile, or one filter, on its way to its spectrum and back.
struct Plane<'a, T> {
    height: usize,
    width: usize,
    across: Arc<dyn Spectrum<T>>,
    down: Arc<dyn Transform<T>>,
    up: Arc<dyn Transform<T>>,
    real: &'a mut [T],
    /// The spectrum, column after column, and room for the steps before.
    complex: [&'a mut [Complex<T>]; 2],
}

impl<T: Float> Plane<'_, T> {
    fn rows_mut(&mut self) -> impl Iterator<Item = &mut [T]> {
        self.real.chunks_exact_mut(self.width)
    }

    /// The spectrum of so many rows, all others being 0.
    fn forward(&mut self, rows: usize) {
        let (height, half) = (self.height, half(self.width));
        let [spectrum, between] = &mut self.complex;
        let lines = &mut spectrum[..rows * half];
        self.across
            .forward(&mut self.real[..rows * self.width], lines);
        for (j, column) in between.chunks_exact_mut(height).enumerate() {
            let (used, rest) = column.split_at_mut(rows);
            for (to, line) in used.iter_mut().zip(lines.chunks_exact(half)) {
                *to = line[j];
            }
            rest.fill(Complex::default());
        }
        self.down.rows(between, spectrum);
    }

    /// So many rows from the spectrum, without the factor.
    fn inverse(&mut self, rows: usize) {
        let (height, half) = (self.height, half(self.width));
        let [spectrum, between] = &mut self.complex;
        self.up.rows(spectrum, between);
        let lines = &mut spectrum[..rows * half];
        for (i, line) in lines.chunks_exact_mut(half).enumerate() {
            for (to, column) in line.iter_mut().zip(between.chunks_exact(height)) {
                *to = column[i];
            }
        }
        self.across
            .inverse(lines, &mut self.real[..rows * self.width]);
    }

    /// Writes the spectrum as the `at`th of so many.
    fn store<const N: usize>(&self, spectra: &mut [Lanes<T, N>], at: usize, of: usize) {
        let numbers = self.complex[0].as_chunks::<N>().0;
        for (numbers, to) in numbers.iter().zip(spectra.chunks_exact_mut(of)) {
            to[at] = [numbers.map(|z| z.re), numbers.map(|z| z.im)];
        }
    }

    /// Reads it from there.
    fn load<const N: usize>(&mut self, spectra: &[Lanes<T, N>], at: usize, of: usize) {
        let numbers = self.complex[0].as_chunks_mut::<N>().0;
        for (numbers, from) in numbers.iter_mut().zip(spectra.chunks_exact(of)) {
            let [re, im] = &from[at];
            *numbers = std::array::from_fn(|i| Complex::new(re[i], im[i]));
        }
    }
}

/// The spectra of results: Σ conj(G) X over the channels, frequency by frequency.
struct Products<'a, T, const N: usize> {
    filters: &'a [Lanes<T, N>],
    tiles: &'a [Lanes<T, N>],
    results: &'a mut [Lanes<T, N>],
    /// Filters, tiles and channels.
    sizes: [usize; 3],
}

impl<T: Float, const N: usize> Kernel for Products<'_, T, N> {
    type Output = ();

    #[inline(always)]
    fn run(self, ops: impl MulAdd) {
        let [k, n, c] = self.sizes;
        let filters = self.filters.chunks_exact(k * c);
        let tiles = self.tiles.chunks_exact(n * c);
        let results = self.results.chunks_exact_mut(k * n);
        for ((filters, tiles), results) in filters.zip(tiles).zip(results) {
            for (filters, results) in filters.chunks(2 * c).zip(results.chunks_mut(2 * n)) {
                for (at, tiles) in tiles.chunks(2 * c).enumerate() {
                    let at = 2 * at;
                    // Two by two: eight sums, for which four loads each time are enough.
                    match (filters.len() / c, tiles.len() / c) {
                        (2, 2) => sums::<T, N, 2, 2>(filters, tiles, results, at, n, ops),
                        (2, _) => sums::<T, N, 2, 1>(filters, tiles, results, at, n, ops),
                        (_, 2) => sums::<T, N, 1, 2>(filters, tiles, results, at, n, ops),
                        _ => sums::<T, N, 1, 1>(filters, tiles, results, at, n, ops),
                    }
                }
            }
        }
    }
}

/// Of `K` filters and `M` tiles, the first of which is the `at`th of `n`.
#[inline(always)]
fn sums<T: Float, const N: usize, const K: usize, const M: usize>(
    filters: &[Lanes<T, N>],
    tiles: &[Lanes<T, N>],
    results: &mut [Lanes<T, N>],
    at: usize,
    n: usize,
    ops: impl MulAdd,
) {
    let c = filters.len() / K;
    let filters: [&[Lanes<T, N>]; K] = std::array::from_fn(|i| &filters[i * c..][..c]);
    let tiles: [&[Lanes<T, N>]; M] = std::array::from_fn(|j| &tiles[j * c..][..c]);
    let mut sums = [[[[T::zero(); N]; 2]; M]; K];
    for channel in 0..c {
        for i in 0..K {
            let [a, b] = &filters[i][channel];
            for j in 0..M {
                let [re, im] = &tiles[j][channel];
                let [sum_re, sum_im] = &mut sums[i][j];
                for l in 0..N {
                    sum_re[l] = ops.mul_add(b[l], im[l], ops.mul_add(a[l], re[l], sum_re[l]));
                    sum_im[l] = ops.mul_add(-b[l], re[l], ops.mul_add(a[l], im[l], sum_im[l]));
                }
            }
        }
    }
    for (i, sums) in sums.into_iter().enumerate() {
        results[i * n + at..][..M].copy_from_slice(&sums);
    }
}
