//! Hot loops: a choice for one workload, kept in one word.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::decision::Explanation;
use crate::op::{Kind, Op, Sure};
use crate::run::Handle;
use crate::state::Look;
use crate::workload::Workload;

/// Most calls between two looks at what is published, as a power of two: quarantine and other news
/// are seen at once, a better choice within 256 calls.
const MAX_BATCH: u8 = 8;

/// A choice for one workload, for hot loops: see [`Handle::plan`].
///
/// It looks again once in a while, and when something about the op has changed.
pub struct Plan<O: Op, K: Kind<O> = Sure> {
    handle: Handle<O, K>,
    workload: Workload,
    /// See [`Batch`]. Shared with the op's statistics, which count what has been used of it.
    word: Arc<AtomicU64>,
}

/// Calls that may be served without another look: variant (8 bits), the op's epoch (24 bits), how
/// many there were (16 bits) and how many are left (16 bits).
#[derive(Clone, Copy)]
pub(crate) struct Batch(u64);

impl Batch {
    fn new(variant: u8, epoch: u32, calls: u64) -> Self {
        let epoch = u64::from(epoch & 0xFF_FFFF);
        Batch(u64::from(variant) << 56 | epoch << 32 | calls << 16 | calls)
    }

    #[inline]
    pub(crate) fn variant(self) -> u8 {
        (self.0 >> 56) as u8
    }

    #[inline]
    fn is_fresh(self, epoch: u32) -> bool {
        self.0 as u16 > 0 && self.0 >> 32 & 0xFF_FFFF == u64::from(epoch & 0xFF_FFFF)
    }

    /// Calls served from it so far.
    pub(crate) fn used(self) -> i64 {
        i64::from((self.0 >> 16) as u16) - i64::from(self.0 as u16)
    }

    pub(crate) fn load(word: &AtomicU64) -> Self {
        Batch(word.load(Relaxed))
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
        let word = handle.inner.state.plan_word();
        Plan {
            handle,
            workload,
            word,
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
        let used = self.use_up();
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
        if let Some((variant, calls)) = batch {
            self.word
                .store(Batch::new(variant, epoch, calls).0, Relaxed);
        }
        match look {
            Look::Serve(choice) => inner.serve(choice.variant, &self.workload, eligible, args),
            Look::Due(choice) => {
                // It stands for the calls since the last look, and for as many more batches as
                // there are looks between two that are due.
                let weight = (used + 1) << (choice.period - choice.period.min(most));
                inner.learn(&self.workload, key, eligible, weight, args).0
            }
            Look::Ask => inner.learn(&self.workload, key, eligible, 1, args).0,
        }
    }

    /// Counts the calls served since the last look; how many they were.
    fn use_up(&self) -> u64 {
        let batch = Batch(self.word.swap(0, Relaxed));
        let counters = &self.handle.inner.state.counters;
        counters.add(batch.variant(), batch.used());
        batch.used().unsigned_abs()
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
