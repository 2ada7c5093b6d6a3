//! The line that every call goes down, and the handle it starts from.

mod checked;
mod eligible;
mod explained;
mod queue;
mod single;
mod traced;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use tracing::Span;

use crate::backend::Backend;
use crate::cell::mix;
use crate::decision::{Explanation, Reason};
use crate::eligible::WhyNot;
use crate::error::{Attempt, BoxError, BuildError};
use crate::guard::{self, Caught};
use crate::learn::{Pick, bits};
use crate::op::{Declared, Kind, Op, Sure, VariantBody};
use crate::outcome::{Cost, Rejection, measured};
use crate::plan::Plan;
use crate::selector::{Mode, Selector, Shared};
use crate::state::{Look, MAX_VARIANTS, OpState, Timed};
use crate::stats::{OpStats, op_stats};
use crate::thread::{self, Inside};
use crate::trace::{self, Trail};
use crate::workload::Workload;

pub(crate) use self::queue::Queues;
pub use self::single::Single;

/// A built op: cheap to clone, to be shared by threads.
///
/// [`run`](Self::run) is a plain call. [`plan`](Self::plan) fixes the workload for hot loops.
/// [`explain`](Self::explain) says who would serve and why.
pub struct Handle<O: Op, K: Kind<O> = Sure> {
    pub(crate) inner: Arc<Inner<O, K>>,
}

impl<O: Op, K: Kind<O>> Clone for Handle<O, K> {
    fn clone(&self) -> Self {
        Handle {
            inner: self.inner.clone(),
        }
    }
}

pub(crate) struct Inner<O: Op, K: Kind<O>> {
    declared: Arc<Declared<O, K>>,
    selector: Selector,
    pub(crate) state: Arc<OpState>,
    /// Number of each variant in the op's state, and back.
    ids: Vec<u8>,
    places: [u8; MAX_VARIANTS],
    reference: u8,
    /// Who may serve at all, by number: this machine, this environment, this mode.
    able: u64,
    /// Who must be asked on every call.
    conditional: u64,
    /// Whose answer may change although the workload does not.
    pub(crate) moody: u64,
    /// Who runs on a GPU, where calls wait for each other.
    pub(crate) on_gpu: u64,
    /// Keeps published choices apart from those of handles of the same op that promise other
    /// checks.
    pub(crate) salt: u64,
    forced: u64,
}

/// A call's output with the explanation of who served it and why.
pub struct Explained<T> {
    /// What the call returned.
    pub output: T,
    /// Who served it and why.
    pub explanation: Explanation,
}

/// What one call has been through.
pub(crate) struct Journey {
    pick: Pick,
    cost: Result<Cost, Rejection>,
    /// Variants that failed, and how.
    failed: Vec<(String, String)>,
    /// Nanoseconds that its spans took.
    spans_ns: u64,
}

impl Journey {
    fn new(
        pick: Pick,
        cost: Result<Cost, Rejection>,
        failed: &[Attempt],
        trail: &Trail<'_>,
    ) -> Self {
        let told = |a: &Attempt| (a.variant.clone(), a.failure.to_string());
        Journey {
            pick,
            cost,
            failed: failed.iter().map(told).collect(),
            spans_ns: trail.spent_ns,
        }
    }
}

impl<O: Op, K: Kind<O>> Handle<O, K> {
    pub(crate) fn new(
        selector: Selector,
        mut declared: Declared<O, K>,
    ) -> Result<Self, BuildError> {
        let shared = selector.shared();
        let op = declared.op.name();
        let state = selector.state(op)?;
        let named: Vec<(&str, _)> = declared
            .variants
            .iter()
            .map(|v| (&*v.name, v.backend))
            .collect();
        let forced = shared.env.force.mask(op, &named)?;
        let disabled = shared.env.disable.mask(op, &named)?;
        let (mut able, mut conditional, mut moody, mut on_gpu) = (0, 0, 0, 0);
        for (i, variant) in declared.variants.iter().enumerate() {
            let runs = variant.limits.missing_cap(&shared.machine).is_none();
            let asked = variant.when.is_some()
                || variant.available.is_some()
                || variant.limits.memory.is_some();
            able |= u64::from(runs && disabled & 1 << i == 0) << i;
            conditional |= u64::from(asked || variant.limits.depend_on_call()) << i;
            moody |= u64::from(asked) << i;
            on_gpu |= u64::from(matches!(variant.backend, Backend::Gpu(_))) << i;
        }
        possible(&declared, shared, forced, able)?;
        able &= declared.reference_mask(shared.mode);
        let variants = declared.variants.iter();
        let known = variants.map(|v| (&*v.name, v.revision, v.backend));
        let (ids, places) = state.register_all(known, &shared.calibration)?;
        declared.number(&ids);
        selector.teach(&state);
        let renumbered = |mask: u64| bits(mask).fold(0u64, |m, i| m | 1 << ids[usize::from(i)]);
        let inner = Inner {
            reference: ids[declared.reference],
            able: renumbered(able),
            conditional: renumbered(conditional),
            moody: renumbered(moody & able),
            on_gpu: renumbered(on_gpu & able),
            salt: match declared.check {
                Some(_) => mix(1, u64::from(ids[declared.reference])),
                None => 0,
            },
            forced: renumbered(forced),
            declared: Arc::new(declared),
            selector,
            state,
            ids,
            places,
        };
        Ok(Handle {
            inner: Arc::new(inner),
        })
    }

    /// Runs the variant that is fastest for these arguments on this machine.
    ///
    /// The steps: features and cell of the arguments; who may serve; who should, which is one
    /// published word unless this call is one to learn from; the call itself, guarded.
    // Left to itself, the compiler makes one function of it in programs that call it twice, and then
    // nothing of the workload folds away: 5 to 12 ns a call in `bench overhead`.
    #[inline(always)]
    pub fn run(&self, mut args: O::Args<'_>) -> K::Out {
        let inner = &*self.inner;
        let workload = inner.declared.op.workload(&args);
        // Before anything else sees the workload: what is constant in it folds away.
        let key = workload.cell_key();
        let eligible = inner.eligible(&workload, Some(&args));
        match inner.state.published(key ^ inner.salt, eligible) {
            Look::Serve(choice, n) if trace::is_on() && inner.state.gate.may_take(choice, n) => {
                inner.serve_traced(choice, &workload, eligible, &mut args)
            }
            Look::Serve(choice, _) => inner.serve(choice.variant, &workload, eligible, &mut args),
            Look::Due(choice) => {
                inner
                    .learn(&workload, key, eligible, 1 << choice.period, &mut args)
                    .0
            }
            Look::Ask => inner.learn(&workload, key, eligible, 1, &mut args).0,
        }
    }

    /// Runs like [`run`](Self::run) and explains. Always goes through the learner, so it is
    /// slower.
    pub fn run_explained(&self, mut args: O::Args<'_>) -> Explained<K::Out> {
        let inner = &*self.inner;
        let workload = inner.declared.op.workload(&args);
        let lines = inner.lines(&workload, Some(&args));
        let eligible = inner.eligible(&workload, Some(&args));
        let (output, journey) = inner.learn(&workload, workload.cell_key(), eligible, 1, &mut args);
        let mut explanation = inner.explanation(&workload, lines, Some(&journey.pick));
        explanation.took_ns = journey.cost.ok().map(Cost::ns);
        explanation.failed = journey.failed;
        Explained {
            output,
            explanation,
        }
    }

    /// A plan for calls with this workload: nothing but the choice remains in a hot loop.
    ///
    /// Limits on size, dtype, alignment and gradients are judged on this workload, not on the
    /// arguments of each run: only run arguments for which it is true. Conditions
    /// ([`when`](crate::OpBuilder::when)) and memory are still asked on every run. A plan is made for
    /// one thread: clone it for others.
    pub fn plan(&self, workload: Workload) -> Plan<O, K> {
        Plan::new(self.clone(), workload)
    }

    /// One variant by its name, to be run whatever was learned.
    pub fn variant(&self, name: &str) -> Option<Single<O, K>> {
        let place = self.inner.declared.position(name)?;
        Some(Single {
            handle: self.clone(),
            place,
        })
    }

    /// Names of the variants, in order of declaration.
    pub fn variants(&self) -> impl Iterator<Item = &str> {
        self.inner.declared.variants.iter().map(|v| &*v.name)
    }

    /// Who would serve this workload, and why; prints as a table. Conditions on the arguments
    /// are taken as met. Give flops, bytes and alignment as the op does: predictions and limits
    /// depend on them.
    pub fn explain(&self, workload: Workload) -> Explanation {
        let lines = self.inner.lines(&workload, None);
        self.inner.explanation(&workload, lines, None)
    }

    /// Who would serve a call with these arguments, and why. Nothing is run.
    ///
    /// ```
    /// use pointsman::{Backend, Selector, Workload};
    ///
    /// # let selector = Selector::builder().in_memory().build()?;
    /// let half = selector
    ///     .function("half", |n: &u64| Workload::new([*n]))
    ///     .reference("divide", Backend::Scalar, |n| **n / 2)
    ///     .variant("shift", Backend::Simd, |n| **n >> 1)
    ///     .when(|n| **n % 2 == 0)
    ///     .build()?;
    /// assert!(half.explain(Workload::new([7])).variants[1].eligible()); // if its condition holds
    /// assert!(!half.explain_call(&&7).variants[1].eligible()); // it does not
    /// # Ok::<(), pointsman::BuildError>(())
    /// ```
    pub fn explain_call(&self, args: &O::Args<'_>) -> Explanation {
        let workload = self.inner.declared.op.workload(args);
        let lines = self.inner.lines(&workload, Some(args));
        self.inner.explanation(&workload, lines, None)
    }

    /// What choosing has cost so far, and what it was worth.
    pub fn stats(&self) -> OpStats {
        op_stats(self.inner.shared(), &self.inner.state)
    }

    /// Forgets what this process has learned about the op, its counts included. Verdicts of checks
    /// stay known, and the store is left as it is: see [`Selector::forget`].
    pub fn reset(&self) {
        self.inner.state.reset();
    }
}

/// A forced variant that cannot run is an error if it was named itself, or if nobody else was.
fn possible<O: Op, K: Kind<O>>(
    declared: &Declared<O, K>,
    shared: &Shared,
    forced: u64,
    able: u64,
) -> Result<(), BuildError> {
    let op = declared.op.name();
    for i in bits(forced & !able) {
        let variant = &declared.variants[usize::from(i)];
        if forced & able != 0 && !shared.env.force.names(op, &variant.name) {
            continue;
        }
        let missing = variant.limits.missing_cap(&shared.machine);
        return Err(BuildError::Impossible {
            op: op.to_owned(),
            variant: variant.name.to_string(),
            backend: variant.backend,
            why: missing
                .map_or(WhyNot::Disabled, WhyNot::Missing)
                .to_string(),
        });
    }
    Ok(())
}

impl<O: Op, K: Kind<O>> Inner<O, K> {
    fn shared(&self) -> &Shared {
        self.selector.shared()
    }

    pub(crate) fn place(&self, id: u8) -> usize {
        usize::from(self.places[usize::from(id)])
    }

    /// The fast way: the published choice, guarded, not timed.
    #[inline(always)]
    pub(crate) fn serve(
        &self,
        id: u8,
        workload: &Workload,
        eligible: u64,
        args: &mut O::Args<'_>,
    ) -> K::Out {
        if self.on_gpu & 1 << id != 0 {
            let (other, _turn) = self.led(id, workload, eligible);
            return self.serve_now(other, workload, args);
        }
        self.serve_now(id, workload, args)
    }

    #[inline(always)]
    pub(crate) fn serve_now(&self, id: u8, workload: &Workload, args: &mut O::Args<'_>) -> K::Out {
        let inside = Inside::enter();
        let result = match &self.declared.bodies[usize::from(id)] {
            VariantBody::Sure(body) => guard::attempt_sure(|| body(args)),
            VariantBody::Fallible(body) => guard::attempt(|| body(args)),
            VariantBody::Reference => {
                let raw = (self.declared.reference_body)(args);
                if let Some(error) = K::error(&raw) {
                    self.note_reference_error_of(workload, &Span::none(), &error.to_string());
                }
                return self.referred(raw, Vec::new());
            }
        };
        match result {
            Ok(output) => K::served(output),
            Err(caught) => {
                drop(inside);
                self.after_failure(id, workload, caught, args, Span::none())
            }
        }
    }

    /// Runs a variant, and turns whatever goes wrong into a value.
    fn attempt(&self, id: u8, args: &mut O::Args<'_>) -> Result<O::Output, Caught> {
        guard::attempt(|| self.run_plainly(id, args))
    }

    /// Runs a variant as it is.
    fn run_plainly(&self, id: u8, args: &mut O::Args<'_>) -> Result<O::Output, BoxError> {
        match &self.declared.bodies[usize::from(id)] {
            VariantBody::Sure(body) => Ok(body(args)),
            VariantBody::Fallible(body) => body(args),
            VariantBody::Reference => K::into_result((self.declared.reference_body)(args)),
        }
    }

    #[inline]
    fn referred(&self, raw: K::Raw, before: Vec<Attempt>) -> K::Out {
        let reference = &self.declared.variants[self.declared.reference];
        K::referred(raw, &reference.name, reference.backend, before)
    }

    /// The reference returned an error on the fast way: noted, and passed on as it is.
    #[cold]
    fn note_reference_error_of(&self, workload: &Workload, span: &Span, why: &str) {
        let pick = Pick::of(self.reference);
        let timed = self.timed(workload, workload.cell_key(), pick, 1);
        self.note_reference_error(&timed, span, why);
    }

    /// A published choice failed: as if it had been picked and failed on the slow way.
    #[cold]
    fn after_failure(
        &self,
        id: u8,
        workload: &Workload,
        caught: Caught,
        args: &mut O::Args<'_>,
        span: Span,
    ) -> K::Out {
        self.state.counters.add(id, -1); // whoever serves in the end is counted
        let eligible = self.eligible(workload, Some(args));
        let key = workload.cell_key();
        let pick = Pick::of(id);
        let timed = self.timed(workload, key, pick, 1);
        let mut failed = Vec::new();
        self.note_failure(&timed, caught, 0.0, &mut failed, &span);
        drop(span); // before the next attempt begins
        self.attempts(workload, key, eligible & !(1 << id), 1, args, failed)
            .0
    }

    fn timed<'w>(&self, workload: &'w Workload, key: u64, pick: Pick, weight: u64) -> Timed<'w> {
        Timed {
            workload,
            key,
            pick,
            weight,
            nested: thread::nested(),
        }
    }

    /// The slow way: ask the learner, time the call, tell the learner.
    #[cold]
    pub(crate) fn learn(
        &self,
        workload: &Workload,
        key: u64,
        eligible: u64,
        weight: u64,
        args: &mut O::Args<'_>,
    ) -> (K::Out, Journey) {
        let mut eligible = eligible;
        let start = self.shared().clock.now_ns();
        if self.state.release(start) {
            eligible = self.eligible(workload, Some(args));
        }
        let (output, journey) = self.attempts(workload, key, eligible, weight, args, Vec::new());
        if let Ok(cost) = journey.cost {
            let all = self.shared().clock.now_ns().saturating_sub(start);
            let sampled = all.saturating_sub(cost.ns().saturating_add(journey.spans_ns));
            self.state.learner().note_sampled(sampled as f64);
        }
        (output, journey)
    }

    /// Tries variants until one serves; the reference is the last.
    fn attempts(
        &self,
        workload: &Workload,
        key: u64,
        eligible: u64,
        weight: u64,
        args: &mut O::Args<'_>,
        mut failed: Vec<Attempt>,
    ) -> (K::Out, Journey) {
        let mut left = eligible;
        let mut trail = Trail::new(&self.state, self.shared().clock.as_ref());
        loop {
            trail.choosing();
            let mut pick = self.choose(workload, key, left, &failed, true);
            if pick.reason.is_trial() && self.is_busy(pick.variant) {
                // It would wait for others, and its time would say nothing.
                self.state.learner().cancel(&pick);
                pick = self.choose(workload, key, left, &failed, false);
            }
            if failed.is_empty() {
                self.state.publish(key ^ self.salt, eligible, &pick);
            }
            let turn = self.turn_of(&mut pick, workload, left);
            let timed = self.timed(workload, key, pick, weight);
            let span = self.told_pick(&mut trail, workload, &pick, &failed);
            if pick.variant == self.reference {
                self.state.counters.chosen(pick.variant, pick.reason);
                let (raw, cost) = self.run_reference(&timed, args, &span);
                trail.executed(span, cost);
                let journey = Journey::new(pick, cost, &failed, &trail);
                return (self.referred(raw, failed), journey);
            }
            let run = || self.attempt(pick.variant, args);
            let (result, cost) = span.in_scope(|| self.clocked(&pick, run));
            let cost = turn.as_ref().map_or(cost, |turn| turn.alone(cost));
            drop(turn);
            match result {
                Ok(output) => {
                    self.state.counters.chosen(pick.variant, pick.reason);
                    self.state.observe(self.shared(), &timed, cost);
                    trail.executed(span, cost);
                    let journey = Journey::new(pick, cost, &failed, &trail);
                    return (K::served(output), journey);
                }
                Err(caught) => {
                    let wasted = cost.map_or(0.0, |c| c.ns() as f64);
                    self.note_failure(&timed, caught, wasted, &mut failed, &span);
                    trail.executed(span, cost);
                    left &= !(1 << pick.variant);
                }
            }
        }
    }

    /// The reference fails for everybody: its error or panic reaches the caller unchanged.
    fn run_reference(
        &self,
        timed: &Timed<'_>,
        args: &mut O::Args<'_>,
        span: &Span,
    ) -> (K::Raw, Result<Cost, Rejection>) {
        let run = || catch_unwind(AssertUnwindSafe(|| (self.declared.reference_body)(args)));
        let (result, cost) = span.in_scope(|| self.clocked(&timed.pick, run));
        match result {
            Ok(raw) => {
                match K::error(&raw) {
                    Some(error) => self.note_reference_error(timed, span, &error.to_string()),
                    None => self.state.observe(self.shared(), timed, cost),
                }
                (raw, cost)
            }
            Err(payload) => {
                let message = guard::panic_message(payload.as_ref());
                self.note_reference_error(timed, span, &format!("panicked: {message}"));
                resume_unwind(payload)
            }
        }
    }

    fn note_reference_error(&self, timed: &Timed<'_>, span: &Span, why: &str) {
        let reference = &self.declared.variants[self.declared.reference];
        trace::failed(span, &self.state.name, &reference.name, why);
        self.state.reference_failed(self.shared(), timed);
    }

    /// Runs something between two readings of the clock.
    fn clocked<T>(&self, pick: &Pick, run: impl FnOnce() -> T) -> (T, Result<Cost, Rejection>) {
        let shared = self.shared();
        let probes = thread::probes();
        let start = shared.clock.now_ns();
        let value = {
            let _inside = Inside::enter();
            run()
        };
        let end = shared.clock.now_ns();
        let cost = if thread::probes() == probes {
            measured(start, end, shared.clock_cost_ns)
        } else {
            Err(Rejection::NestedTrial)
        };
        if pick.reason.is_trial() {
            thread::count_probe();
        }
        (value, cost)
    }

    /// Books a failure. For an op that must not be run again, a panic goes on to the caller:
    /// nobody knows what it left behind.
    fn note_failure(
        &self,
        timed: &Timed<'_>,
        caught: Caught,
        wasted_ns: f64,
        failed: &mut Vec<Attempt>,
        span: &Span,
    ) {
        let panicked = caught.is_panic();
        let full = caught.out_of_memory();
        let variant = &self.declared.variants[self.place(timed.pick.variant)];
        let why = match &caught {
            Caught::Error(error) => error.to_string(),
            Caught::Panic(payload) => {
                format!("panicked: {}", guard::panic_message(payload.as_ref()))
            }
        };
        trace::failed(span, &self.state.name, &variant.name, &why);
        match full {
            Some(_) => self.state.ran_out(self.shared(), timed, why, wasted_ns),
            None => self
                .state
                .failed(self.shared(), timed, panicked, why, wasted_ns),
        }
        match caught {
            Caught::Panic(payload) if !self.declared.op.may_run_again() => resume_unwind(payload),
            caught => failed.push(Attempt {
                variant: variant.name.to_string(),
                backend: variant.backend,
                failure: caught.into_failure(),
            }),
        }
    }

    /// The next variant to try: the learner's pick at first, then the best of the rest, in the
    /// end the reference.
    fn choose(
        &self,
        workload: &Workload,
        key: u64,
        left: u64,
        failed: &[Attempt],
        explore: bool,
    ) -> Pick {
        let left = if left == 0 { 1 << self.reference } else { left };
        let explore = explore && failed.is_empty();
        let mut pick = self.checked_pick(workload, key, left, explore);
        if !failed.is_empty() {
            pick.reason = Reason::Fallback;
            pick.publish = None;
        } else if self.shared().mode == Mode::Reference {
            pick.reason = Reason::Reference;
        } else if !pick.reason.is_trial() && self.is_forced(pick.variant, workload) {
            pick.reason = Reason::Forced;
        }
        pick
    }

    /// Whether the environment or the call's preference demanded this variant.
    fn is_forced(&self, id: u8, workload: &Workload) -> bool {
        let backend = self.declared.variants[self.place(id)].backend;
        self.forced & 1 << id != 0 || workload.preference() == Some(backend)
    }
}
