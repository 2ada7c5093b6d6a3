//! Where all cells lie, laid out so that one scan measures the distances to all of them.

use crate::cell::Cell;
use crate::workload::{MAX_CODES, MAX_FEATURES};

/// How far apart two categories are, squared, in standard deviations of a feature.
const MISMATCH2: f32 = 9.0;

/// Categories of a cell: its codes, and dtype, flags and location together.
const CATEGORIES: usize = MAX_CODES + 1;

/// Where one cell lies.
///
/// A feature that a cell does not have counts as the middle of those that do, and not having it
/// as a category of its own: distances must be those of points in a space, or the covariances
/// made of them are none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spot {
    /// Distance of each feature from the middle of all cells, in spreads.
    features: [f32; MAX_FEATURES],
    held: f32,
    categories: [u32; CATEGORIES],
}

impl Spot {
    /// The place of a cell with these coordinates among cells with this middle and spread.
    pub(crate) fn new(cell: &Cell, at: &[f64], origin: &[f64], spread: &[f64]) -> Self {
        let mut spot = Spot {
            held: at.len() as f32,
            ..Spot::default()
        };
        for (slot, ((x, middle), spread)) in spot
            .features
            .iter_mut()
            .zip(at.iter().zip(origin).zip(spread))
        {
            *slot = ((x - middle) / spread) as f32;
        }
        // No code is a code too.
        for (slot, code) in spot.categories.iter_mut().zip(cell.codes()) {
            *slot = code.wrapping_add(1);
        }
        let kind = cell.kind_code();
        spot.categories[MAX_CODES] = crate::cell::mix(kind, 0) as u32;
        spot
    }

    /// Square of the distance, summed over the features.
    pub(crate) fn square_to(&self, other: &Spot) -> f32 {
        let mut sums = [0.0; 4];
        let (a, _) = self.features.as_chunks::<4>();
        let (b, _) = other.features.as_chunks::<4>();
        for (a, b) in a.iter().zip(b) {
            for i in 0..4 {
                sums[i] += (a[i] - b[i]) * (a[i] - b[i]);
            }
        }
        let numbers = (sums[0] + sums[2]) + (sums[1] + sums[3]);
        let categories = self.categories.iter().zip(&other.categories);
        let differ = categories.filter(|(x, y)| x != y).count() as f32;
        numbers + MISMATCH2 * (differ + (self.held - other.held).abs())
    }
}

/// Where all cells lie, and who was measured there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chart {
    /// By feature and cell.
    features: Vec<Vec<f32>>,
    held: Vec<f32>,
    /// By category and cell.
    categories: [Vec<u32>; CATEGORIES],
    /// Whether cells differ in each category, and in how many features they have.
    mixed: [bool; CATEGORIES],
    uneven: bool,
    /// By variant: the cells in which it was measured.
    measured: Vec<Vec<u32>>,
}

impl Chart {
    /// Puts a cell on the chart, in the place of the one that had this number, if any.
    pub(crate) fn set(&mut self, cell: usize, spot: &Spot) {
        if cell == self.held.len() {
            self.features.iter_mut().for_each(|f| f.push(0.0));
            self.categories.iter_mut().for_each(|c| c.push(0));
            self.held.push(0.0);
        } else {
            for cells in &mut self.measured {
                cells.retain(|c| *c as usize != cell);
            }
        }
        while self.features.len() < spot.held as usize {
            self.features.push(vec![0.0; self.held.len()]);
        }
        for (column, x) in self.features.iter_mut().zip(spot.features) {
            column[cell] = x;
        }
        // While all are alike, any other cell will do to compare with.
        let other = usize::from(cell == 0);
        let categories = self.categories.iter_mut().zip(spot.categories);
        for ((column, code), mixed) in categories.zip(&mut self.mixed) {
            column[cell] = code;
            *mixed |= column.get(other).is_some_and(|c| *c != code);
        }
        self.held[cell] = spot.held;
        self.uneven |= self.held.get(other).is_some_and(|h| *h != spot.held);
    }

    pub(crate) fn clear(&mut self) {
        *self = Chart::default();
    }

    /// A variant was measured in a cell for the first time.
    pub(crate) fn note(&mut self, cell: usize, variant: u8) {
        let variant = usize::from(variant);
        if self.measured.len() <= variant {
            self.measured.resize(variant + 1, Vec::new());
        }
        self.measured[variant].push(cell as u32);
    }

    /// The cells in which a variant was measured.
    pub(crate) fn measured(&self, variant: u8) -> &[u32] {
        let cells = self.measured.get(usize::from(variant));
        cells.map_or(&[], Vec::as_slice)
    }

    /// Squares of the distances of all cells to a spot, summed over the features.
    pub(crate) fn squares_to(&self, spot: &Spot) -> Vec<f32> {
        let mut squares = vec![0.0; self.held.len()];
        for (column, x) in self.features.iter().zip(&spot.features) {
            for (square, y) in squares.iter_mut().zip(column) {
                *square += (x - y) * (x - y);
            }
        }
        for (c, column) in self.categories.iter().enumerate() {
            let code = spot.categories[c];
            if self.mixed[c] || column.first() != Some(&code) {
                for (square, other) in squares.iter_mut().zip(column) {
                    *square += if code == *other { 0.0 } else { MISMATCH2 };
                }
            }
        }
        if self.uneven || self.held.first() != Some(&spot.held) {
            for (square, other) in squares.iter_mut().zip(&self.held) {
                *square += MISMATCH2 * (spot.held - other).abs();
            }
        }
        // Features that no cell on the chart has: the same for all of them.
        let extra = spot.features.iter().skip(self.features.len());
        let extra: f32 = extra.map(|x| x * x).sum();
        if extra > 0.0 {
            squares.iter_mut().for_each(|square| *square += extra);
        }
        squares
    }

    /// Squares of the distances between some cells: those of the first to itself and all after
    /// it, then those of the second, and so on.
    pub(crate) fn squares_between(&self, cells: &[u32]) -> Vec<f32> {
        let n = cells.len();
        let mut squares = vec![0.0; n * (n + 1) / 2];
        let mut x = vec![0.0f32; n];
        for column in &self.features {
            for (x, cell) in x.iter_mut().zip(cells) {
                *x = column[*cell as usize];
            }
            each_row(&mut squares, n, |i, row| {
                for (square, y) in row.iter_mut().zip(&x[i..]) {
                    *square += (x[i] - y) * (x[i] - y);
                }
            });
        }
        let mut code = vec![0u32; n];
        let mixed = self.categories.iter().zip(self.mixed);
        for (column, _) in mixed.filter(|(_, mixed)| *mixed) {
            for (code, cell) in code.iter_mut().zip(cells) {
                *code = column[*cell as usize];
            }
            each_row(&mut squares, n, |i, row| {
                for (square, other) in row.iter_mut().zip(&code[i..]) {
                    *square += if code[i] == *other { 0.0 } else { MISMATCH2 };
                }
            });
        }
        if self.uneven {
            for (x, cell) in x.iter_mut().zip(cells) {
                *x = self.held[*cell as usize];
            }
            each_row(&mut squares, n, |i, row| {
                for (square, y) in row.iter_mut().zip(&x[i..]) {
                    *square += MISMATCH2 * (x[i] - y).abs();
                }
            });
        }
        squares
    }
}

/// The rows of the upper half of a matrix, each from its diagonal on.
pub(crate) fn each_row<T>(mut upper: &mut [T], n: usize, mut f: impl FnMut(usize, &mut [T])) {
    for i in 0..n {
        let (row, rest) = upper.split_at_mut(n - i);
        f(i, row);
        upper = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;
    use proptest::prelude::*;

    fn spot(numbers: &[f64], codes: &[u32]) -> Spot {
        let workload = Workload::from_slice(numbers).unwrap();
        let cell = workload.codes_from_slice(codes).unwrap().cell();
        let at: Vec<f64> = cell.coordinates().collect();
        Spot::new(&cell, &at, &[5.0; MAX_FEATURES], &[2.0; MAX_FEATURES])
    }

    proptest! {
        #[test]
        fn all_ways_to_measure_agree(
            cells in prop::collection::vec(
                (prop::collection::vec(0.0..1e6f64, 0..4), prop::collection::vec(0..3u32, 0..3)),
                1..12,
            ),
        ) {
            let spots: Vec<Spot> = cells.iter().map(|(n, c)| spot(n, c)).collect();
            let mut chart = Chart::default();
            for (i, spot) in spots[1..].iter().enumerate() {
                chart.set(i, spot);
            }
            let close = |a: f32, b: f32| (a - b).abs() <= 1e-5 * (1.0 + a.abs());
            for (square, other) in chart.squares_to(&spots[0]).iter().zip(&spots[1..]) {
                prop_assert!(close(*square, spots[0].square_to(other)));
            }
            let numbers: Vec<u32> = (0..spots.len() as u32 - 1).collect();
            let mut between = chart.squares_between(&numbers);
            let mut right = true;
            each_row(&mut between, numbers.len(), |i, row| {
                for (square, other) in row.iter().zip(&spots[i + 1..]) {
                    right &= close(*square, spots[i + 1].square_to(other));
                }
            });
            prop_assert!(right);
        }
    }

    #[test]
    fn a_cell_that_takes_the_place_of_another_is_measured_anew() {
        let mut chart = Chart::default();
        chart.set(0, &spot(&[64.0], &[]));
        chart.set(1, &spot(&[1024.0], &[]));
        chart.note(0, 3);
        chart.note(1, 3);
        assert_eq!(chart.measured(3), [0, 1]);
        let far = spot(&[64.0, 7.0], &[1]);
        chart.set(0, &far);
        assert_eq!(chart.measured(3), [1]);
        assert!(chart.measured(63).is_empty());
        assert_eq!(chart.squares_to(&far)[0], 0.0);
        assert!(chart.squares_to(&far)[1] > 2.0 * MISMATCH2);
    }
}
