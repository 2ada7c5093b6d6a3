//! What variants are expected to cost in a cell, and how sure that is.

use std::borrow::Cow;

use super::cells::{Cells, Expected, Own, Place};
use super::launch::{self, Sight};
use super::neighbours::{Local, Neighbour, nearest, share};
use super::ridge::{Point, Ridge};
use super::samples::Samples;
use super::scales::{Witness, Witnesses};
use super::{Foreign, Learner, Work, bits};
use crate::decision::Prediction;
use crate::machine::BackendCost;
use crate::policy::adaptive::{self, Candidate};
use crate::workload::Workload;
use rand::RngExt;

/// Distance beyond which the form of the model is a guess, and how wrong it may be per unit of
/// distance, in log units.
const NEAR_BY: f64 = 0.5;
const FAR_OFF: f64 = 0.7;

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

/// Measurements that judge the scales each time, and how many of them lie near each other.
const WITNESSES: usize = 64;
const CLUSTER: usize = 8;

/// Confidence with which a new cell needs no news of its neighbours. With it, replays of the public
/// tables ask a seventh less often, and are as good.
const SURE: f64 = 0.95;

/// How long a cell has served when it may hear news of its neighbours, whatever its visits: a hundred times as
/// long as asking takes.
const NEWS_NS: f64 = 3e6;

/// Steps that they may make at a time.
const STEPS: usize = 3;

impl Learner {
    /// What is expected of variants for a workload, without changing anything but caches; and the
    /// variance that they share.
    pub(crate) fn predict(
        &mut self,
        workload: &Workload,
        variants: u64,
        now_ns: u64,
    ) -> (Vec<Candidate>, f64) {
        let mut candidates = Vec::new();
        let shared = match self.cells.find(workload.cell_key()) {
            Some(at) => {
                self.refresh(at, variants);
                self.outlook(self.cells.at(at), variants, now_ns, &mut candidates)
            }
            None => {
                // A cell nobody has called: predict without making it known.
                let mut lone = Cells::default();
                let (at, _) = lone.enter(workload, workload.cell_key(), 1);
                lone.at_mut(at).expected = self.expected_of(lone.at(at), None, variants);
                self.outlook(lone.at(at), variants, now_ns, &mut candidates)
            }
        };
        (candidates, shared)
    }

    /// Brings up to date what neighbours say of a cell that has not measured all of the variants.
    pub(super) fn refresh(&mut self, at: usize, variants: u64) {
        let place = self.cells.at(at);
        let expected = &place.expected;
        let known = |v: u8| {
            expected
                .own
                .get(usize::from(v))
                .is_some_and(Option::is_some)
        };
        let measured = |v: u8| place.of(v).is_some_and(|s| s.held() > 0);
        // A cell that is called often rests on its own samples: it hears news ever more rarely, unless its
        // calls are so long that asking is nothing beside them. Those hear it before the next fit.
        let since = place.calls - expected.calls;
        let served = place.incumbent.and_then(|v| place.of(v));
        let served_ns = served.map_or(0.0, |s| since * s.level().exp());
        let is_long = served_ns >= NEWS_NS;
        let busy = place.visits > 4 && !place.visits.is_power_of_two() && !is_long;
        // So does a new one that is sure of its choice.
        let idle = place.visits <= 4 && place.sure > SURE;
        let has_heard = !is_long || expected.news == self.news;
        let same = expected.version == self.version && has_heard;
        let current = busy || idle || same || bits(variants).all(measured);
        if current && bits(variants).all(known) {
            return;
        }
        let asked = bits((1u64 << self.variants.len().min(63)) - 1).filter(|v| known(*v));
        let variants = asked.fold(variants, |mask, v| mask | 1 << v);
        self.cells.at_mut(at).expected = self.expected_of(self.cells.at(at), Some(at), variants);
    }

    /// Prior, linear part and neighbours of a cell, for each of the variants in the mask. `index` is
    /// its number, if it is one of those that are known.
    fn expected_of(&self, here: &Place, index: Option<usize>, variants: u64) -> Expected {
        let asked: Vec<u8> = bits(variants)
            .filter(|v| usize::from(*v) < self.variants.len())
            .collect();
        let mut own = vec![None; self.variants.len()];
        if self.points == 0 && self.foreign.is_empty() {
            // Nothing has been measured: the cost model, or nothing at all.
            let nothing = Prediction::default();
            for variant in asked {
                let prior = self.prior(variant, &here.work);
                own[usize::from(variant)] = Some(Own {
                    mean: if prior > 0.0 { prior } else { nothing.mean() },
                    variance: nothing.sd() * nothing.sd(),
                });
            }
            return Expected {
                version: self.version,
                news: self.news,
                calls: here.calls,
                shared: 0.0,
                own,
            };
        }
        let spot = self.basis.spot(&here.cell, &here.at);
        let chart = self.basis.chart();
        let squares = chart.squares_to(&spot);
        let most = share(asked.len());
        let scales = &self.search.scales;
        let usual = scales.shared() + scales.own() + scales.nugget();
        let (mut points, mut cells, mut apart) = (Vec::new(), Vec::new(), Vec::new());
        for variant in &asked {
            let nearest = nearest(&squares, chart.measured(*variant), index, most);
            // As near as can be if it was measured nowhere: then nothing is known anyway.
            apart.push(nearest.first().map_or(0.0, |n| self.basis.distance(n.0)));
            for (square, cell) in &nearest {
                let place = self.cells.at(*cell as usize);
                let Some(samples) = place.of(*variant) else {
                    continue;
                };
                let linear = self.ridge.mean(self.basis.row(*cell as usize), *variant);
                let residual = samples.level() - self.prior(*variant, &place.work) - linear;
                let mut variance = heard_variance(samples, self.tick_ns);
                if is_doubtful(samples, residual) && residual * residual > 4.0 * usual {
                    variance += residual * residual / 4.0;
                }
                points.push(Neighbour {
                    distance: self.basis.distance(*square),
                    variant: *variant,
                    residual,
                    variance,
                });
                cells.push(*cell);
            }
        }
        let local = Local::at(&points, &asked, scales, &self.basis.distances(&cells));
        let basis = match index {
            Some(index) => self.basis.row(index).into(),
            None => Cow::from(self.basis.vector(&here.cell, &here.at, &spot)),
        };
        let known = self.basis.knows(&here.cell, &here.at);
        for ((variant, apart), (residual, variance)) in asked.into_iter().zip(apart).zip(local.own)
        {
            let index = usize::from(variant);
            let mean =
                self.prior(variant, &here.work) + self.ridge.mean(&basis, variant) + residual;
            // Where neighbours explain the misfit, they also pin down the linear part.
            let open = ((variance + local.shared) / usual).min(1.0);
            let linear = if known {
                open * self.ridge.own_variance(&basis, variant)
            } else {
                open * self.ridge.unknown_variance(&basis)
            };
            own[index] = Some(Own {
                mean: mean.clamp(0.0, 32.0), // a nanosecond to a day
                variance: (variance + linear + far(apart)).clamp(LEAST_EXPECTED, 25.0),
            });
        }
        Expected {
            version: self.version,
            news: self.news,
            calls: here.calls,
            shared: local.shared,
            own,
        }
    }

    /// Log of what the cost model says, while it explains the costs; 0 otherwise.
    pub(super) fn prior(&self, variant: u8, work: &Work) -> f64 {
        if self.trust_prior {
            self.cost_model(variant, work)
        } else {
            0.0
        }
    }

    /// Log of what the calibrated cost model alone says, while it explains the costs; 0 otherwise, or if it says
    /// nothing.
    fn word(&self, variant: u8, work: &Work) -> f64 {
        let says = self.model_ns(variant, work).filter(|_| self.trust_prior);
        says.map_or(0.0, f64::ln)
    }

    /// Log of what the calibrated cost model says, and the variant's own launch; 0 if the caller gave neither
    /// flops nor bytes.
    fn cost_model(&self, variant: u8, work: &Work) -> f64 {
        let launch_ns = self.launches.get(usize::from(variant)).unwrap_or(&0.0);
        self.model_ns(variant, work)
            .map_or(0.0, |ns| (ns + launch_ns).ln())
    }

    /// What the calibrated cost model says, if the caller gave flops or bytes.
    fn model_ns(&self, variant: u8, work: &Work) -> Option<f64> {
        let known = self.variants.get(usize::from(variant))?;
        if work.flops <= 0.0 && work.bytes <= 0.0 {
            return None;
        }
        let cost = BackendCost {
            transfer_bytes_per_s: work.way(known.backend, &self.variants),
            ..known.cost?
        };
        Some(cost.predict_ns(work.flops, work.bytes, work.bytes))
    }

    /// Learns what each variant takes beyond the cost model before its work begins.
    fn learn_launches(&mut self) {
        let mut seen: Vec<Vec<Sight>> = vec![Vec::new(); self.variants.len()];
        for place in self.cells.iter() {
            for samples in place.samples.iter().filter(|s| s.held() > 0) {
                if let Some(model_ns) = self.model_ns(samples.variant, &place.work) {
                    seen[usize::from(samples.variant)].push(Sight {
                        ln_cost: samples.level(),
                        model_ns,
                    });
                }
            }
        }
        self.launches = launch::launches(&seen);
    }

    /// What is expected of variants in a cell, from its neighbours and its own samples. Fills in
    /// the candidates; returns the variance that they share.
    ///
    /// A cell is as dear as its features say times `e^f`, whoever serves: `f` is known as well as
    /// neighbours agree, and better with each sample of any variant here. So a variant's log cost is
    /// its mean plus its loading times `f` plus an error of its own, and the loading is 1 if it was
    /// never measured here and goes to 0 with its samples.
    pub(super) fn outlook(
        &self,
        place: &Place,
        variants: u64,
        now_ns: u64,
        candidates: &mut Vec<Candidate>,
    ) -> f64 {
        let expected = &place.expected;
        let own = |v: u8| expected.own.get(usize::from(v)).copied().flatten();
        let (mut precision, mut pull) = (1.0 / expected.shared.max(1e-9), 0.0);
        let first = candidates.len();
        for variant in bits(variants) {
            let Some(own) = own(variant) else {
                candidates.push(Candidate {
                    tries: self.tries[usize::from(variant)],
                    measured: self.is_measured(variant),
                    ..Candidate::unknown(variant)
                });
                continue;
            };
            let samples = place.of(variant).filter(|s| s.held() > 0);
            let tries = self.tries[usize::from(variant)];
            let mut candidate = Candidate {
                variant,
                prediction: Prediction::default(),
                mean: own.mean,
                loading: 1.0,
                own: own.variance,
                noise: self.noise[usize::from(variant)].powi(2),
                tries,
                points: self.measured_in[usize::from(variant)],
                measured: self.is_measured(variant),
                prior: self.word(variant, &place.work),
            };
            if let Some(samples) = samples {
                let deviation = samples.level() - own.mean;
                let mut noise = own_variance(samples, self.outliers, self.tick_ns);
                let mut far = own.variance;
                let surprise = deviation.powi(2) / (9.0 * (noise + far + expected.shared));
                if is_doubtful(samples, deviation) {
                    noise *= 1.0 + surprise;
                } else {
                    // It is the expectation that was wrong.
                    far *= 1.0 + surprise * surprise;
                }
                precision += (far + noise).recip();
                pull += deviation / (far + noise);
                candidate.loading = noise / (far + noise);
                candidate.mean += (1.0 - candidate.loading) * deviation;
                candidate.own = far * candidate.loading;
                candidate.noise = samples.spread().powi(2);
                let age = now_ns.saturating_sub(samples.last_ns) as f64;
                let doubted = if samples.is_doubted() { DOUBT } else { 0.0 };
                let stale = (age * STALE_PER_NS).min(MOST_STALE).max(doubted);
                candidate.own += stale * stale;
                candidate.prediction = Prediction::new(0.0, 0.0, samples.held());
            }
            candidates.push(candidate);
        }
        let shared = precision.recip();
        for candidate in &mut candidates[first..] {
            candidate.mean += candidate.loading * pull * shared;
            let sd = (candidate.own + candidate.loading.powi(2) * shared).sqrt();
            let samples = candidate.prediction.samples();
            candidate.prediction = Prediction::new(candidate.mean, sd, samples);
        }
        shared
    }

    /// Fits the linear part anew, from the levels of all cells: on top of the cost model, and
    /// without it. Amounts of work that do not explain the costs are not used.
    pub(super) fn fit(&mut self) {
        self.measured_in = vec![0; self.variants.len()];
        for samples in self.cells.iter().flat_map(|p| &p.samples) {
            self.measured_in[usize::from(samples.variant)] += u32::from(samples.held() > 0);
        }
        self.basis.survey(self.cells.all());
        self.learn_launches();
        let (with, misfit_with) = self.fitted(true);
        self.ridge = with;
        self.trust_prior = true;
        let work = self.cells.iter().map(|p| &p.work);
        let mut work = work.chain(self.foreign.iter().map(|f| &f.work));
        // Where no amounts of work are given, the cost model says nothing.
        if work.any(|w| w.flops > 0.0 || w.bytes > 0.0) {
            let (without, misfit_without) = self.fitted(false);
            if misfit_without < misfit_with {
                self.ridge = without;
                self.trust_prior = false;
            }
        }
        self.version += 1;
        self.changed = 0;
        self.rescale();
    }

    /// Asks some of the measurements what they think of the scales.
    fn rescale(&mut self) {
        let mut points: Vec<(u32, u8)> = Vec::with_capacity(self.points);
        for (cell, place) in self.cells.iter().enumerate() {
            let measured = place.samples.iter().filter(|s| s.held() > 0);
            points.extend(measured.map(|s| (cell as u32, s.variant)));
        }
        if points.len() < 4 {
            return;
        }
        // Some from everywhere, some from near each other.
        let mut chosen: Vec<(u32, u8)> = Vec::new();
        if points.len() <= WITNESSES {
            chosen.clone_from(&points);
        } else {
            for _ in 0..WITNESSES / CLUSTER {
                let first = points[self.rng.random_range(0..points.len())];
                let here = self.cells.at(first.0 as usize);
                let spot = self.basis.spot(&here.cell, &here.at);
                let squares = self.basis.chart().squares_to(&spot);
                let mut near: Vec<(f32, (u32, u8))> =
                    points.iter().map(|p| (squares[p.0 as usize], *p)).collect();
                near.select_nth_unstable_by(CLUSTER, |a, b| a.0.total_cmp(&b.0));
                chosen.extend(near[..CLUSTER].iter().map(|(_, p)| *p));
            }
            chosen.sort_unstable();
            chosen.dedup();
        }
        let witness = |(cell, variant): &(u32, u8)| {
            let place = self.cells.at(*cell as usize);
            let samples = place.of(*variant)?;
            Some(Witness {
                variant: *variant,
                value: samples.level() - self.prior(*variant, &place.work),
                variance: heard_variance(samples, self.tick_ns),
                basis: self.basis.row(*cell as usize).to_vec(),
            })
        };
        let all = chosen.iter().filter_map(witness).collect();
        let cells: Vec<u32> = chosen.iter().map(|(cell, _)| *cell).collect();
        let witnesses = Witnesses::new(all, self.basis.distances(&cells));
        for _ in 0..STEPS {
            if !self.search.hear(&witnesses) {
                break;
            }
        }
    }

    fn fitted(&self, trust_prior: bool) -> (Ridge, f64) {
        let prior = |variant, work: &Work| {
            if trust_prior {
                self.cost_model(variant, work)
            } else {
                0.0
            }
        };
        let mut points = Vec::with_capacity(self.points + self.foreign.len());
        for (cell, place) in self.cells.iter().enumerate() {
            let basis = self.basis.row(cell);
            for samples in place.samples.iter().filter(|s| s.held() > 0) {
                points.push(Point {
                    variant: samples.variant,
                    basis,
                    value: samples.level() - prior(samples.variant, &place.work),
                    weight: 1.0,
                });
            }
        }
        let vector = |f: &Foreign| {
            let spot = self.basis.spot(&f.cell, &f.at);
            self.basis.vector(&f.cell, &f.at, &spot)
        };
        let vectors: Vec<Vec<f64>> = self.foreign.iter().map(vector).collect();
        for (foreign, basis) in self.foreign.iter().zip(&vectors) {
            points.push(Point {
                variant: foreign.variant,
                basis,
                value: foreign.ln_cost - prior(foreign.variant, &foreign.work),
                weight: FOREIGN_WEIGHT,
            });
        }
        let size = (self.basis.features(), self.basis.dimension());
        let ridge = Ridge::fit(&points, self.variants.len(), size, &self.search.scales);
        let misfit = ridge.mean_miss(&points);
        (ridge, misfit)
    }
}

/// Variance of what is expected far from where a variant was measured, beyond what the model says:
/// its form is a guess there.
fn far(distance: f64) -> f64 {
    (FAR_OFF * (distance - NEAR_BY).max(0.0)).powi(2)
}

/// Variance of a level of `held` samples; more than arithmetic says while there are few, because
/// most of them may be outliers, and because code that has not run lately runs cold.
fn own_variance(samples: &Samples, outliers: f64, tick_ns: f64) -> f64 {
    let held = samples.held().max(1);
    let spread = samples.spread();
    let ns = samples.level().exp();
    // A third of a step of the clock is the standard deviation of where in it the truth lies.
    let tick = (tick_ns / ns).min(1.0) / 3.0;
    let cold = if samples.held() < adaptive::FEW {
        (COLD_NS / ns).ln_1p() / 2.0
    } else {
        0.0
    };
    let misled = OUTLIER_SIZE2 * outliers.max(0.01).powi(1 + held as i32 / 2);
    1.57 * spread * spread / f64::from(held) + misled + tick * tick + cold * cold
}

/// Whether what was measured, so far from all expectation, is more likely an outlier than the truth: one or
/// two samples that are too slow. Other work on the machine makes calls slower; nothing makes them faster.
fn is_doubtful(samples: &Samples, deviation: f64) -> bool {
    samples.held() < 3 && deviation > 0.0
}

/// Variance of a level as a witness to others: half the spread, because it is not known before a cell
/// is called again, and what it really is ends up in the nugget.
fn heard_variance(samples: &Samples, tick_ns: f64) -> f64 {
    let spread = samples.spread() * 0.5;
    let tick = (tick_ns / samples.level().exp()).min(1.0) / 3.0;
    spread * spread / f64::from(samples.held().max(1)) + tick * tick
}

/// How far off an outlier is, squared, in log units.
const OUTLIER_SIZE2: f64 = 0.3;
