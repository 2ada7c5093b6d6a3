//! From a cell's features to the numbers that the linear part multiplies.

use super::cells::Place;
use super::chart::{Chart, Spot};
use super::kernel::fade;
use crate::cell::Cell;
use crate::workload::Workload;

/// Coordinates are octaves; a slope per four octaves is of the size that the ridge's prior expects.
const OCTAVES: f64 = 4.0;

/// One-hot columns an op may have: later categories share the common offset.
const MAX_COLUMNS: usize = 16;

/// Weight of a one-hot column: how much categories may differ, beside slopes.
const COLUMN: f64 = 0.7;

/// Landmarks, how far each reaches, and the cells there must be before there are any.
const LANDMARKS: usize = 16;
const REACH: f64 = 2.0;
const LEAST_SURVEYED: usize = 24;

/// A category: which code it is of (4 = dtype, flags and location together), and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Column(u8, u64);

/// The columns of the linear part, learned from the cells that came by, and where the cells lie.
#[derive(Clone, Debug, Default)]
pub(crate) struct Basis {
    origin: Vec<f64>,
    columns: Vec<Column>,
    /// Spread of each coordinate over the cells.
    spread: Vec<f64>,
    landmarks: Vec<Landmark>,
    /// Cells there were when the landmarks were chosen.
    surveyed: usize,
    /// Features and columns that a vector has: those there were at the last fit.
    fitted: (usize, usize),
    chart: Chart,
    /// The vectors of the cells, one after the other.
    rows: Vec<f64>,
}

/// A cell from which costs may bend: what is linear near the middle of the cells seldom is at their
/// edges, and a few cells far out would tilt the slopes of all.
#[derive(Clone, Debug)]
struct Landmark {
    cell: Cell,
    at: Vec<f64>,
    spot: Spot,
}

impl Basis {
    /// Numbers in a basis vector.
    pub(crate) fn dimension(&self) -> usize {
        1 + self.fitted.0 + self.landmarks.len() + self.fitted.1
    }

    /// Numeric features: the numbers that follow the first.
    pub(crate) fn features(&self) -> usize {
        self.fitted.0
    }

    pub(crate) fn chart(&self) -> &Chart {
        &self.chart
    }

    /// A variant was measured in a cell for the first time.
    pub(crate) fn note(&mut self, index: usize, variant: u8) {
        self.chart.note(index, variant);
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

    /// A cell is new, or takes the place of another.
    pub(crate) fn enter(&mut self, index: usize, place: &Place) {
        self.admit(&place.cell, &place.at);
        let spot = self.spot(&place.cell, &place.at);
        self.chart.set(index, &spot);
        let vector = self.vector(&place.cell, &place.at, &spot);
        let start = index * vector.len();
        if start == self.rows.len() {
            self.rows.extend(vector);
        } else {
            self.rows[start..][..vector.len()].copy_from_slice(&vector);
        }
    }

    /// Measures where the cells lie and what sets them apart. Whoever calls this fits the
    /// coefficients anew: they count from the middle of the cells.
    pub(crate) fn survey(&mut self, places: &[Place]) {
        self.measure(places);
        self.chart.clear();
        for (index, place) in places.iter().enumerate() {
            let spot = self.spot(&place.cell, &place.at);
            self.chart.set(index, &spot);
            for samples in place.samples.iter().filter(|s| s.held() > 0) {
                self.chart.note(index, samples.variant);
            }
        }
        self.choose_landmarks(places);
        self.fitted = (self.origin.len(), self.columns.len());
        self.rows = self.vectors(places);
    }

    /// Measures where the cells lie and how far they spread in each coordinate.
    fn measure(&mut self, places: &[Place]) {
        for (j, (origin, spread)) in self.origin.iter_mut().zip(&mut self.spread).enumerate() {
            let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
            for value in places.iter().filter_map(|p| p.at.get(j)) {
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
        for at in 0..self.landmarks.len() {
            let landmark = &self.landmarks[at];
            self.landmarks[at].spot = self.spot(&landmark.cell, &landmark.at);
        }
    }

    /// Chooses the landmarks anew each time there are half as many cells again: each as far as can
    /// be from those before it.
    fn choose_landmarks(&mut self, places: &[Place]) {
        let count = places.len();
        if 2 * count < 3 * self.surveyed || count < LEAST_SURVEYED {
            return;
        }
        self.surveyed = count;
        self.landmarks.clear();
        let mut apart = vec![f32::INFINITY; count];
        let mut next = 0;
        for _ in 0..LANDMARKS {
            let Place { cell, at, .. } = &places[next];
            let spot = self.spot(cell, at);
            self.landmarks.push(Landmark {
                cell: *cell,
                at: at.clone(),
                spot,
            });
            let squares = self.chart.squares_to(&spot);
            let mut farthest = 0.0;
            for (index, (nearest, square)) in apart.iter_mut().zip(squares).enumerate() {
                *nearest = nearest.min(square);
                if *nearest > farthest {
                    (farthest, next) = (*nearest, index);
                }
            }
        }
    }

    /// Where a cell lies among the others.
    pub(crate) fn spot(&self, cell: &Cell, at: &[f64]) -> Spot {
        Spot::new(cell, at, &self.origin, &self.spread)
    }

    /// The basis vector of a cell that is known.
    pub(crate) fn row(&self, index: usize) -> &[f64] {
        let size = self.dimension();
        &self.rows[index * size..][..size]
    }

    /// The basis vector of a cell.
    pub(crate) fn vector(&self, cell: &Cell, at: &[f64], spot: &Spot) -> Vec<f64> {
        let mut out = vec![0.0; self.dimension()];
        self.fill(&mut out, cell, at);
        for (x, landmark) in out[1 + self.fitted.0..].iter_mut().zip(&self.landmarks) {
            *x = self.reach(landmark.spot.square_to(spot));
        }
        out
    }

    /// The basis vectors of all cells, one after the other.
    fn vectors(&self, places: &[Place]) -> Vec<f64> {
        let size = self.dimension();
        let mut out = vec![0.0; size * places.len()];
        for (row, place) in out.chunks_exact_mut(size).zip(places) {
            self.fill(row, &place.cell, &place.at);
        }
        for (l, landmark) in self.landmarks.iter().enumerate() {
            let squares = self.chart.squares_to(&landmark.spot);
            for (row, square) in out.chunks_exact_mut(size).zip(squares) {
                row[1 + self.fitted.0 + l] = self.reach(square);
            }
        }
        out
    }

    /// Fills in all of a vector but the landmarks.
    fn fill(&self, out: &mut [f64], cell: &Cell, at: &[f64]) {
        let (features, count) = self.fitted;
        out[0] = 1.0;
        for (x, (at, origin)) in out[1..=features]
            .iter_mut()
            .zip(at.iter().zip(&self.origin))
        {
            *x = (at - origin) / OCTAVES;
        }
        let first = 1 + features + self.landmarks.len();
        for column in columns(cell) {
            let at = self.columns[..count].iter().position(|c| *c == column);
            if let Some(at) = at {
                out[first + at] = COLUMN;
            }
        }
    }

    /// How much a landmark at this distance bends the costs.
    fn reach(&self, square: f32) -> f64 {
        fade(self.distance(square) / REACH)
    }

    /// Whether the last fit knew features and categories like those of this cell.
    pub(crate) fn knows(&self, cell: &Cell, at: &[f64]) -> bool {
        let all = self.columns.len() >= MAX_COLUMNS;
        let known = &self.columns[..self.fitted.1];
        at.len() <= self.fitted.0 && (all || columns(cell).all(|c| known.contains(&c)))
    }

    /// How the shared part differs between a workload and the middle of its cell, given the
    /// shared coefficients.
    pub(crate) fn shift(&self, workload: &Workload, middle: &[f64], shared: &[f64]) -> f64 {
        workload
            .coordinates()
            .zip(middle)
            .zip(shared.iter().skip(1).take(self.fitted.0))
            .map(|((x, m), slope)| slope * (x - m) / OCTAVES)
            .sum()
    }

    /// Distance: root mean square over the features, in spreads.
    pub(crate) fn distance(&self, square: f32) -> f64 {
        (f64::from(square) / self.origin.len().max(1) as f64).sqrt()
    }

    /// Distances between cells: those of the first to itself and all after it, and so on.
    pub(crate) fn distances(&self, cells: &[u32]) -> Vec<f64> {
        let per = (self.origin.len().max(1) as f32).recip();
        let squares = self.chart.squares_between(cells);
        squares
            .iter()
            .map(|s| f64::from((s * per).sqrt()))
            .collect()
    }
}

fn columns(cell: &Cell) -> impl Iterator<Item = Column> + '_ {
    let codes = cell.codes().iter().enumerate();
    let kind = Column(4, cell.kind_code());
    codes
        .map(|(i, code)| Column(i as u8, u64::from(*code)))
        .chain(std::iter::once(kind))
}
