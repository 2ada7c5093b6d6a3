//! From what a call took to what is known.

use super::cells::Place;
use super::samples::News;
use super::{Learner, SAMPLED_NS, Seen, Work};
use crate::outcome::Rejection;

/// Samples over which the share of outliers is learned, and outliers over which their distance is.
const OUTLIER_MEMORY: f64 = 64.0;
const FAR_MEMORY: f64 = 16.0;

/// Most, in log units, that costs may differ because of where in its cell a workload lies.
const MOST_SHIFT: f64 = 0.7;

impl Learner {
    /// Learns from a call that was timed.
    pub(crate) fn observe(&mut self, seen: &Seen<'_>) {
        self.account(seen);
        let fresh = self.warm & (1 << seen.variant) == 0;
        self.warm |= 1 << seen.variant;
        self.count_try(seen);
        let cost = match seen.cost {
            Ok(_) if fresh => return self.tally.reject(Rejection::WarmUp),
            Ok(cost) => cost,
            Err(rejection) => return self.tally.reject(rejection),
        };
        let at = self.enter(seen.workload, seen.key);
        let place = self.cells.at_mut(at);
        if let Some(over) = place.burst.take_if(|b| b.is_over(seen.variant, cost)) {
            over.refund(&mut self.bank);
        }
        if place.burst.is_some_and(|b| b.is_cold(seen.variant)) {
            return self.tally.reject(Rejection::WarmUp);
        }
        let place = self.cells.at(at);
        let shift = self
            .basis
            .shift(seen.workload, &place.at, self.ridge.shared())
            + self.prior(seen.variant, &Work::of(seen.workload))
            - self.prior(seen.variant, &place.work);
        // Within a cell, work differs by a few percent a feature; more is another kind of call.
        let ln_cost = cost.ln() - shift.clamp(-MOST_SHIFT, MOST_SHIFT);
        self.cells.at_mut(at).calls += seen.weight as f64;
        if self.waits(at, seen, ln_cost) {
            return;
        }
        self.take(at, seen.variant, ln_cost, seen.now_ns);
        self.judge(at, seen);
        // Under another policy the model serves explanations only, and they bring it up to date.
        if self.asked.is_some() {
            self.tell_policy(at, seen, cost);
        } else if self.changed > self.points / 8 {
            self.fit();
        }
    }

    /// Takes a measurement of a variant in a cell.
    pub(super) fn take(&mut self, at: usize, variant: u8, ln_cost: f64, now_ns: u64) {
        let measured = &mut self.measured[usize::from(variant)];
        *measured = measured.saturating_add(1);
        self.tally.of_mut(variant).samples += 1;
        let place = self.cells.at_mut(at);
        let noise = &mut self.noise[usize::from(variant)];
        let samples = place.of_mut(variant, *noise);
        if let Some(outlier) = samples.is_outlier(ln_cost) {
            self.outliers += (f64::from(outlier) - self.outliers) / OUTLIER_MEMORY;
            if outlier {
                let far = ln_cost - samples.level();
                self.outliers_far += (far - self.outliers_far) / FAR_MEMORY;
            }
        }
        let news = samples.add(ln_cost, now_ns, self.tick_ns);
        let held = samples.held();
        if let Some(spread) = samples.measured_spread() {
            *noise += 0.03 * (spread - *noise);
        }
        match news {
            News::First => {
                self.measured_in[usize::from(variant)] += 1;
                self.basis.note(at, variant);
                self.points += 1;
            }
            News::Changed => {
                self.tally.drifts += 1;
                reopen(place, variant);
            }
            News::Same => {}
        }
        // Three samples are the first that an outlier cannot rule: worth a new fit.
        if news != News::Same || held == 3 {
            self.changed += 1;
            self.news += 1;
        }
    }

    /// Learns what learning itself took in a call. Beside ops that use the caches up it takes ten
    /// times as long as alone, and a check that ran meanwhile is no measure of it.
    pub(crate) fn note_sampled(&mut self, ns: f64) {
        let bounded = ns.clamp(SAMPLED_NS, 2.0 * self.sampled_ns);
        self.sampled_ns += (bounded - self.sampled_ns) / 8.0;
    }
}

/// A changed cell starts over: what the others are worth is uncertain again, and every call is
/// looked at.
fn reopen(place: &mut Place, changed: u8) {
    place.visits = 0;
    for samples in place.samples.iter_mut().filter(|s| s.variant != changed) {
        samples.doubt();
    }
}
