//! Calls like the last ones, served without a look at what the op's state says of them.
//!
//! Other code runs between two calls of a program and fills the caches, and then what a choice takes
//! is how much memory it touches. A call like one that was chosen for lately touches one set of these.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use super::{Chosen, Prepared};
use crate::learn::published::Choice;
use crate::plan::{Batch, MAX_BATCH, Uncounted};
use crate::state::{Look, OpState};
use crate::trace;
use crate::workload::Workload;

/// Sets of slots, and slots in which one kind of call may lie: 4 KiB in all, and a cache line each.
const SETS: usize = 64;
const WAYS: usize = 4;

/// Calls of one kind that may be served without another look.
#[derive(Clone, Copy, Default)]
struct Turn {
    like: u64,
    batch: Batch,
}

#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Set([Turn; WAYS]);

/// Those of the calls that came lately.
pub(super) struct Lately {
    sets: Mutex<[Set; SETS]>,
}

impl Lately {
    /// Whose calls count as the op's.
    pub(super) fn of(state: &OpState) -> Arc<Self> {
        let lately = Arc::new(Lately {
            sets: Mutex::new([Set::default(); SETS]),
        });
        state.add_uncounted(&lately);
        lately
    }

    fn sets(&self) -> MutexGuard<'_, [Set; SETS]> {
        self.sets.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The same for calls, which do not wait: where another thread is at it, they are looked at like any other.
    #[inline]
    fn free_sets(&self) -> Option<MutexGuard<'_, [Set; SETS]>> {
        match self.sets.try_lock() {
            Ok(sets) => Some(sets),
            Err(TryLockError::Poisoned(sets)) => Some(sets.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The variant of the next call of a kind, if it may be served.
    #[inline]
    fn take(&self, like: u64, epoch: u32) -> Option<u8> {
        let mut sets = self.free_sets()?;
        let Set(set) = &mut sets[like as usize % SETS];
        let turn = set.iter_mut().find(|turn| turn.like == like)?;
        if !turn.batch.is_fresh(epoch) {
            return None;
        }
        turn.batch = turn.batch.without(1);
        Some(turn.batch.variant())
    }

    /// Calls that were served since the last look at a kind, if all that might be were.
    fn used_up(&self, like: u64) -> Option<u64> {
        let sets = self.free_sets()?;
        let Set(set) = &sets[like as usize % SETS];
        let batch = set.iter().find(|turn| turn.like == like)?.batch;
        let used = u64::try_from(batch.used()).ok()?;
        (batch.left() == 0 && used > 0).then_some(used)
    }

    /// Puts a batch in place of an older one of the same kind, of one that is used up, or, unless it is empty,
    /// of any other. What was there before.
    fn put(&self, like: u64, batch: Batch) -> Batch {
        let Some(mut sets) = self.free_sets() else {
            return Batch::default();
        };
        let Set(set) = &mut sets[like as usize % SETS];
        let any = || (batch.left() > 0).then_some((like >> 32) as usize % WAYS);
        let at = (set.iter().position(|turn| turn.like == like))
            .or_else(|| set.iter().position(|turn| turn.batch.left() == 0))
            .or_else(any);
        match at {
            Some(at) => std::mem::replace(&mut set[at], Turn { like, batch }).batch,
            None => Batch::default(),
        }
    }

    /// All of them; there are none any more.
    fn take_all(&self) -> [Set; SETS] {
        std::mem::replace(&mut *self.sets(), [Set::default(); SETS])
    }
}

impl Uncounted for Lately {
    fn calls(&self, variant: u8) -> i64 {
        let sets = self.sets();
        let turns = sets.iter().flat_map(|set| &set.0);
        turns.map(|turn| turn.batch.used_by(variant)).sum()
    }

    fn is_free(&self) -> bool {
        self.free_sets().is_some()
    }

    fn forget(&self) {
        self.take_all();
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // Taken first: whoever counts calls meanwhile must not find them in both places.
        for turn in self.lately.take_all().iter().flat_map(|set| &set.0) {
            let batch = turn.batch;
            self.state.counters.add(batch.variant(), batch.used());
        }
    }
}

impl Prepared {
    /// Who serves a call like one that [`choose_like`](Self::choose_like) was asked about lately; `None` if
    /// it must be asked again. The call counts; it is not one to learn from.
    #[inline]
    pub fn again(&self, like: u64) -> Option<usize> {
        let id = self.lately.take(like, self.state.epoch())?;
        Some(self.place(id))
    }

    /// As [`choose`](Self::choose), and [`again`](Self::again) may give the same answer to some of the
    /// calls that follow with the same `like`: a hash of everything that the workload and who is eligible
    /// depend on. Only those of the mask `steady` serve so; quarantine and other news end it at once, and a
    /// better choice is seen within 256 calls with that hash.
    pub fn choose_like(
        &self,
        like: u64,
        workload: &Workload,
        eligible: u64,
        steady: u64,
    ) -> Option<Chosen> {
        // Read before all else: news that comes after it ends the batch.
        let epoch = self.state.epoch();
        let key = workload.cell_key();
        let mask = self.eligible(workload, eligible)?;
        // Each call draws whether it is traced.
        let most = if trace::is_on() { 0 } else { MAX_BATCH };
        // A look after a batch stands for all of it; any other is a call like those of `choose`.
        let used = self.lately.used_up(like);
        let before = used.map_or(0, |_| most);
        let (look, choice) = match self.state.published_batch(key ^ self.salt, mask, before) {
            (look @ Look::Serve(..), batch) => (look, batch.map(|(choice, _)| choice)),
            (look, _) => (look, None),
        };
        let weight = |choice: Choice| {
            let looks = choice.period - choice.period.min(before);
            (used.unwrap_or(0) + 1) << looks
        };
        let chosen = self.after(look, workload, (key, eligible), weight)?;
        // Where it was asked, the answer may be another one now.
        let choice = choice.or_else(|| self.state.peek(key ^ self.salt, mask));
        let choice = choice.filter(|choice| steady & 1 << self.place(choice.variant) != 0);
        let batch = |choice: Choice| {
            let calls = (1 << choice.period.min(most)) - 1;
            Batch::new(choice.variant, epoch, calls)
        };
        let old = self
            .lately
            .put(like, choice.map_or(Batch::default(), batch));
        self.state.counters.add(old.variant(), old.used());
        Some(chosen)
    }

    /// The choice of a call that [`again`](Self::again) served, which said this index: for reporting how it went.
    ///
    /// # Panics
    ///
    /// If there is no such candidate.
    #[cold]
    pub fn chosen_again(&self, index: usize, workload: &Workload) -> Chosen {
        assert!(index < self.ids.len(), "no candidate has the index {index}");
        self.untimed(index as u8, workload, 0.0)
    }
}
