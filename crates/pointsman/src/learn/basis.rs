//! From a cell's features to the numbers that the linear part multiplies.

use super::cells::Place;
use crate::cell::Cell;
use crate::workload::Workload;

/// Coordinates are octaves; a slope per four octaves is of the size that the ridge's prior expects.
const OCTAVES: f64 = 4.0;

/// One-hot columns an op may have: later categories share the common offset.
const MAX_COLUMNS: usize = 16;

/// Weight of a one-hot column: how much categories may differ, beside slopes.
const COLUMN: f64 = 0.7;

/// How far apart two categories are, squared, in standard deviations of a feature.
const MISMATCH2: f64 = 9.0;

/// Landmarks, how far each reaches, and the cells there must be before there are any.
const LANDMARKS: usize = 16;
const REACH: f64 = 2.0;
const LEAST_SURVEYED: usize = 24;

/// A category: which code it is of (4 = dtype, flags and location together), and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Column(u8, u64);

/// The columns of the linear part, learned from the cells that came by.
#[derive(Clone, Debug, Default)]
pub(crate) struct Basis {
    origin: Vec<f64>,
    columns: Vec<Column>,
    /// Spread of each coordinate over the cells.
    spread: Vec<f64>,
    landmarks: Vec<Landmark>,
    /// Cells there were when the landmarks were chosen.
    surveyed: usize,
}

/// A cell from which costs may bend: what is linear near the middle of the cells seldom is at their
/// edges, and a few cells far out would tilt the slopes of all.
#[derive(Clone, Debug)]
struct Landmark {
    cell: Cell,
    at: Vec<f64>,
}

impl Basis {
    /// Numbers in a basis vector.
    pub(crate) fn dimension(&self) -> usize {
        1 + self.origin.len() + self.landmarks.len() + self.columns.len()
    }

    /// Numeric features: the numbers that follow the first.
    pub(crate) fn features(&self) -> usize {
        self.origin.len()
    }

    /// Makes room for what is new in this cell.
    pub(crate) fn admit(&mut self, cell: &Cell, at: &[f64]) {
        for coordinate in &at[self.origin.len().min(at.len())..] {
            self.origin.push(*coordinate);
            self.spread.push(1.0);
        }
        for column in columns(cell) {
            if !self.columns.contains(&column) && self.columns.len() < MAX_COLUMNS {
                self.columns.push(column);
            }
        }
    }

    /// Measures where the cells lie and how far they spread in each coordinate. Whoever calls this
    /// fits the coefficients anew: they count from the middle of the cells.
    pub(crate) fn measure<'a>(&mut self, places: impl Iterator<Item = &'a Place> + Clone) {
        for (j, (origin, spread)) in self.origin.iter_mut().zip(&mut self.spread).enumerate() {
            let values = places.clone().filter_map(|p| p.at.get(j));
            let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
            for value in values {
                let value = value - *origin;
                n += 1.0;
                sum += value;
                squares += value * value;
            }
            if n > 0.0 {
                // Half an octave at least: one size is not a scale.
                *spread = (squares / n - (sum / n).powi(2)).max(0.25).sqrt();
                *origin += sum / n;
            }
        }
    }

    /// Chooses the landmarks anew each time there are half as many cells again: each as far as can
    /// be from those before it.
    pub(crate) fn survey<'a>(&mut self, places: impl Iterator<Item = &'a Place> + Clone) {
        let count = places.clone().count();
        if 2 * count < 3 * self.surveyed || count < LEAST_SURVEYED {
            return;
        }
        self.surveyed = count;
        self.landmarks.clear();
        let mut apart: Vec<(f64, &Place)> = places.map(|p| (f64::INFINITY, p)).collect();
        let mut next = apart[0].1;
        for _ in 0..LANDMARKS {
            self.landmarks.push(Landmark {
                cell: next.cell,
                at: next.at.clone(),
            });
            let mut farthest = (0.0, next);
            for (distance, place) in &mut apart {
                *distance = distance.min(self.distance(next, place));
                if *distance > farthest.0 {
                    farthest = (*distance, *place);
                }
            }
            next = farthest.1;
        }
    }

    /// The basis vector of a cell.
    pub(crate) fn vector(&self, cell: &Cell, at: &[f64]) -> Vec<f64> {
        let mut out = Vec::with_capacity(self.dimension());
        out.push(1.0);
        for (j, origin) in self.origin.iter().enumerate() {
            out.push(at.get(j).map_or(0.0, |x| (x - origin) / OCTAVES));
        }
        for landmark in &self.landmarks {
            let distance = self.apart((&landmark.cell, &landmark.at), (cell, at));
            out.push((-distance / REACH).exp());
        }
        let held: [Option<Column>; 5] = {
            let mut all = columns(cell);
            std::array::from_fn(|_| all.next())
        };
        for column in &self.columns {
            out.push(if held.contains(&Some(*column)) {
                COLUMN
            } else {
                0.0
            });
        }
        out
    }

    /// How the shared part differs between a workload and the middle of its cell, given the
    /// shared coefficients.
    pub(crate) fn shift(&self, workload: &Workload, middle: &[f64], shared: &[f64]) -> f64 {
        workload
            .coordinates()
            .zip(middle)
            .zip(shared.iter().skip(1))
            .map(|((x, m), slope)| slope * (x - m) / OCTAVES)
            .sum()
    }

    /// Distance of two cells: root mean square over the features, in spreads.
    pub(crate) fn distance(&self, a: &Place, b: &Place) -> f64 {
        self.apart((&a.cell, &a.at), (&b.cell, &b.at))
    }

    /// A feature that a cell does not have counts as the middle of those that do, and not having it
    /// as a category of its own: distances must be those of points in a space, or the covariances
    /// made of them are none.
    fn apart(&self, (a, a_at): (&Cell, &[f64]), (b, b_at): (&Cell, &[f64])) -> f64 {
        let mut sum = 0.0;
        for ((x, y), spread) in a_at.iter().zip(b_at).zip(&self.spread) {
            let d = (x - y) / spread;
            sum += d * d;
        }
        let (short, long) = if a_at.len() < b_at.len() {
            (a_at.len(), b_at)
        } else {
            (b_at.len(), a_at)
        };
        let middle = self.origin.iter().zip(&self.spread);
        for (x, (origin, spread)) in long.iter().zip(middle).skip(short) {
            let d = (x - origin) / spread;
            sum += d * d + MISMATCH2;
        }
        if a.kind() != b.kind() {
            sum += MISMATCH2;
        }
        let (a, b) = (a.codes(), b.codes());
        let differ = a.iter().zip(b).filter(|(x, y)| x != y).count() + a.len().abs_diff(b.len());
        sum += MISMATCH2 * differ as f64;
        (sum / self.origin.len().max(1) as f64).sqrt()
    }
}

fn columns(cell: &Cell) -> impl Iterator<Item = Column> + '_ {
    let codes = cell.codes().iter().enumerate();
    let kind = Column(4, cell.kind_code());
    codes
        .map(|(i, code)| Column(i as u8, u64::from(*code)))
        .chain(std::iter::once(kind))
}
