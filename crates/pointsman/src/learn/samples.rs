//! What was measured of one variant in one cell, and whether it has changed.

use crate::outcome::Cost;
use crate::store::{Costs, RECENT};

/// Spread of log costs that a variant is assumed to have before it is known: 6 %.
pub(crate) const FIRST_SPREAD: f64 = 0.06;

/// Least spread believed: below it, differences are the clock's.
const LEAST_SPREAD: f64 = 0.02;

/// Deviation, in spreads, from which a sample is an outlier.
const OUTLIER: f64 = 2.5;

/// Share of outliers among the samples after a real change.
const CHANGED_SHARE: f64 = 0.9;

/// Log odds at which a change is believed: 20,000 to 1. With few outliers that takes three in a
/// row, with one in five it takes seven.
const ALARM: f64 = 10.0;

/// How long a variant is left alone in a cell after its second failure in a row there; each
/// further one doubles it, to an hour at most.
const FIRST_BLOCK_NS: u64 = 1_000_000_000;

/// Samples whose middle half is a better level than their median. Some calls take one of two times, as threads are
/// woken or not: JAX's product of two matrices of 512 rows takes 0.65 or 1.1 ms, about as often. The median jumps from one to
/// the other, and what all calls take in the end is in between.
const ENOUGH_TO_TRIM: usize = 5;

/// Samples that the level remembers: as precise as a mean of 32, and as robust as a median.
const MEMORY: u8 = 32;

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
    /// Failures here since it last served here, and until when it is left alone for them.
    fails_in_a_row: u8,
    blocked_until_ns: u64,
    /// Something here has changed since: these samples may be of the past.
    doubted: bool,
    /// When the last one came, in nanoseconds of the clock.
    pub(crate) last_ns: u64,
    /// Robust mean of the log costs: the median at first, then the mean of the middle half, then moved by clipped deviations.
    level: f64,
    /// Samples that the level rests on.
    weight: u8,
    /// Robust spread of the log costs; learned slowly.
    spread: f64,
    /// The same of the samples held alone.
    measured_spread: Option<f64>,
    rising: Detector,
    falling: Detector,
    /// The first log cost, when it came, if it waits for a second: see [`super::surprise`].
    waiting: Option<(f64, u64)>,
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
    pub(crate) fn new(variant: u8, spread: f64) -> Self {
        Samples {
            variant,
            ring: [0.0; RECENT],
            held: 0,
            next: 0,
            count: 0,
            failures: 0,
            fails_in_a_row: 0,
            blocked_until_ns: 0,
            doubted: false,
            last_ns: 0,
            level: 0.0,
            weight: 0,
            spread,
            measured_spread: None,
            rising: Detector::default(),
            falling: Detector::default(),
            waiting: None,
            unsaved: 0,
            unsaved_failures: 0,
        }
    }

    /// Samples that the level rests on; 0 while nothing is known.
    pub(crate) fn held(&self) -> u32 {
        u32::from(self.weight)
    }

    /// Typical log cost; meaningless while nothing is held.
    pub(crate) fn level(&self) -> f64 {
        self.level
    }

    /// Whether a cost would be far too slow; `None` while it is too early to tell.
    pub(crate) fn is_outlier(&self, ln_cost: f64) -> Option<bool> {
        let z = (ln_cost - self.level) / self.spread.max(0.04);
        (self.held >= 5).then_some(z > OUTLIER)
    }

    /// Notes that something has changed since the last sample.
    pub(crate) fn doubt(&mut self) {
        self.doubted = true;
    }

    pub(crate) fn is_doubted(&self) -> bool {
        self.doubted
    }

    /// Keeps the first log cost apart until there is a second.
    pub(crate) fn let_wait(&mut self, ln_cost: f64, now_ns: u64) {
        self.waiting = Some((ln_cost, now_ns));
    }

    pub(crate) fn waiting(&self) -> Option<(f64, u64)> {
        self.waiting
    }

    /// What was kept apart; it is not any more.
    pub(crate) fn end_wait(&mut self) -> Option<(f64, u64)> {
        self.waiting.take()
    }

    /// Spread of the samples held, once there are enough of them.
    pub(crate) fn measured_spread(&self) -> Option<f64> {
        self.measured_spread
    }

    /// Robust spread of the log costs.
    pub(crate) fn spread(&self) -> f64 {
        self.spread
    }

    pub(crate) fn add(&mut self, ln_cost: f64, now_ns: u64, tick_ns: f64) -> News {
        self.count = self.count.saturating_add(1);
        self.unsaved = self.unsaved.saturating_add(1);
        self.last_ns = now_ns;
        self.doubted = false;
        self.fails_in_a_row = 0;
        let run = self.changed(ln_cost, tick_ns);
        if let Some(run) = run {
            self.keep_last(run - 1);
        }
        self.push(ln_cost);
        match (self.weight, run) {
            (1, None) => News::First,
            (_, Some(_)) => News::Changed,
            (_, None) => News::Same,
        }
    }

    /// Notes a failure. A variant that fails here again and again is left alone here, ever longer:
    /// too little memory for this size says nothing about others.
    pub(crate) fn fail(&mut self, now_ns: u64) {
        self.failures = self.failures.saturating_add(1);
        self.unsaved_failures = self.unsaved_failures.saturating_add(1);
        if self.is_blocked(now_ns) {
            return; // a call that was under way: one incident
        }
        self.fails_in_a_row = self.fails_in_a_row.saturating_add(1);
        if self.fails_in_a_row > 1 {
            let doublings = u32::from(self.fails_in_a_row - 2).min(12);
            self.blocked_until_ns = now_ns.saturating_add(FIRST_BLOCK_NS << doublings);
        }
    }

    /// Whether it has failed here too often lately.
    pub(crate) fn is_blocked(&self, now_ns: u64) -> bool {
        self.fails_in_a_row > 1 && now_ns < self.blocked_until_ns
    }

    /// Keeps no more than the last `keep` samples: the rest is history.
    fn keep_last(&mut self, keep: usize) {
        let recent: Vec<f32> = self.recent().collect();
        (self.held, self.next, self.weight) = (0, 0, 0);
        self.rising.restart();
        self.falling.restart();
        for value in &recent[recent.len().saturating_sub(keep)..] {
            self.push(f64::from(*value));
        }
    }

    fn push(&mut self, ln_cost: f64) {
        self.ring[usize::from(self.next)] = ln_cost as f32;
        self.next = (self.next + 1) % RECENT as u8;
        self.held = (self.held + 1).min(RECENT as u8);
        self.weight = (self.weight + 1).min(MEMORY);
        let mut sorted = self.ring;
        let held = &mut sorted[..usize::from(self.held)];
        held.sort_unstable_by(f32::total_cmp);
        // The lower middle of an even number: outliers are slow far more often than fast.
        let middle = |values: &[f32]| f64::from(values[(values.len() - 1) / 2]);
        let median = middle(held);
        if held.len() < ENOUGH_TO_TRIM {
            self.level = median;
        } else if usize::from(self.weight) <= 2 * RECENT {
            self.level = middle_half(held);
        } else {
            let deviation = (ln_cost - self.level).clamp(-2.0 * self.spread, 2.0 * self.spread);
            self.level += deviation / f64::from(self.weight);
        }
        if self.held >= 4 {
            for value in held.iter_mut() {
                *value = (*value - median as f32).abs();
            }
            held.sort_unstable_by(f32::total_cmp);
            // 1.4826 turns a median deviation into the standard deviation of a normal spread.
            let now = (1.4826 * middle(held)).clamp(LEAST_SPREAD, 1.0);
            self.spread += 0.1 * (now - self.spread);
            self.measured_spread = Some(now);
        }
    }

    /// Whether this sample is one too many on one side: then, how many there have been.
    fn changed(&mut self, ln_cost: f64, tick_ns: f64) -> Option<usize> {
        if self.held < 3 {
            return None;
        }
        // A step of the clock is no deviation, however regular the samples are otherwise.
        let tick = (tick_ns / self.level.exp()).min(1.0);
        let z = (ln_cost - self.level) / self.spread.max(0.04).max(tick);
        let rising = self.rising.sees(z > OUTLIER);
        let falling = self.falling.sees(z < -OUTLIER);
        rising.or(falling)
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
        let mut samples = Samples::new(variant, FIRST_SPREAD);
        let recent = &costs.recent[costs.recent.len().saturating_sub(keep.min(RECENT))..];
        recent.iter().for_each(|cost| samples.push(cost.ln()));
        samples.count = costs.count;
        samples.failures = costs.failures;
        samples
    }
}

/// Mean of sorted values without the lowest and the highest quarter.
fn middle_half(sorted: &[f32]) -> f64 {
    let quarter = sorted.len() / 4;
    let middle = &sorted[quarter..sorted.len() - quarter];
    middle.iter().copied().map(f64::from).sum::<f64>() / middle.len() as f64
}

/// Weighs "the costs have changed" against "outliers come at their usual rate".
#[derive(Clone, Copy, Debug)]
struct Detector {
    /// Usual share of outliers on this side.
    usual: f64,
    /// Log odds of a change.
    odds: f64,
    /// Samples since the odds last were nil.
    run: usize,
}

impl Default for Detector {
    fn default() -> Self {
        Detector {
            usual: 0.05,
            odds: 0.0,
            run: 0,
        }
    }
}

impl Detector {
    /// Starts over; how usual outliers are is still known.
    fn restart(&mut self) {
        (self.odds, self.run) = (0.0, 0);
    }

    fn sees(&mut self, outlier: bool) -> Option<usize> {
        let usual = self.usual.clamp(0.03, 0.5);
        self.odds += if outlier {
            (CHANGED_SHARE / usual).ln()
        } else {
            ((1.0 - CHANGED_SHARE) / (1.0 - usual)).ln()
        };
        self.usual += (f64::from(outlier) - self.usual) / 32.0;
        self.run += 1;
        if self.odds <= 0.0 {
            self.restart();
        }
        (self.odds > ALARM).then_some(self.run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(value: f64, n: usize) -> Samples {
        let mut samples = Samples::new(0, FIRST_SPREAD);
        for i in 0..n {
            // A small regular wobble, so that the spread is not zero.
            samples.add(value + 0.02 * ((i % 5) as f64 - 2.0), i as u64, 0.0);
        }
        samples
    }

    #[test]
    fn f19_one_outlier_of_1000_times_moves_neither_median_nor_detector() {
        let mut samples = steady(10.0, 9);
        assert_eq!(samples.add(10.0 + 1000f64.ln(), 9, 0.0), News::Same);
        assert!((samples.level() - 10.0).abs() < 0.05);
        let mut first = Samples::new(0, FIRST_SPREAD);
        first.add(10.0 + 1000f64.ln(), 0, 0.0);
        for i in 1..4 {
            first.add(10.0, i, 0.0);
        }
        assert!((first.level() - 10.0).abs() < 0.05, "recovers in 3 samples");
    }

    #[test]
    fn a_step_either_way_is_noticed_within_four_samples() {
        for step in [4f64.ln(), -4f64.ln()] {
            let mut samples = steady(10.0, 20);
            let news: Vec<News> = (0..4)
                .map(|i| samples.add(10.0 + step, 20 + i, 0.0))
                .collect();
            assert!(news.contains(&News::Changed), "{news:?}");
            assert!((samples.level() - 10.0 - step).abs() < 0.05);
        }
    }

    #[test]
    fn ticks_of_the_clock_are_no_change() {
        let mut samples = Samples::new(0, FIRST_SPREAD);
        let mut changes = 0;
        for i in 0..2000u64 {
            let ns = [20.0f64, 30.0, 30.0, 30.0, 40.0][crate::cell::mix(i, 3) as usize % 5];
            changes += u32::from(samples.add(ns.ln(), i, 10.0) == News::Changed);
        }
        assert_eq!(changes, 0);
    }

    #[test]
    fn one_outlier_in_four_is_not_a_change() {
        let mut samples = steady(10.0, 9);
        let mut changes = 0;
        for i in 0..4000u64 {
            // Irregular, but a quarter in the long run.
            let outlier = crate::cell::mix(i, 7).is_multiple_of(4);
            let news = samples.add(10.0 + if outlier { 1.0 } else { 0.0 }, i, 0.0);
            changes += u32::from(news == News::Changed);
        }
        assert!(changes <= 2, "{changes}");
        assert!((samples.level() - 10.0).abs() < 0.1);
    }

    #[test]
    fn what_is_saved_once_is_not_saved_again() {
        let mut samples = steady(10.0, 4);
        let first = samples.take_unsaved().unwrap();
        assert_eq!((first.count, first.recent.len()), (4, 4));
        assert_eq!(samples.take_unsaved(), None);
        samples.add(10.0, 5, 0.0);
        assert_eq!(samples.take_unsaved().unwrap().count, 1);
    }
}
