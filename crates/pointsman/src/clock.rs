//! Step 6 of a call: time, injectable.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

/// What a selector reads the time from.
///
/// Readings may repeat or go back, and whoever subtracts two of them must expect that: a clock
/// that misbehaves costs a measurement, never a wrong one.
///
/// ```
/// use pointsman::{Clock, SystemClock};
///
/// let clock: &dyn Clock = &SystemClock;
/// let start = clock.now_ns();
/// assert!(clock.now_ns() >= start);
/// ```
pub trait Clock: Send + Sync {
    /// Nanoseconds since some fixed moment.
    fn now_ns(&self) -> u64;

    /// Seconds since 1970.
    fn unix_seconds(&self) -> u64;
}

/// The clock of this computer: monotonic, counted from its first reading in this process.
///
/// A reading takes about 27 ns. Crates that read the time-stamp counter take 11 ns, but bring
/// their own calibration and their own failures; timing is sampled, so the difference is not felt.
///
/// ```
/// use pointsman::{Clock, SystemClock};
///
/// assert!(SystemClock.unix_seconds() > 1_600_000_000);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[inline]
    fn now_ns(&self) -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        // 64 bits of nanoseconds last 584 years.
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }

    fn unix_seconds(&self) -> u64 {
        // A machine whose date lies before 1970 gets 0: ages are then too small, nothing else.
        SystemTime::UNIX_EPOCH
            .elapsed()
            .map_or(0, |since| since.as_secs())
    }
}

/// A clock that moves only when told to, for simulations and tests.
///
/// Clones share the time, so that one can be given away and the other kept to move it.
///
/// ```
/// use std::time::Duration;
/// use pointsman::{Clock, FakeClock};
///
/// let clock = FakeClock::new();
/// let given_away = clock.clone();
/// clock.advance(Duration::from_secs(3));
/// assert_eq!(given_away.now_ns(), 3_000_000_000);
/// clock.set_ns(5); // back in time: what a suspended or misset machine may do
/// assert_eq!(given_away.now_ns(), 5);
/// ```
#[derive(Clone, Debug)]
pub struct FakeClock {
    ns: Arc<AtomicU64>,
    base: u64,
}

impl FakeClock {
    /// A clock at 0 ns, on 1 January 2024.
    pub fn new() -> Self {
        Self::starting_at(1_704_067_200)
    }

    /// A clock at 0 ns, this many seconds after 1970.
    ///
    /// ```
    /// use std::time::Duration;
    /// use pointsman::{Clock, FakeClock};
    ///
    /// let clock = FakeClock::starting_at(100);
    /// clock.advance(Duration::from_millis(2_500));
    /// assert_eq!(clock.unix_seconds(), 102);
    /// ```
    pub fn starting_at(unix_seconds: u64) -> Self {
        FakeClock {
            ns: Arc::default(),
            base: unix_seconds,
        }
    }

    /// Moves this clock and all its clones forward; it stops at the largest time there is.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        let forward = |ns: u64| Some(ns.saturating_add(by));
        // The closure never declines, so there is no error to handle.
        let _ = self
            .ns
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, forward);
    }

    /// Sets this clock and all its clones, forward or back.
    pub fn set_ns(&self, ns: u64) {
        self.ns.store(ns, Ordering::Relaxed);
    }
}

impl Default for FakeClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for FakeClock {
    fn now_ns(&self) -> u64 {
        self.ns.load(Ordering::Relaxed)
    }

    fn unix_seconds(&self) -> u64 {
        self.base.saturating_add(self.now_ns() / 1_000_000_000)
    }
}

/// Pairs of readings behind one clock cost: some 6 µs with the system's clock.
const PAIRS: usize = 101;

/// Longest clock cost that is believed, and longest time spent measuring it: below 1 ms.
const MAX_CLOCK_COST_NS: u64 = 999_999;

/// The steps in which a clock moves, in nanoseconds; 0 for one that does not move.
///
/// A virtual machine's clock may tick in steps of ten: what takes 30 ns then reads as 20, 30 or 40,
/// and none of that is a change.
pub(crate) fn clock_tick_ns(clock: &dyn Clock) -> u64 {
    let mut last = clock.now_ns();
    let mut tick = 0;
    for _ in 0..200 {
        let now = clock.now_ns();
        tick = greatest_common_divisor(tick, now.saturating_sub(last));
        last = now;
    }
    tick.min(1_000)
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

/// What timing a call adds to its time: the typical distance of two readings with nothing
/// between them. 0 for a clock that does not move by itself.
///
/// The median, because the mean follows a single interruption and the minimum a lucky reading; a
/// cost that is too high would make short calls look free.
pub(crate) fn clock_cost_ns(clock: &dyn Clock) -> u64 {
    let begin = clock.now_ns();
    let mut gaps = Vec::with_capacity(PAIRS);
    while gaps.len() < PAIRS {
        let start = clock.now_ns();
        let end = clock.now_ns();
        // A clock that goes back says nothing about its cost.
        gaps.push(end.saturating_sub(start));
        if end.saturating_sub(begin) > MAX_CLOCK_COST_NS {
            break;
        }
    }
    gaps.sort_unstable();
    gaps[gaps.len() / 2].min(MAX_CLOCK_COST_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_never_goes_back() {
        let mut last = 0;
        for _ in 0..1_000 {
            let now = SystemClock.now_ns();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn f17_a_fake_clock_stops_at_the_end_of_time_and_may_go_back() {
        let clock = FakeClock::new();
        clock.advance(Duration::MAX);
        assert_eq!(clock.now_ns(), u64::MAX);
        clock.advance(Duration::from_nanos(1));
        assert_eq!(clock.now_ns(), u64::MAX);
        clock.set_ns(7);
        assert_eq!(clock.clone().now_ns(), 7);
        assert_eq!(FakeClock::starting_at(u64::MAX).unix_seconds(), u64::MAX);
    }

    /// Each reading moves on by the next step of a list, over and over.
    struct Steps {
        steps: Vec<i64>,
        reading: AtomicU64,
    }

    impl Steps {
        fn new(steps: &[i64]) -> Self {
            Steps {
                steps: steps.to_vec(),
                reading: AtomicU64::new(0),
            }
        }
    }

    impl Clock for Steps {
        fn now_ns(&self) -> u64 {
            let readings = self.reading.fetch_add(1, Ordering::Relaxed) as usize;
            let moved: i64 = self.steps.iter().cycle().take(readings).sum();
            (1 << 60) + moved as u64
        }

        fn unix_seconds(&self) -> u64 {
            0
        }
    }

    #[test]
    fn the_cost_of_a_clock_is_its_typical_gap() {
        assert_eq!(clock_cost_ns(&FakeClock::new()), 0);
        assert_eq!(clock_cost_ns(&Steps::new(&[30])), 30);
        // One reading in seven is interrupted, or sets the clock back.
        assert_eq!(
            clock_cost_ns(&Steps::new(&[30, 30, 30, 4_000, 30, 30, 30])),
            30
        );
        assert_eq!(
            clock_cost_ns(&Steps::new(&[30, 30, 30, -90, 30, 30, 30])),
            30
        );
    }

    #[test]
    fn the_cost_of_a_slow_clock_is_bounded_and_soon_known() {
        let slow = Steps::new(&[5_000_000_000]);
        assert_eq!(clock_cost_ns(&slow), MAX_CLOCK_COST_NS);
        assert!(slow.reading.load(Ordering::Relaxed) < 5);
        assert!(clock_cost_ns(&SystemClock) <= MAX_CLOCK_COST_NS);
    }
}
