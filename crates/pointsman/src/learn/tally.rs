//! Counters of one op: what choosing cost and how often it was right.

use std::collections::BTreeMap;

use crate::outcome::Rejection;
use crate::store::{self, Stated, TENTHS};

/// What choosing has cost so far, and what it was worth.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// By number. What is true of the op is their sum: no second account that could differ.
    variants: Vec<Account>,
    /// What the store has of them.
    saved: Vec<store::Account>,
    pub(crate) drifts: u64,
    pub(crate) right: u64,
    pub(crate) judged: u64,
    /// What choices that were not right cost beyond the best.
    pub(crate) wrong_ns: f64,
    rejected: BTreeMap<&'static str, u64>,
}

/// What one variant has cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    /// Time spent serving, estimated from the timed calls.
    pub(crate) served_ns: f64,
    /// Accepted measurements.
    pub(crate) samples: u64,
    pub(crate) trials: u64,
    pub(crate) trial_ns: f64,
    pub(crate) trial_excess_ns: f64,
    pub(crate) first_tries: u64,
    pub(crate) first_try_ns: f64,
    pub(crate) first_try_excess_ns: f64,
    pub(crate) failures: u64,
    /// Choices by the confidence they were made with.
    stated: [Stated; TENTHS],
}

impl Account {
    /// Counts a choice that was made with this confidence.
    pub(crate) fn state(&mut self, confidence: f64, right: bool) {
        self.stated[store::tenth(confidence)].add(confidence, right);
    }

    /// The same as it is stored, with what is counted elsewhere.
    fn stored(&self, calls: u64, quarantines: u64) -> store::Account {
        let whole = |ns: f64| ns.round() as u64;
        store::Account {
            calls,
            served_ns: whole(self.served_ns),
            trials: self.trials,
            trial_ns: whole(self.trial_ns),
            trial_excess_ns: whole(self.trial_excess_ns),
            first_tries: self.first_tries,
            first_try_ns: whole(self.first_try_ns),
            first_try_excess_ns: whole(self.first_try_excess_ns),
            quarantines,
            stated: self.stated,
        }
    }

    pub(crate) fn trial(&mut self, took_ns: f64, excess_ns: f64) {
        self.trials += 1;
        self.trial_ns += took_ns;
        self.trial_excess_ns += excess_ns;
    }

    pub(crate) fn first_try(&mut self, took_ns: f64, excess_ns: f64) {
        self.first_tries += 1;
        self.first_try_ns += took_ns;
        self.first_try_excess_ns += excess_ns;
    }
}

impl Tally {
    pub(crate) fn add_variant(&mut self) {
        self.variants.push(Account::default());
        self.saved.push(store::Account::default());
    }

    /// The account of a variant.
    pub(crate) fn of(&self, variant: u8) -> &Account {
        &self.variants[usize::from(variant)]
    }

    pub(crate) fn of_mut(&mut self, variant: u8) -> &mut Account {
        &mut self.variants[usize::from(variant)]
    }

    /// What the store does not have yet of a variant's account; `None` if it has everything.
    pub(crate) fn take_unsaved(
        &mut self,
        variant: u8,
        calls: u64,
        quarantines: u64,
    ) -> Option<store::Account> {
        let now = self.of(variant).stored(calls, quarantines);
        let saved = &mut self.saved[usize::from(variant)];
        let change = now.since(saved);
        *saved = now;
        change
    }

    pub(crate) fn reject(&mut self, rejection: Rejection) {
        *self.rejected.entry(rejection.name()).or_default() += 1;
    }

    /// A choice that was right in hindsight, or cost so much more than the best.
    pub(crate) fn judged(&mut self, excess_ns: Option<f64>, weight: u64) {
        self.judged += weight;
        match excess_ns {
            None => self.right += weight,
            Some(excess) => self.wrong_ns += excess * weight as f64,
        }
    }

    /// Rejected measurements by reason.
    pub(crate) fn rejected(&self) -> &BTreeMap<&'static str, u64> {
        &self.rejected
    }
}
