//! Counters of one op: what choosing cost and how often it was right.

use std::collections::BTreeMap;

use crate::outcome::Rejection;

/// What choosing has cost so far, and what it was worth.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// By number. What is true of the op is their sum: no second account that could differ.
    variants: Vec<Account>,
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
}

impl Account {
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
    }

    /// The account of a variant.
    pub(crate) fn of(&self, variant: u8) -> &Account {
        &self.variants[usize::from(variant)]
    }

    pub(crate) fn of_mut(&mut self, variant: u8) -> &mut Account {
        &mut self.variants[usize::from(variant)]
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
