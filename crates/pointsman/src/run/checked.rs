//! The part of a call that keeps variants from serving before they have been checked.

use super::Inner;
use crate::check::{self, Checks, Verdict};
use crate::guard;
use crate::learn::{Pick, bits};
use crate::op::{CheckCase, Kind, Op};
use crate::selector::Mode;
use crate::state::Ask;
use crate::thread;
use crate::workload::Workload;

impl<O: Op, K: Kind<O>> Inner<O, K> {
    /// The learner's pick among those that have been checked here; asks for a check of one that
    /// the learner would like better.
    pub(super) fn checked_pick(
        &self,
        workload: &Workload,
        key: u64,
        left: u64,
        explore: bool,
    ) -> Pick {
        let shared = self.shared();
        let needs = self.needs(workload, left);
        let decide = |eligible: u64| {
            let ask = Ask {
                workload,
                key,
                eligible,
                reference: Some(self.reference),
                needs: &needs,
                explore,
            };
            self.state.decide(shared, &ask)
        };
        if self.declared.check.is_none() {
            return decide(left);
        }
        loop {
            let checked = self.state.checked().agreed(workload) | 1 << self.reference;
            let pick = decide(left);
            if checked & 1 << pick.variant != 0 {
                return pick;
            }
            self.state.learner().cancel(&pick);
            let now_ns = shared.clock.now_ns();
            let checks = self.state.checked();
            let open = checks.is_open(workload, pick.variant, now_ns);
            drop(checks);
            let may_check = shared.mode == Mode::Learn && open;
            if may_check {
                thread::count_probe(); // whoever serves now is not who will serve
            }
            let serving = match left & checked {
                0 => 1 << self.reference,
                some => some,
            };
            match shared.checks {
                Checks::Inline if may_check => {
                    self.check(workload, pick.variant);
                    let left = left & !self.state.quarantine.mask();
                    if left == 0 || self.state.checked().agreed(workload) & 1 << pick.variant == 0 {
                        return decide(serving);
                    }
                }
                Checks::Background if may_check => {
                    self.check_in_background(workload, pick.variant);
                    return decide(serving).unpublished();
                }
                _ => return decide(serving),
            }
        }
    }

    /// Bytes that the variants of the mask need for this call, for policies that look at them. Asked
    /// before the op is locked: it is the user's code.
    fn needs(&self, workload: &Workload, mask: u64) -> Vec<(u8, u64)> {
        if self.shared().policy.is_none() {
            return Vec::new();
        }
        let need = |id: u8| {
            let need = self.declared.variants[self.place(id)]
                .limits
                .memory
                .as_ref()?;
            let bytes = guard::attempt_sure(|| need(workload)).ok()?;
            Some((id, bytes))
        };
        bits(mask).filter_map(need).collect()
    }

    /// Compares a variant with the reference on the samples of this block.
    pub(super) fn check(&self, workload: &Workload, id: u8) {
        let shared = self.shared();
        let place = self.place(id);
        let variant = &self.declared.variants[place];
        let Some(check) = self.declared.check else {
            return;
        };
        let body = |args: &mut O::Args<'_>| self.run_plainly(id, args);
        let reference =
            |args: &mut O::Args<'_>| K::into_result((self.declared.reference_body)(args));
        let case = CheckCase {
            op: &self.declared.op,
            reference: &reference,
            variant: &body,
            why_not: &|workload, args| Some(self.why_not(place, workload, Some(args))?.to_string()),
        };
        let start = shared.clock.now_ns();
        let mut verdict = None;
        for sample in check::samples(workload) {
            match check(&case, &sample, shared.seed) {
                wrong @ Verdict::Disagrees(_) => {
                    verdict = Some(wrong);
                    break;
                }
                // One sample that it serves and agrees on is enough to count; failures do not.
                Verdict::Agrees => verdict = Some(Verdict::Agrees),
                open => verdict = verdict.or(Some(open)),
            }
        }
        let verdict = verdict.unwrap_or_else(|| Verdict::CannotTell("no samples".to_owned()));
        let spent = shared.clock.now_ns().saturating_sub(start);
        let who = (id, variant.revision);
        self.state.judged(shared, workload, who, &verdict, spent);
    }

    fn check_in_background(&self, workload: &Workload, id: u8) {
        // The thread needs the op, not this call: nothing of the caller's is borrowed.
        let inner = Inner {
            declared: self.declared.clone(),
            selector: self.selector.clone(),
            state: self.state.clone(),
            ids: self.ids.clone(),
            ..*self
        };
        let workload = *workload;
        self.shared()
            .checker
            .spawn(move || inner.check(&workload, id));
    }
}
