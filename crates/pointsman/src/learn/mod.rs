//! Step 8 of a call: from outcomes to predictions.
//!
//! One [`Learner`] per op, behind the op's lock and off the hot path. Its interface is narrow:
//! [`Learner::decide`] before a call, [`Learner::observe`] or [`Learner::failed`] after it,
//! [`Learner::predict`] for explanations, [`Learner::take_unsaved`] and [`Learner::learn_from`] for
//! the store. What it predicts is the log cost of each variant in each cell:
//!
//! prior (calibrated cost model) + ridge (linear in the log features, shared and own slopes)
//! + neighbours (a local Gaussian process on what the ridge misses) + the cell's own samples.

mod accounts;
mod asked;
mod bank;
mod basis;
mod cells;
mod chart;
mod cholesky;
mod kernel;
mod knowledge;
mod launch;
mod neighbours;
mod observe;
mod predict;
pub(crate) mod published;
mod ridge;
mod samples;
mod scales;
mod surprise;
mod tally;

use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use self::asked::Asked;
pub(crate) use self::bank::Bank;
use self::basis::Basis;
pub(crate) use self::cells::MAX_CELLS;
use self::cells::{Cells, Expected, Place};
use self::ridge::Ridge;
use self::samples::Samples;
use self::scales::Search;
use self::surprise::Surprise;
pub(crate) use self::tally::Tally;
use crate::backend::Backend;
use crate::cell::Cell;
use crate::decision::{Prediction, Reason};
use crate::machine::BackendCost;
use crate::outcome::{Cost, Rejection};
use crate::policy::Policy;
use crate::policy::adaptive::{self, Burst, Candidate, Situation};
use crate::policy::steps::Steps;
use crate::store::Costs;
use crate::workload::Workload;

/// Share of outliers assumed at first, and how far off they are, in log units.
const FIRST_OUTLIERS: f64 = 0.02;
const FIRST_FAR: f64 = 1.0;

/// First visits of a cell that all go through the learner. After them each comes after twice as many calls as
/// the one before, until they are as rare as they must be: a visit between other code takes 10 to 25 µs, and 32 in
/// a row were a hundredth of all the time of a stream of 20,000 calls of Python's libraries in 40 cells.
const FIRST_VISITS: u32 = 8;

/// Visits after which a cell that has stayed settled is looked at more rarely still.
const SETTLED_VISITS: u32 = 32;

/// What a call through the learner costs beyond the direct one at least, in nanoseconds: clock
/// readings, short locks and the update. `bench overhead` reports it as `sampled_ns`. What it costs
/// between other calls is measured: see [`Learner::note_sampled`].
const SAMPLED_NS: f64 = 1_000.0;

/// Share of an op's time that sampling may cost. In replays of the times of Python's libraries, with visits of
/// 10 µs, 0.003 and 0.01 made the stream 0.1 and 0.2 % slower.
const SAMPLED_SHARE: f64 = 0.005;

/// Settled cells are sampled up to this power of two more rarely still.
const MAX_THINNED: u8 = 3;

/// Longest sampling period: every 65,536th call.
const MAX_PERIOD: u8 = 16;

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
    /// Who serves if a policy has no answer.
    pub(crate) reference: Option<u8>,
    /// Bytes of memory that variants need for this call, where they said so.
    pub(crate) needs: &'a [(u8, u64)],
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
    /// A pick that nobody made: a published choice, or one that a caller demanded.
    pub(crate) fn of(variant: u8) -> Self {
        Pick {
            variant,
            reason: Reason::Historical,
            confidence: 0.0,
            predicted: Prediction::default(),
            best_ns: 0.0,
            reserved_ns: 0.0,
            burst: None,
            settled: false,
            publish: None,
        }
    }

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
    /// How sure the choice was.
    pub(crate) confidence: f64,
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

    /// Bytes a second on the way between where the data is and a backend, over every bus between
    /// them; `None` if it is there already, or if nobody has measured the way.
    fn way(&self, backend: Backend, variants: &[Known]) -> Option<f64> {
        if backend == self.located || (backend.is_host() && self.located.is_host()) {
            return None;
        }
        let rate = |end: Backend| {
            let there = |v: &&Known| v.backend == end;
            variants.iter().find(there)?.cost?.transfer_bytes_per_s
        };
        let ways = [rate(backend), rate(self.located)].into_iter().flatten();
        ways.reduce(|one, other| 1.0 / (1.0 / one + 1.0 / other))
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
    search: Search,
    /// What each variant takes before its work begins, beyond what the cost model says, in nanoseconds of that model.
    launches: Vec<f64>,
    /// Whether the cost model explains the costs.
    trust_prior: bool,
    version: u64,
    /// Times that something was measured of which other cells should hear.
    news: u64,
    points: usize,
    changed: usize,
    bank: Bank,
    /// Where variants are wished for, and how far up they are known.
    steps: Steps,
    /// Times each variant was tried, in this and former processes, and accepted measurements.
    tries: Vec<u32>,
    measured: Vec<u32>,
    /// Spread of each one's samples in a cell.
    noise: Vec<f64>,
    /// Cells in which each was measured; counted anew at each fit, because cells come from the
    /// store and go.
    measured_in: Vec<u32>,
    /// Variants whose warm-up is behind them.
    warm: u64,
    /// Share of all samples that are far too slow, and how far they are, in log units.
    outliers: f64,
    outliers_far: f64,
    /// The last costs, for their median.
    lately: [f32; 64],
    served: usize,
    rng: Xoshiro256PlusPlus,
    seed: u64,
    budget: f64,
    /// The steps in which the clock moves.
    tick_ns: f64,
    /// What a call that is learned from takes beside its variant.
    sampled_ns: f64,
    scratch: Vec<Candidate>,
    /// First measurements of each that were too slow to believe.
    surprises: Vec<Option<Surprise>>,
    /// Another policy than `adaptive`.
    asked: Option<Asked>,
    pub(crate) tally: Tally,
}

impl Learner {
    pub(crate) fn new(
        seed: u64,
        budget: f64,
        tick_ns: f64,
        policy: Option<Arc<dyn Policy>>,
    ) -> Self {
        Learner {
            variants: Vec::new(),
            cells: Cells::default(),
            foreign: Vec::new(),
            evicted: Vec::new(),
            basis: Basis::default(),
            ridge: Ridge::default(),
            launches: Vec::new(),
            search: Search::default(),
            trust_prior: true,
            version: 1,
            news: 0,
            points: 0,
            changed: 0,
            bank: Bank::new(budget),
            steps: Steps::default(),
            tries: Vec::new(),
            measured: Vec::new(),
            measured_in: Vec::new(),
            noise: Vec::new(),
            warm: 0,
            outliers: FIRST_OUTLIERS,
            outliers_far: FIRST_FAR,
            lately: [0.0; 64],
            served: 0,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            seed,
            budget,
            tick_ns,
            sampled_ns: SAMPLED_NS,
            scratch: Vec::new(),
            surprises: Vec::new(),
            asked: policy.map(|policy| Asked::new(policy, seed)),
            tally: Tally::default(),
        }
    }

    pub(crate) fn add_variant(&mut self, known: Known) {
        self.variants.push(known);
        self.tries.push(0);
        self.measured.push(0);
        self.measured_in.push(0);
        self.surprises.push(None);
        self.noise.push(samples::FIRST_SPREAD);
        self.tally.add_variant();
    }

    pub(crate) fn variants(&self) -> &[Known] {
        &self.variants
    }

    /// Whether any measurement of a variant was ever accepted.
    pub(crate) fn is_measured(&self, variant: u8) -> bool {
        self.measured[usize::from(variant)] > 0
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
        let asked = self.asked.as_mut().map(Asked::restarted);
        *self = Learner::new(self.seed, self.budget, self.tick_ns, None);
        self.asked = asked;
        variants.into_iter().for_each(|v| self.add_variant(v));
    }

    /// Chooses a variant for a call.
    pub(crate) fn decide(&mut self, question: &Question<'_>) -> Pick {
        if question.frozen {
            return self.decide_frozen(question);
        }
        if self.asked.is_some() {
            return self.decide_by_policy(question);
        }
        let at = self.enter(question.workload, question.key);
        self.refresh(at, question.eligible);
        let mut candidates = std::mem::take(&mut self.scratch);
        candidates.clear();
        let place = self.cells.at(at);
        let blocked = |s: &&Samples| s.is_blocked(question.now_ns);
        let blocked = place.samples.iter().filter(blocked);
        let able = blocked.fold(question.eligible, |mask, s| mask & !(1 << s.variant));
        // If all of them fail here, somebody must serve.
        let able = if able == 0 { question.eligible } else { able };
        let shared = self.outlook(place, able, question.now_ns, &mut candidates);
        let typical_ns = self.typical_ns(&candidates);
        let place = self.cells.at_mut(at);
        place.visit();
        let burst = place.burst.take();
        let mut pick = adaptive::pick(
            &Situation {
                candidates: &candidates,
                shared,
                cell: question.key,
                visits: place.calls,
                calls: self.served as f64,
                incumbent: place.incumbent,
                explore: question.explore,
                typical_ns,
                burst,
                outliers: self.outliers,
                outliers_far: self.outliers_far,
            },
            &mut self.bank,
            &mut self.steps,
        );
        place.burst = pick.burst;
        if pick.reason == Reason::FirstTry {
            let tries = &mut self.tries[usize::from(pick.variant)];
            *tries = tries.saturating_add(1);
        }
        if !pick.reason.is_trial() {
            place.incumbent = Some(pick.variant);
            place.sure = pick.confidence;
            pick.publish = sampling_period(place, &pick, self.sampled_ns);
        }
        self.scratch = candidates;
        pick
    }

    /// Chooses the lowest prediction and changes nothing, so that decisions do not depend on the
    /// calls before.
    fn decide_frozen(&mut self, question: &Question<'_>) -> Pick {
        let (candidates, shared) = self.predict(question.workload, question.eligible, 0);
        let situation = Situation {
            candidates: &candidates,
            shared,
            cell: question.key,
            visits: 0.0,
            calls: 0.0,
            incumbent: None,
            explore: false,
            typical_ns: None,
            burst: None,
            outliers: 0.0,
            outliers_far: FIRST_FAR,
        };
        let mut pick = adaptive::pick(&situation, &mut self.bank, &mut self.steps);
        if let Some((variant, choice)) = self.constant_choice(question) {
            pick.variant = variant;
            pick.publish = (choice.good_for > 0).then_some(MAX_PERIOD);
            if let Some(chosen) = candidates.iter().find(|c| c.variant == variant) {
                pick.predicted = chosen.prediction;
                pick.confidence = adaptive::confidence(chosen, &candidates, shared);
            }
            return pick;
        }
        // In a cell that is not known, the amount of work may decide, and it differs within a cell:
        // such a choice is for this call only.
        let known = self.cells.find(question.key).is_some();
        let same = question.workload.flop_count() + question.workload.byte_count() == 0.0;
        pick.publish = (known || same).then_some(MAX_PERIOD);
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

    /// What a variant has cost in a cell, in nanoseconds, if it was measured there.
    pub(crate) fn level_ns(&self, key: u64, variant: u8) -> Option<f64> {
        let place = self.cells.at(self.cells.find(key)?);
        let samples = place.of(variant).filter(|s| s.held() > 0)?;
        Some(samples.level().exp())
    }

    /// Mean confidence of the choices that are in force, by the calls of their cells.
    pub(crate) fn mean_confidence(&self) -> Option<f64> {
        if self.is_asked() {
            return None;
        }
        let chosen = self.cells.iter().filter(|place| place.incumbent.is_some());
        let (sum, calls) = chosen.fold((0.0, 0.0), |(sum, calls), place| {
            (sum + place.sure * place.calls, calls + place.calls)
        });
        (calls > 0.0).then(|| sum / calls)
    }

    /// The place of a workload's cell, which may have to be made.
    fn enter(&mut self, workload: &Workload, key: u64) -> usize {
        if let Some(at) = self.cells.find(key) {
            return at;
        }
        let (at, gone) = self.cells.enter(workload, key, MAX_CELLS);
        if let Some(mut gone) = gone {
            self.points -= gone.samples.iter().filter(|s| s.held() > 0).count();
            gone.expected = Expected::default();
            if let Some(burst) = gone.burst.take() {
                burst.refund(&mut self.bank);
            }
            // Bounded: what a full store could not take anyway is dropped.
            if self.evicted.len() < MAX_CELLS {
                self.evicted.push(gone);
            }
        }
        self.basis.enter(at, self.cells.at(at));
        at
    }
}

/// How rarely a settled choice is looked at, as a power of two.
fn sampling_period(place: &Place, pick: &Pick, sampled_ns: f64) -> Option<u8> {
    if place.visits < FIRST_VISITS {
        return None;
    }
    // Each time the visits double, a cell that has stayed settled is looked at half as often.
    let doublings = (place.visits / SETTLED_VISITS).checked_ilog2().unwrap_or(0) as u8;
    let thinned = if pick.settled {
        doublings.min(MAX_THINNED)
    } else {
        0
    };
    let affordable = (sampled_ns / (SAMPLED_SHARE * pick.best_ns.max(1.0))).max(1.0);
    let rarest = (affordable.log2().ceil() as u8 + thinned).min(MAX_PERIOD);
    let visits_after = place.visits - FIRST_VISITS + 1;
    // Who was hardly measured here serves on what was measured elsewhere, which may be far off: looked at more often.
    let most = visits_after.min(pick.predicted.samples());
    Some(u8::try_from(most).map_or(rarest, |period| rarest.min(period)))
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
