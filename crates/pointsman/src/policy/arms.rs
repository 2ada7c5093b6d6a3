//! The variants of one cell as the arms of a bandit: how often each was asked for, and its mean.

use super::table::Table;
use super::{Call, Candidate, Choice};

/// What one cell knows of one variant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arm {
    variant: usize,
    asked: u32,
    /// Samples that the mean rests on.
    pub(super) count: f64,
    pub(super) mean: f64,
    /// Sum of squared deviations from the mean.
    pub(super) squares: f64,
}

/// The arms of one cell.
#[derive(Clone, Debug, Default)]
pub(super) struct Arms {
    arms: Vec<Arm>,
    visits: u64,
}

/// How costs are averaged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    Ns,
    Ln,
}

impl Scale {
    pub(super) fn of(self, ns: f64) -> f64 {
        match self {
            Scale::Ns => ns,
            Scale::Ln => ns.max(1.0).ln(),
        }
    }
}

/// The arms of all cells of one op.
pub(super) struct Bandit {
    cells: Table<Arms>,
    scale: Scale,
}

impl Bandit {
    pub(super) fn new(scale: Scale) -> Self {
        Bandit {
            cells: Table::default(),
            scale,
        }
    }

    /// The arms of a call's cell. A variant that is new here begins with what the learner knows,
    /// which may come from the store.
    pub(super) fn visit(&mut self, call: &Call<'_>) -> &mut Arms {
        let arms = self.cells.enter(call.cell());
        arms.visits += 1;
        for candidate in call.candidates() {
            if arms.of(candidate.variant()).is_none() {
                arms.arms.push(Arm::new(candidate, self.scale));
            }
        }
        arms
    }

    /// Notes a cost; with `memory`, each sample has at least this weight, so that the mean forgets.
    pub(super) fn learn(&mut self, call: &Call<'_>, variant: usize, ns: u64, memory: Option<f64>) {
        let value = self.scale.of(ns as f64);
        let arms = self.cells.enter(call.cell());
        let Some(arm) = arms.arms.iter_mut().find(|a| a.variant == variant) else {
            return; // the cell was dropped while the call ran
        };
        arm.count += 1.0;
        let deviation = value - arm.mean;
        arm.mean += deviation * memory.unwrap_or(0.0).max(1.0 / arm.count);
        arm.squares += deviation * (value - arm.mean);
    }
}

impl Arm {
    fn new(candidate: &Candidate<'_>, scale: Scale) -> Self {
        let level = candidate.level_ns().filter(|_| candidate.samples() > 0);
        Arm {
            variant: candidate.variant(),
            asked: 0,
            count: level.map_or(0.0, |_| f64::from(candidate.samples())),
            mean: level.map_or(0.0, |ns| scale.of(ns)),
            squares: 0.0,
        }
    }
}

/// Whether a variant without samples should be asked again. At first always; if its samples keep
/// being rejected, ever more rarely, so that nobody waits for it.
pub(super) fn is_due(asked: u32, visits: u64) -> bool {
    visits >= (1u64 << asked.min(60)) >> 3
}

impl Arms {
    fn of(&self, variant: usize) -> Option<&Arm> {
        self.arms.iter().find(|a| a.variant == variant)
    }

    /// The arm of a candidate, if it has samples.
    pub(super) fn measured(&self, candidate: &Candidate<'_>) -> Option<&Arm> {
        self.of(candidate.variant()).filter(|a| a.count > 0.0)
    }

    /// The candidate with the lowest mean.
    pub(super) fn best(&self, call: &Call<'_>) -> Option<usize> {
        call.lowest(|c| self.measured(c).map(|arm| arm.mean))
    }

    /// The rule that all bandits share: a variant without samples comes first, then `pick` chooses,
    /// given the one with the lowest mean.
    pub(super) fn choose(
        &mut self,
        call: &Call<'_>,
        pick: impl FnOnce(&Self, usize) -> usize,
    ) -> Choice {
        let best = self.best(call);
        let visits = self.visits;
        let untried = self
            .arms
            .iter_mut()
            .filter(|a| a.count == 0.0 && call.candidate(a.variant).is_some())
            .filter(|a| best.is_none() || (call.may_try() && is_due(a.asked, visits)))
            .min_by_key(|a| a.asked);
        if let Some(arm) = untried {
            arm.asked = arm.asked.saturating_add(1);
            return Choice::one_of(arm.variant, best.unwrap_or(arm.variant));
        }
        let best = best.unwrap_or_else(|| call.reference().variant());
        if !call.may_try() {
            return Choice::serve(best);
        }
        Choice::one_of(pick(self, best), best)
    }
}
