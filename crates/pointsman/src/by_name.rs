//! Choosing for callers who run the work themselves: ops and candidates by name.

use std::time::Duration;

use crate::backend::Backend;
use crate::decision::{Decision, Explanation, Reason, Ticket};
use crate::explain::{Line, explanation};
use crate::learn::{Pick, bits};
use crate::outcome::{Cost, Outcome, Rejection};
use crate::selector::{Mode, Selector};
use crate::state::{Ask, Look, MAX_VARIANTS, OpState, Timed};
use crate::trace::{self, Told, Trail};
use crate::workload::Workload;

/// The numbers of a call's candidates, in the caller's order.
struct Candidates {
    ids: [u8; MAX_VARIANTS],
    count: usize,
    mask: u64,
}

impl Candidates {
    /// The first that has a number: the reference.
    fn first(&self) -> Option<u8> {
        let mut ids = self.ids[..self.count].iter().copied();
        ids.find(|id| *id != u8::MAX)
    }

    fn index_of(&self, id: u8) -> usize {
        self.ids[..self.count]
            .iter()
            .position(|known| *known == id)
            .unwrap_or(0)
    }
}

impl Selector {
    /// Chooses one of the candidates for a workload. The caller runs it and reports what happened
    /// with [`record`](Self::record).
    ///
    /// The op and its candidates need no declaration: names are made known on first use, up to
    /// 1,024 ops with 64 candidates each. The first candidate is the reference: it serves in
    /// reference mode, and where there is no room to learn.
    ///
    /// ```
    /// use std::time::Instant;
    /// use pointsman::{Outcome, Selector, Workload};
    ///
    /// # let selector = Selector::builder().in_memory().build()?;
    /// let x = vec![1.0f64; 1000];
    /// let decision = selector.decide("sum", &Workload::new([x.len()]), &["forward", "backward"]);
    /// let start = Instant::now();
    /// let sum: f64 = match decision.variant() {
    ///     "forward" => x.iter().sum(),
    ///     _ => x.iter().rev().sum(),
    /// };
    /// selector.record(&decision, Outcome::took(start.elapsed()));
    /// assert_eq!(sum, 1000.0);
    /// # Ok::<(), pointsman::BuildError>(())
    /// ```
    pub fn decide<'c>(
        &self,
        op: &str,
        workload: &Workload,
        candidates: &[&'c str],
    ) -> Decision<'c> {
        // Filled in place: a decision carries its workload, and moving it about would cost more
        // than choosing.
        let mut decision = undecided(workload, candidates);
        self.find_op(op, |index, state| {
            let found = self.candidates(state, candidates);
            if found.mask == 0 {
                return;
            }
            let eligible = self.eligible_by_name(state, workload, &found);
            let key = workload.cell_key();
            let ticket = &mut decision.ticket;
            (ticket.selector, ticket.op, ticket.key) = (self.shared().id, index, key);
            let weight = match state.published(key, eligible) {
                Look::Serve(choice, n) => {
                    ticket.id = choice.variant;
                    decision.reason = self.settled_reason(state, workload, choice.variant);
                    decision.confidence = choice.confidence();
                    decision.point_at(candidates, found.index_of(choice.variant));
                    if trace::is_on() && state.gate.may_take(choice, n) {
                        let level_ns = || state.level_ns(key, choice.variant);
                        self.trace(state, &mut decision, choice.has_history, level_ns, None);
                    }
                    return;
                }
                Look::Due(choice) => 1 << choice.period,
                Look::Ask => 1,
            };
            let mut trail = Trail::new(state, self.shared().clock.as_ref());
            trail.choosing();
            let pick = self.pick(state, workload, key, eligible, found.first());
            state.counters.chosen(pick.variant, pick.reason);
            (ticket.id, ticket.sampled, ticket.weight) = (pick.variant, true, weight);
            (ticket.best_ns, ticket.reserved_ns) = (pick.best_ns, pick.reserved_ns);
            ticket.nested = crate::thread::nested();
            decision.reason = pick.reason;
            decision.confidence = pick.confidence;
            decision.predicted = Some(pick.predicted);
            decision.point_at(candidates, found.index_of(pick.variant));
            let expected_ns = pick.predicted.ns();
            if trail.wants(expected_ns) {
                let has_history = pick.predicted.samples() > 0;
                let choice_ns = trail.since_asked_ns();
                let expected = || Some(expected_ns);
                self.trace(state, &mut decision, has_history, expected, Some(choice_ns));
            }
        });
        decision
    }

    /// Reports what happened to a decision's call.
    ///
    /// Record every decision once, in any order and from any thread. A decision of another
    /// selector is ignored.
    pub fn record(&self, decision: &Decision<'_>, outcome: Outcome) {
        let ticket = &decision.ticket;
        // Most calls of a settled op end here.
        let silent = !ticket.sampled && !ticket.traced && outcome != Outcome::Failed;
        if silent || ticket.selector != self.shared().id {
            return;
        }
        self.with_op(ticket.op, |state| {
            if ticket.traced || outcome == Outcome::Failed {
                tell(state, decision, outcome);
            }
            if !ticket.sampled && outcome != Outcome::Failed {
                return;
            }
            let timed = Timed {
                workload: &ticket.workload,
                key: ticket.key,
                pick: Pick {
                    variant: ticket.id,
                    reason: decision.reason,
                    confidence: decision.confidence,
                    predicted: decision.predicted.unwrap_or_default(),
                    best_ns: ticket.best_ns,
                    reserved_ns: ticket.reserved_ns,
                    burst: None,
                    settled: false,
                    publish: None,
                },
                weight: ticket.weight,
                nested: ticket.nested,
            };
            match outcome {
                Outcome::Took(elapsed) => state.observe(self.shared(), &timed, cost_of(elapsed)),
                Outcome::WarmUp => state.observe(self.shared(), &timed, Err(Rejection::WarmUp)),
                Outcome::Cancelled => state.learner().cancel(&timed.pick),
                Outcome::Failed => {
                    state.failed(self.shared(), &timed, false, REPORTED.to_owned(), 0.0);
                }
            }
        });
    }

    /// Which candidate would be chosen for a workload, and why; prints as a table.
    pub fn explain(
        &self,
        op: &str,
        workload: &Workload,
        candidates: &[&str],
    ) -> Option<Explanation> {
        self.find_op(op, |_, state| {
            let found = self.candidates(state, candidates);
            let eligible = self.eligible_by_name(state, workload, &found);
            let now_ns = self.shared().clock.now_ns();
            state.release(now_ns);
            let lines = found.ids[..found.count]
                .iter()
                .enumerate()
                .filter(|(_, id)| **id != u8::MAX) // a name that cannot be remembered
                .map(|(i, id)| {
                    let ruled_out = eligible & 1 << id == 0;
                    let quarantined = state.quarantine.why(*id, now_ns).filter(|_| ruled_out);
                    Line {
                        id: *id,
                        name: candidates[i].to_owned(),
                        backend: backend_of(candidates[i]),
                        reference: i == 0,
                        quarantined: quarantined.is_some(),
                        why_not: ruled_out.then(|| {
                            quarantined.unwrap_or_else(|| {
                                "ruled out by mode, environment or preference".to_owned()
                            })
                        }),
                        assumed: false,
                        checked: None,
                    }
                })
                .collect();
            let mut told = explanation(self.shared(), state, workload, lines, None);
            let mut names = candidates.iter().zip(&found.ids[..found.count]);
            if let Some((_, id)) = names.find(|(n, id)| **n == told.chosen && **id != u8::MAX) {
                let demanded = self.demanded(state, workload, *id);
                told.reason = demanded.unwrap_or(told.reason);
            }
            told
        })
    }

    /// A span for the execution of a decision's call, to be entered around the work: `compute_block`, or
    /// `gpu_kernel` if the candidate is named like a GPU. It is a disabled one if this decision is not
    /// traced, so that it may always be entered.
    ///
    /// ```
    /// use std::time::Instant;
    /// use pointsman::{Outcome, Selector, Workload};
    ///
    /// # let selector = Selector::builder().in_memory().build()?;
    /// let mut keys = vec![3, 1, 2];
    /// let decision = selector.decide("sort", &Workload::new([3]), &["stable", "unstable"]);
    /// let start = Instant::now();
    /// selector.span(&decision).in_scope(|| match decision.variant() {
    ///     "stable" => keys.sort(),
    ///     _ => keys.sort_unstable(),
    /// });
    /// selector.record(&decision, Outcome::took(start.elapsed()));
    /// # Ok::<(), pointsman::BuildError>(())
    /// ```
    pub fn span(&self, decision: &Decision<'_>) -> tracing::Span {
        let ticket = &decision.ticket;
        if !ticket.traced || ticket.selector != self.shared().id {
            return tracing::Span::none();
        }
        let span = |state: &OpState| {
            let backend = backend_of(decision.variant);
            trace::execution(
                &state.span_names,
                &ticket.workload,
                decision.variant,
                backend,
            )
        };
        self.with_op(ticket.op, span)
            .unwrap_or_else(tracing::Span::none)
    }

    /// Emits the span of a decision, if the op is not hot.
    #[cold]
    fn trace(
        &self,
        state: &OpState,
        decision: &mut Decision<'_>,
        has_history: bool,
        predicted_ns: impl FnOnce() -> Option<f64>,
        choice_ns: Option<u64>,
    ) {
        if !trace::is_wanted(state, self.shared().clock.as_ref()) {
            return;
        }
        let told = Told {
            names: &state.span_names,
            workload: &decision.ticket.workload,
            variant: decision.variant,
            backend: backend_of(decision.variant),
            reason: decision.reason,
            confidence: decision.confidence,
            has_history,
            predicted_ns: predicted_ns(),
            choice_ns,
        };
        drop(told.selection());
        decision.ticket.traced = true;
    }

    fn pick(
        &self,
        state: &OpState,
        workload: &Workload,
        key: u64,
        eligible: u64,
        reference: Option<u8>,
    ) -> Pick {
        let shared = self.shared();
        state.release(shared.clock.now_ns());
        let ask = Ask {
            workload,
            key,
            eligible,
            reference,
            needs: &[],
            explore: true,
        };
        let mut pick = state.decide(shared, &ask);
        if !pick.reason.is_trial() {
            pick.reason = self
                .demanded(state, workload, pick.variant)
                .unwrap_or(pick.reason);
        }
        state.publish(key, eligible, &pick);
        pick
    }

    /// Why a published choice serves.
    #[inline]
    fn settled_reason(&self, state: &OpState, workload: &Workload, variant: u8) -> Reason {
        let chosen = match self.shared().policy {
            None => Reason::Historical,
            Some(_) => Reason::Policy,
        };
        if self.is_plain(workload) && self.shared().mode == Mode::Learn {
            return chosen;
        }
        let demanded = self.demanded(state, workload, variant);
        demanded.unwrap_or(chosen)
    }

    /// The reason that stands above what was learned, if there is one.
    fn demanded(&self, state: &OpState, workload: &Workload, variant: u8) -> Option<Reason> {
        let shared = self.shared();
        let names = state.names();
        let named = &names[usize::from(variant)];
        let all = [(&*named.name, named.backend)];
        match shared.mode {
            Mode::Reference => Some(Reason::Reference),
            _ if shared.env.force.lenient_mask(&state.name, &all) != 0 => Some(Reason::Forced),
            _ if workload.preference() == Some(named.backend) => Some(Reason::Forced),
            Mode::Frozen => Some(Reason::Frozen),
            Mode::Learn => None,
        }
    }

    /// Whether neither environment nor call demands anything.
    #[inline]
    fn is_plain(&self, workload: &Workload) -> bool {
        let env = &self.shared().env;
        env.force.is_empty() && env.disable.is_empty() && workload.preference().is_none()
    }

    /// The numbers of the candidates. Callers mostly give the same list, so that each name is
    /// mostly found where it was last time.
    #[inline]
    fn candidates(&self, state: &OpState, candidates: &[&str]) -> Candidates {
        let mut found = Candidates {
            ids: [0; MAX_VARIANTS],
            count: 0,
            mask: 0,
        };
        let names = state.names();
        for (i, candidate) in candidates.iter().enumerate().take(MAX_VARIANTS) {
            let here = names.get(i).is_some_and(|n| *n.name == **candidate);
            let at = if here {
                Some(i)
            } else {
                names.iter().position(|n| *n.name == **candidate)
            };
            let Some(at) = at else {
                drop(names);
                return self.new_candidates(state, candidates);
            };
            found.ids[i] = at as u8;
            found.count = i + 1;
            found.mask |= 1 << at;
        }
        found
    }

    #[cold]
    fn new_candidates(&self, state: &OpState, candidates: &[&str]) -> Candidates {
        let mut found = Candidates {
            ids: [u8::MAX; MAX_VARIANTS],
            count: 0,
            mask: 0,
        };
        let before = state.names().len();
        for (i, candidate) in candidates.iter().enumerate().take(MAX_VARIANTS) {
            found.count = i + 1;
            if crate::op::valid_name("variant", candidate).is_err() {
                continue;
            }
            let (backend, calibration) = (backend_of(candidate), &self.shared().calibration);
            if let Some(id) = state.register(candidate, None, backend, calibration) {
                found.ids[i] = id;
                found.mask |= 1 << id;
            }
        }
        if state.names().len() > before {
            self.teach(state);
        }
        found
    }

    #[inline]
    fn eligible_by_name(&self, state: &OpState, workload: &Workload, found: &Candidates) -> u64 {
        let shared = self.shared();
        let mut mask = found.mask & !state.quarantine.mask();
        if mask == 0 {
            mask = found.mask; // everybody failed lately: somebody must serve
        }
        if self.is_plain(workload) && shared.mode != Mode::Reference {
            return mask;
        }
        self.restricted(state, workload, found, mask)
    }

    #[cold]
    fn restricted(
        &self,
        state: &OpState,
        workload: &Workload,
        found: &Candidates,
        mask: u64,
    ) -> u64 {
        let shared = self.shared();
        if shared.mode == Mode::Reference {
            return found.first().map_or(mask, |id| 1 << id);
        }
        let names = state.names();
        let all: Vec<(&str, Backend)> = names.iter().map(|n| (&*n.name, n.backend)).collect();
        let or = |wanted: u64, otherwise: u64| if wanted == 0 { otherwise } else { wanted };
        let mut mask = mask;
        mask = or(
            mask & !shared.env.disable.lenient_mask(&state.name, &all),
            mask,
        );
        mask = or(
            mask & shared.env.force.lenient_mask(&state.name, &all),
            mask,
        );
        let preferred = |id: &u8| Some(all[usize::from(*id)].1) == workload.preference();
        or(
            bits(mask).filter(preferred).fold(0, |m, id| m | 1 << id),
            mask,
        )
    }
}

/// A candidate that is named like a backend runs there; of others nothing is known.
fn backend_of(candidate: &str) -> Backend {
    let unknown = || Backend::custom("unknown").unwrap_or(Backend::Scalar);
    candidate.parse().unwrap_or_else(|_| unknown())
}

fn cost_of(elapsed: Duration) -> Result<Cost, Rejection> {
    Cost::from_ns(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
}

/// Tells what a caller has reported.
#[cold]
fn tell(state: &OpState, decision: &Decision<'_>, outcome: Outcome) {
    let (name, took_ns) = match outcome {
        Outcome::Took(elapsed) => (
            "took",
            Some(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)),
        ),
        Outcome::WarmUp => ("warm_up", None),
        Outcome::Cancelled => ("cancelled", None),
        Outcome::Failed => {
            let none = tracing::Span::none();
            return trace::failed(&none, &state.name, decision.variant, REPORTED);
        }
    };
    trace::recorded(&state.name, decision.variant, name, took_ns);
}

/// All that is known of a failure that a caller reports.
const REPORTED: &str = "the caller reported a failure";

/// What stands if there is no room to learn, or no candidate: the first serves.
#[inline]
fn undecided<'c>(workload: &Workload, candidates: &[&'c str]) -> Decision<'c> {
    Decision {
        variant: candidates.first().copied().unwrap_or(""),
        index: 0,
        reason: Reason::Unknown,
        confidence: 0.0,
        predicted: None,
        ticket: Ticket {
            selector: 0,
            op: 0,
            id: 0,
            sampled: false,
            nested: false,
            traced: false,
            weight: 0,
            key: 0,
            best_ns: 0.0,
            reserved_ns: 0.0,
            workload: *workload,
        },
    }
}
