//! Step 9 of a call: spans for the sampled few, through `tracing` and nothing else.
//!
//! A traced call has two spans under the caller's current one, one after the other:
//! `backend_selection`, which says who was chosen and why, and the execution, `compute_block` or, on a
//! GPU, `gpu_kernel`, which lasts as long as the variant runs. Names of spans are static in `tracing`;
//! the field `otel.name` has the op in it, and is what exporters to OpenTelemetry take as the name.
//!
//! Whether a call is traced is decided before it runs, by what it is expected to take: a span that
//! is made afterwards would have neither its start nor its children.

mod gate;
mod heat;

use tracing::level_filters::LevelFilter;
use tracing::{Level, Span, field};

pub(crate) use self::gate::{Gate, Sampling};
use crate::backend::Backend;
use crate::clock::Clock;
use crate::decision::Reason;
use crate::outcome::{Cost, Rejection};
use crate::state::OpState;
use crate::workload::Workload;

/// Target of all spans and events here, for filters such as `RUST_LOG=pointsman::trace=info`.
const TARGET: &str = "pointsman::trace";

/// Whether anybody listens at this level, to us or to others: one load.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    Level::INFO <= LevelFilter::current()
}

/// The same for an op, at a moment, if it is not too hot.
pub(crate) fn is_wanted(state: &OpState, clock: &dyn Clock) -> bool {
    tracing::span_enabled!(target: TARGET, Level::INFO) && !state.is_hot(clock.now_ns())
}

/// What the spans of an op are called.
pub(crate) struct Names {
    op: Box<str>,
    selection: Box<str>,
    block: Box<str>,
    kernel: Box<str>,
}

impl Names {
    pub(crate) fn new(op: &str) -> Self {
        Names {
            op: op.into(),
            selection: format!("backend_selection: {op}").into(),
            block: format!("compute_block: {op}").into(),
            kernel: format!("gpu_kernel: {op}").into(),
        }
    }
}

/// What the spans of a call say.
pub(crate) struct Told<'a> {
    pub(crate) names: &'a Names,
    pub(crate) workload: &'a Workload,
    pub(crate) variant: &'a str,
    pub(crate) backend: Backend,
    pub(crate) reason: Reason,
    pub(crate) confidence: f64,
    pub(crate) has_history: bool,
    /// Unknown where the learner was busy with another call.
    pub(crate) predicted_ns: Option<f64>,
    /// How long choosing took; unknown where it was one look at what is published.
    pub(crate) choice_ns: Option<u64>,
}

impl Told<'_> {
    /// The span of the choice.
    pub(crate) fn selection(&self) -> Span {
        tracing::info_span!(
            target: TARGET,
            "backend_selection",
            otel.name = &*self.names.selection,
            operation = &*self.names.op,
            input_size = whole(self.workload.size()),
            workload = %self.workload,
            selected_variant = self.variant,
            selected_backend = %self.backend,
            has_history = self.has_history,
            decision_type = decision_type(self.reason, self.has_history),
            reason = self.reason.name(),
            confidence = self.confidence,
            predicted_ns = self.predicted_ns.map(|ns| ns.round() as i64),
            choice_ns = self.choice_ns.map(whole),
        )
    }

    /// The span of the execution.
    pub(crate) fn execution(&self) -> Span {
        execution(self.names, self.workload, self.variant, self.backend)
    }
}

/// The span of an execution.
pub(crate) fn execution(
    names: &Names,
    workload: &Workload,
    variant: &str,
    backend: Backend,
) -> Span {
    // A macro, because a span's name belongs to the place in the code that makes it.
    macro_rules! span {
        ($name:literal, $otel_name:expr) => {
            tracing::info_span!(
                target: TARGET,
                $name,
                otel.name = &*$otel_name,
                otel.status_code = field::Empty,
                operation = &*names.op,
                input_size = whole(workload.size()),
                selected_variant = variant,
                selected_backend = %backend,
                took_ns = field::Empty,
                error = field::Empty,
            )
        };
    }
    match backend {
        Backend::Gpu(_) => span!("gpu_kernel", names.kernel),
        _ => span!("compute_block", names.block),
    }
}

/// Exporters know signed numbers only; others would arrive as text.
fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The six kinds of decisions that spans tell apart; `reason` has the exact one.
fn decision_type(reason: Reason, has_history: bool) -> &'static str {
    match reason {
        Reason::Historical => "historical",
        Reason::Prior => "prior",
        // A policy of one's own goes by what it knows, if there is anything.
        Reason::Policy if has_history => "historical",
        Reason::Policy => "prior",
        Reason::Trial | Reason::FirstTry => "trial",
        // There was nothing to choose.
        Reason::Forced | Reason::Reference | Reason::OnlyEligible => "forced",
        Reason::Fallback | Reason::Unknown => "fallback",
        Reason::Frozen => "frozen",
    }
}

/// An event in a span, or in the current one if the call is not traced.
macro_rules! event_in {
    ($span:expr, $($rest:tt)+) => {
        if $span.is_none() {
            tracing::info!(target: TARGET, $($rest)+)
        } else {
            tracing::info!(target: TARGET, parent: $span, $($rest)+)
        }
    };
}

/// Tells that a variant failed, whether or not its call is traced.
pub(crate) fn failed(span: &Span, op: &str, variant: &str, error: &str) {
    span.record("otel.status_code", "ERROR");
    span.record("error", error);
    event_in!(
        span,
        operation = op,
        selected_variant = variant,
        error,
        "variant failed"
    );
}

/// Tells that another variant serves in the place of one that failed.
pub(crate) fn fell_back(span: &Span, op: &str, from: &str, to: &str, error: &str) {
    event_in!(
        span,
        operation = op,
        failed_variant = from,
        selected_variant = to,
        error,
        "fell back"
    );
}

/// Tells what a caller reported about a call that it ran itself.
pub(crate) fn recorded(op: &str, variant: &str, outcome: &str, took_ns: Option<u64>) {
    tracing::info!(
        target: TARGET,
        operation = op,
        selected_variant = variant,
        outcome,
        took_ns = took_ns.map(whole),
        "recorded"
    );
}

/// What a call through the learner emits, and how long that takes: the learner must not take it for
/// its own work.
pub(crate) struct Trail<'a> {
    state: &'a OpState,
    clock: &'a dyn Clock,
    is_on: bool,
    drawn: bool,
    asked_ns: u64,
    /// Nanoseconds spent on spans so far.
    pub(crate) spent_ns: u64,
}

impl<'a> Trail<'a> {
    /// Draws for a call.
    pub(crate) fn new(state: &'a OpState, clock: &'a dyn Clock) -> Self {
        let is_on = is_on();
        Trail {
            state,
            clock,
            is_on,
            drawn: is_on && state.gate.draw(),
            asked_ns: 0,
            spent_ns: 0,
        }
    }

    fn now_ns(&self) -> u64 {
        if self.is_on { self.clock.now_ns() } else { 0 }
    }

    /// A choice begins here.
    pub(crate) fn choosing(&mut self) {
        self.asked_ns = self.now_ns();
    }

    /// How long choosing has taken so far.
    pub(crate) fn since_asked_ns(&self) -> u64 {
        self.now_ns().saturating_sub(self.asked_ns)
    }

    /// Whether an attempt that is expected to take so long is traced.
    pub(crate) fn wants(&self, expected_ns: f64) -> bool {
        self.is_on
            && (self.drawn || self.state.gate.is_slow(expected_ns))
            && is_wanted(self.state, self.clock)
    }

    /// Emits the span of a choice that ends here, and the one of the execution that follows. `also` adds
    /// events to the former.
    pub(crate) fn chosen(&mut self, mut told: Told<'_>, also: impl FnOnce(&Span)) -> Span {
        let start = self.now_ns();
        told.choice_ns = Some(self.since_asked_ns());
        let selection = told.selection();
        also(&selection);
        drop(selection);
        let execution = told.execution();
        self.spent_ns += self.now_ns().saturating_sub(start);
        execution
    }

    /// Ends the span of an execution.
    pub(crate) fn executed(&mut self, span: Span, cost: Result<Cost, Rejection>) {
        if span.is_none() {
            return;
        }
        let start = self.now_ns();
        if let Ok(cost) = cost {
            span.record("took_ns", whole(cost.ns()));
        }
        drop(span);
        self.spent_ns += self.now_ns().saturating_sub(start);
    }
}
