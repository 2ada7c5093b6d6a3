//! What was measured of one variant in one cell, and whether it has changed.

use crate::outcome::Cost;
use crate::store::{Costs, RECENT};

/// Spread of log costs that a variant is assumed to have before it is known: 6 %.
pub(crate) const FIRST_SPREAD: f64 = 0.06;

/// Least spread believed: below it, differences are the clock's.
const LEAST_SPREAD: f64 = 0.02;

/// Deviations count at most this many spreads, so that one outlier, however large, moves the
/// change detector by less than half its threshold.
const CLIP: f64 = 3.0;

/// Deviation, in spreads, that is not yet a change.
const SLACK: f64 = 0.75;

/// Sum of deviations that is a change: three clipped samples in a row, which 1 % of spikes
/// produce once in a million calls.
const ALARM: f64 = 6.0;

/// The last few log costs of one variant in one cell, robust to outliers, and a detector of change.
#[derive(Clone, Debug)]
pub(crate) struct Samples {
    pub(crate) variant: u8,
    ring: [f32; RECENT],
    held: u8,
    next: u8,
    /// Accepted measurements in all, for people; the ring decides.
    pub(crate) count: u64,
    pub(crate) failures: u64,
    /// When the last one came, in nanoseconds of the clock.
    pub(crate) last_ns: u64,
    median: f64,
    rising: f64,
    falling: f64,
    /// Spread the detector measures deviations in; learned slowly.
    spread: f64,
    unsaved: u64,
    unsaved_failures: u64,
}

/// What a sample did to the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// First sample here.
    First,
    /// More of the same.
    Same,
    /// The costs have changed: older samples were dropped.
    Changed,
}

impl Samples {
    pub(crate) fn new(variant: u8) -> Self {
        Samples {
            variant,
            ring: [0.0; RECENT],
            held: 0,
            next: 0,
            count: 0,
            failures: 0,
            last_ns: 0,
            median: 0.0,
            rising: 0.0,
            falling: 0.0,
            spread: FIRST_SPREAD,
            unsaved: 0,
            unsaved_failures: 0,
        }
    }

    /// Samples that the median rests on.
    pub(crate) fn held(&self) -> u32 {
        u32::from(self.held)
    }

    /// Median log cost; meaningless while nothing is held.
    pub(crate) fn median(&self) -> f64 {
        self.median
    }

    /// Robust spread of the log costs.
    pub(crate) fn spread(&self) -> f64 {
        self.spread
    }

    pub(crate) fn add(&mut self, ln_cost: f64, now_ns: u64) -> News {
        self.count = self.count.saturating_add(1);
        self.unsaved = self.unsaved.saturating_add(1);
        self.last_ns = now_ns;
        let alarmed = self.held >= 3 && self.alarmed(ln_cost - self.median);
        if alarmed {
            self.keep_last(2);
        }
        self.push(ln_cost);
        match (self.held, alarmed) {
            (1, _) => News::First,
            (_, true) => News::Changed,
            (_, false) => News::Same,
        }
    }

    pub(crate) fn fail(&mut self, now_ns: u64) {
        self.failures = self.failures.saturating_add(1);
        self.unsaved_failures = self.unsaved_failures.saturating_add(1);
        self.last_ns = now_ns;
    }

    /// Keeps no more than the last `keep` samples: what is left weighs less than news.
    pub(crate) fn keep_last(&mut self, keep: usize) {
        let recent: Vec<f32> = self.recent().collect();
        self.held = 0;
        self.next = 0;
        (self.rising, self.falling) = (0.0, 0.0);
        for value in &recent[recent.len().saturating_sub(keep)..] {
            self.push(f64::from(*value));
        }
    }

    fn push(&mut self, ln_cost: f64) {
        self.ring[usize::from(self.next)] = ln_cost as f32;
        self.next = (self.next + 1) % RECENT as u8;
        self.held = (self.held + 1).min(RECENT as u8);
        let mut sorted = self.ring;
        let held = &mut sorted[..usize::from(self.held)];
        held.sort_unstable_by(f32::total_cmp);
        // The lower middle of an even number: outliers are slow far more often than fast.
        let middle = |values: &[f32]| f64::from(values[(values.len() - 1) / 2]);
        self.median = middle(held);
        if self.held >= 5 {
            for value in held.iter_mut() {
                *value = (*value - self.median as f32).abs();
            }
            held.sort_unstable_by(f32::total_cmp);
            // 1.4826 turns a median deviation into the standard deviation of a normal spread.
            let now = (1.4826 * middle(held)).clamp(LEAST_SPREAD, 1.0);
            self.spread += 0.1 * (now - self.spread);
        }
    }

    /// Two one-sided cumulative sums of the deviations from the median.
    fn alarmed(&mut self, deviation: f64) -> bool {
        let z = (deviation / self.spread.max(0.05)).clamp(-CLIP, CLIP);
        self.rising = (self.rising + z - SLACK).max(0.0);
        self.falling = (self.falling - z - SLACK).max(0.0);
        self.rising > ALARM || self.falling > ALARM
    }

    /// The samples held, oldest first.
    pub(crate) fn recent(&self) -> impl Iterator<Item = f32> + '_ {
        let start = (self.next + RECENT as u8 - self.held) % RECENT as u8;
        (0..self.held).map(move |i| self.ring[usize::from((start + i) % RECENT as u8)])
    }

    /// What the store does not have yet; `None` if it has everything.
    pub(crate) fn take_unsaved(&mut self) -> Option<Costs> {
        if self.unsaved == 0 && self.unsaved_failures == 0 {
            return None;
        }
        let recent: Vec<Cost> = self.recent().map(|ln| Cost::from_ln(ln.into())).collect();
        let fresh = (self.unsaved as usize).min(recent.len());
        let costs = Costs {
            count: std::mem::take(&mut self.unsaved),
            failures: std::mem::take(&mut self.unsaved_failures),
            recent: recent[recent.len() - fresh..].to_vec(),
            ..Costs::default()
        };
        Some(costs)
    }

    /// What the store knows, as if measured here; `keep` limits how much of it is believed.
    pub(crate) fn load(variant: u8, costs: &Costs, keep: usize) -> Self {
        let mut samples = Samples::new(variant);
        let recent = &costs.recent[costs.recent.len().saturating_sub(keep.min(RECENT))..];
        recent.iter().for_each(|cost| samples.push(cost.ln()));
        samples.count = costs.count;
        samples.failures = costs.failures;
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(value: f64, n: usize) -> Samples {
        let mut samples = Samples::new(0);
        for i in 0..n {
            // A small regular wobble, so that the spread is not zero.
            samples.add(value + 0.02 * ((i % 5) as f64 - 2.0), i as u64);
        }
        samples
    }

    #[test]
    fn f19_one_outlier_of_1000_times_moves_neither_median_nor_detector() {
        let mut samples = steady(10.0, 9);
        assert_eq!(samples.add(10.0 + 1000f64.ln(), 9), News::Same);
        assert!((samples.median() - 10.0).abs() < 0.05);
        let mut first = Samples::new(0);
        first.add(10.0 + 1000f64.ln(), 0);
        for i in 1..4 {
            first.add(10.0, i);
        }
        assert!(
            (first.median() - 10.0).abs() < 0.05,
            "recovers in 3 samples"
        );
    }

    #[test]
    fn a_step_either_way_is_noticed_within_three_samples() {
        for step in [4f64.ln(), -4f64.ln()] {
            let mut samples = steady(10.0, 20);
            let news: Vec<News> = (0..3).map(|i| samples.add(10.0 + step, 20 + i)).collect();
            assert_eq!(news[2], News::Changed);
            assert!((samples.median() - 10.0 - step).abs() < 0.05);
        }
    }

    #[test]
    fn what_is_saved_once_is_not_saved_again() {
        let mut samples = steady(10.0, 4);
        let first = samples.take_unsaved().unwrap();
        assert_eq!((first.count, first.recent.len()), (4, 4));
        assert_eq!(samples.take_unsaved(), None);
        samples.add(10.0, 5);
        assert_eq!(samples.take_unsaved().unwrap().count, 1);
    }
}
