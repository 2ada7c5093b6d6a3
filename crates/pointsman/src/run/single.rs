//! One variant of an op, run whatever was learned.

use super::{Handle, Inner};
use crate::decision::{Prediction, Reason};
use crate::eligible::WhyNot;
use crate::error::{BoxError, Refused};
use crate::learn::Pick;
use crate::op::{Kind, Op, Sure};
use crate::trace::{self, Trail};
use crate::workload::Workload;

/// One variant of an op, run whatever was learned: see [`Handle::variant`].
pub struct Single<O: Op, K: Kind<O> = Sure> {
    pub(super) handle: Handle<O, K>,
    pub(super) place: usize,
}

impl<O: Op, K: Kind<O>> Single<O, K> {
    /// Runs this variant and no other. An error or a panic reaches the caller; nothing is learned.
    ///
    /// A variant that this machine or these arguments rule out is refused with [`Refused`].
    pub fn run(&self, mut args: O::Args<'_>) -> Result<O::Output, BoxError> {
        let inner = &*self.handle.inner;
        self.possible(&inner.declared.op.workload(&args), &args)?;
        inner.run_plainly(inner.ids[self.place], &mut args)
    }

    /// Runs this variant like [`run`](Self::run), times it and learns from it, as a program does
    /// that tunes ahead of its calls. A panic becomes an error. In frozen and reference mode nothing
    /// is learned.
    ///
    /// Of an op that is [`verified`](crate::OpBuilder::verified), the variant is checked here first;
    /// one that disagrees with the reference, or is in quarantine, is refused with [`Refused`].
    ///
    /// ```
    /// use pointsman::{Backend, Selector, Workload};
    ///
    /// # let selector = Selector::builder().in_memory().build()?;
    /// let twice = selector
    ///     .function("twice", |n: &u64| Workload::new([*n]))
    ///     .reference("multiply", Backend::Scalar, |n| 2 * **n)
    ///     .variant("add", Backend::Simd, |n| **n + **n)
    ///     .build()?;
    /// for name in ["multiply", "add"] {
    ///     let variant = twice.variant(name).unwrap();
    ///     for _ in 0..10 {
    ///         assert_eq!(variant.measure(&21).unwrap(), 42);
    ///     }
    /// }
    /// assert!(twice.explain(Workload::new([21])).variants.iter().all(|v| v.samples > 0));
    /// # Ok::<(), pointsman::BuildError>(())
    /// ```
    pub fn measure(&self, mut args: O::Args<'_>) -> Result<O::Output, BoxError> {
        let inner = &*self.handle.inner;
        let workload = inner.declared.op.workload(&args);
        self.possible(&workload, &args)?;
        self.sound(&workload)?;
        let id = inner.ids[self.place];
        let mut pick = Pick {
            reason: Reason::Forced,
            ..Pick::of(id)
        };
        // Nobody chose, so nobody has asked yet what to expect.
        if trace::is_on()
            && let Some(ns) = inner.state.level_ns(workload.cell_key(), id)
        {
            pick.predicted = Prediction::new(ns.ln(), 0.0, 1);
        }
        let timed = inner.timed(&workload, workload.cell_key(), pick, 1);
        let mut trail = Trail::new(&inner.state, inner.shared().clock.as_ref());
        let span = inner.told_pick(&mut trail, &workload, &pick, &[]);
        let run = || inner.attempt(id, &mut args);
        let (result, cost) = span.in_scope(|| inner.clocked(&pick, run));
        match result {
            Ok(output) => {
                inner.state.observe(inner.shared(), &timed, cost);
                trail.executed(span, cost);
                Ok(output)
            }
            Err(caught) => {
                let wasted = cost.map_or(0.0, |c| c.ns() as f64);
                let (panicked, full) = (caught.is_panic(), caught.out_of_memory());
                let failure = caught.into_failure();
                let why = failure.to_string();
                let shared = inner.shared();
                let name = &inner.declared.variants[self.place].name;
                trace::failed(&span, &inner.state.name, name, &why);
                match full {
                    Some(_) => inner.state.ran_out(shared, &timed, why.clone(), wasted),
                    None => inner
                        .state
                        .failed(shared, &timed, panicked, why.clone(), wasted),
                }
                Err(why.into())
            }
        }
    }

    /// Whether the machine and this call let it run.
    fn possible(&self, workload: &Workload, args: &O::Args<'_>) -> Result<(), BoxError> {
        let inner = &*self.handle.inner;
        let variant = &inner.declared.variants[self.place];
        let missing = variant
            .limits
            .missing_cap(&inner.shared().machine)
            .map(WhyNot::Missing);
        match missing.or_else(|| inner.why_not(self.place, workload, Some(args))) {
            None => Ok(()),
            Some(why) => self.refuse(inner.told(self.place, why)),
        }
    }

    /// Whether it is known to give the right results here, and not in quarantine.
    fn sound(&self, workload: &Workload) -> Result<(), BoxError> {
        let inner: &Inner<O, K> = &self.handle.inner;
        let id = inner.ids[self.place];
        let now_ns = inner.shared().clock.now_ns();
        inner.state.release(now_ns);
        let needs_check = inner.declared.check.is_some() && id != inner.reference;
        let agreed = || inner.state.checked().agreed(workload) & 1 << id != 0;
        if needs_check && !agreed() && inner.state.checked().is_open(workload, id, now_ns) {
            inner.check(workload, id);
        }
        if inner.state.quarantine.mask() & 1 << id != 0 {
            let why = inner
                .state
                .quarantine
                .why(id, inner.shared().clock.now_ns());
            return self.refuse(why.as_deref().unwrap_or("quarantined"));
        }
        if needs_check && !agreed() {
            let checked = inner.state.checked();
            let why = checked.why_open(workload, id).unwrap_or("not yet done");
            return self.refuse(format!(
                "it could not be checked against the reference: {why}"
            ));
        }
        Ok(())
    }

    fn refuse(&self, why: impl std::fmt::Display) -> Result<(), BoxError> {
        let name = &self.handle.inner.declared.variants[self.place].name;
        Err(Refused::new(name, why).into())
    }
}
