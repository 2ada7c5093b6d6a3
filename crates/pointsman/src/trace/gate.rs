//! Which calls are traced: the slow ones, some of the others by lot, and none of a hot op.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::heat::Heat;
use crate::error::BuildError;
use crate::learn::published::Choice;

/// Multiples of √2 fall as evenly as those of the golden ratio, which picks the calls that are timed,
/// and independently of them: else the calls that are traced would be the timed ones, or never those.
const ROOT: u64 = 0x6A09_E667_F3BC_C909;

/// Most calls of a hot op, by lot, that look whether it still is: a look reads the clock, 27 ns, and an
/// untraced call may pay 3.
const HOT_LOOKS: u64 = u64::MAX / 16;

/// What is traced, as set by the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampling {
    /// Calls that are expected to take as long are all traced.
    pub(crate) slow: Duration,
    /// Share of the others.
    pub(crate) share: f64,
    /// Calls per second above which an op is not traced.
    pub(crate) hot_above: f64,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling {
            slow: Duration::from_micros(100),
            share: 0.01,
            hot_above: 10_000.0,
        }
    }
}

impl Sampling {
    /// What is wrong with it.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        if !(0.0..=1.0).contains(&self.share) {
            return Err(BuildError::Setting {
                name: "trace_share",
                value: self.share.to_string(),
                valid: "a number from 0 to 1",
            });
        }
        if self.hot_above.is_nan() || self.hot_above < 0.0 {
            return Err(BuildError::Setting {
                name: "trace_hot_above",
                value: self.hot_above.to_string(),
                valid: "a number of calls per second, 0 or more",
            });
        }
        Ok(())
    }
}

/// Decides, for one op, which calls are traced. Lock-free; an untraced call reads one word of it.
pub(crate) struct Gate {
    slow_ns: f64,
    /// Share of the calls that are drawn, in 2^-64.
    share: u64,
    /// The same, or less while the op is hot.
    lots: AtomicU64,
    /// Sum of the shares of the calls that went through the learner: each time it overflows, one is
    /// drawn.
    sum: AtomicU64,
    seed: u64,
    heat: Heat,
}

impl Gate {
    pub(crate) fn new(sampling: &Sampling, seed: u64, now_ns: u64) -> Self {
        let share = (sampling.share * u64::MAX as f64) as u64; // saturates
        Gate {
            slow_ns: sampling.slow.as_nanos() as f64,
            share,
            lots: AtomicU64::new(share),
            sum: AtomicU64::new(seed),
            seed,
            heat: Heat::new(sampling.hot_above, now_ns),
        }
    }

    /// Whether a call that is expected to take so long is traced whatever the lot says.
    #[inline]
    pub(crate) fn is_slow(&self, expected_ns: f64) -> bool {
        expected_ns >= self.slow_ns
    }

    /// Whether call number `n` with this published choice may be one to trace.
    #[inline(always)]
    pub(crate) fn may_take(&self, choice: Choice, n: u64) -> bool {
        let lot = n.wrapping_add(self.seed).wrapping_mul(ROOT);
        choice.slow | (lot < self.lots.load(Relaxed))
    }

    /// Draws for a call that goes through the learner.
    pub(crate) fn draw(&self) -> bool {
        let share = self.lots.load(Relaxed);
        let sum = self.sum.fetch_add(share, Relaxed);
        sum.checked_add(share).is_none()
    }

    /// The share that is drawn now, for plans, which draw for themselves.
    pub(crate) fn lots(&self) -> u64 {
        self.lots.load(Relaxed)
    }

    /// Where a new plan's sum begins.
    pub(crate) fn first_sum(&self) -> u64 {
        self.sum.load(Relaxed).wrapping_mul(ROOT)
    }

    /// Whether the op is called too often to be traced.
    pub(crate) fn is_hot(&self, now_ns: u64, calls: impl FnOnce() -> u64) -> bool {
        let hot = self.heat.is_hot(now_ns, calls);
        let lots = if hot {
            self.share.min(HOT_LOOKS)
        } else {
            self.share
        };
        if self.lots.load(Relaxed) != lots {
            self.lots.store(lots, Relaxed);
        }
        hot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(share: f64) -> Gate {
        let sampling = Sampling {
            share,
            ..Sampling::default()
        };
        Gate::new(&sampling, 7, 0)
    }

    #[test]
    fn the_share_that_is_drawn_is_the_share_that_was_asked_for() {
        let choice = Choice::new(1, 0, 1.0);
        for share in [0.0, 0.001, 0.01, 0.3, 1.0] {
            let gate = gate(share);
            for stride in [1, 2, 64, 1000] {
                let taken = (0..20_000u64).filter(|n| gate.may_take(choice, n * stride));
                let (taken, due) = (taken.count() as f64, 20_000.0 * share);
                assert!(
                    (taken - due).abs() <= 0.1 * due.min(40.0),
                    "{taken} for {due}"
                );
            }
            let drawn = (0..20_000).filter(|_| gate.draw()).count() as f64;
            assert!(
                (drawn - 20_000.0 * share).abs() <= 1.0,
                "{drawn} at {share}"
            );
        }
    }

    #[test]
    fn slow_calls_are_all_taken() {
        let gate = gate(0.0);
        let mut choice = Choice::new(1, 0, 1.0);
        choice.slow = true;
        assert!((0..1000).all(|n| gate.may_take(choice, n)));
        assert!(gate.is_slow(100_000.0) && !gate.is_slow(99_999.0));
    }

    #[test]
    fn a_hot_op_looks_rarely_whether_it_has_cooled() {
        let gate = gate(1.0);
        let choice = Choice::new(1, 0, 1.0);
        let taken = || (0..16_000u64).filter(|n| gate.may_take(choice, *n)).count();
        assert_eq!(taken(), 16_000);
        assert!(gate.is_hot(1_000_000_000, || 1_000_000));
        assert!((990..1010).contains(&taken()), "{}", taken());
        assert!(!gate.is_hot(10_000_000_000, || 1_000_000));
        assert_eq!(taken(), 16_000);
    }
}
