//! Choosing by another policy than `adaptive`: its chooser is asked and told, and kept from harm.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::cells::Place;
use super::{Known, Learner, Pick, Question, SAMPLED_NS, Seen, Work, bits, sampling_period};
use crate::decision::{Prediction, Reason};
use crate::guard::panic_message;
use crate::outcome::Cost;
use crate::policy::adaptive::{self, confidence};
use crate::policy::{Call, Candidate, Choice, Chooser, Policy};

/// A policy and its chooser for one op.
pub(crate) struct Asked {
    policy: Arc<dyn Policy>,
    seed: u64,
    chooser: Option<Box<dyn Chooser>>,
    /// What went wrong first: told once.
    trouble: Option<String>,
    told: bool,
}

impl Asked {
    pub(super) fn new(policy: Arc<dyn Policy>, seed: u64) -> Self {
        Asked {
            policy,
            seed,
            chooser: None,
            trouble: None,
            told: false,
        }
    }

    /// The same policy, knowing nothing.
    pub(super) fn restarted(&mut self) -> Self {
        self.forget();
        Asked {
            trouble: self.trouble.take(),
            told: self.told,
            ..Asked::new(self.policy.clone(), self.seed)
        }
    }

    /// Drops what the chooser knows.
    pub(super) fn forget(&mut self) {
        let old = self.chooser.take();
        self.guarded(|_| drop(old));
    }

    pub(super) fn is_constant(&self) -> bool {
        self.policy.is_constant()
    }

    /// Runs foreign code: a panic in it is noted and goes no further.
    fn guarded<T>(&mut self, run: impl FnOnce(&mut Self) -> T) -> Option<T> {
        match catch_unwind(AssertUnwindSafe(|| run(self))) {
            Ok(value) => Some(value),
            Err(payload) => {
                let message = panic_message(payload.as_ref());
                self.trouble.get_or_insert(message);
                // Dropping what was thrown is foreign code as well.
                let dropped = catch_unwind(AssertUnwindSafe(|| drop(payload)));
                dropped.unwrap_or_else(std::mem::forget);
                None
            }
        }
    }

    fn with<T>(&mut self, ask: impl FnOnce(&mut dyn Chooser) -> T) -> Option<T> {
        self.guarded(|asked| {
            if asked.chooser.is_none() {
                asked.chooser = asked.policy.chooser(asked.seed);
            }
            let chooser = asked.chooser.as_mut()?;
            Some(ask(chooser.as_mut()))
        })
        .flatten()
    }

    fn choose(&mut self, call: &Call<'_>) -> Option<Choice> {
        let choice = self.with(|chooser| chooser.choose(call))?;
        call.candidate(choice.variant).map(|_| choice)
    }

    /// The first panic, once.
    fn take_trouble(&mut self) -> Option<(String, String)> {
        if self.told {
            return None;
        }
        let message = self.trouble.clone()?;
        self.told = true;
        let policy = self.policy.clone();
        let name = self.guarded(|_| policy.name().to_owned());
        Some((name.unwrap_or_default(), message))
    }
}

impl Learner {
    /// Whether another policy than `adaptive` chooses.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Which policy has panicked for the first time, and how: to be told once.
    pub(crate) fn take_trouble(&mut self) -> Option<(String, String)> {
        self.asked.as_mut()?.take_trouble()
    }

    /// Who a constant policy chooses for a call; `None` for all other policies.
    pub(crate) fn constant_choice(&mut self, question: &Question<'_>) -> Option<(u8, Choice)> {
        let asked = self.asked.as_mut().filter(|a| a.is_constant())?;
        if question.eligible.count_ones() < 2 {
            return None;
        }
        let place = self.cells.find(question.key).map(|at| self.cells.at(at));
        let candidates = candidates(&self.variants, place, question.eligible, question);
        let choice = asked.choose(&question.call(&candidates, false));
        let reference = stand_in(question, question.eligible);
        let choice = choice.unwrap_or(Choice::serve(usize::from(reference)));
        Some((choice.variant as u8, choice))
    }

    /// Brings the model up to date, which is left behind while another policy chooses.
    pub(crate) fn catch_up(&mut self) {
        if self.is_asked() && self.changed > self.points / 8 {
            self.fit();
        }
    }

    /// Lets the policy choose.
    pub(super) fn decide_by_policy(&mut self, question: &Question<'_>) -> Pick {
        let at = self.enter(question.workload, question.key);
        self.cells.at_mut(at).visit();
        let place = self.cells.at(at);
        let failing = |v: &u8| {
            let samples = place.of(*v);
            samples.is_some_and(|s| s.is_blocked(question.now_ns))
        };
        let mask = bits(question.eligible)
            .filter(|v| !failing(v))
            .fold(0u64, |mask, v| mask | 1 << v);
        // All of them fail here: somebody must serve.
        let mask = if mask == 0 { question.eligible } else { mask };
        let candidates = candidates(&self.variants, Some(place), mask, question);
        let call = question.call(&candidates, question.explore);
        let answer = match (&mut self.asked, candidates.len()) {
            (Some(asked), 2..) => asked.choose(&call),
            _ => None,
        };
        let alone = candidates.len() == 1;
        let choice = answer.unwrap_or_else(|| Choice {
            good_for: if alone { u32::MAX } else { 0 },
            ..Choice::serve(usize::from(stand_in(question, mask)))
        });
        let pick = pick(place, &candidates, choice, question.explore, alone);
        if pick.reason != Reason::Trial {
            self.cells.at_mut(at).incumbent = Some(pick.variant);
        }
        pick
    }

    /// Tells the policy what a call cost.
    pub(super) fn tell_policy(&mut self, at: usize, seen: &Seen<'_>, cost: Cost) {
        let Some(asked) = &mut self.asked else {
            return;
        };
        let question = Question {
            workload: seen.workload,
            key: seen.key,
            eligible: 1 << seen.variant,
            reference: None,
            needs: &[],
            now_ns: seen.now_ns,
            explore: false,
            frozen: false,
        };
        let place = Some(self.cells.at(at));
        let candidates = candidates(&self.variants, place, question.eligible, &question);
        let call = question.call(&candidates, false);
        asked.with(|chooser| chooser.learn(&call, usize::from(seen.variant), cost));
    }
}

impl<'a> Question<'a> {
    fn call(&self, candidates: &'a [Candidate<'a>], may_try: bool) -> Call<'a> {
        Call {
            workload: self.workload,
            cell: self.key,
            candidates,
            may_try,
            now_ns: self.now_ns,
        }
    }
}

/// Who serves if the policy gives no answer.
fn stand_in(question: &Question<'_>, mask: u64) -> u8 {
    let reference = question.reference.filter(|r| mask & 1 << r != 0);
    reference.unwrap_or(mask.trailing_zeros() as u8)
}

/// The variants of the mask as a policy sees them.
fn candidates<'a>(
    variants: &'a [Known],
    place: Option<&Place>,
    mask: u64,
    question: &Question<'_>,
) -> Vec<Candidate<'a>> {
    let work = Work::of(question.workload);
    let mut out = Vec::with_capacity(mask.count_ones() as usize);
    for id in bits(mask) {
        let known = &variants[usize::from(id)];
        let samples = place.and_then(|p| p.of(id)).filter(|s| s.held() > 0);
        let need = question.needs.iter().find(|(variant, _)| *variant == id);
        out.push(Candidate {
            id,
            name: &known.name,
            backend: known.backend,
            reference: question.reference == Some(id),
            memory: need.map(|(_, bytes)| *bytes),
            samples: samples.map_or(0, |s| s.held()),
            level_ns: samples.map(|s| s.level().exp()),
            cost: known.cost,
            way: work.way(known.backend, variants),
        });
    }
    out
}

/// Turns a policy's answer into a pick.
fn pick(
    place: &Place,
    candidates: &[Candidate<'_>],
    choice: Choice,
    explore: bool,
    alone: bool,
) -> Pick {
    let levels = candidates.iter().filter_map(|c| c.level_ns);
    let best_ns = levels.reduce(f64::min);
    // Without samples here, a variant may be anything: as good as the best, give or take e³.
    let unknown = Prediction::new(
        best_ns.map_or_else(|| Prediction::default().mean(), f64::ln),
        Prediction::default().sd(),
        0,
    );
    let predicted = |candidate: &Candidate<'_>| {
        let samples = place.of(candidate.id).filter(|s| s.held() > 0);
        samples.map_or(unknown, |s| {
            let sd = s.spread() / f64::from(s.held()).sqrt();
            Prediction::new(s.level(), sd, s.held())
        })
    };
    let known: Vec<adaptive::Candidate> = candidates
        .iter()
        .map(|c| adaptive::Candidate::alone(c.id, predicted(c)))
        .collect();
    let chosen = known
        .iter()
        .find(|c| usize::from(c.variant) == choice.variant)
        .unwrap_or(&known[0]);
    let is_trial = choice.trial && explore;
    let mut pick = Pick {
        variant: chosen.variant,
        reason: match () {
            () if alone => Reason::OnlyEligible,
            () if is_trial => Reason::Trial,
            () => Reason::Policy,
        },
        confidence: match choice.confidence {
            Some(given) if (0.0..=1.0).contains(&given) => given,
            _ => confidence(chosen, &known, 0.0),
        },
        predicted: chosen.prediction,
        best_ns: best_ns.unwrap_or(0.0),
        reserved_ns: 0.0,
        burst: None,
        settled: choice.good_for == u32::MAX,
        publish: None,
    };
    if choice.good_for > 0 && !choice.trial && best_ns.is_some() {
        let most = choice.good_for.saturating_add(1).ilog2() as u8;
        pick.publish = sampling_period(place, &pick, SAMPLED_NS).map(|period| period.min(most));
    }
    pick
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;
    use crate::policy::Ucb1;
    use crate::workload::Workload;

    #[test]
    fn another_policy_leaves_the_model_alone_until_somebody_asks_for_it() {
        let mut learner = Learner::new(1, 0.01, 1.0, Some(Arc::new(Ucb1::default())));
        for name in ["a", "b"] {
            learner.add_variant(Known {
                name: name.into(),
                revision: 0,
                backend: Backend::Scalar,
                cost: None,
            });
        }
        for n in 0..200u64 {
            let workload = Workload::new([1u64 << (n % 20)]);
            let question = Question {
                workload: &workload,
                key: workload.cell_key(),
                eligible: 0b11,
                reference: Some(0),
                needs: &[],
                now_ns: n,
                explore: true,
                frozen: false,
            };
            let pick = learner.decide(&question);
            learner.observe(&Seen {
                workload: &workload,
                key: question.key,
                variant: pick.variant,
                cost: Cost::from_ns(1000 + n),
                reason: pick.reason,
                confidence: pick.confidence,
                best_ns: pick.best_ns,
                reserved_ns: 0.0,
                weight: 1,
                nested: false,
                now_ns: n,
            });
        }
        assert_eq!(learner.version, 1, "fitted on the call path");
        learner.catch_up();
        assert_eq!(learner.version, 2);
    }
}
