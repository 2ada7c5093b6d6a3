//! What each thread keeps for itself, so that calls share no cache line.

use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::decision::Reason;

/// Threads that have a counter shard of their own; they count with a load and a store. Those that
/// come later share as many more, with atomic additions, which cost some 2 ns more.
const OWN_SHARDS: usize = 16;
const SHARDS: usize = 2 * OWN_SHARDS;

struct Local {
    /// This thread's shard plus one; 0 before its first call.
    shard: Cell<u32>,
    /// Calls of any op that this thread is inside of.
    depth: Cell<u32>,
    /// Calls this thread has run that were to find something out.
    probes: Cell<u32>,
}

thread_local! {
    static LOCAL: Local = const {
        Local {
            shard: Cell::new(0),
            depth: Cell::new(0),
            probes: Cell::new(0),
        }
    };
}

#[inline]
fn shard() -> usize {
    let shard = LOCAL.with(|local| local.shard.get());
    if shard == 0 {
        first_shard()
    } else {
        shard as usize - 1
    }
}

#[cold]
fn first_shard() -> usize {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let thread = NEXT.fetch_add(1, Relaxed) as usize;
    let shard = if thread < OWN_SHARDS {
        thread
    } else {
        OWN_SHARDS + thread % OWN_SHARDS
    };
    LOCAL.with(|local| local.shard.set(shard as u32 + 1));
    shard
}

/// Marks that a call is under way on this thread, until it is dropped.
pub(crate) struct Inside(());

impl Inside {
    #[inline]
    pub(crate) fn enter() -> Self {
        LOCAL.with(|local| local.depth.set(local.depth.get() + 1));
        Inside(())
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        LOCAL.with(|local| local.depth.set(local.depth.get() - 1));
    }
}

/// Whether this thread is inside a call already.
pub(crate) fn nested() -> bool {
    LOCAL.with(|local| local.depth.get() > 0)
}

/// Calls that this thread has run to find something out: trials, and those that others served while a
/// variant was checked. If the number grows during a call, the call's time says nothing about what it
/// will take later.
pub(crate) fn probes() -> u32 {
    LOCAL.with(|local| local.probes.get())
}

pub(crate) fn count_probe() {
    LOCAL.with(|local| local.probes.set(local.probes.get().wrapping_add(1)));
}

#[repr(align(128))] // two cache lines: the prefetcher fetches pairs
struct Shard([AtomicU64; 64]);

/// Calls per variant of one op, exact, without a shared write on the hot path.
pub(crate) struct Counters {
    /// Looks at a published choice of each variant, by thread.
    looks: Box<[Shard; SHARDS]>,
    /// What calls that went through the learner add: a look that led elsewhere counts for whoever
    /// served.
    moved: [AtomicI64; 64],
    /// Why each variant was chosen, by those who asked the learner.
    reasons: Box<[[AtomicU64; Reason::ALL.len()]; 64]>,
}

impl Counters {
    pub(crate) fn new() -> Self {
        let shard = |_| Shard(std::array::from_fn(|_| AtomicU64::new(0)));
        Counters {
            looks: Box::new(std::array::from_fn(shard)),
            moved: std::array::from_fn(|_| AtomicI64::new(0)),
            reasons: Box::new(std::array::from_fn(|_| {
                std::array::from_fn(|_| AtomicU64::new(0))
            })),
        }
    }

    /// Counts a call of this variant on this thread; the number of those before it.
    #[inline]
    pub(crate) fn count(&self, variant: u8) -> u64 {
        let shard = shard();
        let count = &self.looks[shard & (SHARDS - 1)].0[usize::from(variant & 63)];
        if shard < OWN_SHARDS {
            let n = count.load(Relaxed);
            count.store(n + 1, Relaxed);
            n
        } else {
            count.fetch_add(1, Relaxed)
        }
    }

    /// Counts calls off the hot path, or takes them back.
    pub(crate) fn add(&self, variant: u8, calls: i64) {
        self.moved[usize::from(variant & 63)].fetch_add(calls, Relaxed);
    }

    /// Counts a call that the learner was asked about.
    pub(crate) fn chosen(&self, variant: u8, reason: Reason) {
        self.add(variant, 1);
        self.reasons[usize::from(variant & 63)][reason as usize].fetch_add(1, Relaxed);
    }

    /// How often a variant was chosen for each reason.
    pub(crate) fn reasons(&self, variant: u8) -> impl Iterator<Item = (Reason, u64)> + '_ {
        let counts = &self.reasons[usize::from(variant & 63)];
        let counts = counts.iter().map(|count| count.load(Relaxed));
        Reason::ALL.into_iter().zip(counts)
    }

    /// Calls of a variant, with those that somebody else has counted.
    pub(crate) fn calls(&self, variant: u8, elsewhere: i64) -> u64 {
        let at = usize::from(variant & 63);
        let looks: u64 = self.looks.iter().map(|s| s.0[at].load(Relaxed)).sum();
        looks.saturating_add_signed(self.moved[at].load(Relaxed) + elsewhere)
    }

    /// Calls of all variants.
    pub(crate) fn total(&self) -> u64 {
        let looks = self.looks.iter().flat_map(|s| &s.0);
        let looks: u64 = looks.map(|count| count.load(Relaxed)).sum();
        let moved: i64 = self.moved.iter().map(|count| count.load(Relaxed)).sum();
        looks.saturating_add_signed(moved)
    }

    pub(crate) fn clear(&self) {
        for shard in self.looks.iter() {
            shard.0.iter().for_each(|count| count.store(0, Relaxed));
        }
        self.moved.iter().for_each(|count| count.store(0, Relaxed));
        let reasons = self.reasons.iter().flatten();
        reasons.for_each(|count| count.store(0, Relaxed));
    }
}

/// Whether call number `n` is one of the `2^-period` that are timed.
///
/// Multiples of the golden ratio fall evenly into every interval, also when only every second or
/// every thousandth `n` belongs to a cell: a plain "every 64th" would miss such cells for ever.
#[inline]
pub(crate) fn is_due(n: u64, period: u8) -> bool {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15) <= u64::MAX >> (period & 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_in_a_period_is_timed_whatever_the_pattern() {
        for stride in [1, 2, 3, 64, 1000, 4096] {
            let due = (0..1u64 << 16).filter(|n| is_due(n * stride, 6)).count();
            assert!(
                (900..1150).contains(&due),
                "stride {stride}: {due} of 65536"
            );
        }
        assert!((0..100).all(|n| is_due(n, 0)));
    }

    #[test]
    fn reasons_are_found_by_their_numbers() {
        for (i, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, i);
        }
    }

    #[test]
    fn calls_are_counted_on_every_thread() {
        let counters = Counters::new();
        std::thread::scope(|scope| {
            for _ in 0..40 {
                scope.spawn(|| (0..100).for_each(|_| _ = counters.count(3)));
            }
        });
        counters.add(5, 7);
        assert_eq!((counters.calls(3, 0), counters.total()), (4000, 4007));
        counters.clear();
        assert_eq!(counters.calls(3, 0), 0);
    }
}
