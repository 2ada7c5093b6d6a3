//! Counters of one op: what choosing cost and how often it was right.

use std::collections::BTreeMap;

use crate::outcome::Rejection;

/// What choosing has cost so far, and what it was worth.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Time spent serving, estimated from the timed calls.
    pub(crate) served_ns: f64,
    pub(crate) trials: u64,
    pub(crate) trial_ns: f64,
    pub(crate) trial_excess_ns: f64,
    pub(crate) first_tries: u64,
    pub(crate) first_try_ns: f64,
    pub(crate) first_try_excess_ns: f64,
    pub(crate) failures: u64,
    pub(crate) drifts: u64,
    pub(crate) right: u64,
    pub(crate) judged: u64,
    rejected: BTreeMap<&'static str, u64>,
}

impl Tally {
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

    pub(crate) fn reject(&mut self, rejection: Rejection) {
        *self.rejected.entry(rejection.name()).or_default() += 1;
    }

    pub(crate) fn judged(&mut self, right: bool, weight: u64) {
        self.judged += weight;
        self.right += if right { weight } else { 0 };
    }

    /// Rejected measurements by reason.
    pub(crate) fn rejected(&self) -> &BTreeMap<&'static str, u64> {
        &self.rejected
    }
}
