//! The selector and its builder: what all ops of a program share.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::BuildHasherDefault;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use serde::Serialize;

use crate::backend::Backend;
use crate::builder::{SelectorBuilder, Settings};
use crate::cell::KeyHasher;
use crate::check::Checks;
use crate::clock::{Clock, clock_cost_ns, clock_tick_ns};
use crate::decision::Reason;
use crate::env::Env;
use crate::error::BuildError;
use crate::machine::{Calibration, Machine};
use crate::memory::Headroom;
use crate::op::{Function, Op, OpBuilder, valid_name};
use crate::policy::Policy;
use crate::run::Queues;
use crate::save::{Checker, FlushError, Saver};
use crate::state::OpState;
use crate::stats::{OpStats, op_stats};
use crate::store::{self, Entry, Knowledge, StoreError};
use crate::trace::Sampling;
use crate::workload::Workload;

/// Most ops of one selector: each takes some 20 KiB and what it learns.
pub(crate) const MAX_OPS: usize = 1024;

/// How long dropping the last handle may take to save.
const LAST_SAVE: Duration = Duration::from_secs(1);

/// Whether a selector learns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Mode {
    /// Learns from the calls and tries variants within the budget.
    #[default]
    Learn,
    /// Uses what was known at the start and changes nothing: the same store gives the same
    /// decisions every time, as long as no variant fails. Nothing is checked: of an op with checks,
    /// a variant serves only where this machine's store knows that it agrees with the reference.
    Frozen,
    /// Serves every call from the reference.
    Reference,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Mode::Learn => "learn",
            Mode::Frozen => "frozen",
            Mode::Reference => "reference",
        })
    }
}

impl FromStr for Mode {
    type Err = BuildError;

    fn from_str(text: &str) -> Result<Self, BuildError> {
        match text {
            "learn" => Ok(Mode::Learn),
            "frozen" => Ok(Mode::Frozen),
            "reference" => Ok(Mode::Reference),
            _ => Err(BuildError::Setting {
                name: "mode",
                value: text.to_owned(),
                valid: "learn, frozen or reference",
            }),
        }
    }
}

/// Owns what the ops of a program share: store, machine, mode, budget. Cheap to clone.
///
/// One per program is enough; knowledge is shared through its store with later runs and with other
/// processes. Dropping the last clone, those in handles included, saves; a selector in a `static` is
/// never dropped, so call [`flush`](Self::flush) before the program ends.
#[derive(Clone)]
pub struct Selector {
    shared: Arc<Shared>,
}

impl fmt::Debug for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Selector")
            .field("mode", &self.shared.mode)
            .field("store", &self.shared.store_name)
            .finish_non_exhaustive()
    }
}

/// A [`Selector`] for as long as somebody else has it: see [`Selector::downgrade`].
#[derive(Clone)]
pub struct WeakSelector(std::sync::Weak<Shared>);

impl WeakSelector {
    /// The selector, if it is still there.
    pub fn upgrade(&self) -> Option<Selector> {
        Some(Selector {
            shared: self.0.upgrade()?,
        })
    }
}

impl fmt::Debug for WeakSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakSelector").finish_non_exhaustive()
    }
}

/// The ops of a selector by name and by number.
#[derive(Clone, Default)]
struct Ops {
    by_name: HashMap<Arc<str>, u32, BuildHasherDefault<KeyHasher>>,
    list: Vec<Arc<OpState>>,
}

/// What is behind every clone of a selector.
pub(crate) struct Shared {
    pub(crate) id: u64,
    pub(crate) mode: Mode,
    pub(crate) env: Env,
    pub(crate) machine: Machine,
    pub(crate) calibration: Calibration,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) clock_cost_ns: u64,
    clock_tick_ns: u64,
    pub(crate) headroom: Headroom,
    pub(crate) queues: Queues,
    pub(crate) checks: Checks,
    pub(crate) checker: Checker,
    pub(crate) seed: u64,
    /// Who chooses, if not `adaptive`.
    pub(crate) policy: Option<Arc<dyn Policy>>,
    pub(crate) policy_name: String,
    /// A bad environment that `Selector::new` could not report; every op's build does.
    bad_env: Option<BuildError>,
    budget: f64,
    sampling: Sampling,
    fingerprint: u64,
    ops: ArcSwap<Ops>,
    adding: Mutex<()>,
    /// What the store knew at the start, by op.
    known: Mutex<HashMap<Box<str>, Vec<Entry>>>,
    store_name: String,
    saver: Saver,
    /// What the saver's thread holds on to.
    me: std::sync::Weak<Shared>,
}

impl Default for Selector {
    fn default() -> Self {
        Self::new()
    }
}

impl Selector {
    /// A selector that learns and keeps what it learns in the user's cache directory.
    ///
    /// It never fails: without a usable store it learns in memory, with one warning; a bad
    /// environment variable is reported when an op is built.
    pub fn new() -> Self {
        Self::builder().build_anyway()
    }

    /// Settings of a selector.
    pub fn builder() -> SelectorBuilder {
        SelectorBuilder::default()
    }

    /// Puts a selector together.
    pub(crate) fn assemble(settings: Settings) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let shared = Arc::new_cyclic(|me| Shared {
            id: NEXT.fetch_add(1, Relaxed),
            mode: settings.mode,
            env: settings.env,
            clock_cost_ns: clock_cost_ns(settings.clock.as_ref()),
            clock_tick_ns: clock_tick_ns(settings.clock.as_ref()),
            clock: settings.clock,
            headroom: settings.headroom,
            queues: Queues::default(),
            checks: settings.checks,
            checker: Checker::default(),
            seed: settings.seed,
            policy: settings.policy,
            policy_name: settings.policy_name,
            bad_env: settings.bad_env,
            budget: settings.budget,
            sampling: settings.sampling,
            fingerprint: settings.fingerprint,
            machine: settings.machine,
            calibration: settings.calibration,
            ops: ArcSwap::default(),
            adding: Mutex::default(),
            known: Mutex::default(),
            store_name: settings.store.describe(),
            saver: Saver::new(settings.store, settings.interval),
            me: me.clone(),
        });
        if settings.keep_calibration {
            shared.saver.add(Knowledge {
                entries: Vec::new(),
                machines: vec![shared.machine.record(&shared.calibration)],
            });
        }
        shared.learn_of(settings.knowledge.entries);
        crate::fork::register(Arc::downgrade(&shared));
        Selector { shared }
    }

    /// Declares an op: see [`Op`].
    pub fn op<O: Op>(&self, op: O) -> OpBuilder<O> {
        OpBuilder::new(self.clone(), op)
    }

    /// Declares an op on one shared argument, without a type for it.
    ///
    /// ```
    /// use pointsman::{Backend, Selector, Workload};
    ///
    /// # let selector = Selector::builder().in_memory().build()?;
    /// let sum = selector
    ///     .function("sum", |x: &[f64]| Workload::new([x.len()]))
    ///     .reference("plain", Backend::Scalar, |x| x.iter().sum::<f64>())
    ///     .variant("pairs", Backend::Simd, |x| {
    ///         let (even, odd) = x.chunks(2).fold((0.0, 0.0), |(e, o), pair| {
    ///             (e + pair[0], o + pair.get(1).unwrap_or(&0.0))
    ///         });
    ///         even + odd
    ///     })
    ///     .build()?;
    /// assert_eq!(sum.run(&[1.0, 2.0, 3.0]), 6.0);
    /// # Ok::<(), pointsman::BuildError>(())
    /// ```
    pub fn function<A, R>(
        &self,
        name: &str,
        workload: impl Fn(&A) -> Workload + Send + Sync + 'static,
    ) -> OpBuilder<Function<A, R>>
    where
        A: ?Sized + 'static,
        R: 'static,
    {
        self.op(Function::new(name, workload))
    }

    /// Statistics of every op.
    pub fn stats(&self) -> Vec<OpStats> {
        self.shared
            .ops
            .load()
            .list
            .iter()
            .map(|state| op_stats(&self.shared, state))
            .collect()
    }

    /// A reference that does not keep it alive, for those who watch it.
    ///
    /// ```
    /// # let selector = pointsman::Selector::builder().in_memory().build()?;
    /// let watched = selector.downgrade();
    /// assert!(watched.upgrade().is_some());
    /// drop(selector); // saves, as if nobody watched
    /// assert!(watched.upgrade().is_none());
    /// # Ok::<(), pointsman::BuildError>(())
    /// ```
    pub fn downgrade(&self) -> WeakSelector {
        WeakSelector(self.shared.me.clone())
    }

    /// Mode it runs in.
    pub fn mode(&self) -> Mode {
        self.shared.mode
    }

    /// Name of the policy that chooses.
    pub fn policy(&self) -> &str {
        &self.shared.policy_name
    }

    /// The machine it runs on.
    pub fn machine(&self) -> &Machine {
        &self.shared.machine
    }

    /// Constants of the cost model, measured on this machine.
    pub fn calibration(&self) -> &Calibration {
        &self.shared.calibration
    }

    /// Bytes that a call may need on this backend now: what is free, less the
    /// [reserve](SelectorBuilder::memory_reserve), read at most once a minute. `None` if nobody knows,
    /// which means that nothing fits.
    pub fn free_memory(&self, backend: Backend) -> Option<u64> {
        self.shared.headroom.bytes(backend)
    }

    /// Where knowledge is kept.
    pub fn store_name(&self) -> &str {
        &self.shared.store_name
    }

    /// Saves what was learned, within this time. Happens by itself every few seconds and when the
    /// last clone is dropped.
    pub fn flush(&self, within: Duration) -> Result<(), FlushError> {
        {
            let _whole = crate::fork::busy();
            self.shared.collect();
        }
        self.ask(within, |keeper| keeper.merge())
    }

    /// Saves what every selector of the process has learned, within this time altogether: for a program
    /// that ends without dropping them. The first error, after all have had their turn.
    pub fn flush_all(within: Duration) -> Result<(), FlushError> {
        let start = Instant::now();
        let mut result = Ok(());
        for shared in crate::fork::all() {
            if shared.saver.is_started() {
                let left = within.saturating_sub(start.elapsed());
                result = result.and(Selector { shared }.flush(left));
            }
        }
        result
    }

    /// Writes all knowledge of the store to one file; the number of entries.
    pub fn export_to(&self, path: &Path, within: Duration) -> Result<usize, FlushError> {
        self.flush(within)?;
        let path = path.to_owned();
        self.ask(within, move |keeper| {
            let knowledge = keeper.store.load()?;
            store::export_to(&knowledge, &path)?;
            Ok(knowledge.entries.len())
        })
    }

    /// Reads a file that [`export_to`](Self::export_to) wrote; the number of entries.
    ///
    /// The file is checked whole before anything is taken over, and what it says counts as
    /// knowledge of another machine: it informs first guesses and is soon outweighed. Costs are
    /// taken over, verdicts of checks are not: variants are checked here before they serve.
    pub fn import_from(&self, path: &Path, within: Duration) -> Result<usize, FlushError> {
        let mut knowledge = store::import_from(path).map_err(FlushError::Store)?;
        // A verdict is about code that ran here; a stranger's says nothing.
        knowledge
            .entries
            .retain(|e| matches!(e.fact, store::Fact::Costs(_)));
        for entry in &mut knowledge.entries {
            entry.machine = crate::cell::mix(entry.machine, IMPORTED);
        }
        knowledge.machines.clear();
        let count = knowledge.entries.len();
        let known = knowledge.entries.clone();
        self.shared.saver.add(knowledge);
        self.ask(within, |keeper| keeper.merge())?;
        let ops: HashSet<Box<str>> = known.iter().map(|e| e.op.clone()).collect();
        // The same file again replaces what it said before.
        let machines: HashSet<u64> = known.iter().map(|e| e.machine).collect();
        for entries in self.shared.known().values_mut() {
            entries.retain(|e| !machines.contains(&e.machine));
        }
        self.shared.learn_of(known);
        for state in self
            .shared
            .ops
            .load()
            .list
            .iter()
            .filter(|s| ops.contains(&s.name))
        {
            self.teach(state);
        }
        Ok(count)
    }

    /// Forgets what this process has learned about one op, or about all, counts included. Verdicts of
    /// checks stay known, and the store is left as it is: see [`forget`](Self::forget).
    pub fn reset(&self, op: Option<&str>) {
        let ops = self.shared.ops.load();
        let meant = |state: &&Arc<OpState>| op.is_none_or(|op| *state.name == *op);
        ops.list
            .iter()
            .filter(meant)
            .for_each(|state| state.reset());
    }

    /// Forgets one op, or everything: in this process and in the store.
    ///
    /// Verdicts of checks stay in this process: a variant that gave a wrong result stays out, and
    /// what agreed is not checked again. The store forgets them, so that later processes check anew.
    pub fn forget(&self, op: Option<&str>, within: Duration) -> Result<(), FlushError> {
        {
            let mut known = self.shared.known();
            match op {
                Some(op) => drop(known.remove(op)),
                None => known.clear(),
            }
        }
        for state in &self.shared.ops.load().list {
            if op.is_none_or(|op| *state.name == *op) {
                state.forget();
            }
        }
        let op = op.map(str::to_owned);
        self.ask(within, move |keeper| keeper.forget(op.as_deref()))
    }

    fn ask<T: Send + 'static>(
        &self,
        within: Duration,
        work: impl FnOnce(&mut crate::save::Keeper) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, FlushError> {
        self.shared.start_saver();
        let now = Instant::now();
        let far = now + Duration::from_secs(3600); // as long as anybody waits
        self.shared
            .saver
            .ask(now.checked_add(within).unwrap_or(far), work)
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The environment, or what is wrong with it.
    pub(crate) fn environment(&self) -> Result<(), BuildError> {
        self.shared.bad_env.clone().map_or(Ok(()), Err)
    }

    /// The state of an op, made on first use.
    pub(crate) fn state(&self, name: &str) -> Result<Arc<OpState>, BuildError> {
        let (index, ops) = self.shared.op_index(name)?;
        Ok(ops.list[index as usize].clone())
    }

    /// The state of an op and its number; `None` if there is no room for another.
    #[inline]
    pub(crate) fn find_op<T>(
        &self,
        name: &str,
        with: impl FnOnce(u32, &OpState) -> T,
    ) -> Option<T> {
        let ops = self.shared.ops.load();
        if let Some(index) = ops.by_name.get(name) {
            return Some(with(*index, &ops.list[*index as usize]));
        }
        drop(ops);
        let (index, ops) = self.shared.op_index(name).ok()?;
        Some(with(index, &ops.list[index as usize]))
    }

    /// The op with this number.
    #[inline]
    pub(crate) fn with_op<T>(&self, index: u32, with: impl FnOnce(&OpState) -> T) -> Option<T> {
        let ops = self.shared.ops.load();
        ops.list.get(index as usize).map(|state| with(state))
    }

    /// Tells an op what the store knows of it.
    pub(crate) fn teach(&self, state: &OpState) {
        let known = self.shared.known();
        if let Some(entries) = known.get(&state.name) {
            // Frozen decisions do not depend on the day: nothing ages then.
            let now = match self.shared.mode {
                Mode::Learn => self.shared.clock.unix_seconds(),
                Mode::Frozen | Mode::Reference => 0,
            };
            state.learn_from(entries, self.shared.fingerprint, now);
        }
    }
}

/// Tells what was imported from what was measured, also on the same machine.
const IMPORTED: u64 = 0x696D_706F_7274_6564;

impl Shared {
    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<Box<str>, Vec<Entry>>> {
        self.known.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn learn_of(&self, entries: Vec<Entry>) {
        let mut known = self.known();
        for entry in entries {
            known.entry(entry.op.clone()).or_default().push(entry);
        }
    }

    fn op_index(&self, name: &str) -> Result<(u32, Arc<Ops>), BuildError> {
        let _one_at_a_time = self.adding.lock().unwrap_or_else(|e| e.into_inner());
        let ops = self.ops.load_full();
        if let Some(index) = ops.by_name.get(name) {
            return Ok((*index, ops));
        }
        valid_name("op", name)?;
        if ops.list.len() >= MAX_OPS {
            return Err(BuildError::TooMany {
                what: "ops",
                found: ops.list.len() + 1,
                most: MAX_OPS,
            });
        }
        let mut more = ops.as_ref().clone();
        let index = more.list.len() as u32;
        more.by_name.insert(name.into(), index);
        more.list.push(Arc::new(OpState::new(
            name,
            self.seed,
            self.budget,
            (self.clock_tick_ns, self.clock.now_ns()),
            self.policy.clone(),
            &self.sampling,
        )));
        let more = Arc::new(more);
        self.ops.store(more.clone());
        Ok((index, more))
    }

    /// Something is worth saving.
    #[inline]
    pub(crate) fn touched(&self) {
        if !self.saver.is_started() {
            self.start_saver();
        }
    }

    /// Why a published choice serves.
    #[inline]
    pub(crate) fn settled_reason(&self, is_forced: impl FnOnce() -> bool) -> Reason {
        match self.mode {
            Mode::Reference => Reason::Reference,
            _ if is_forced() => Reason::Forced,
            Mode::Frozen => Reason::Frozen,
            Mode::Learn if self.policy.is_some() => Reason::Policy,
            Mode::Learn => Reason::Historical,
        }
    }

    #[cold]
    fn start_saver(&self) {
        if !self.saver.is_started() {
            self.saver.start(self.me.clone());
        }
    }

    /// Starts over in a forked child. Locks that another thread held stay locked, and what is behind
    /// them is left alone.
    pub(crate) fn forked(&self) {
        let ops = self.ops.load();
        ops.list.iter().for_each(|state| state.forked());
        self.checker.forked();
        self.saver.forked();
    }

    /// Puts everything that the store does not have yet into its outbox.
    pub(crate) fn collect(&self) {
        let now = self.clock.unix_seconds();
        let ops = self.ops.load();
        let learns = self.mode == Mode::Learn;
        let unsaved = |state: &Arc<OpState>| state.take_unsaved(self.fingerprint, now, learns);
        self.saver.add(Knowledge {
            entries: ops.list.iter().flat_map(unsaved).collect(),
            machines: Vec::new(),
        });
    }
}

impl Drop for Shared {
    /// Saves the last change, for at most a second.
    fn drop(&mut self) {
        if self.saver.is_started() {
            self.collect();
            let deadline = Instant::now() + LAST_SAVE;
            if let Err(error) = self.saver.ask(deadline, |keeper| keeper.merge()) {
                tracing::warn!(%error, "what was learned last could not be saved");
            }
        }
    }
}
