//! What a user declares: an op, its reference and its variants.

use std::marker::PhantomData;

use crate::backend::Backend;
use crate::check::{Verdict, Verify};
use crate::eligible::{Available, Limits};
use crate::error::{Attempt, BoxError, BuildError, Failure, RunError};
use crate::guard;
use crate::machine::Cap;
use crate::run::Handle;
use crate::selector::{Mode, Selector};
use crate::state::MAX_VARIANTS;
use crate::store::MAX_NAME;
use crate::workload::{DType, Workload};

/// An operation with several implementations.
///
/// ```
/// use pointsman::{Backend, Op, Selector, Workload};
///
/// struct Dot;
/// impl Op for Dot {
///     type Args<'a> = (&'a [f32], &'a [f32]);
///     type Output = f32;
///     fn name(&self) -> &str {
///         "dot_f32"
///     }
///     fn workload(&self, (x, _): &(&[f32], &[f32])) -> Workload {
///         Workload::new([x.len()]).flops(2 * x.len()).bytes(8 * x.len())
///     }
/// }
///
/// # let selector = Selector::builder().in_memory().build()?;
/// let dot = selector
///     .op(Dot)
///     .reference("plain", Backend::Scalar, |(x, y)| x.iter().zip(*y).map(|(a, b)| a * b).sum())
///     .variant("four", Backend::Simd, |(x, y)| {
///         let mut lanes = [0.0; 4];
///         let (xs, ys) = (x.chunks_exact(4), y.chunks_exact(4));
///         let rest: f32 = xs.remainder().iter().zip(ys.remainder()).map(|(a, b)| a * b).sum();
///         for (a, b) in xs.zip(ys) {
///             (0..4).for_each(|i| lanes[i] += a[i] * b[i]);
///         }
///         lanes.iter().sum::<f32>() + rest
///     })
///     .build()?;
/// assert_eq!(dot.run((&[1.0, 2.0], &[3.0, 4.0])), 11.0);
/// # Ok::<(), pointsman::BuildError>(())
/// ```
pub trait Op: Send + Sync + 'static {
    /// What a call takes. Outputs that are written in place are `&mut` here.
    type Args<'a>;

    /// What a call returns.
    type Output;

    /// The name under which knowledge is kept: stable, unique in the program, 1 to 128 bytes
    /// without control characters.
    ///
    /// Two handles of one selector with the same name share their state: statistics, checks and
    /// quarantine of variants with the same name. If the revision of such a variant differs, the
    /// handle that is built last wins, and what was learned of the other revision is dropped.
    fn name(&self) -> &str;

    /// The features of a call. Computed on every call: keep it to a few instructions.
    fn workload(&self, args: &Self::Args<'_>) -> Workload;

    /// Whether a call may be run again from the start after a variant failed in it.
    ///
    /// Say `false` if a variant may have changed the arguments in a way that matters. Then only
    /// one variant ever runs per call: a panic reaches the caller, and a variant that can fail must
    /// promise [`untouched_on_error`](OpBuilder::untouched_on_error).
    fn may_run_again(&self) -> bool {
        true
    }
}

/// An op made from a function of plain arguments: see [`Selector::function`].
pub struct Function<A: ?Sized, R> {
    name: Box<str>,
    workload: Box<dyn Fn(&A) -> Workload + Send + Sync>,
    returns: PhantomData<fn() -> R>,
}

impl<A: ?Sized, R> Function<A, R> {
    pub(crate) fn new(
        name: &str,
        workload: impl Fn(&A) -> Workload + Send + Sync + 'static,
    ) -> Self {
        Function {
            name: name.into(),
            workload: Box::new(workload),
            returns: PhantomData,
        }
    }
}

impl<A: ?Sized + 'static, R: 'static> Op for Function<A, R> {
    type Args<'a> = &'a A;
    type Output = R;

    fn name(&self) -> &str {
        &self.name
    }

    fn workload(&self, args: &&A) -> Workload {
        (self.workload)(args)
    }
}

/// The reference cannot fail: `run` returns the output itself.
pub struct Sure(());

/// The reference can fail: `run` returns a `Result`.
pub struct Fallible(());

/// Whether the reference of an op can fail.
pub trait Kind<O: Op>: private::Sealed + 'static {
    /// What the reference returns.
    type Raw;
    /// What a call returns.
    type Out;
    /// A variant has served.
    fn served(output: O::Output) -> Self::Out;
    /// The reference has run, after these attempts.
    fn referred(raw: Self::Raw, name: &str, backend: Backend, before: Vec<Attempt>) -> Self::Out;
    /// How the reference failed.
    fn error(raw: &Self::Raw) -> Option<&BoxError>;
    /// The same as a `Result`.
    fn into_result(raw: Self::Raw) -> Result<O::Output, BoxError>;
}

mod private {
    pub trait Sealed {}
    impl Sealed for super::Sure {}
    impl Sealed for super::Fallible {}
}

impl<O: Op> Kind<O> for Sure {
    type Raw = O::Output;
    type Out = O::Output;

    #[inline]
    fn served(output: O::Output) -> O::Output {
        output
    }

    #[inline]
    fn referred(raw: O::Output, _: &str, _: Backend, _: Vec<Attempt>) -> O::Output {
        raw
    }

    #[inline]
    fn error(_: &O::Output) -> Option<&BoxError> {
        None
    }

    fn into_result(raw: O::Output) -> Result<O::Output, BoxError> {
        Ok(raw)
    }
}

impl<O: Op> Kind<O> for Fallible {
    type Raw = Result<O::Output, BoxError>;
    type Out = Result<O::Output, RunError>;

    #[inline]
    fn served(output: O::Output) -> Self::Out {
        Ok(output)
    }

    #[inline]
    fn referred(
        raw: Self::Raw,
        name: &str,
        backend: Backend,
        mut before: Vec<Attempt>,
    ) -> Self::Out {
        raw.map_err(|error| {
            before.push(Attempt {
                variant: name.to_owned(),
                backend,
                failure: Failure::Error(error),
            });
            RunError::new(before)
        })
    }

    #[inline]
    fn error(raw: &Self::Raw) -> Option<&BoxError> {
        raw.as_ref().err()
    }

    fn into_result(raw: Self::Raw) -> Result<O::Output, BoxError> {
        raw
    }
}

type Run<'r, O> = dyn for<'a> Fn(&mut <O as Op>::Args<'a>) -> Result<<O as Op>::Output, BoxError>
    + Send
    + Sync
    + 'r;
pub(crate) type Body<O> = Run<'static, O>;
type SureBody<O> = dyn for<'a> Fn(&mut <O as Op>::Args<'a>) -> <O as Op>::Output + Send + Sync;
type ReferenceBody<O, K> =
    dyn for<'a> Fn(&mut <O as Op>::Args<'a>) -> <K as Kind<O>>::Raw + Send + Sync;
type Condition<O> = dyn for<'a> Fn(&<O as Op>::Args<'a>) -> bool + Send + Sync;
/// Compares a variant with the reference on a sample that it may serve.
pub(crate) type Check<O> = fn(&CheckCase<'_, O>, &Workload, u64) -> Verdict;

/// The code of a variant. One that cannot fail returns its output directly: a `Result` would pass
/// through memory on every call.
pub(crate) enum VariantBody<O: Op> {
    /// Has its own type in [`Declared`].
    Reference,
    Sure(Box<SureBody<O>>),
    Fallible(Box<Body<O>>),
}

/// One implementation, as declared.
pub(crate) struct Variant<O: Op> {
    pub(crate) name: Box<str>,
    pub(crate) backend: Backend,
    pub(crate) revision: u32,
    pub(crate) limits: Limits,
    pub(crate) when: Option<Box<Condition<O>>>,
    pub(crate) available: Option<Box<dyn Available>>,
    untouched: bool,
}

/// An op with its variants, as declared and found sound.
pub(crate) struct Declared<O: Op, K: Kind<O>> {
    pub(crate) op: O,
    pub(crate) variants: Vec<Variant<O>>,
    /// What each runs, apart from the rest so that a call finds it by the number it is given:
    /// in order of declaration at first, see [`Declared::number`].
    pub(crate) bodies: Vec<VariantBody<O>>,
    pub(crate) reference: usize,
    pub(crate) reference_body: Box<ReferenceBody<O, K>>,
    pub(crate) check: Option<Check<O>>,
}

/// Declares an op: see [`Selector::op`] and [`Selector::function`].
///
/// [`reference`](Self::reference) and [`variant`](Self::variant) add an implementation; what
/// follows, up to the next one, limits the one just added.
#[must_use = "nothing is declared before build()"]
pub struct OpBuilder<O: Op, K: Kind<O> = Sure> {
    selector: Selector,
    op: O,
    variants: Vec<Variant<O>>,
    bodies: Vec<VariantBody<O>>,
    references: Vec<usize>,
    reference_body: Option<Box<ReferenceBody<O, K>>>,
    check: Option<Check<O>>,
    /// A limit was given before there was a variant to limit.
    misplaced: bool,
}

impl<O: Op> OpBuilder<O, Sure> {
    pub(crate) fn new(selector: Selector, op: O) -> Self {
        OpBuilder {
            selector,
            op,
            variants: Vec::new(),
            bodies: Vec::new(),
            references: Vec::new(),
            reference_body: None,
            check: None,
            misplaced: false,
        }
    }

    /// The variant whose result is the truth. It serves everything, so it can have no limits, and
    /// is never quarantined: if it panics, the panic reaches the caller.
    pub fn reference<F>(mut self, name: &str, backend: Backend, body: F) -> Self
    where
        F: for<'a> Fn(&mut O::Args<'a>) -> O::Output + Send + Sync + 'static,
    {
        self.references.push(self.variants.len());
        self.reference_body = Some(Box::new(body));
        self.add(name, backend, VariantBody::Reference)
    }

    /// A reference that can fail: its error reaches the caller, and `run` returns a `Result`.
    pub fn try_reference<F, E>(
        self,
        name: &str,
        backend: Backend,
        body: F,
    ) -> OpBuilder<O, Fallible>
    where
        F: for<'a> Fn(&mut O::Args<'a>) -> Result<O::Output, E> + Send + Sync + 'static,
        E: Into<BoxError>,
    {
        let mut references = self.references;
        references.push(self.variants.len());
        let builder = OpBuilder {
            selector: self.selector,
            op: self.op,
            variants: self.variants,
            bodies: self.bodies,
            references,
            reference_body: Some(Box::new(move |args: &mut O::Args<'_>| {
                body(args).map_err(Into::into)
            }) as _),
            check: self.check,
            misplaced: self.misplaced,
        };
        builder.add(name, backend, VariantBody::Reference)
    }
}

impl<O: Op, K: Kind<O>> OpBuilder<O, K> {
    /// A variant that returns no error. If it panics, the next best serves, unless the op must not
    /// be [run again](Op::may_run_again).
    pub fn variant<F>(self, name: &str, backend: Backend, body: F) -> Self
    where
        F: for<'a> Fn(&mut O::Args<'a>) -> O::Output + Send + Sync + 'static,
    {
        self.add(name, backend, VariantBody::Sure(Box::new(body)))
    }

    /// A variant that can fail: then the next best serves, in the end the reference.
    ///
    /// One panic or two errors in a row quarantine a variant, of this kind or any other: it serves
    /// no call of the op for a second. When that time is over it may serve again, and one more
    /// failure sends it back for twice as long, up to an hour. A success ends that: the next
    /// quarantine is a second again. A wrong result ([`Verify`]) keeps it out for its revision.
    ///
    /// ```
    /// use pointsman::{Backend, Selector, Workload};
    ///
    /// # let selector = Selector::builder().in_memory().ignore_environment().build()?;
    /// let half = selector
    ///     .function("half", |_: &u32| Workload::new([1]))
    ///     .reference("plain", Backend::Scalar, |n| **n / 2)
    ///     .try_variant("even", Backend::Simd, |n| match **n % 2 {
    ///         0 => Ok(**n / 2),
    ///         _ => Err("odd"),
    ///     })
    ///     .build()?;
    /// assert!((0..1000).all(|n| half.run(&n) == n / 2));
    /// # Ok::<(), pointsman::BuildError>(())
    /// ```
    pub fn try_variant<F, E>(self, name: &str, backend: Backend, body: F) -> Self
    where
        F: for<'a> Fn(&mut O::Args<'a>) -> Result<O::Output, E> + Send + Sync + 'static,
        E: Into<BoxError>,
    {
        let body = move |args: &mut O::Args<'_>| body(args).map_err(Into::into);
        self.add(name, backend, VariantBody::Fallible(Box::new(body)))
    }

    fn add(mut self, name: &str, backend: Backend, body: VariantBody<O>) -> Self {
        self.variants.push(Variant {
            name: name.into(),
            backend,
            revision: 0,
            limits: Limits::default(),
            when: None,
            available: None,
            untouched: false,
        });
        self.bodies.push(body);
        self
    }

    fn last(mut self, change: impl FnOnce(&mut Variant<O>)) -> Self {
        match self.variants.last_mut() {
            Some(variant) => change(variant),
            None => self.misplaced = true,
        }
        self
    }

    /// Needs this capability of the machine. GPUs are not detected: announce yours with
    /// [`Machine::with_gpu`](crate::Machine::with_gpu) and
    /// [`SelectorBuilder::machine`](crate::SelectorBuilder::machine).
    pub fn requires(self, cap: Cap) -> Self {
        self.last(|v| v.limits.caps.push(cap))
    }

    /// Serves workloads of at least this [size](Workload::size).
    pub fn min_size(self, size: usize) -> Self {
        self.last(|v| v.limits.min_size = size as u64)
    }

    /// Serves workloads of at most this [size](Workload::size).
    pub fn max_size(self, size: usize) -> Self {
        self.last(|v| v.limits.max_size = size as u64)
    }

    /// Serves these element types only; not a workload without one, unless
    /// [`DType::Unspecified`] is among them.
    pub fn dtypes(self, dtypes: &[DType]) -> Self {
        self.last(|v| v.limits.allow_dtypes(dtypes))
    }

    /// Needs data aligned to this many bytes, a power of two. It does not serve a workload that
    /// gives no address: see [`Workload::aligned`].
    pub fn alignment(self, bytes: usize) -> Self {
        self.last(|v| v.limits.alignment = bytes as u64)
    }

    /// Gives no gradients: never serves a workload that needs them.
    pub fn without_gradient(self) -> Self {
        self.last(|v| v.limits.gradient = false)
    }

    /// Needs this many bytes of memory on its backend: inputs, outputs and temporaries. A panic in
    /// it means that it does not fit.
    ///
    /// Where free memory is not known, nothing fits. [`HostMemory`](crate::HostMemory), the default,
    /// knows the host's on Linux; for GPUs, custom backends and other systems see
    /// [`SelectorBuilder::memory`](crate::SelectorBuilder::memory).
    pub fn memory(self, need: impl Fn(&Workload) -> u64 + Send + Sync + 'static) -> Self {
        self.last(|v| v.limits.memory = Some(Box::new(need)))
    }

    /// Serves calls for which this holds. Asked on every call; a panic in it means no. Given more
    /// than once, all must hold.
    pub fn when(
        self,
        condition: impl for<'a> Fn(&O::Args<'a>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.last(|v| {
            v.when = Some(match v.when.take() {
                Some(first) => Box::new(move |args| first(args) && condition(args)),
                None => Box::new(condition),
            });
        })
    }

    /// Serves while this can be used: a device, a compiled kernel.
    pub fn available(self, what: impl Available + 'static) -> Self {
        self.last(|v| v.available = Some(Box::new(what)))
    }

    /// Revision of its code, 0 at first. Raise it when the code changes: what was learned about
    /// another revision is not used.
    pub fn revision(self, revision: u32) -> Self {
        self.last(|v| v.revision = revision)
    }

    /// Promises that it has changed nothing when it returns an error.
    pub fn untouched_on_error(self) -> Self {
        self.last(|v| v.untouched = true)
    }

    /// Checks each variant against the reference before it first serves: see [`Verify`]. Until it
    /// has been checked, others serve.
    pub fn verified(mut self) -> Self
    where
        O: Verify,
    {
        self.check = Some(check::<O>);
        self
    }

    /// Finishes the declaration, or says what is wrong with it.
    pub fn build(self) -> Result<Handle<O, K>, BuildError> {
        let op = self.op.name().to_owned();
        self.selector.environment()?;
        self.sound(&op)?;
        let (Some(reference_body), &[reference]) = (self.reference_body, &self.references[..])
        else {
            return Err(BuildError::References {
                op,
                found: self.references.len(),
            });
        };
        let declared = Declared {
            op: self.op,
            variants: self.variants,
            bodies: self.bodies,
            reference,
            reference_body,
            check: self.check,
        };
        Handle::new(self.selector, declared)
    }

    /// Whether names and limits make sense.
    fn sound(&self, op: &str) -> Result<(), BuildError> {
        valid_name("op", op)?;
        if self.variants.len() > MAX_VARIANTS {
            return Err(BuildError::TooMany {
                what: "variants",
                found: self.variants.len(),
                most: MAX_VARIANTS,
            });
        }
        if self.misplaced {
            return Err(BuildError::Contradiction {
                op: op.to_owned(),
                variant: String::new(),
                why: "a limit stands before the first variant; it belongs after the one it limits"
                    .to_owned(),
            });
        }
        for (i, variant) in self.variants.iter().enumerate() {
            valid_name("variant", &variant.name)?;
            if self.variants[..i]
                .iter()
                .any(|other| other.name == variant.name)
            {
                return Err(BuildError::Duplicate {
                    op: op.to_owned(),
                    variant: variant.name.to_string(),
                });
            }
            if let Some(why) = self.contradiction(i, variant) {
                return Err(BuildError::Contradiction {
                    op: op.to_owned(),
                    variant: variant.name.to_string(),
                    why,
                });
            }
        }
        Ok(())
    }

    fn contradiction(&self, index: usize, variant: &Variant<O>) -> Option<String> {
        let limits = &variant.limits;
        if self.references.contains(&index) {
            let limited = limits.depend_on_call()
                || !limits.caps.is_empty()
                || variant.when.is_some()
                || variant.available.is_some();
            return limited
                .then(|| "the reference serves every call and can have no limits".to_owned());
        }
        let can_fail = matches!(self.bodies[index], VariantBody::Fallible(_));
        if can_fail && !variant.untouched && !self.op.may_run_again() {
            return Some(
                "the op must not be run again after a failure, so a variant that can fail must \
                 promise untouched_on_error()"
                    .to_owned(),
            );
        }
        limits.contradiction()
    }
}

/// 1 to 128 bytes without control characters.
pub(crate) fn valid_name(what: &'static str, name: &str) -> Result<(), BuildError> {
    if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
        return Err(BuildError::Name {
            what,
            name: name.to_owned(),
        });
    }
    Ok(())
}

impl<O: Op, K: Kind<O>> Declared<O, K> {
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.variants.iter().position(|v| &*v.name == name)
    }

    /// Puts each body at its variant's number in the op's state. Numbers of variants that other
    /// handles declare are never asked for here; the reference stands in their places.
    pub(crate) fn number(&mut self, ids: &[u8]) {
        let declared = std::mem::take(&mut self.bodies);
        let last = ids.iter().copied().max().unwrap_or(0);
        self.bodies
            .resize_with(usize::from(last) + 1, || VariantBody::Reference);
        for (id, body) in ids.iter().zip(declared) {
            self.bodies[usize::from(*id)] = body;
        }
    }

    /// The mode in which nobody but the reference serves.
    pub(crate) fn reference_mask(&self, mode: Mode) -> u64 {
        if mode == Mode::Reference {
            1 << self.reference
        } else {
            u64::MAX
        }
    }
}

/// What a check needs to know.
pub(crate) struct CheckCase<'c, O: Op> {
    pub(crate) op: &'c O,
    pub(crate) reference: &'c Run<'c, O>,
    pub(crate) variant: &'c Run<'c, O>,
    /// Why the variant may not serve a sample.
    pub(crate) why_not: &'c dyn Fn(&Workload, &O::Args<'_>) -> Option<String>,
}

/// Compares a variant with the reference on one sample.
fn check<O: Verify>(case: &CheckCase<'_, O>, workload: &Workload, seed: u64) -> Verdict {
    let op = case.op;
    let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut got = op.sample(workload, seed);
        {
            // The sample itself decides: its real size, alignment and contents.
            let args = op.args(&mut got);
            if let Some(why) = (case.why_not)(&op.workload(&args), &args) {
                return Verdict::CannotTell(format!("no sample is eligible: {why}"));
            }
        }
        let mut expected = op.sample(workload, seed);
        let Ok(truth) = (case.reference)(&mut op.args(&mut expected)) else {
            return Verdict::CannotTell("the reference failed on the sample".to_owned());
        };
        match guard::attempt(|| (case.variant)(&mut op.args(&mut got))) {
            Ok(result) if op.agrees((&expected, &truth), (&got, &result)) => Verdict::Agrees,
            Ok(_) => Verdict::Disagrees(format!(
                "gave another result than the reference for {workload}"
            )),
            Err(caught) => {
                Verdict::CannotTell(format!("failed on the sample: {}", caught.into_failure()))
            }
        }
    }));
    told.unwrap_or_else(|payload| {
        let why = guard::panic_message(payload.as_ref());
        Verdict::CannotTell(format!("the check panicked: {why}"))
    })
}
