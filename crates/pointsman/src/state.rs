//! What all handles of one op share: published choices, the learner, counters, quarantine.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak};

use arc_swap::ArcSwap;
use serde::Serialize;

use crate::backend::Backend;
use crate::cell::{Cell, mix, tag};
use crate::check::{Checked, Verdict};
use crate::decision::Reason;
use crate::error::BuildError;
use crate::guard::Quarantine;
use crate::learn::published::{Choice, Published};
use crate::learn::{Known, Learner, Pick, Question, Seen};
use crate::machine::Calibration;
use crate::outcome::{Cost, Rejection};
use crate::plan::Uncounted;
use crate::policy::Policy;
use crate::selector::{Mode, Shared};
use crate::store::{Account, Entry, Fact};
use crate::thread::{self, Counters};
use crate::trace::{Gate, Names, Sampling};
use crate::workload::Workload;

/// Most variants of one op: masks are one word.
pub(crate) const MAX_VARIANTS: usize = 64;

/// Recent decisions kept for people to look at.
const RECENT_DECISIONS: usize = 32;

/// Longest sampling period, as a power of two, while a variant is in quarantine.
const QUARANTINE_PERIOD: u8 = 6;

/// A variant's name and backend, for callers who have no handle.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) name: Box<str>,
    pub(crate) backend: Backend,
}

/// A decision that went through the learner.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RecentDecision {
    /// The workload.
    pub workload: Workload,
    /// The variant that served.
    pub variant: String,
    /// Why it was chosen.
    pub reason: Reason,
    /// Nanoseconds it took, if accepted.
    pub took_ns: Option<u64>,
}

/// The same before its variant has a name.
struct Remembered {
    workload: Workload,
    variant: u8,
    reason: Reason,
    cost: Option<Cost>,
}

/// What all handles of one op share.
pub(crate) struct OpState {
    pub(crate) name: Box<str>,
    pub(crate) published: Published,
    pub(crate) counters: Counters,
    pub(crate) quarantine: Quarantine,
    /// Which calls are traced.
    pub(crate) gate: Gate,
    pub(crate) span_names: Names,
    /// Grows when plans must ask again.
    epoch: AtomicU32,
    /// Names in order of their number: grows, never shrinks.
    names: ArcSwap<Vec<Named>>,
    learner: Mutex<Learner>,
    checked: Mutex<Checked>,
    recent: Mutex<VecDeque<Remembered>>,
    /// Live plans, and whoever else counts calls for itself.
    uncounted: Mutex<Vec<Weak<dyn Uncounted>>>,
    seed: u64,
}

/// A call that the learner is asked about.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) key: u64,
    pub(crate) eligible: u64,
    /// Who serves if a policy has no answer.
    pub(crate) reference: Option<u8>,
    /// Bytes of memory that variants need for it, where they said so.
    pub(crate) needs: &'a [(u8, u64)],
    /// Whether trials are allowed.
    pub(crate) explore: bool,
}

/// A timed call, from its pick to its outcome.
#[derive(Clone, Copy)]
pub(crate) struct Timed<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) key: u64,
    pub(crate) pick: Pick,
    pub(crate) weight: u64,
    pub(crate) nested: bool,
}

impl OpState {
    pub(crate) fn new(
        name: &str,
        seed: u64,
        budget: f64,
        (tick_ns, now_ns): (u64, u64),
        policy: Option<Arc<dyn Policy>>,
        sampling: &Sampling,
    ) -> Self {
        let seed = name.bytes().fold(seed, |s, b| mix(s, u64::from(b)));
        OpState {
            name: name.into(),
            published: Published::new(),
            counters: Counters::new(),
            quarantine: Quarantine::default(),
            gate: Gate::new(sampling, seed, now_ns),
            span_names: Names::new(name),
            epoch: AtomicU32::new(1),
            names: ArcSwap::default(),
            learner: Mutex::new(Learner::new(seed, budget, tick_ns as f64, policy)),
            checked: Mutex::default(),
            recent: Mutex::default(),
            uncounted: Mutex::default(),
            seed,
        }
    }

    /// The learner. A panic cannot poison it: the only foreign code that runs under its lock is a
    /// policy's, guarded.
    pub(crate) fn learner(&self) -> MutexGuard<'_, Learner> {
        self.learner.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// What a variant has cost in a cell, unless it would have to wait for the learner.
    pub(crate) fn level_ns(&self, key: u64, variant: u8) -> Option<f64> {
        self.learner.try_lock().ok()?.level_ns(key, variant)
    }

    /// Whether the op is called so often that it is not traced.
    pub(crate) fn is_hot(&self, now_ns: u64) -> bool {
        self.gate.is_hot(now_ns, || self.counters.total())
    }

    pub(crate) fn checked(&self) -> MutexGuard<'_, Checked> {
        self.checked.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(crate) fn names(&self) -> arc_swap::Guard<Arc<Vec<Named>>> {
        self.names.load()
    }

    pub(crate) fn name_of(&self, variant: u8) -> String {
        self.names()
            .get(usize::from(variant))
            .map_or_else(String::new, |n| n.name.to_string())
    }

    #[inline]
    pub(crate) fn epoch(&self) -> u32 {
        // Who sees a new epoch sees what it is about.
        self.epoch.load(Acquire)
    }

    /// Takes back every published choice, also from plans.
    pub(crate) fn unpublish(&self) {
        self.published.clear();
        self.epoch.fetch_add(1, Release);
    }

    /// The number of a variant, given on first use; `None` if there is no room for another. A
    /// caller without a revision takes whichever there is.
    pub(crate) fn register(
        &self,
        name: &str,
        revision: Option<u32>,
        backend: Backend,
        calibration: &Calibration,
    ) -> Option<u8> {
        let mut learner = self.learner();
        let names = self.names.load_full();
        if let Some(at) = names.iter().position(|n| *n.name == *name) {
            let known = learner.variants()[at].revision;
            if let Some(revision) = revision.filter(|r| *r != known) {
                learner.change_revision(at as u8, revision);
                self.checked().forget(at as u8);
                self.quarantine.forget(at as u8);
                drop(learner);
                self.unpublish();
            }
            return Some(at as u8);
        }
        if names.len() >= MAX_VARIANTS {
            return None;
        }
        learner.add_variant(Known {
            name: name.into(),
            revision: revision.unwrap_or(0),
            backend,
            // Nothing measured: as the plainest backend, and the learner corrects it.
            cost: calibration
                .backend(backend)
                .or_else(|| calibration.backend(Backend::Scalar)),
        });
        let at = names.len() as u8;
        let mut names = names.as_ref().clone();
        names.push(Named {
            name: name.into(),
            backend,
        });
        self.names.store(Arc::new(names));
        drop(learner);
        self.unpublish();
        Some(at)
    }

    /// Registers the variants of a list, by name, revision and backend: the number of each, and the place
    /// of each number.
    pub(crate) fn register_all<'n>(
        &self,
        variants: impl Iterator<Item = (&'n str, u32, Backend)>,
        calibration: &Calibration,
    ) -> Result<(Vec<u8>, [u8; MAX_VARIANTS]), BuildError> {
        let (mut ids, mut places) = (Vec::new(), [0; MAX_VARIANTS]);
        for (place, (name, revision, backend)) in variants.enumerate() {
            let id = self.register(name, Some(revision), backend, calibration);
            let id = id.ok_or(BuildError::TooMany {
                what: "variants of one op under different names",
                found: MAX_VARIANTS + 1,
                most: MAX_VARIANTS,
            })?;
            ids.push(id);
            places[usize::from(id)] = place as u8;
        }
        Ok((ids, places))
    }

    /// Takes over what the store knows of this op.
    pub(crate) fn learn_from(&self, entries: &[Entry], machine: u64, now_unix: u64) {
        let mut learner = self.learner();
        learner.learn_from(entries.iter().map(|e| (e, e.machine == machine)), now_unix);
        let mut checked = self.checked();
        for entry in entries.iter().filter(|e| e.machine == machine) {
            let known = |v: &Known| v.name == entry.variant && v.revision == entry.revision;
            let Some(variant) = learner.variants().iter().position(known) else {
                continue;
            };
            match entry.fact {
                Fact::Agreed => checked.load(variant as u8, &entry.cell),
                Fact::Disagreed => self.quarantine.wrong(
                    variant as u8,
                    "gave another result than the reference in an earlier run".to_owned(),
                ),
                Fact::Costs(_) | Fact::Account(_) => {}
            }
        }
        drop((learner, checked));
        self.unpublish();
    }

    /// The published choice for a cell and a set of eligible variants, if this call need not be
    /// timed. Counts the call.
    #[inline]
    pub(crate) fn published(&self, key: u64, eligible: u64) -> Look {
        match self.published.get(tag(key, eligible)) {
            Some(choice) => self.look(choice, choice.period),
            None => Look::Ask,
        }
    }

    /// The same for a plan, which looks once for a batch of up to `2^most` calls: how many more
    /// calls it may serve from which variant. One call in `2^period` is timed all the same.
    pub(crate) fn published_batch(
        &self,
        key: u64,
        eligible: u64,
        most: u8,
    ) -> (Look, Option<(Choice, u64)>) {
        match self.published.get(tag(key, eligible)) {
            Some(choice) => {
                let batch = choice.period.min(most);
                let rest = (choice, (1 << batch) - 1);
                (self.look(choice, choice.period - batch), Some(rest))
            }
            None => (Look::Ask, None),
        }
    }

    /// The published choice, without counting a call.
    pub(crate) fn peek(&self, key: u64, eligible: u64) -> Option<Choice> {
        self.published.get(tag(key, eligible))
    }

    /// Counts a look; one in `2^period` is due.
    #[inline]
    fn look(&self, choice: Choice, period: u8) -> Look {
        let n = self.counters.count(choice.variant).wrapping_add(self.seed);
        if thread::is_due(n, period) {
            self.counters.add(choice.variant, -1); // counted when it has served
            Look::Due(choice)
        } else {
            Look::Serve(choice, n)
        }
    }

    /// Counts what this one serves with the op's calls, as long as it lives.
    pub(crate) fn add_uncounted<U: Uncounted + 'static>(&self, serves: &Arc<U>) {
        let mut uncounted = self.uncounted.lock().unwrap_or_else(|e| e.into_inner());
        uncounted.retain(|other| other.strong_count() > 0);
        let serves: Weak<U> = Arc::downgrade(serves);
        uncounted.push(serves);
    }

    fn live_uncounted(&self) -> impl Iterator<Item = Arc<dyn Uncounted>> {
        let uncounted = self.uncounted.lock().unwrap_or_else(|e| e.into_inner());
        let live: Vec<_> = uncounted.iter().filter_map(Weak::upgrade).collect();
        live.into_iter()
    }

    /// Calls that each variant has served, also those that have not been reported yet.
    pub(crate) fn calls(&self, variant: u8) -> u64 {
        let live = self.live_uncounted();
        let unreported: i64 = live.map(|serves| serves.calls(variant)).sum();
        self.counters.calls(variant, unreported)
    }

    /// Ends quarantines whose time is over; true if any was.
    pub(crate) fn release(&self, now_ns: u64) -> bool {
        let released = self.quarantine.release(now_ns);
        if released {
            self.unpublish();
        }
        released
    }

    /// Asks the learner.
    pub(crate) fn decide(&self, shared: &Shared, ask: &Ask<'_>) -> Pick {
        let question = Question {
            workload: ask.workload,
            key: ask.key,
            eligible: ask.eligible,
            reference: ask.reference,
            needs: ask.needs,
            now_ns: shared.clock.now_ns(),
            explore: ask.explore && shared.mode == Mode::Learn,
            frozen: shared.mode != Mode::Learn,
        };
        let (mut pick, trouble) = {
            let mut learner = self.learner();
            (learner.decide(&question), learner.take_trouble())
        };
        self.warn_of(trouble);
        if shared.mode == Mode::Frozen && pick.reason != Reason::OnlyEligible {
            pick.reason = Reason::Frozen;
        }
        pick
    }

    fn warn_of(&self, trouble: Option<(String, String)>) {
        if let Some((policy, error)) = trouble {
            tracing::warn!(op = %self.name, policy, error, "the policy panicked; the reference serves where it does");
        }
    }

    /// Publishes a pick for the calls that follow; under the learner's lock, because the
    /// published choices have one writer at a time.
    pub(crate) fn publish(&self, key: u64, eligible: u64, pick: &Pick) {
        let _one_writer = self.learner();
        let tag = tag(key, eligible);
        // While somebody is in quarantine, calls look often enough to see it end.
        let most = if self.quarantine.will_end() {
            QUARANTINE_PERIOD
        } else {
            u8::MAX
        };
        match pick.publish.map(|period| period.min(most)) {
            Some(period) => {
                let mut choice = Choice::new(pick.variant, period, pick.confidence);
                choice.slow = self.gate.is_slow(pick.predicted.ns());
                choice.has_history = pick.predicted.samples() > 0;
                self.published.put(tag, choice);
            }
            None => self.published.remove(tag),
        }
    }

    /// Tells the learner how a timed call went.
    pub(crate) fn observe(
        &self,
        shared: &Shared,
        timed: &Timed<'_>,
        cost: Result<Cost, Rejection>,
    ) {
        self.quarantine.served(timed.pick.variant);
        if shared.mode != Mode::Learn {
            return;
        }
        let seen = timed.seen(cost, shared.clock.now_ns());
        let (drifts, trouble) = {
            let mut learner = self.learner();
            let before = learner.tally.drifts;
            learner.observe(&seen);
            (learner.tally.drifts - before, learner.take_trouble())
        };
        self.warn_of(trouble);
        if drifts > 0 {
            self.unpublish();
        }
        self.remember(timed, cost.ok());
        shared.touched();
    }

    /// Tells everybody that a variant failed.
    pub(crate) fn failed(
        &self,
        shared: &Shared,
        timed: &Timed<'_>,
        panicked: bool,
        why: String,
        wasted_ns: f64,
    ) {
        let now_ns = shared.clock.now_ns();
        let variant = timed.pick.variant;
        let caught = self
            .quarantine
            .failed(variant, panicked, why.clone(), now_ns);
        if caught {
            tracing::warn!(op = %self.name, variant = self.name_of(variant), error = why, "variant quarantined");
        }
        self.note_failed(shared, timed, wasted_ns, now_ns);
        // The cell asks again: success must be seen to count, and others must take over.
        self.unpublish();
    }

    /// Tells everybody that a variant had no memory for a call of this size.
    pub(crate) fn ran_out(&self, shared: &Shared, timed: &Timed<'_>, why: String, wasted_ns: f64) {
        let now_ns = shared.clock.now_ns();
        let (variant, size) = (timed.pick.variant, timed.workload.size());
        tracing::warn!(op = %self.name, variant = self.name_of(variant), size, error = why, "variant ran out of memory");
        self.quarantine.ran_out(variant, size, why, now_ns);
        self.note_failed(shared, timed, wasted_ns, now_ns);
        self.unpublish();
    }

    /// Notes that the reference failed: never quarantined, because nobody is behind it.
    pub(crate) fn reference_failed(&self, shared: &Shared, timed: &Timed<'_>) {
        self.note_failed(shared, timed, 0.0, shared.clock.now_ns());
    }

    /// Counts a failure, in every mode, and learns from it where that is allowed.
    fn note_failed(&self, shared: &Shared, timed: &Timed<'_>, wasted_ns: f64, now_ns: u64) {
        let mut learner = self.learner();
        learner.tally.of_mut(timed.pick.variant).failures += 1;
        if shared.mode == Mode::Learn {
            learner.failed(&timed.seen(Err(Rejection::Zero), now_ns), wasted_ns);
            drop(learner);
            shared.touched();
        }
    }

    /// Notes what a check has found.
    pub(crate) fn judged(
        &self,
        shared: &Shared,
        workload: &Workload,
        (variant, revision): (u8, u32),
        verdict: &Verdict,
        spent_ns: u64,
    ) {
        let name = self.name_of(variant);
        // Held to the end: the verdict is about this revision and no other.
        let learner = self.learner();
        if learner.variants()[usize::from(variant)].revision != revision {
            return; // other code has taken its place meanwhile
        }
        match verdict {
            Verdict::Agrees => {}
            Verdict::Disagrees(why) => {
                self.quarantine.wrong(variant, why.clone());
                tracing::warn!(op = %self.name, variant = name, why, "variant quarantined: wrong result");
            }
            Verdict::CannotTell(why) => {
                tracing::warn!(op = %self.name, variant = name, why, "variant could not be checked");
            }
        }
        {
            let mut checked = self.checked();
            checked.checks += 1;
            checked.spent_ns += spent_ns;
            checked.note(workload, variant, revision, verdict, shared.clock.now_ns());
        }
        drop(learner);
        self.unpublish();
        shared.touched();
    }

    fn remember(&self, timed: &Timed<'_>, cost: Option<Cost>) {
        let mut recent = self.recent.lock().unwrap_or_else(|e| e.into_inner());
        if recent.len() == RECENT_DECISIONS {
            recent.pop_front();
        }
        recent.push_back(Remembered {
            workload: *timed.workload,
            variant: timed.pick.variant,
            reason: timed.pick.reason,
            cost,
        });
    }

    pub(crate) fn recent(&self) -> Vec<RecentDecision> {
        let recent = self.recent.lock().unwrap_or_else(|e| e.into_inner());
        recent
            .iter()
            .map(|r| RecentDecision {
                workload: r.workload,
                variant: self.name_of(r.variant),
                reason: r.reason,
                took_ns: r.cost.map(Cost::ns),
            })
            .collect()
    }

    /// What the store does not have yet; accounts only of an op that learns.
    pub(crate) fn take_unsaved(&self, machine: u64, now_unix: u64, learns: bool) -> Vec<Entry> {
        let mut learner = self.learner();
        let costs = learner.take_unsaved();
        let accounts = match learns {
            true => self.take_unsaved_accounts(&mut learner),
            false => Vec::new(),
        };
        let entry = |variant: u8, revision: u32, cell: Cell, fact: Fact| Entry {
            machine,
            op: self.name.clone(),
            variant: learner.variants()[usize::from(variant)].name.clone(),
            revision,
            cell,
            updated: now_unix,
            fact,
        };
        let revision = |variant: u8| learner.variants()[usize::from(variant)].revision;
        let verdicts = self.checked().take_unsaved().into_iter();
        let costs = costs.into_iter();
        costs
            .map(|(variant, cell, costs)| {
                entry(variant, revision(variant), cell, Fact::Costs(costs))
            })
            .chain(verdicts.map(|f| entry(f.variant, f.revision, f.block, f.fact)))
            .chain(accounts.into_iter().map(|(id, account)| {
                let fact = Fact::Account(Box::new(account));
                entry(id, revision(id), Cell::whole(), fact)
            }))
            .collect()
    }

    fn take_unsaved_accounts(&self, learner: &mut Learner) -> Vec<(u8, Account)> {
        let known = learner.variants().len() as u8;
        let unsaved = (0..known).filter_map(|id| {
            let (calls, times) = (self.calls(id), self.quarantine.times(id));
            Some((id, learner.tally.take_unsaved(id, calls, times)?))
        });
        unsaved.collect()
    }

    /// In a forked child, what was not saved yet is the parent's to save.
    pub(crate) fn forked(&self) {
        // There is no other thread any more: a lock that is free now stays free.
        if let (Ok(mut learner), Ok(mut checked)) =
            (self.learner.try_lock(), self.checked.try_lock())
        {
            drop((learner.take_unsaved(), checked.take_unsaved()));
            let is_free = !matches!(self.uncounted.try_lock(), Err(TryLockError::WouldBlock));
            let are_free = is_free && self.live_uncounted().all(|serves| serves.is_free());
            if are_free && self.quarantine.is_free() {
                drop(self.take_unsaved_accounts(&mut learner));
            }
        }
    }

    /// Forgets what was learned, also what was not saved yet.
    pub(crate) fn forget(&self) {
        self.reset();
        drop(self.checked().take_unsaved());
    }

    /// Forgets what was learned; results that were wrong stay known.
    pub(crate) fn reset(&self) {
        self.learner().reset();
        self.quarantine.reset();
        self.live_uncounted().for_each(|serves| serves.forget());
        self.counters.clear();
        self.checked().reset_counts();
        self.recent
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .clear();
        self.unpublish();
    }
}

/// What a look at the published choices says.
#[derive(Clone, Copy)]
pub(crate) enum Look {
    /// Serve from this one; do not time it. With the number of the look.
    Serve(Choice, u64),
    /// It is this call's turn to be timed; it stands for `2^period` calls.
    Due(Choice),
    /// Nothing is published.
    Ask,
}

impl<'a> Timed<'a> {
    fn seen(&self, cost: Result<Cost, Rejection>, now_ns: u64) -> Seen<'a> {
        Seen {
            workload: self.workload,
            key: self.key,
            variant: self.pick.variant,
            cost,
            reason: self.pick.reason,
            confidence: self.pick.confidence,
            best_ns: self.pick.best_ns,
            reserved_ns: self.pick.reserved_ns,
            weight: self.weight,
            nested: self.nested,
            now_ns,
        }
    }
}
