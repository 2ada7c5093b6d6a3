//! What a variant is expected to cost in a cell, and how sure that is.

use super::cells::{Cells, Expected, Place};
use super::neighbours::{Nearest, Neighbour};
use super::ridge::{Point, Ridge};
use super::samples::Samples;
use super::{Known, Learner, Work, bits};
use crate::decision::Prediction;
use crate::policy::adaptive;
use crate::workload::Workload;

/// Least variance of what is expected of a cell without its own samples: 5 %.
const LEAST_EXPECTED: f64 = 0.0025;

/// What cold caches and branch predictors add to a call of other code than usual, about. Measured on
/// a dot product of 32 numbers: 27 ns in a loop, 160 to 660 ns when tried once in a while.
const COLD_NS: f64 = 200.0;

/// Uncertainty that evidence gains with age, in log units: what was measured ten minutes ago, under
/// other load, may be off by a quarter; after forty minutes, by a factor of e, and no more.
const STALE_PER_NS: f64 = 0.25 / 600e9;
const MOST_STALE: f64 = 1.0;

/// Uncertainty of what was measured before something else in the cell changed.
const DOUBT: f64 = 0.25;

/// Weight of a cell learned on another machine: twenty of them say as much as one of ours.
const FOREIGN_WEIGHT: f64 = 0.05;

impl Learner {
    /// What is expected of a variant for a workload, without changing anything but caches.
    pub(crate) fn predict(&mut self, workload: &Workload, variant: u8, now_ns: u64) -> Prediction {
        match self.cells.find(workload.cell_key()) {
            Some(at) => {
                self.refresh(at, 1 << variant);
                self.predicted(at, variant, now_ns)
            }
            None => {
                // A cell nobody has called: predict without making it known.
                let mut lone = Cells::default();
                let (at, _) = lone.enter(workload, workload.cell_key(), 1);
                let place = lone.at(at).clone();
                let expected = self.expected_of(&place, 1 << variant);
                expected
                    .first()
                    .map(|(_, e)| combine(*e, None, 0.0, 0.0))
                    .unwrap_or_default()
            }
        }
    }

    /// Brings up to date what neighbours say of the variants that this cell has not measured.
    pub(super) fn refresh(&mut self, at: usize, variants: u64) {
        let place = self.cells.at(at);
        let wanted = bits(variants)
            .filter(|v| match place.expected.get(usize::from(*v)) {
                Some(Some(e)) => {
                    e.version != self.version && place.of(*v).is_none_or(|s| s.held() == 0)
                }
                _ => true,
            })
            .fold(0, |mask, v| mask | 1u64 << v);
        if wanted == 0 {
            return;
        }
        let expected = self.expected_of(place, wanted);
        let count = self.variants.len();
        let place = self.cells.at_mut(at);
        place.expected.resize(count, None);
        for (variant, e) in expected {
            place.expected[usize::from(variant)] = Some(e);
        }
    }

    /// Prior, linear part and neighbours of a cell, for each of the variants in the mask.
    fn expected_of(&self, here: &Place, variants: u64) -> Vec<(u8, Expected)> {
        let mut nearest: Vec<Nearest> = vec![Nearest::default(); self.variants.len()];
        for (index, place) in self.cells.iter().enumerate() {
            if place.key == here.key || place.samples.is_empty() {
                continue;
            }
            let distance2 = self.basis.distance2(here, place);
            let measured = place.samples.iter().filter(|s| s.held() > 0);
            for samples in measured.filter(|s| variants & (1 << s.variant) != 0) {
                let list = &mut nearest[usize::from(samples.variant)];
                if list.wants(distance2) {
                    list.offer(Neighbour {
                        distance2,
                        cell: index as u32,
                        residual: 0.0,
                        variance: own_variance(samples, self.tick_ns),
                    });
                }
            }
        }
        let basis = self.basis.vector(&here.cell, &here.at);
        let misfit = self.ridge.misfit();
        bits(variants)
            .filter(|v| usize::from(*v) < self.variants.len())
            .map(|variant| {
                let index = usize::from(variant);
                let list = &mut nearest[index];
                list.each(|neighbour| {
                    let place = self.cells.at(neighbour.cell as usize);
                    neighbour.residual = self.residual(place, variant);
                });
                let (local, local_variance) =
                    list.residual(misfit, self.basis.features(), |a, b| {
                        let (a, b) = (self.cells.at(a as usize), self.cells.at(b as usize));
                        self.basis.distance2(a, b)
                    });
                // Where neighbours explain the misfit, they also pin down the linear part.
                let open = local_variance / (misfit * misfit);
                let own = self.ridge.own_variance(&basis, index);
                let prior = self.prior(variant, &here.work);
                if self.points == 0 && self.foreign.is_empty() {
                    // Nothing has been measured: the cost model, or nothing at all.
                    let nothing = Prediction::default();
                    let mean = if prior > 0.0 { prior } else { nothing.mean() };
                    let variance = nothing.sd() * nothing.sd();
                    let version = self.version;
                    return (
                        variant,
                        Expected {
                            mean,
                            variance,
                            version,
                        },
                    );
                }
                let mean = prior + self.ridge.mean(&basis, index) + local;
                let expected = Expected {
                    mean: mean.clamp(0.0, 32.0), // a nanosecond to a day
                    variance: (local_variance + open * own).clamp(LEAST_EXPECTED, 25.0),
                    version: self.version,
                };
                (variant, expected)
            })
            .collect()
    }

    /// What the linear part misses in a cell.
    fn residual(&self, place: &Place, variant: u8) -> f64 {
        let Some(samples) = place.of(variant) else {
            return 0.0;
        };
        let basis = self.basis.vector(&place.cell, &place.at);
        samples.level()
            - self.prior(variant, &place.work)
            - self.ridge.mean(&basis, usize::from(variant))
    }

    /// Log of what the cost model says, while it explains the costs; 0 otherwise.
    pub(super) fn prior(&self, variant: u8, work: &Work) -> f64 {
        if self.trust_prior {
            self.cost_model(variant, work)
        } else {
            0.0
        }
    }

    /// Log of what the calibrated cost model says; 0 if the caller gave neither flops nor bytes.
    fn cost_model(&self, variant: u8, work: &Work) -> f64 {
        let known = self.variants.get(usize::from(variant));
        let Some(Known {
            cost: Some(cost),
            backend,
            ..
        }) = known
        else {
            return 0.0;
        };
        if work.flops <= 0.0 && work.bytes <= 0.0 {
            return 0.0;
        }
        cost.predict_ns(work.flops, work.bytes, work.moved_for(*backend))
            .max(1.0)
            .ln()
    }

    pub(super) fn predicted(&self, at: usize, variant: u8, now_ns: u64) -> Prediction {
        let place = self.cells.at(at);
        let Some(Some(expected)) = place.expected.get(usize::from(variant)) else {
            return Prediction::default();
        };
        let samples = place.of(variant).filter(|s| s.held() > 0);
        let age = samples.map_or(0.0, |s| now_ns.saturating_sub(s.last_ns) as f64);
        let doubted = if samples.is_some_and(Samples::is_doubted) {
            DOUBT
        } else {
            0.0
        };
        let stale = (age * STALE_PER_NS).min(MOST_STALE).max(doubted);
        combine(*expected, samples, stale, self.tick_ns)
    }

    /// Fits the linear part anew, from the levels of all cells: on top of the cost model, and
    /// without it. Amounts of work that do not explain the costs are not used.
    pub(super) fn fit(&mut self) {
        self.basis.measure(self.cells.iter());
        let with = self.fitted(true);
        let without = self.fitted(false);
        self.trust_prior = with.misfit() <= without.misfit();
        self.ridge = if self.trust_prior { with } else { without };
        self.version += 1;
        self.changed = 0;
    }

    fn fitted(&self, trust_prior: bool) -> Ridge {
        let prior = |variant, work: &Work| {
            if trust_prior {
                self.cost_model(variant, work)
            } else {
                0.0
            }
        };
        let mut points = Vec::with_capacity(self.points + self.foreign.len());
        for place in self.cells.iter().filter(|p| !p.samples.is_empty()) {
            let basis = self.basis.vector(&place.cell, &place.at);
            for samples in place.samples.iter().filter(|s| s.held() > 0) {
                points.push(Point {
                    variant: usize::from(samples.variant),
                    basis: basis.clone(),
                    value: samples.level() - prior(samples.variant, &place.work),
                    weight: 1.0,
                });
            }
        }
        for foreign in &self.foreign {
            points.push(Point {
                variant: usize::from(foreign.variant),
                basis: self.basis.vector(&foreign.cell, &foreign.at),
                value: foreign.ln_cost - prior(foreign.variant, &foreign.work),
                weight: FOREIGN_WEIGHT,
            });
        }
        // Once plainly, and once with less weight on what that left far off.
        let mut ridge = Ridge::default();
        for _ in 0..2 {
            ridge.fit(&points, self.variants.len(), self.basis.dimension());
        }
        ridge
    }
}

/// Variance of a level of `held` samples; more than arithmetic says while there are few, because
/// the spread itself is unknown then, and because code that has not run lately runs cold.
fn own_variance(samples: &Samples, tick_ns: f64) -> f64 {
    let held = f64::from(samples.held().max(1));
    let spread = samples.spread();
    let ns = samples.level().exp();
    // A third of a step of the clock is the standard deviation of where in it the truth lies.
    let tick = (tick_ns / ns).min(1.0) / 3.0;
    let cold = if samples.held() < adaptive::FEW {
        (COLD_NS / ns).ln_1p() / 2.0
    } else {
        0.0
    };
    1.57 * spread * spread / held + 0.04 / (held * held) + tick * tick + cold * cold
}

/// Joins what neighbours say with the cell's own samples, each by its certainty.
fn combine(expected: Expected, samples: Option<&Samples>, stale: f64, tick_ns: f64) -> Prediction {
    let Some(samples) = samples else {
        return Prediction::new(expected.mean, expected.variance.sqrt(), 0);
    };
    let mut own = own_variance(samples, tick_ns);
    let mut far = expected.variance;
    let surprise = (samples.level() - expected.mean).powi(2) / (9.0 * (own + far));
    if samples.held() < 3 {
        // One or two samples far from all expectation are more likely an outlier than the truth;
        own *= 1.0 + surprise;
    } else {
        // three or more, and it is the expectation that was wrong.
        far *= 1.0 + surprise * surprise;
    }
    let (a, b) = (far.recip(), own.recip());
    let mean = (a * expected.mean + b * samples.level()) / (a + b);
    let variance = (a + b).recip() + stale * stale;
    Prediction::new(mean, variance.sqrt(), samples.held())
}
