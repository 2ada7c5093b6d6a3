//! Hot loops: a choice for one workload, kept in one word.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::decision::Explanation;
use crate::op::{Kind, Op, Sure};
use crate::run::Handle;
use crate::state::Look;
use crate::trace;
use crate::workload::Workload;

/// Most calls between two looks at what is published, as a power of two: quarantine and other news
/// are seen at once, a better choice within 256 calls.
pub(crate) const MAX_BATCH: u8 = 8;

/// A choice for one workload, for hot loops: see [`Handle::plan`].
///
/// It looks again once in a while, and when something about the op has changed.
pub struct Plan<O: Op, K: Kind<O> = Sure> {
    handle: Handle<O, K>,
    workload: Workload,
    /// See [`Batch`]. Shared with the op's statistics, which count what has been used of it.
    word: Arc<AtomicU64>,
    /// The whole batch, less what is in the word: a batch is cut in pieces where a call is to be traced,
    /// so that calls which are not need not ask.
    rest: AtomicU64,
    /// Sum of the shares of calls that are traced: each time it overflows, one is.
    sum: AtomicU64,
}

/// Calls that may be served without another look: variant (8 bits), the op's epoch (24 bits), how
/// many there were (16 bits) and how many are left (16 bits).
#[derive(Clone, Copy, Default)]
pub(crate) struct Batch(u64);

impl Batch {
    pub(crate) fn new(variant: u8, epoch: u32, calls: u64) -> Self {
        let epoch = u64::from(epoch & 0xFF_FFFF);
        Batch(u64::from(variant) << 56 | epoch << 32 | calls << 16 | calls)
    }

    #[inline]
    pub(crate) fn variant(self) -> u8 {
        (self.0 >> 56) as u8
    }

    #[inline]
    pub(crate) fn is_fresh(self, epoch: u32) -> bool {
        self.0 as u16 > 0 && self.0 >> 32 & 0xFF_FFFF == u64::from(epoch & 0xFF_FFFF)
    }

    pub(crate) fn left(self) -> u64 {
        u64::from(self.0 as u16)
    }

    /// The same with fewer calls left.
    #[inline]
    pub(crate) fn without(self, calls: u64) -> Self {
        Batch(self.0 - calls.min(self.left()))
    }

    /// Calls served from it so far.
    pub(crate) fn used(self) -> i64 {
        i64::from((self.0 >> 16) as u16) - i64::from(self.0 as u16)
    }

    /// The same of this variant.
    pub(crate) fn used_by(self, variant: u8) -> i64 {
        if self.variant() == variant {
            self.used()
        } else {
            0
        }
    }

    fn load(word: &AtomicU64) -> Self {
        Batch(word.load(Relaxed))
    }
}

/// Who serves calls without counting each.
pub(crate) trait Uncounted: Send + Sync {
    /// Calls of a variant that the op's counters do not have yet.
    fn calls(&self, variant: u8) -> i64;

    /// Whether no thread is at it, so that asking does not wait.
    fn is_free(&self) -> bool {
        true
    }

    /// Drops them.
    fn forget(&self);
}

impl Uncounted for AtomicU64 {
    fn calls(&self, variant: u8) -> i64 {
        Batch::load(self).used_by(variant)
    }

    fn forget(&self) {
        self.store(0, Relaxed);
    }
}

impl<O: Op, K: Kind<O>> Clone for Plan<O, K> {
    fn clone(&self) -> Self {
        self.handle.plan(self.workload)
    }
}

impl<O: Op, K: Kind<O>> Drop for Plan<O, K> {
    fn drop(&mut self) {
        self.use_up();
    }
}

impl<O: Op, K: Kind<O>> Plan<O, K> {
    pub(crate) fn new(handle: Handle<O, K>, workload: Workload) -> Self {
        let word = Arc::new(AtomicU64::new(0));
        handle.inner.state.add_uncounted(&word);
        let sum = AtomicU64::new(handle.inner.state.gate.first_sum());
        Plan {
            handle,
            workload,
            word,
            rest: AtomicU64::new(0),
            sum,
        }
    }

    /// Runs the planned variant.
    #[inline]
    pub fn run(&self, mut args: O::Args<'_>) -> K::Out {
        let inner = &*self.handle.inner;
        let batch = Batch::load(&self.word);
        if batch.is_fresh(inner.state.epoch()) {
            self.word.store(batch.0 - 1, Relaxed);
            return inner.serve_now(batch.variant(), &self.workload, &mut args);
        }
        self.look(&mut args)
    }

    #[cold]
    fn look(&self, args: &mut O::Args<'_>) -> K::Out {
        let inner = &*self.handle.inner;
        // Read before all else: news that comes after it ends the batch.
        let epoch = inner.state.epoch();
        let piece = self.use_up();
        let rest = Batch::load(&self.rest);
        if rest.is_fresh(epoch) {
            return self.stop(rest, epoch, args);
        }
        let used = rest.used().unsigned_abs().saturating_sub(piece.left());
        let eligible = inner.eligible(&self.workload, Some(args));
        let key = self.workload.cell_key();
        // Where a condition may answer differently next time, or a GPU be busy, every call looks.
        let most = match inner.moody | inner.on_gpu {
            0 => MAX_BATCH,
            _ => 0,
        };
        let (look, batch) = inner
            .state
            .published_batch(key ^ inner.salt, eligible, most);
        let mut taken = false;
        if let Look::Serve(choice, _) = look {
            taken = self.draw() || (choice.slow && trace::is_on());
        }
        match batch {
            Some((choice, calls)) => {
                let whole = Batch::new(choice.variant, epoch, calls);
                self.begin(whole, epoch, choice.slow);
            }
            None => self.rest.store(0, Relaxed),
        }
        match look {
            Look::Serve(choice, _) if taken => {
                inner.serve_traced(choice, &self.workload, eligible, args)
            }
            Look::Serve(choice, _) => inner.serve(choice.variant, &self.workload, eligible, args),
            Look::Due(choice) => {
                // It stands for the calls since the last look, and for as many more batches as
                // there are looks between two that are due.
                let weight = (used + 1) << (choice.period - choice.period.min(most));
                inner.learn(&self.workload, key, eligible, weight, args).0
            }
            Look::Ask => inner.learn(&self.workload, key, eligible, 1, args).0,
        }
    }

    /// A call within a batch that is to be traced.
    fn stop(&self, rest: Batch, epoch: u32, args: &mut O::Args<'_>) -> K::Out {
        let inner = &*self.handle.inner;
        let variant = rest.variant();
        let drawn = self.draw();
        let eligible = inner.eligible(&self.workload, Some(args));
        let key = self.workload.cell_key() ^ inner.salt;
        // Only a look at what it says: this call's turn to be timed is not now.
        let choice = inner.state.peek(key, eligible);
        let choice = choice.filter(|choice| choice.variant == variant);
        let slow = choice.is_some_and(|choice| choice.slow);
        self.begin(rest.without(1), epoch, slow);
        inner.state.counters.add(variant, 1);
        match choice {
            Some(choice) if drawn || slow => {
                inner.serve_traced(choice, &self.workload, eligible, args)
            }
            _ => inner.serve_now(variant, &self.workload, args),
        }
    }

    /// Begins the next piece of a batch: up to the next call that is traced.
    fn begin(&self, rest: Batch, epoch: u32, slow: bool) {
        let calls = match trace::is_on() {
            false => rest.left(),
            true if slow => 0,
            true => {
                let share = self.handle.inner.state.gate.lots().max(1);
                let open = u64::MAX - self.sum.load(Relaxed);
                rest.left().min(open / share)
            }
        };
        self.rest.store(rest.without(calls).0, Relaxed);
        let piece = Batch::new(rest.variant(), epoch, calls);
        self.word.store(piece.0, Relaxed);
    }

    /// Draws whether a call is traced.
    fn draw(&self) -> bool {
        if !trace::is_on() {
            return false;
        }
        let share = self.handle.inner.state.gate.lots();
        let sum = self.sum.load(Relaxed);
        self.sum.store(sum.wrapping_add(share), Relaxed);
        sum.checked_add(share).is_none()
    }

    /// Counts the calls served from the last piece, and returns what it was.
    fn use_up(&self) -> Batch {
        let inner = &self.handle.inner;
        let piece = Batch(self.word.swap(0, Relaxed));
        inner.state.counters.add(piece.variant(), piece.used());
        if trace::is_on() {
            let shares = inner
                .state
                .gate
                .lots()
                .wrapping_mul(piece.used().unsigned_abs());
            self.sum.fetch_add(shares, Relaxed);
        }
        piece
    }

    /// The workload it was made for.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// Who would serve it, and why.
    pub fn explain(&self) -> Explanation {
        self.handle.explain(self.workload)
    }
}
