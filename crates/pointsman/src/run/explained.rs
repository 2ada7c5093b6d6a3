//! What a handle can say about a call.

use super::Inner;
use crate::decision::{Explanation, Reason};
use crate::eligible::WhyNot;
use crate::explain::{Line, explanation};
use crate::guard;
use crate::learn::Pick;
use crate::machine::Cap;
use crate::op::{Kind, Op, Variant};
use crate::selector::Mode;
use crate::workload::Workload;

impl<O: Op, K: Kind<O>> Inner<O, K> {
    /// One line per variant, in order of declaration.
    pub(super) fn lines(&self, workload: &Workload, args: Option<&O::Args<'_>>) -> Vec<Line> {
        let shared = self.shared();
        let now_ns = shared.clock.now_ns();
        self.state.release(now_ns);
        let checked = self
            .declared
            .check
            .is_some()
            .then(|| self.state.checked().agreed(workload));
        let mask = self.eligible(workload, args);
        let line = |(place, variant): (usize, &Variant<O>)| {
            let id = self.ids[place];
            let reference = place == self.declared.reference;
            let static_why = || {
                if let Some(cap) = variant.limits.missing_cap(&shared.machine) {
                    return Some(WhyNot::Missing(cap));
                }
                if shared.mode == Mode::Reference && !reference {
                    return Some(WhyNot::NotReferenceMode);
                }
                if self.able & 1 << id == 0 {
                    return Some(WhyNot::Disabled);
                }
                if let Some(why) = self.why_not(place, workload, args) {
                    return Some(why);
                }
                if self.forced != 0 && self.forced & 1 << id == 0 {
                    return Some(WhyNot::NotForced);
                }
                (mask & 1 << id == 0).then_some(WhyNot::NotPreferred)
            };
            let may = mask & 1 << id != 0;
            let quarantined = self.state.quarantine.why(id, now_ns).filter(|_| !may);
            let is_quarantined = quarantined.is_some();
            let why_not = match may {
                true => None,
                false => quarantined.or_else(|| static_why().map(|why| self.told(place, why))),
            };
            Line {
                id,
                name: variant.name.to_string(),
                backend: variant.backend,
                reference,
                why_not,
                quarantined: is_quarantined,
                assumed: may && args.is_none() && variant.when.is_some(),
                checked: checked.map(|mask| reference || mask & 1 << id != 0),
            }
        };
        self.declared
            .variants
            .iter()
            .enumerate()
            .map(line)
            .collect()
    }

    /// A reason in words, with what only the machine or the variant knows.
    pub(super) fn told(&self, place: usize, why: WhyNot) -> String {
        let available = self.declared.variants[place].available.as_ref();
        match (why, available) {
            (WhyNot::Unavailable, Some(what)) => {
                guard::attempt_sure(|| what.why_not()).unwrap_or_else(|_| why.to_string())
            }
            (WhyNot::Missing(Cap::Gpu(_)), _) if !self.shared().machine.no_gpu.is_empty() => {
                format!("{why}: {}", self.shared().machine.no_gpu)
            }
            _ => why.to_string(),
        }
    }

    pub(super) fn explanation(
        &self,
        workload: &Workload,
        lines: Vec<Line>,
        pick: Option<&Pick>,
    ) -> Explanation {
        let mut told = explanation(self.shared(), &self.state, workload, lines, pick);
        let chosen = self.declared.position(&told.chosen);
        let forced = chosen.is_some_and(|place| self.is_forced(self.ids[place], workload));
        if pick.is_none() && forced && told.mode != Mode::Reference {
            told.reason = Reason::Forced;
        }
        told
    }
}
