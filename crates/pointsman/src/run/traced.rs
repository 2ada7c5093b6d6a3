//! Calls that are traced: the same line, with what happened told in spans.

use tracing::Span;

use super::Inner;
use crate::decision::Reason;
use crate::error::Attempt;
use crate::learn::Pick;
use crate::learn::published::Choice;
use crate::op::{Kind, Op, VariantBody};
use crate::thread::Inside;
use crate::trace::{self, Told, Trail};
use crate::workload::Workload;

impl<O: Op, K: Kind<O>> Inner<O, K> {
    /// Serves from a published choice, and traces it if the op is not hot.
    #[cold]
    #[inline(never)]
    pub(crate) fn serve_traced(
        &self,
        choice: Choice,
        workload: &Workload,
        eligible: u64,
        args: &mut O::Args<'_>,
    ) -> K::Out {
        if !trace::is_wanted(&self.state, self.shared().clock.as_ref()) {
            return self.serve(choice.variant, workload, eligible, args);
        }
        let (id, _turn) = self.led(choice.variant, workload, eligible);
        let told = Told {
            reason: (self.shared()).settled_reason(|| self.is_forced(id, workload)),
            confidence: choice.confidence(),
            has_history: choice.has_history,
            predicted_ns: self.state.level_ns(workload.cell_key(), id),
            ..self.told_of(id, workload)
        };
        drop(told.selection());
        let span = told.execution();
        if let VariantBody::Reference = self.declared.bodies[usize::from(id)] {
            let raw = span.in_scope(|| {
                let _inside = Inside::enter();
                (self.declared.reference_body)(args)
            });
            if let Some(error) = K::error(&raw) {
                self.note_reference_error_of(workload, &span, &error.to_string());
            }
            return self.referred(raw, Vec::new());
        }
        let result = span.in_scope(|| {
            let _inside = Inside::enter();
            self.attempt(id, args)
        });
        match result {
            Ok(output) => K::served(output),
            Err(caught) => self.after_failure(id, workload, caught, args, span),
        }
    }

    fn told_of<'a>(&'a self, id: u8, workload: &'a Workload) -> Told<'a> {
        let variant = &self.declared.variants[self.place(id)];
        Told {
            names: &self.state.span_names,
            workload,
            variant: &variant.name,
            backend: variant.backend,
            reason: Reason::Unknown,
            confidence: 0.0,
            has_history: false,
            predicted_ns: None,
            choice_ns: None,
        }
    }

    /// Tells of a pick of the learner. The span is that of the execution, or none.
    pub(super) fn told_pick(
        &self,
        trail: &mut Trail<'_>,
        workload: &Workload,
        pick: &Pick,
        failed: &[Attempt],
    ) -> Span {
        let told = Told {
            reason: pick.reason,
            confidence: pick.confidence,
            has_history: pick.predicted.samples() > 0,
            predicted_ns: Some(pick.predicted.ns()),
            ..self.told_of(pick.variant, workload)
        };
        let (op, variant) = (&*self.state.name, told.variant);
        let fell_back = |span: &Span| {
            if let Some(last) = failed.last() {
                let error = last.failure.to_string();
                trace::fell_back(span, op, &last.variant, variant, &error);
            }
        };
        if !trail.wants(pick.predicted.ns()) {
            fell_back(&Span::none());
            return Span::none();
        }
        trail.chosen(told, fell_back)
    }
}
