//! Figures that survive a noisy machine: short batches in interleaved rounds, and their medians.

use std::hint::spin_loop;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Length of a batch: long beside a reading of the clock (27 ns), short beside a time slice of the
/// scheduler (milliseconds), so that most batches run undisturbed.
const BATCH: Duration = Duration::from_micros(50);

/// Two threads count as running together if they started within this share of their batch.
const APART: f64 = 0.1;

/// Attempts per round that is wanted: on a busy machine two threads seldom start together.
const ATTEMPTS: u32 = 4;

/// Longest time for one ratio: where others keep the cores busy, two threads wait long for each
/// other.
const PATIENCE: Duration = Duration::from_secs(3);

/// Rounds together that a ratio rests on, as a share of those wanted; fewer say nothing.
const ENOUGH: f64 = 0.25;

/// Something to be called over and over. The loop is compiled with the call in it, so that a batch
/// adds one jump per call and no more.
pub(crate) struct Contestant<'a> {
    run: Box<dyn Fn(u32) + Sync + 'a>,
    calls: u32,
}

impl<'a> Contestant<'a> {
    /// Finds out how many calls fill a batch.
    pub(crate) fn new(call: impl Fn() + Sync + 'a) -> Self {
        let run = Box::new(move |calls: u32| (0..calls).for_each(|_| call()));
        let mut contestant = Contestant { run, calls: 1 };
        while contestant.calls < 1 << 20 && contestant.batch() < BATCH {
            contestant.calls *= 2;
        }
        contestant
    }

    /// Runs a batch. The rivals allocate: the counting allocator looks away, to be fair to them.
    fn batch(&self) -> Duration {
        let mut took = Duration::ZERO;
        allocation_counter::opt_out(|| {
            let start = Instant::now();
            (self.run)(self.calls);
            took = start.elapsed();
        });
        took
    }

    fn per_call_ns(&self, batch: Duration) -> f64 {
        batch.as_nanos() as f64 / f64::from(self.calls)
    }

    /// Calls in a batch.
    pub(crate) fn calls(&self) -> u32 {
        self.calls
    }

    /// Allocations per call: the median of so many short runs, because the rare call that is
    /// learned from may allocate.
    pub(crate) fn allocations(&self, runs: u32) -> f64 {
        const CALLS: u32 = 100;
        let count = |_| allocation_counter::measure(|| (self.run)(CALLS)).count_total as f64;
        median((0..runs).map(count).collect()) / f64::from(CALLS)
    }
}

/// Nanoseconds per call of each contestant in each round. Every round begins with another one, so
/// that nobody always runs in the wake of the same neighbour.
pub(crate) fn rounds<const N: usize>(
    contestants: [&Contestant<'_>; N],
    rounds: u32,
) -> [Vec<f64>; N] {
    let mut took = [const { Vec::new() }; N];
    for round in 0..rounds as usize {
        for turn in 0..N {
            let at = (round + turn) % N;
            took[at].push(contestants[at].per_call_ns(contestants[at].batch()));
        }
    }
    took
}

/// Median, over the rounds, of what one took beyond the other in the same round.
pub(crate) fn median_excess(of: &[f64], over: &[f64]) -> f64 {
    median(of.iter().zip(over).map(|(a, b)| a - b).collect())
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Time per call on two threads at once, divided by the time on one just before: median of rounds.
/// `None` where there is one core only, or where the threads never ran together.
pub(crate) fn two_thread_ratio(contestant: &Contestant<'_>, rounds: u32) -> Option<f64> {
    if thread::available_parallelism().map_or(1, |n| n.get()) < 2 {
        return None;
    }
    let pair = Pair::default();
    let mut ratios = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| pair.follow(contestant));
        for _ in 0..ATTEMPTS.saturating_mul(rounds) {
            let alone = contestant.batch();
            if let Some(both) = pair.lead(contestant) {
                ratios.push(both.as_secs_f64() / alone.as_secs_f64());
            }
            if ratios.len() >= rounds as usize || pair.epoch.elapsed() > PATIENCE {
                break;
            }
        }
        pair.dismiss();
    });
    if (ratios.len() as f64) < ENOUGH * f64::from(rounds) {
        return None;
    }
    let ratio = median(ratios);
    ratio.is_finite().then_some(ratio)
}

/// Two threads that run a batch at the same time, again and again.
struct Pair {
    epoch: Instant,
    /// Both wait here between rounds, so that the follower sleeps while the leader runs alone.
    gate: Barrier,
    over: AtomicBool,
    ready: AtomicBool,
    go: AtomicBool,
    started_ns: AtomicU64,
    took_ns: AtomicU64,
}

impl Default for Pair {
    fn default() -> Self {
        Pair {
            epoch: Instant::now(),
            gate: Barrier::new(2),
            over: AtomicBool::new(false),
            ready: AtomicBool::new(false),
            go: AtomicBool::new(false),
            started_ns: AtomicU64::new(0),
            took_ns: AtomicU64::new(0),
        }
    }
}

impl Pair {
    /// Mean time of both batches; `None` if they did not begin together.
    fn lead(&self, contestant: &Contestant<'_>) -> Option<Duration> {
        self.gate.wait();
        wait_for(&self.ready);
        self.go.store(true, Relaxed);
        let started = self.epoch.elapsed();
        let took = contestant.batch();
        self.gate.wait(); // what the follower wrote is visible from here on
        self.ready.store(false, Relaxed);
        self.go.store(false, Relaxed);
        let other_started = Duration::from_nanos(self.started_ns.load(Relaxed));
        let both = (took + Duration::from_nanos(self.took_ns.load(Relaxed))) / 2;
        let apart = started.abs_diff(other_started);
        (apart.as_secs_f64() < APART * both.as_secs_f64()).then_some(both)
    }

    fn follow(&self, contestant: &Contestant<'_>) {
        loop {
            self.gate.wait();
            if self.over.load(Relaxed) {
                return;
            }
            self.ready.store(true, Relaxed);
            wait_for(&self.go);
            let started = self.epoch.elapsed();
            let took = contestant.batch();
            let ns = |span: Duration| span.as_nanos() as u64;
            self.started_ns.store(ns(started), Relaxed);
            self.took_ns.store(ns(took), Relaxed);
            self.gate.wait();
        }
    }

    fn dismiss(&self) {
        self.over.store(true, Relaxed);
        self.gate.wait();
    }
}

/// Waits awake, to begin at once. It keeps its core: the other thread then wakes on another.
fn wait_for(flag: &AtomicBool) {
    while !flag.load(Relaxed) {
        spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::sync::Mutex;

    #[test]
    fn the_median_ignores_a_disturbed_round() {
        assert_eq!(median(vec![5.0, 1.0, 900.0]), 5.0);
        assert_eq!(median_excess(&[7.0, 900.0, 8.0], &[5.0, 5.0, 5.0]), 3.0);
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn allocations_are_counted_and_only_those_of_the_calls() {
        let none = Contestant::new(|| _ = black_box(1));
        let two = Contestant::new(|| drop(black_box((Box::new(1), Box::new(2)))));
        assert_eq!((none.allocations(5), two.allocations(5)), (0.0, 2.0));
    }

    #[test]
    fn threads_that_wait_for_each_other_are_told_from_those_that_do_not() {
        let spin = || (0..20u64).for_each(|i| _ = black_box(i));
        let lock = Mutex::new(());
        let serial = Contestant::new(|| {
            let _held = lock.lock();
            spin();
        });
        let free = Contestant::new(spin);
        if let (Some(serial), Some(free)) =
            (two_thread_ratio(&serial, 50), two_thread_ratio(&free, 50))
        {
            assert!(serial > 1.4 && serial > free, "{serial} and {free}");
        }
    }
}
