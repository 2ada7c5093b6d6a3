//! Step 8 of a call: from outcomes to predictions.
//!
//! One [`Learner`] per op, behind the op's lock and off the hot path. Its interface is narrow:
//! [`Learner::decide`] before a call, [`Learner::observe`] or [`Learner::failed`] after it,
//! [`Learner::predict`] for explanations, [`Learner::take_unsaved`] and [`Learner::learn_from`] for
//! the store. What it predicts is the log cost of each variant in each cell:
//!
//! prior (calibrated cost model) + ridge (linear in the log features, shared and own slopes)
//! + neighbours (a local Gaussian process on what the ridge misses) + the cell's own samples.

mod bank;
mod basis;
mod cells;
mod cholesky;
mod neighbours;
pub(crate) mod published;
mod ridge;
mod samples;
mod tally;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

pub(crate) use self::bank::Bank;
use self::basis::Basis;
use self::cells::{Cells, Expected, MAX_CELLS, Place};
use self::neighbours::{Nearest, Neighbour};
use self::ridge::{Point, Ridge};
use self::samples::{News, Samples};
pub(crate) use self::tally::Tally;
use crate::backend::Backend;
use crate::cell::Cell;
use crate::decision::{Prediction, Reason};
use crate::machine::BackendCost;
use crate::outcome::{Cost, Rejection};
use crate::policy::adaptive::{self, Burst, Candidate, Situation};
use crate::store::{Costs, Entry, Fact};
use crate::workload::Workload;

/// Share of outliers assumed at first, and samples over which it is learned.
const FIRST_OUTLIERS: f64 = 0.02;
const OUTLIER_MEMORY: f64 = 64.0;

/// Least variance of what is expected of a cell without its own samples: 5 %.
const LEAST_EXPECTED: f64 = 0.0025;

/// Most, in log units, that costs may differ because of where in its cell a workload lies.
const MOST_SHIFT: f64 = 0.7;

/// Weight of a cell learned on another machine: twenty of them say as much as one of ours.
const FOREIGN_WEIGHT: f64 = 0.05;

/// Most foreign cells that are listened to.
const MAX_FOREIGN: usize = 2048;

/// First visits of a cell that all go through the learner: a one-off of some 10 µs per cell.
const FIRST_VISITS: u32 = 32;

/// What cold caches and branch predictors add to a call of other code than usual, about. Measured on
/// a dot product of 32 numbers: 27 ns in a loop, 160 to 660 ns when tried once in a while.
const COLD_NS: f64 = 200.0;

/// What a call through the learner costs beyond the direct one, in nanoseconds: two clock readings,
/// two short locks and the update. `bench overhead` reports it as `sampled_ns`.
const SAMPLED_NS: f64 = 700.0;

/// Share of an op's time that sampling may cost.
const SAMPLED_SHARE: f64 = 0.01;

/// Settled cells are sampled up to this power of two more rarely still.
const MAX_THINNED: u8 = 3;

/// Longest sampling period: every 65,536th call.
const MAX_PERIOD: u8 = 16;

/// Uncertainty that evidence gains with age, in log units: what was measured ten minutes ago, under
/// other load, may be off by a quarter; after forty minutes, by a factor of e, and no more.
const STALE_PER_NS: f64 = 0.25 / 600e9;
const MOST_STALE: f64 = 1.0;

/// A variant as the learner sees it.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) name: Box<str>,
    pub(crate) revision: u32,
    pub(crate) backend: Backend,
    /// Calibrated cost of its backend, if there is one.
    pub(crate) cost: Option<BackendCost>,
}

/// What is asked before a call.
#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) key: u64,
    /// Who may serve; never empty.
    pub(crate) eligible: u64,
    pub(crate) now_ns: u64,
    /// Whether trials are allowed.
    pub(crate) explore: bool,
    /// Whether nothing may change.
    pub(crate) frozen: bool,
}

/// What is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pick {
    pub(crate) variant: u8,
    pub(crate) reason: Reason,
    pub(crate) confidence: f64,
    pub(crate) predicted: Prediction,
    /// Predicted cost of the best variant: what a trial is compared with.
    pub(crate) best_ns: f64,
    /// What the bank has set aside for this trial.
    pub(crate) reserved_ns: f64,
    /// Trials that should follow this one.
    pub(crate) burst: Option<Burst>,
    /// Whether nothing is left to find out here.
    pub(crate) settled: bool,
    /// The choice to publish: one call in `2^period` comes back here. `None`: every call does.
    pub(crate) publish: Option<u8>,
}

impl Pick {
    /// The same pick, but every call comes back: something better may be there soon.
    pub(crate) fn unpublished(mut self) -> Self {
        self.publish = None;
        self
    }
}

/// What happened to a call that was timed.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) key: u64,
    pub(crate) variant: u8,
    pub(crate) cost: Result<Cost, Rejection>,
    pub(crate) reason: Reason,
    pub(crate) best_ns: f64,
    pub(crate) reserved_ns: f64,
    /// Calls this one stands for.
    pub(crate) weight: u64,
    /// It ran inside another call, whose time already counts.
    pub(crate) nested: bool,
    pub(crate) now_ns: u64,
}

/// How much work a call in a cell is, for the cost model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    flops: f64,
    bytes: f64,
    located: Backend,
}

impl Work {
    fn of(workload: &Workload) -> Self {
        Work {
            flops: workload.flop_count(),
            bytes: workload.byte_count(),
            located: workload.location(),
        }
    }

    fn stored(cell: &Cell, costs: &Costs) -> Self {
        Work {
            flops: costs.flops as f64,
            bytes: costs.bytes as f64,
            located: cell.kind().2,
        }
    }

    /// Bytes that must move before this backend can work on them.
    fn moved_for(&self, backend: Backend) -> f64 {
        let near = backend == self.located || (backend.is_host() && self.located.is_host());
        if near { 0.0 } else { self.bytes }
    }
}

/// A cell known from another machine.
struct Foreign {
    variant: u8,
    cell: Cell,
    at: Vec<f64>,
    work: Work,
    ln_cost: f64,
}

/// Everything one op has learned.
pub(crate) struct Learner {
    variants: Vec<Known>,
    cells: Cells,
    foreign: Vec<Foreign>,
    /// Cells that had to make room and still have something to save.
    evicted: Vec<Place>,
    basis: Basis,
    ridge: Ridge,
    /// Whether the cost model explains the costs.
    trust_prior: bool,
    version: u64,
    points: usize,
    changed: usize,
    bank: Bank,
    /// Times each variant was tried, in this and former processes, and accepted measurements.
    tries: Vec<u32>,
    measured: Vec<u32>,
    /// Variants whose warm-up is behind them.
    warm: u64,
    /// Share of all samples that are far too slow.
    outliers: f64,
    /// The last costs, for their median.
    lately: [f32; 64],
    served: usize,
    rng: Xoshiro256PlusPlus,
    seed: u64,
    budget: f64,
    /// The steps in which the clock moves.
    tick_ns: f64,
    scratch: Vec<Candidate>,
    pub(crate) tally: Tally,
}

impl Learner {
    pub(crate) fn new(seed: u64, budget: f64, tick_ns: f64) -> Self {
        Learner {
            variants: Vec::new(),
            cells: Cells::default(),
            foreign: Vec::new(),
            evicted: Vec::new(),
            basis: Basis::default(),
            ridge: Ridge::default(),
            trust_prior: true,
            version: 1,
            points: 0,
            changed: 0,
            bank: Bank::new(budget),
            tries: Vec::new(),
            measured: Vec::new(),
            warm: 0,
            outliers: FIRST_OUTLIERS,
            lately: [0.0; 64],
            served: 0,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            seed,
            budget,
            tick_ns,
            scratch: Vec::new(),
            tally: Tally::default(),
        }
    }

    pub(crate) fn add_variant(&mut self, known: Known) {
        self.variants.push(known);
        self.tries.push(0);
        self.measured.push(0);
    }

    /// A variant has new code: what was measured of the old is dropped.
    pub(crate) fn change_revision(&mut self, variant: u8, revision: u32) {
        self.variants[usize::from(variant)].revision = revision;
        self.tries[usize::from(variant)] = 0;
        self.measured[usize::from(variant)] = 0;
        self.warm &= !(1 << variant);
        for place in self.cells.iter_mut() {
            place.samples.retain(|s| s.variant != variant);
            place.expected.clear();
        }
        for place in &mut self.evicted {
            place.samples.retain(|s| s.variant != variant);
        }
        self.foreign.retain(|f| f.variant != variant);
        self.points = self
            .cells
            .iter()
            .flat_map(|p| &p.samples)
            .filter(|s| s.held() > 0)
            .count();
        self.fit();
    }

    pub(crate) fn variants(&self) -> &[Known] {
        &self.variants
    }

    pub(crate) fn balance_ns(&self) -> f64 {
        self.bank.balance()
    }

    pub(crate) fn cell_count(&self) -> usize {
        self.cells.len()
    }

    /// Forgets everything but the variants.
    pub(crate) fn reset(&mut self) {
        let variants = std::mem::take(&mut self.variants);
        *self = Learner::new(self.seed, self.budget, self.tick_ns);
        variants.into_iter().for_each(|v| self.add_variant(v));
    }

    /// Chooses a variant for a call.
    pub(crate) fn decide(&mut self, question: &Question<'_>) -> Pick {
        if question.frozen {
            return self.decide_frozen(question);
        }
        let at = self.enter(question.workload, question.key);
        self.refresh(at, question.eligible);
        let mut candidates = std::mem::take(&mut self.scratch);
        candidates.clear();
        for variant in bits(question.eligible) {
            let samples = self.cells.at(at).of(variant);
            if samples.is_some_and(|s| s.is_blocked(question.now_ns)) {
                continue;
            }
            candidates.push(Candidate {
                variant,
                prediction: self.predicted(at, variant, question.now_ns),
                tries: self.tries[usize::from(variant)],
                measured: self.measured[usize::from(variant)] > 0,
            });
        }
        if candidates.is_empty() {
            // All of them fail here: somebody must serve.
            candidates.extend(bits(question.eligible).map(Candidate::unknown));
        }
        let typical_ns = self.typical_ns(&candidates);
        let place = self.cells.at_mut(at);
        place.visit();
        let burst = place.burst.take().filter(|_| question.explore);
        let mut pick = adaptive::pick(
            &Situation {
                candidates: &candidates,
                incumbent: place.incumbent,
                explore: question.explore,
                typical_ns,
                burst,
                outliers: self.outliers,
            },
            &mut self.bank,
            &mut self.rng,
        );
        place.burst = pick.burst;
        if !matches!(pick.reason, Reason::Trial | Reason::FirstTry) {
            place.incumbent = Some(pick.variant);
            pick.publish = sampling_period(place, &pick);
        }
        self.scratch = candidates;
        pick
    }

    /// Chooses the lowest prediction and changes nothing, so that decisions do not depend on the
    /// calls before.
    fn decide_frozen(&mut self, question: &Question<'_>) -> Pick {
        let candidates: Vec<Candidate> = bits(question.eligible)
            .map(|variant| Candidate {
                prediction: self.predict(question.workload, variant, 0),
                measured: self.measured[usize::from(variant)] > 0,
                ..Candidate::unknown(variant)
            })
            .collect();
        let situation = Situation {
            candidates: &candidates,
            incumbent: None,
            explore: false,
            typical_ns: None,
            burst: None,
            outliers: 0.0,
        };
        let mut pick = adaptive::pick(&situation, &mut self.bank, &mut self.rng);
        pick.publish = Some(MAX_PERIOD);
        pick
    }

    /// Median of the last costs, while there is a variant that still needs first tries.
    fn typical_ns(&self, candidates: &[Candidate]) -> Option<f64> {
        let held = self.served.min(self.lately.len());
        if held < 3 || candidates.iter().all(|c| c.tries >= adaptive::FIRST_TRIES) {
            return None;
        }
        let mut lately = self.lately;
        let (_, median, _) = lately[..held].select_nth_unstable_by(held / 2, f32::total_cmp);
        Some(f64::from(*median))
    }

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
                let expected = self.expect(&place, 1 << variant);
                expected
                    .first()
                    .map(|(_, e)| combine(*e, None, 0.0, 0.0))
                    .unwrap_or_default()
            }
        }
    }

    /// Who has been chosen in the workload's cell.
    pub(crate) fn incumbent(&self, workload: &Workload) -> Option<u8> {
        let at = self.cells.find(workload.cell_key())?;
        self.cells.at(at).incumbent
    }

    /// Measurements and failures of a variant in the workload's cell.
    pub(crate) fn counts(&self, workload: &Workload, variant: u8) -> (u64, u64) {
        self.cells
            .find(workload.cell_key())
            .and_then(|at| self.cells.at(at).of(variant))
            .map_or((0, 0), |s| (s.count, s.failures))
    }

    /// Learns from a call that was timed.
    pub(crate) fn observe(&mut self, seen: &Seen<'_>) {
        self.account(seen);
        let fresh = self.warm & (1 << seen.variant) == 0;
        self.warm |= 1 << seen.variant;
        if let Some(tries) = self.tries.get_mut(usize::from(seen.variant)) {
            *tries = tries.saturating_add(1);
        }
        let cost = match seen.cost {
            Ok(_) if fresh => return self.tally.reject(Rejection::WarmUp),
            Ok(cost) => cost,
            Err(rejection) => return self.tally.reject(rejection),
        };
        let at = self.enter(seen.workload, seen.key);
        let place = self.cells.at(at);
        if place.burst.is_some_and(|b| b.is_cold(seen.variant)) {
            return self.tally.reject(Rejection::WarmUp);
        }
        self.measured[usize::from(seen.variant)] += 1;
        let shift = self
            .basis
            .shift(seen.workload, &place.at, self.ridge.shared())
            + self.prior(seen.variant, &Work::of(seen.workload))
            - self.prior(seen.variant, &place.work);
        // Within a cell, work differs by a few percent a feature; more is another kind of call.
        let shift = shift.clamp(-MOST_SHIFT, MOST_SHIFT);
        let place = self.cells.at_mut(at);
        let samples = place.of_mut(seen.variant);
        if let Some(outlier) = samples.is_outlier(cost.ln() - shift) {
            self.outliers += (f64::from(outlier) - self.outliers) / OUTLIER_MEMORY;
        }
        let news = samples.add(cost.ln() - shift, seen.now_ns, self.tick_ns);
        let held = samples.held();
        match news {
            News::First => {
                self.points += 1;
                self.changed += 1;
            }
            News::Changed => {
                self.changed += 1;
                self.tally.drifts += 1;
                reopen(place, seen.variant);
            }
            // Three samples are the first that an outlier cannot rule: worth a new fit.
            News::Same if held == 3 => self.changed += 1,
            News::Same => {}
        }
        self.judge(at, seen);
        if self.changed > self.points / 8 {
            self.fit();
        }
    }

    /// Notes a failed attempt and what it wasted.
    pub(crate) fn failed(&mut self, seen: &Seen<'_>, wasted_ns: f64) {
        self.tally.failures += 1;
        let at = self.enter(seen.workload, seen.key);
        self.cells.at_mut(at).of_mut(seen.variant).fail(seen.now_ns);
        if matches!(seen.reason, Reason::Trial) {
            self.bank.settle(seen.reserved_ns, wasted_ns);
            self.tally.trial(wasted_ns, wasted_ns);
        }
    }

    /// Gives back what was set aside for a trial that did not happen.
    pub(crate) fn cancel(&mut self, reserved_ns: f64) {
        self.bank.settle(reserved_ns, 0.0);
    }

    /// Books the time: trials against the bank, everything else into it.
    fn account(&mut self, seen: &Seen<'_>) {
        let Ok(cost) = seen.cost else {
            // Nobody knows what it cost: a trial pays what was set aside.
            if seen.reason == Reason::Trial {
                self.tally.trial(seen.reserved_ns, seen.reserved_ns);
            }
            return;
        };
        let took = cost.ns() as f64;
        let excess = (took - seen.best_ns).max(0.0);
        match seen.reason {
            Reason::Trial => {
                self.bank.settle(seen.reserved_ns, excess);
                self.tally.trial(took, excess);
            }
            Reason::FirstTry => self.tally.first_try(took, excess),
            _ if seen.nested => {}
            _ => {
                // A spike is not service: it earns no more than three times the expected.
                let earned = if seen.best_ns > 0.0 {
                    took.min(3.0 * seen.best_ns)
                } else {
                    took
                };
                self.bank.earn(earned * seen.weight as f64);
                self.tally.served_ns += took * seen.weight as f64;
                self.lately[self.served % self.lately.len()] = took as f32;
                self.served += 1;
            }
        }
    }

    /// Was the choice right, as far as alternatives have been measured in this cell?
    fn judge(&mut self, at: usize, seen: &Seen<'_>) {
        if matches!(seen.reason, Reason::Trial | Reason::FirstTry) {
            return;
        }
        let place = self.cells.at(at);
        let Some(own) = place.of(seen.variant).filter(|s| s.held() >= 3) else {
            return;
        };
        let best = place
            .samples
            .iter()
            .filter(|s| s.variant != seen.variant && s.held() > 0)
            .map(Samples::level)
            .reduce(f64::min);
        if let Some(best) = best {
            let right = own.level() <= best + adaptive::NEAR;
            self.tally.judged(right, seen.weight);
        }
    }

    fn enter(&mut self, workload: &Workload, key: u64) -> usize {
        if let Some(at) = self.cells.find(key) {
            return at;
        }
        let (at, gone) = self.cells.enter(workload, key, MAX_CELLS);
        if let Some(mut gone) = gone {
            self.points -= gone.samples.iter().filter(|s| s.held() > 0).count();
            gone.expected = Vec::new();
            // Bounded: what a full store could not take anyway is dropped.
            if self.evicted.len() < MAX_CELLS {
                self.evicted.push(gone);
            }
        }
        let place = self.cells.at(at);
        self.basis.admit(&place.cell, &place.at);
        at
    }

    /// Brings up to date what neighbours say of the variants that this cell has not measured.
    fn refresh(&mut self, at: usize, variants: u64) {
        let place = self.cells.at(at);
        let stale = place.expected_at != self.version;
        let wanted = bits(variants)
            .filter(|v| match place.expected.get(usize::from(*v)) {
                Some(Some(_)) => stale && place.of(*v).is_none_or(|s| s.held() == 0),
                _ => true,
            })
            .fold(0, |mask, v| mask | 1u64 << v);
        if wanted == 0 {
            return;
        }
        let expected = self.expect(place, wanted);
        let version = self.version;
        let count = self.variants.len();
        let place = self.cells.at_mut(at);
        place.expected.resize(count, None);
        place.expected_at = version;
        for (variant, e) in expected {
            place.expected[usize::from(variant)] = Some(e);
        }
    }

    /// Prior, linear part and neighbours of a cell, for each of the variants in the mask.
    fn expect(&self, here: &Place, variants: u64) -> Vec<(u8, Expected)> {
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
                    return (variant, Expected { mean, variance });
                }
                let mean = prior + self.ridge.mean(&basis, index) + local;
                let expected = Expected {
                    mean: mean.clamp(0.0, 32.0), // a nanosecond to a day
                    variance: (local_variance + open * own).clamp(LEAST_EXPECTED, 25.0),
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
    fn prior(&self, variant: u8, work: &Work) -> f64 {
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

    fn predicted(&self, at: usize, variant: u8, now_ns: u64) -> Prediction {
        let place = self.cells.at(at);
        let Some(Some(expected)) = place.expected.get(usize::from(variant)) else {
            return Prediction::default();
        };
        let samples = place.of(variant).filter(|s| s.held() > 0);
        let age = samples.map_or(0.0, |s| now_ns.saturating_sub(s.last_ns) as f64);
        let stale = (age * STALE_PER_NS).min(MOST_STALE);
        combine(*expected, samples, stale, self.tick_ns)
    }

    /// Fits the linear part anew, from the levels of all cells: on top of the cost model, and
    /// without it. Amounts of work that do not explain the costs are not used.
    fn fit(&mut self) {
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
        let mut ridge = self.ridge.clone();
        ridge.fit(&points, self.variants.len(), self.basis.dimension());
        ridge
    }

    /// Takes over what the store knows of the variants that exist here, in the revision that they
    /// have here. `ours` tells knowledge of this machine from that of others.
    pub(crate) fn learn_from<'a>(
        &mut self,
        entries: impl Iterator<Item = (&'a Entry, bool)>,
        now_unix: u64,
    ) {
        self.foreign.clear(); // told again, with every variant that has joined since
        for (entry, ours) in entries {
            let Fact::Costs(costs) = &entry.fact else {
                continue;
            };
            let known = |v: &Known| v.name == entry.variant && v.revision == entry.revision;
            let Some(variant) = self.variants.iter().position(known) else {
                continue; // another build's variant, or another revision of ours
            };
            if ours {
                self.load(variant as u8, entry, costs, now_unix);
            } else if let Some(ln_cost) = median(&costs.recent)
                && self.foreign.len() < MAX_FOREIGN
            {
                let at: Vec<f64> = entry.cell.coordinates().collect();
                self.basis.admit(&entry.cell, &at);
                self.foreign.push(Foreign {
                    variant: variant as u8,
                    cell: entry.cell,
                    at,
                    work: Work::stored(&entry.cell, costs),
                    ln_cost,
                });
            }
        }
        self.fit();
    }

    fn load(&mut self, variant: u8, entry: &Entry, costs: &Costs, now_unix: u64) {
        let key = entry.cell.key();
        let at = match self.cells.find(key) {
            Some(at) => at,
            None if self.cells.len() < MAX_CELLS => {
                let work = Work::stored(&entry.cell, costs);
                self.cells.insert(entry.cell, key, work, MAX_CELLS).0
            }
            None => return,
        };
        let place = self.cells.at_mut(at);
        if place.of(variant).is_some() {
            return; // known already: a second handle of the same op
        }
        let age_days = now_unix.saturating_sub(entry.updated) as f64 / 86_400.0;
        let keep = samples_after(age_days, costs.recent.len());
        let samples = Samples::load(variant, costs, keep);
        self.points += usize::from(samples.held() > 0);
        let tried = u32::try_from(costs.count).unwrap_or(u32::MAX);
        for known in [&mut self.tries, &mut self.measured] {
            known[usize::from(variant)] = known[usize::from(variant)].saturating_add(tried);
        }
        place.samples.push(samples);
        let place = self.cells.at(at);
        self.basis.admit(&place.cell, &place.at);
    }

    /// What the store does not have yet: variant, cell, and the change in what is known.
    pub(crate) fn take_unsaved(&mut self) -> Vec<(u8, Cell, Costs)> {
        let mut out = Vec::new();
        let evicted = self.evicted.iter_mut();
        for place in self.cells.iter_mut().chain(evicted) {
            for samples in &mut place.samples {
                if let Some(mut costs) = samples.take_unsaved() {
                    costs.flops = place.work.flops.round() as u64;
                    costs.bytes = place.work.bytes.round() as u64;
                    out.push((samples.variant, place.cell, costs));
                }
            }
        }
        self.evicted.clear();
        out
    }
}

/// Half of the evidence goes every seven days, but never the last sample.
fn samples_after(days: f64, held: usize) -> usize {
    ((held as f64 * 0.5f64.powf(days / 7.0)).round() as usize).max(1)
}

fn median(costs: &[Cost]) -> Option<f64> {
    let mut sorted = costs.to_vec();
    sorted.sort_unstable();
    sorted
        .get(sorted.len().saturating_sub(1) / 2)
        .map(|c| c.ln())
}

/// A changed cell starts over: what the others are worth is uncertain again, and every call is
/// looked at.
fn reopen(place: &mut Place, changed: u8) {
    place.visits = 0;
    for samples in place.samples.iter_mut().filter(|s| s.variant != changed) {
        samples.last_ns = 0;
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

/// How rarely a settled choice is looked at, as a power of two.
fn sampling_period(place: &Place, pick: &Pick) -> Option<u8> {
    if place.visits < FIRST_VISITS {
        return None;
    }
    // Each time the visits double, a cell that has stayed settled is looked at half as often.
    let doublings = (place.visits / FIRST_VISITS).ilog2() as u8;
    let thinned = if pick.settled {
        doublings.min(MAX_THINNED)
    } else {
        0
    };
    let affordable = (SAMPLED_NS / (SAMPLED_SHARE * pick.best_ns.max(1.0))).max(1.0);
    Some((affordable.log2().ceil() as u8 + thinned).min(MAX_PERIOD))
}

/// The set bits of a mask, lowest first.
pub(crate) fn bits(mut mask: u64) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let bit = mask.trailing_zeros() as u8;
            mask &= mask - 1;
            bit
        })
    })
}
