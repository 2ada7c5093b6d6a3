//! What calls are charged for and credited with: the bank, the counts of tries, and whether choices
//! were right.

use super::samples::Samples;
use super::{Learner, Pick, Seen};
use crate::decision::Reason;
use crate::policy::adaptive;

impl Learner {
    /// Learns from a failed attempt and what it wasted.
    pub(crate) fn failed(&mut self, seen: &Seen<'_>, wasted_ns: f64) {
        self.count_try(seen);
        let at = self.enter(seen.workload, seen.key);
        let noise = self.noise[usize::from(seen.variant)];
        let place = self.cells.at_mut(at);
        place.of_mut(seen.variant, noise).fail(seen.now_ns);
        let account = self.tally.of_mut(seen.variant);
        match seen.reason {
            Reason::Trial => {
                self.bank.settle(seen.reserved_ns, wasted_ns);
                account.trial(wasted_ns, wasted_ns);
            }
            Reason::FirstTry => account.first_try(wasted_ns, wasted_ns),
            _ => {}
        }
    }

    /// First tries are counted when they are picked, so that threads cannot take more of them.
    pub(super) fn count_try(&mut self, seen: &Seen<'_>) {
        if seen.reason != Reason::FirstTry {
            let tries = &mut self.tries[usize::from(seen.variant)];
            *tries = tries.saturating_add(1);
        }
    }

    /// Gives back what was set aside for a pick that was not run.
    pub(crate) fn cancel(&mut self, pick: &Pick) {
        self.bank.settle(pick.reserved_ns, 0.0);
        if pick.reason == Reason::FirstTry {
            let tries = &mut self.tries[usize::from(pick.variant)];
            *tries = tries.saturating_sub(1);
        }
    }

    /// Books the time: trials against the bank, everything else into it.
    pub(super) fn account(&mut self, seen: &Seen<'_>) {
        let account = self.tally.of_mut(seen.variant);
        let Ok(cost) = seen.cost else {
            // Nobody knows what it cost: a trial pays what was set aside.
            if seen.reason == Reason::Trial {
                account.trial(seen.reserved_ns, seen.reserved_ns);
            }
            return;
        };
        let took = cost.ns() as f64;
        // Nothing measured to compare with: nothing is known to be lost.
        let excess = if seen.best_ns > 0.0 {
            (took - seen.best_ns).max(0.0)
        } else {
            0.0
        };
        match seen.reason {
            Reason::Trial => {
                self.bank.settle(seen.reserved_ns, excess);
                account.trial(took, excess);
            }
            Reason::FirstTry => account.first_try(took, excess),
            _ if seen.nested => {}
            _ => {
                // A spike is not service: it earns no more than three times the expected.
                let earned = if seen.best_ns > 0.0 {
                    took.min(3.0 * seen.best_ns)
                } else {
                    took
                };
                self.bank.earn(earned * seen.weight as f64);
                account.served_ns += took * seen.weight as f64;
                self.lately[self.served % self.lately.len()] = took as f32;
                self.served += 1;
            }
        }
    }

    /// Was the choice right, as far as alternatives have been measured in this cell?
    pub(super) fn judge(&mut self, at: usize, seen: &Seen<'_>) {
        if seen.reason.is_trial() {
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
            let wrong = own.level() > best + adaptive::NEAR;
            let excess_ns = wrong.then(|| own.level().exp() - best.exp());
            self.tally.judged(excess_ns, seen.weight);
            // Of what was demanded, or came after a failure, nobody said how sure they were.
            if matches!(seen.reason, Reason::Historical | Reason::Prior) {
                self.tally
                    .of_mut(seen.variant)
                    .state(seen.confidence, !wrong);
            }
        }
    }
}
