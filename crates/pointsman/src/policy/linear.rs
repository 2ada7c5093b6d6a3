//! One linear model of the log cost per variant: what `lin-ucb` and `lin-thompson` share.

use super::arms::is_due;
use super::{Call, Candidate, Choice};
use crate::cell::mix;
use crate::outcome::Cost;
use crate::workload::{MAX_FEATURES, Workload};

/// Columns of categories: the first ones seen have one each, later ones share them by their hash.
const COLUMNS: usize = 12;

const SIZE: usize = 1 + MAX_FEATURES + COLUMNS;

/// Coordinates are octaves; with a slope per four octaves, slopes and offsets are of one size.
const OCTAVES: f64 = 4.0;

/// Weight of the assumption that all coefficients are 0, in samples.
const RIDGE: f64 = 0.1;

/// The features of a call: a constant, the log features, and the categories it is of. Most columns are
/// 0, and only the others are gone through.
struct Features(Vec<(usize, f64)>);

impl Features {
    fn dot(&self, row: &[f64; SIZE]) -> f64 {
        self.0.iter().map(|(i, x)| row[*i] * x).sum()
    }
}

/// A recursive least-squares fit.
#[derive(Clone)]
struct Model {
    coefficients: [f64; SIZE],
    /// Inverse of RIDGE · I + Σ x xᵀ, by rows.
    inverse: Vec<[f64; SIZE]>,
    samples: u64,
    asked: u32,
}

impl Model {
    fn new() -> Self {
        let mut inverse = vec![[0.0; SIZE]; SIZE];
        for (i, row) in inverse.iter_mut().enumerate() {
            row[i] = 1.0 / RIDGE;
        }
        Model {
            coefficients: [0.0; SIZE],
            inverse,
            samples: 0,
            asked: 0,
        }
    }

    /// Expected value, and how far it is from anything seen: √(xᵀ A⁻¹ x).
    fn predict(&self, x: &Features) -> (f64, f64) {
        let rows =
            x.0.iter()
                .map(|(i, value)| value * x.dot(&self.inverse[*i]));
        let distance2: f64 = rows.sum();
        (x.dot(&self.coefficients), distance2.max(0.0).sqrt())
    }

    /// Adds a sample, by the formula of Sherman and Morrison.
    fn add(&mut self, x: &Features, value: f64) {
        let gain: [f64; SIZE] = std::array::from_fn(|i| x.dot(&self.inverse[i]));
        let scale = 1.0 + x.dot(&gain).max(0.0);
        let error = value - x.dot(&self.coefficients);
        for (i, row) in self.inverse.iter_mut().enumerate() {
            if gain[i] == 0.0 {
                continue; // a column that nobody has used
            }
            self.coefficients[i] += gain[i] * error / scale;
            for (cell, other) in row.iter_mut().zip(&gain) {
                *cell -= gain[i] * other / scale;
            }
        }
        self.samples += 1;
    }
}

/// The models of one op.
#[derive(Default)]
pub(super) struct Linear {
    models: Vec<Option<Model>>,
    /// Where coordinates and log costs count from: the first call that was measured.
    origin: Option<([f64; MAX_FEATURES], f64)>,
    /// Hashes of the categories that have a column.
    columns: Vec<u64>,
    visits: u64,
}

impl Linear {
    fn features(&mut self, workload: &Workload) -> Features {
        let mut values = [0.0; SIZE];
        values[0] = 1.0;
        let origin = self.origin.map_or([0.0; MAX_FEATURES], |(at, _)| at);
        let log = workload.coordinates().zip(origin);
        for (slot, (x, from)) in values[1..].iter_mut().zip(log) {
            *slot = (x - from) / OCTAVES;
        }
        let cell = workload.cell();
        let codes = workload.category_codes().iter().enumerate();
        let codes = codes.map(|(i, code)| (i as u64, u64::from(*code)));
        for (which, code) in codes.chain([(u64::MAX, cell.kind_code())]) {
            let column = self.column(mix(mix(0, which), code));
            values[1 + MAX_FEATURES + column] += 1.0;
        }
        let used = values.into_iter().enumerate().filter(|(_, x)| *x != 0.0);
        Features(used.collect())
    }

    fn column(&mut self, category: u64) -> usize {
        let known = self.columns.iter().position(|c| *c == category);
        known.unwrap_or_else(|| {
            if self.columns.len() == COLUMNS {
                return category as usize % COLUMNS;
            }
            self.columns.push(category);
            self.columns.len() - 1
        })
    }

    fn model(&mut self, variant: usize) -> &mut Model {
        if self.models.len() <= variant {
            self.models.resize(variant + 1, None);
        }
        self.models[variant].get_or_insert_with(Model::new)
    }

    /// A variant without samples comes first; then the lowest value of `judge`, which is given each
    /// variant's expected log cost and its distance from what has been seen.
    pub(super) fn choose(
        &mut self,
        call: &Call<'_>,
        mut judge: impl FnMut(f64, f64) -> f64,
    ) -> Choice {
        self.visits += 1;
        let visits = self.visits;
        let x = self.features(call.workload());
        for candidate in call.candidates() {
            self.model(candidate.variant());
        }
        let predictions: Vec<(usize, f64, f64)> = call
            .candidates()
            .iter()
            .filter_map(|c| {
                let model = self.models[c.variant()].as_ref()?;
                let (mean, distance) = model.predict(&x);
                (model.samples > 0).then_some((c.variant(), mean, distance))
            })
            .collect();
        let of = |c: &Candidate<'_>| predictions.iter().find(|p| p.0 == c.variant());
        let best = call.lowest(|c| of(c).map(|(_, mean, _)| *mean));
        let untried = call
            .candidates()
            .iter()
            .filter_map(|c| Some((c.variant(), self.models[c.variant()].as_ref()?)))
            .filter(|(_, m)| m.samples == 0)
            .filter(|(_, m)| best.is_none() || (call.may_try() && is_due(m.asked, visits)))
            .min_by_key(|(_, m)| m.asked)
            .map(|(variant, _)| variant);
        if let Some(variant) = untried {
            let model = self.model(variant);
            model.asked = model.asked.saturating_add(1);
            return Choice::one_of(variant, best.unwrap_or(variant));
        }
        let best = best.unwrap_or_else(|| call.reference().variant());
        if !call.may_try() {
            return Choice::serve(best);
        }
        let chosen = call.lowest(|c| of(c).map(|(_, mean, distance)| judge(*mean, *distance)));
        Choice::one_of(chosen.unwrap_or(best), best)
    }

    pub(super) fn learn(&mut self, call: &Call<'_>, variant: usize, cost: Cost) {
        let (_, from) = *self.origin.get_or_insert_with(|| {
            let mut at = [0.0; MAX_FEATURES];
            let log = call.workload().coordinates();
            at.iter_mut().zip(log).for_each(|(slot, x)| *slot = x);
            (at, cost.ln())
        });
        let x = self.features(call.workload());
        self.model(variant).add(&x, cost.ln() - from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_samples_leave_the_fit_in_order() {
        let mut linear = Linear::default();
        let mut model = Model::new();
        for i in 0..200_000u64 {
            let n = 1 + (mix(i, 1) % 1_000_000);
            let workload = Workload::new([n]).codes([(i % 3) as u32]);
            let x = linear.features(&workload);
            model.add(&x, 0.5 * (n as f64).log2() + (i % 3) as f64);
        }
        for (n, code) in [(1_000u64, 0u32), (1_000_000_000, 2)] {
            let x = linear.features(&Workload::new([n]).codes([code]));
            let (mean, distance) = model.predict(&x);
            let truth = 0.5 * (n as f64).log2() + f64::from(code);
            assert!((mean - truth).abs() < 0.05, "{mean} instead of {truth}");
            assert!(distance.is_finite() && distance < 0.1, "{distance}");
        }
    }
}
