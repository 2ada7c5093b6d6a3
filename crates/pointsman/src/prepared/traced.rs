//! Spans of a prepared op's calls.

use tracing::Span;

use super::{Chosen, Prepared};
use crate::trace::{self, Told};
use crate::workload::Workload;

impl Prepared {
    /// A span for the execution of a call, to be entered around the work; a disabled one if it is not
    /// traced: see [`Selector::span`](crate::Selector::span).
    pub fn span(&self, chosen: &Chosen, workload: &Workload) -> Span {
        if !chosen.traced {
            return Span::none();
        }
        let candidate = &self.candidates[chosen.index()];
        let (name, backend) = (&candidate.name, candidate.backend);
        trace::execution(&self.state.span_names, workload, name, backend)
    }

    /// Emits the span of a choice, if the op is not hot.
    #[cold]
    pub(super) fn trace(
        &self,
        chosen: &mut Chosen,
        workload: &Workload,
        has_history: bool,
        predicted_ns: impl FnOnce() -> Option<f64>,
        choice_ns: Option<u64>,
    ) {
        if !trace::is_wanted(&self.state, self.shared().clock.as_ref()) {
            return;
        }
        let candidate = &self.candidates[chosen.index()];
        let told = Told {
            names: &self.state.span_names,
            workload,
            variant: &candidate.name,
            backend: candidate.backend,
            reason: chosen.reason,
            confidence: chosen.confidence,
            has_history,
            predicted_ns: predicted_ns(),
            choice_ns,
        };
        drop(told.selection());
        chosen.traced = true;
    }
}
