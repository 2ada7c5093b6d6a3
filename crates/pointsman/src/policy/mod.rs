//! Step 3 of a call: who should serve. One file per policy.
//!
//! [`Adaptive`] is the default and what the promises of this library are about. The others are the
//! methods that the field uses, to compare with, or for programs that want one of them and nothing
//! else. Choose one with [`SelectorBuilder::policy`](crate::SelectorBuilder::policy), by name with
//! [`parse`] or with the variable `POINTSMAN_POLICY`, or write your own: [`Policy`].
//!
//! | name | what it does |
//! |---|---|
//! | `adaptive` | predicts log costs from everything known, tries others within a time budget |
//! | `fixed(variant)` | one variant wherever it is eligible: [`Fixed`] |
//! | `rules` | thresholds on the size, by class of complexity: [`Rules`] |
//! | `cost` | the calibrated cost model alone: [`CostModel`] |
//! | `history` | the lowest mean of the cell: [`History`] |
//! | `score` | a weighted sum of time, memory, cache, history and switching: [`Score`] |
//! | `epsilon-greedy` | the lowest mean, and now and then anybody: [`EpsilonGreedy`] |
//! | `ucb1` | optimism that shrinks with the number of samples: [`Ucb1`] |
//! | `thompson` | a draw from what each may cost: [`Thompson`] |
//! | `lin-ucb`, `lin-thompson` | the same two on linear models of the features: [`LinUcb`], [`LinThompson`] |
//! | `vw-greedy` | phases of exploring and exploiting, as in Vectorwise: [`VwGreedy`] |
//!
//! Whatever the policy: eligibility, checks, fallbacks and quarantine stay exact and are none of its
//! business; samples are kept, explained and saved in the same way; trials are counted with their
//! excess in [`OpStats`](crate::OpStats). Only `adaptive` is bound by the
//! [budget](crate::SelectorBuilder::budget).
//!
//! In frozen mode nothing is learned and nothing tried: the lowest prediction of what was learned
//! before serves, as it does with `adaptive`; policies that are
//! [constant](Policy::is_constant) decide as always.

pub(crate) mod adaptive;
mod arms;
mod cost;
mod epsilon_greedy;
mod fixed;
mod history;
mod lin_thompson;
mod lin_ucb;
mod linear;
mod names;
mod rules;
mod score;
pub(crate) mod steps;
mod table;
mod thompson;
mod ucb1;
mod vw_greedy;

pub use cost::CostModel;
pub use epsilon_greedy::EpsilonGreedy;
pub use fixed::Fixed;
pub use history::History;
pub use lin_thompson::LinThompson;
pub use lin_ucb::LinUcb;
pub use names::{names, parse};
pub use rules::{Class, Rules, Size, Thresholds};
pub use score::{Score, Weights};
pub use thompson::Thompson;
pub use ucb1::Ucb1;
pub use vw_greedy::VwGreedy;

use crate::backend::Backend;
use crate::error::BuildError;
use crate::machine::BackendCost;
use crate::outcome::Cost;
use crate::workload::Workload;

/// How variants are chosen: the settings, shared by all ops of a selector.
///
/// Its [`Chooser`]s do the work, one per op, each with its own knowledge. `examples/own_policy.rs`
/// is a whole one.
pub trait Policy: Send + Sync {
    /// Its name in explanations.
    fn name(&self) -> &str;

    /// What is wrong with its parameters; asked when the selector is built.
    fn check(&self) -> Result<(), BuildError> {
        Ok(())
    }

    /// A chooser for one op. What it draws by lot must come from the seed alone, so that the same
    /// seed gives the same decisions. `None` leaves the choice to the learner, which is
    /// [`Adaptive`]; all ops must get the same answer.
    fn chooser(&self, seed: u64) -> Option<Box<dyn Chooser>>;

    /// Whether its choices depend on nothing but the call: such a policy is asked in frozen mode
    /// and by `explain`, too.
    fn is_constant(&self) -> bool {
        false
    }
}

/// Chooses the variants of one op, under the op's lock.
///
/// It must not call the op or its selector. If it panics, the reference serves the call, and the
/// first time there is a warning.
pub trait Chooser: Send {
    /// Who serves this call. There are at least two candidates. An answer that is not one of them is
    /// ignored: the reference serves.
    fn choose(&mut self, call: &Call<'_>) -> Choice;

    /// What a call cost that `choose` was asked about, or one like it. Of each variant, the first
    /// call in a process is warm-up and does not come here, nor does a time that was rejected: do
    /// not wait for a sample of every choice. The call's only candidate is the one that served.
    fn learn(&mut self, call: &Call<'_>, variant: usize, cost: Cost);
}

/// A call to choose for.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) cell: u64,
    pub(crate) candidates: &'a [Candidate<'a>],
    pub(crate) may_try: bool,
    pub(crate) now_ns: u64,
}

impl<'a> Call<'a> {
    /// Its features.
    pub fn workload(&self) -> &'a Workload {
        self.workload
    }

    /// A number that names the cell of its workload within this process.
    pub fn cell(&self) -> u64 {
        self.cell
    }

    /// Who may serve, in order of declaration; never empty.
    pub fn candidates(&self) -> &'a [Candidate<'a>] {
        self.candidates
    }

    /// Whether trials are allowed. They are not where another variant has just failed in this call.
    pub fn may_try(&self) -> bool {
        self.may_try
    }

    /// Nanoseconds of the selector's clock.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// The reference, or the first candidate if the reference may not serve.
    pub fn reference(&self) -> &'a Candidate<'a> {
        let found = self.candidates.iter().find(|c| c.reference);
        found.unwrap_or(&self.candidates[0])
    }

    /// The candidate with this number.
    pub fn candidate(&self, variant: usize) -> Option<&'a Candidate<'a>> {
        self.candidates.iter().find(|c| c.variant() == variant)
    }

    /// The candidate with the lowest value, the first of equals. Who has none is left out.
    pub fn lowest(&self, mut value: impl FnMut(&Candidate<'_>) -> Option<f64>) -> Option<usize> {
        let mut best = None;
        for candidate in self.candidates {
            if let Some(value) = value(candidate)
                && best.is_none_or(|(lowest, _)| value < lowest)
            {
                best = Some((value, candidate.variant()));
            }
        }
        best.map(|(_, variant)| variant)
    }
}

/// A variant that may serve a call.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    pub(crate) id: u8,
    pub(crate) name: &'a str,
    pub(crate) backend: Backend,
    pub(crate) reference: bool,
    pub(crate) memory: Option<u64>,
    pub(crate) samples: u32,
    pub(crate) level_ns: Option<f64>,
    pub(crate) cost: Option<BackendCost>,
    /// Bytes a second on the way of the call's data to it; `None` if it need not be brought.
    pub(crate) way: Option<f64>,
}

impl Candidate<'_> {
    /// Its number in the op, below 64, the same as long as the process lives.
    pub fn variant(&self) -> usize {
        usize::from(self.id)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.name
    }

    /// Where it runs.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Whether it is the reference.
    pub fn is_reference(&self) -> bool {
        self.reference
    }

    /// Bytes of memory it needs for this call, if it was declared with that.
    pub fn memory(&self) -> Option<u64> {
        self.memory
    }

    /// Samples in this cell that [`level_ns`](Self::level_ns) rests on, at most 32; also those of
    /// earlier processes, from the store.
    pub fn samples(&self) -> u32 {
        self.samples
    }

    /// Typical nanoseconds in this cell, robust to outliers; `None` while it has no samples here.
    pub fn level_ns(&self) -> Option<f64> {
        self.level_ns
    }

    /// Calibrated constants of its backend; those of plain code where nobody has measured it.
    pub fn cost(&self) -> Option<BackendCost> {
        self.cost
    }

    /// What the cost model says for this amount of work where the data lies now.
    pub fn estimate_ns(&self, flops: f64, bytes: f64) -> Option<f64> {
        let work_ns = self.cost?.predict_ns(flops, bytes, 0.0);
        Some(work_ns + self.transfer_ns(bytes))
    }

    /// The part of the estimate that is bringing the data there and back.
    pub fn transfer_ns(&self, bytes: f64) -> f64 {
        self.way.map_or(0.0, |rate| bytes.max(0.0) / rate * 1e9)
    }
}

/// A chooser's answer.
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub struct Choice {
    pub(crate) variant: usize,
    pub(crate) trial: bool,
    pub(crate) confidence: Option<f64>,
    pub(crate) good_for: u32,
}

impl Choice {
    /// This variant, because it is the best.
    pub fn serve(variant: usize) -> Self {
        Choice {
            variant,
            trial: false,
            confidence: None,
            good_for: 0,
        }
    }

    /// This variant, to learn about it: counted as a trial, its time beyond the best as excess.
    pub fn trial(variant: usize) -> Self {
        Choice {
            trial: true,
            ..Choice::serve(variant)
        }
    }

    /// The best if it is this one, a trial otherwise.
    pub(crate) fn one_of(variant: usize, best: usize) -> Self {
        Choice {
            trial: variant != best,
            ..Choice::serve(variant)
        }
    }

    /// Probability that it is within 5 % of the best; without it, it is taken from the samples of
    /// the cell.
    pub fn confidence(mut self, probability: f64) -> Self {
        self.confidence = Some(probability);
        self
    }

    /// It is good for about this many more calls of the same cell with the same candidates: they are
    /// served without asking, and most of them without being timed. Without it, every call asks and
    /// is timed, which takes some microsecond. Not for trials.
    pub fn good_for(mut self, calls: u32) -> Self {
        self.good_for = calls;
        self
    }
}

/// The default: costs are predicted from the calibrated cost model, a linear fit over all cells, the
/// nearest cells and the cell's own samples; the lowest prediction serves, and others are tried
/// within a time budget. `DESIGN.md` has the details.
///
/// Use it unless you know better. It is at its weakest where costs do not follow from the features,
/// and in the first few calls of an op that has neither flops nor bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Adaptive;

impl Policy for Adaptive {
    fn name(&self) -> &str {
        "adaptive"
    }

    fn chooser(&self, _seed: u64) -> Option<Box<dyn Chooser>> {
        None
    }
}

impl<P: Policy + ?Sized> Policy for Box<P> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn check(&self) -> Result<(), BuildError> {
        (**self).check()
    }

    fn chooser(&self, seed: u64) -> Option<Box<dyn Chooser>> {
        (**self).chooser(seed)
    }

    fn is_constant(&self) -> bool {
        (**self).is_constant()
    }
}

/// A parameter within its range, or an error that names the range.
fn within(
    name: &'static str,
    value: f64,
    range: impl std::ops::RangeBounds<f64>,
    valid: &'static str,
) -> Result<(), BuildError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(BuildError::Setting {
        name,
        value: value.to_string(),
        valid,
    })
}
