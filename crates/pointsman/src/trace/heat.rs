//! How often an op is called: a rate over a sliding window, from counts that exist anyway.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Length of the window.
const WINDOW_NS: u64 = 1_000_000_000;

/// The rate is computed at most this often: summing the counts of all threads takes a microsecond.
const STEP_NS: u64 = 20_000_000;

/// Whether an op was called more often than a limit within the last second.
///
/// It knows the count at two moments that lie a window apart or more, and takes the calls between
/// them as evenly spread. All that is written here is written by the one thread that came first in
/// its step; a reader that sees half of it is wrong about one span at most.
pub(crate) struct Heat {
    most: f64,
    step: AtomicU64,
    hot: AtomicBool,
    old: Mark,
    new: Mark,
}

/// How many calls there had been at a moment; moments are counted from a window before the clock's 0.
struct Mark {
    at: AtomicU64,
    calls: AtomicU64,
}

impl Mark {
    fn new(at: u64) -> Self {
        Mark {
            at: AtomicU64::new(at),
            calls: AtomicU64::new(0),
        }
    }

    fn load(&self) -> (u64, u64) {
        (self.at.load(Relaxed), self.calls.load(Relaxed))
    }

    fn store(&self, (at, calls): (u64, u64)) {
        self.at.store(at, Relaxed);
        self.calls.store(calls, Relaxed);
    }
}

impl Heat {
    /// An op without calls so far.
    pub(crate) fn new(per_second: f64, now_ns: u64) -> Self {
        Heat {
            most: per_second * WINDOW_NS as f64 / 1e9,
            step: AtomicU64::new(now_ns / STEP_NS),
            hot: AtomicBool::new(false),
            old: Mark::new(now_ns),
            new: Mark::new(now_ns.saturating_add(WINDOW_NS)),
        }
    }

    /// Whether the op is hot now. `calls` is asked for the number of calls so far, once a step.
    pub(crate) fn is_hot(&self, now_ns: u64, calls: impl FnOnce() -> u64) -> bool {
        let step = now_ns / STEP_NS;
        let last = self.step.load(Relaxed);
        let first = step != last
            && self
                .step
                .compare_exchange(last, step, Relaxed, Relaxed)
                .is_ok();
        if first {
            let hot = self.lately(now_ns, calls()) > self.most;
            self.hot.store(hot, Relaxed);
        }
        self.hot.load(Relaxed)
    }

    /// Calls within the last window.
    fn lately(&self, now_ns: u64, calls: u64) -> f64 {
        let now = now_ns.saturating_add(WINDOW_NS);
        let (mut old, mut new) = (self.old.load(), self.new.load());
        if now < new.0 || calls < new.1 {
            // The clock went back, or the counts were reset: begin again.
            (old, new) = ((now_ns, calls), (now, calls));
            self.old.store(old);
            self.new.store(new);
        } else if now - new.0 >= WINDOW_NS {
            (old, new) = (new, (now, calls));
            self.old.store(old);
            self.new.store(new);
        }
        let apart = new.0.saturating_sub(old.0).max(1) as f64;
        let share = now_ns.saturating_sub(old.0) as f64 / apart;
        let before = old.1 as f64 + (new.1.saturating_sub(old.1)) as f64 * share.min(1.0);
        calls as f64 - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Calls at a steady rate for a while, looked at every 5 ms; how long the op was hot.
    fn drive(heat: &Heat, now: &mut u64, calls: &mut u64, rate: u64, seconds: f64) -> f64 {
        let looks = (seconds * 200.0) as u64;
        let mut hot = 0u32;
        for _ in 0..looks {
            *now += SECOND / 200;
            *calls += rate / 200;
            hot += u32::from(heat.is_hot(*now, || *calls));
        }
        f64::from(hot) / 200.0
    }

    #[test]
    fn an_op_is_hot_above_its_limit_only_and_cools_within_a_window() {
        let (mut now, mut calls) = (77 * SECOND, 0);
        let heat = Heat::new(10_000.0, now);
        assert_eq!(drive(&heat, &mut now, &mut calls, 9_800, 5.0), 0.0);
        let hot = drive(&heat, &mut now, &mut calls, 12_000, 5.0);
        assert!(
            (3.8..4.99).contains(&hot),
            "{hot} of 5 s at 12,000 a second"
        );
        let hot = drive(&heat, &mut now, &mut calls, 2_000, 5.0);
        assert!(hot < 1.1, "{hot} of 5 s after it had cooled");
        assert_eq!(drive(&heat, &mut now, &mut calls, 2_000, 5.0), 0.0);
    }

    #[test]
    fn a_burst_after_a_long_pause_is_no_rate() {
        let heat = Heat::new(10_000.0, 0);
        let mut calls = 1_000_000;
        let mut now = 1_000 * SECOND; // 1,000 calls a second on average
        assert!(!heat.is_hot(now, || calls));
        now += SECOND / 10;
        calls += 5_000; // 50,000 a second, but for a tenth of one
        assert!(!heat.is_hot(now, || calls));
        now += SECOND / 5;
        calls += 10_000;
        assert!(heat.is_hot(now, || calls));
        assert!(!heat.is_hot(now + 1_000 * SECOND, || calls));
    }

    #[test]
    fn f17_a_clock_that_goes_back_and_counts_that_are_reset_begin_again() {
        let heat = Heat::new(10_000.0, 0);
        let (mut now, mut calls) = (0, 0);
        assert!(drive(&heat, &mut now, &mut calls, 100_000, 2.0) > 1.5);
        assert!(!heat.is_hot(5, || calls));
        assert!(!heat.is_hot(u64::MAX, || 0));
        assert!(!heat.is_hot(0, || u64::MAX));
    }
}
