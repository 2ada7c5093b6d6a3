//! Calls under way on each GPU: a device does one thing after the other, so the fastest one may be
//! the one that is free last.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::Inner;
use crate::backend::Backend;
use crate::decision::Reason;
use crate::learn::{Pick, bits};
use crate::op::{Kind, Op};
use crate::outcome::{Cost, Rejection};
use crate::workload::Workload;

/// GPUs whose calls are counted.
const MOST: usize = 16;

/// For each GPU, the nanoseconds that the calls under way on it are expected to take.
#[derive(Debug, Default)]
pub(crate) struct Queues([AtomicU64; MOST]);

impl Queues {
    fn of(&self, backend: Backend) -> Option<&AtomicU64> {
        match backend {
            Backend::Gpu(n) => self.0.get(usize::from(n)),
            _ => None,
        }
    }

    fn waiting_ns(&self, backend: Backend) -> f64 {
        self.of(backend).map_or(0.0, |ns| ns.load(Relaxed) as f64)
    }
}

/// A call under way on a GPU, counted until this is dropped.
pub(super) struct Turn<'q> {
    queue: &'q AtomicU64,
    expected_ns: u64,
    waited: bool,
}

impl Turn<'_> {
    /// The cost of the call, if it did not wait for others.
    pub(super) fn alone(&self, cost: Result<Cost, Rejection>) -> Result<Cost, Rejection> {
        let others = self.queue.load(Relaxed) > self.expected_ns;
        if self.waited || others {
            return cost.and(Err(Rejection::Queued));
        }
        cost
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.queue.fetch_sub(self.expected_ns, Relaxed);
    }
}

impl<O: Op, K: Kind<O>> Inner<O, K> {
    /// Who serves instead of a variant on a GPU: the one that is expected to finish first, the calls
    /// before it included. Counts the call.
    #[cold]
    pub(super) fn turn(
        &self,
        id: u8,
        workload: &Workload,
        eligible: u64,
    ) -> (u8, Option<Turn<'_>>) {
        let shared = self.shared();
        let queues = &shared.queues;
        let backend = |id: u8| self.declared.variants[self.place(id)].backend;
        // A policy of the user's has its own view, and of nobody else's queues.
        let asked = match self.is_busy(id) && shared.policy.is_none() {
            true => (eligible & self.checked_here(workload)) | 1 << id,
            false => 1 << id,
        };
        let now_ns = shared.clock.now_ns();
        let (known, _) = self.state.learner().predict(workload, asked, now_ns);
        let expected = |id: u8| {
            let found = known.iter().find(|c| c.variant == id && c.measured);
            found.map(|c| c.prediction.ns())
        };
        let finish = |id: &u8| {
            let ns = expected(*id).unwrap_or(f64::MAX);
            queues.waiting_ns(backend(*id)) + ns
        };
        // The first of equals is the one that was chosen.
        let others = bits(asked & !(1 << id));
        let first = std::iter::once(id)
            .chain(others)
            .min_by(|a, b| finish(a).total_cmp(&finish(b)))
            .unwrap_or(id);
        let turn = queues.of(backend(first)).map(|queue| {
            let expected_ns = expected(first).map_or(1, |ns| ns.clamp(1.0, 1e15) as u64);
            let before = queue.fetch_add(expected_ns, Relaxed);
            Turn {
                queue,
                expected_ns,
                waited: before > 0,
            }
        });
        (first, turn)
    }

    /// Whether calls are under way on the variant's GPU.
    pub(super) fn is_busy(&self, id: u8) -> bool {
        let backend = self.declared.variants[self.place(id)].backend;
        self.shared().queues.waiting_ns(backend) > 0.0
    }

    /// Who serves instead of a published choice, which has been counted.
    #[inline]
    pub(super) fn led(&self, id: u8, workload: &Workload, eligible: u64) -> (u8, Option<Turn<'_>>) {
        if self.on_gpu & 1 << id == 0 {
            return (id, None);
        }
        let (other, turn) = self.turn(id, workload, eligible);
        self.state.counters.add(id, -1);
        self.state.counters.add(other, 1);
        (other, turn)
    }

    /// The same for a pick of the learner. What is to be tried is tried.
    pub(super) fn turn_of(
        &self,
        pick: &mut Pick,
        workload: &Workload,
        eligible: u64,
    ) -> Option<Turn<'_>> {
        if self.on_gpu & 1 << pick.variant == 0 {
            return None;
        }
        let must =
            pick.reason.is_trial() || matches!(pick.reason, Reason::Forced | Reason::Fallback);
        let eligible = if must { 0 } else { eligible };
        let (id, turn) = self.turn(pick.variant, workload, eligible);
        if id != pick.variant {
            pick.variant = id;
            // What is known of it, for those who are told.
            let now_ns = self.shared().clock.now_ns();
            let (known, _) = self.state.learner().predict(workload, 1 << id, now_ns);
            if let Some(known) = known.first() {
                pick.predicted = known.prediction;
            }
        }
        turn
    }

    /// Who is known to give the right results for this workload.
    fn checked_here(&self, workload: &Workload) -> u64 {
        match self.declared.check {
            Some(_) => self.state.checked().agreed(workload) | 1 << self.reference,
            None => u64::MAX,
        }
    }
}
