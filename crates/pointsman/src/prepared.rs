//! Choosing for callers who run the work themselves and do so often: the op and its candidates are
//! looked up once. What another language's bindings are built on.

use std::fmt;
use std::sync::Arc;

use crate::backend::Backend;
use crate::cell::mix;
use crate::check::{self, Verdict};
use crate::decision::{Explanation, Prediction, Reason};
use crate::error::BuildError;
use crate::explain::{Line, explanation};
use crate::learn::{Pick, bits};
use crate::op::valid_name;
use crate::outcome::{Cost, Rejection, measured};
use crate::selector::{Mode, Selector, Shared};
use crate::state::{Ask, Look, MAX_VARIANTS, OpState, Timed};
use crate::stats::{OpStats, op_stats};
use crate::thread::{self, Inside};
use crate::trace::{self, Told, Trail};
use crate::workload::Workload;

/// A candidate of a [`Prepared`] op.
#[derive(Clone, Debug)]
pub struct Candidate {
    name: String,
    backend: Backend,
    revision: u32,
}

impl Candidate {
    /// A variant of this name that runs there.
    pub fn new(name: &str, backend: Backend) -> Self {
        Candidate {
            name: name.to_owned(),
            backend,
            revision: 0,
        }
    }

    /// Revision of its code, 0 at first: what was learned about another one is not used.
    pub fn revision(mut self, revision: u32) -> Self {
        self.revision = revision;
        self
    }
}

/// An op whose candidates are known and whose caller runs the work: see [`Selector::prepare`].
///
/// Candidates are named by their place in the list, and sets of them by masks with a bit for each
/// place. Environment, mode, preference and quarantine are looked at here; everything else that
/// decides who may serve is the caller's to know.
pub struct Prepared {
    selector: Selector,
    state: Arc<OpState>,
    candidates: Vec<Candidate>,
    /// Number of each candidate in the op's state, and back.
    ids: Vec<u8>,
    places: [u8; MAX_VARIANTS],
    /// Whether numbers and places are the same.
    plain: bool,
    able: u64,
    forced: u64,
    verified: bool,
    salt: u64,
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("op", &self.state.name)
            .field("candidates", &self.candidates)
            .finish_non_exhaustive()
    }
}

/// Who serves a call of a [`Prepared`] op.
#[derive(Clone, Copy, Debug)]
pub struct Chosen {
    index: u8,
    timed: bool,
    traced: bool,
    to_check: Option<u8>,
    reason: Reason,
    confidence: f64,
    key: u64,
    /// Of a timed call only.
    predicted: Prediction,
    best_ns: f64,
    reserved_ns: f64,
    weight: u64,
    asked_ns: u64,
}

impl Chosen {
    /// Place of the candidate that serves.
    #[inline]
    pub fn index(&self) -> usize {
        usize::from(self.index)
    }

    /// Whether the call is one to learn from: run it with [`Prepared::clocked`] and report it. Others
    /// are reported only if they fail.
    #[inline]
    pub fn is_timed(&self) -> bool {
        self.timed
    }

    /// A candidate that would be preferred and has to be checked first: see [`Prepared::judge`].
    pub fn to_check(&self) -> Option<usize> {
        self.to_check.map(usize::from)
    }

    /// Why it was chosen.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// Probability that it is within 5 % of the fastest.
    pub fn confidence(&self) -> f64 {
        self.confidence
    }

    /// What it is expected to cost; `None` for a call that is not timed.
    pub fn predicted(&self) -> Option<Prediction> {
        self.timed.then_some(self.predicted)
    }
}

impl Selector {
    /// Prepares an op for a caller who runs the work. The first candidate is the reference.
    ///
    /// ```
    /// use pointsman::{Backend, Candidate, Selector, Workload};
    ///
    /// # let selector = Selector::builder().in_memory().build()?;
    /// let candidates = [Candidate::new("forward", Backend::Scalar), Candidate::new("back", Backend::Scalar)];
    /// let sum = selector.prepare("sum", &candidates)?;
    /// let x = vec![1.0; 1000];
    /// let workload = Workload::new([x.len()]);
    /// let run = |index: usize| match index {
    ///     0 => x.iter().sum::<f64>(),
    ///     _ => x.iter().rev().sum::<f64>(),
    /// };
    /// let chosen = sum.choose(&workload, 0b11).expect("both may serve");
    /// let total = if chosen.is_timed() {
    ///     let (total, cost) = sum.clocked(&chosen, || run(chosen.index()));
    ///     sum.served(&chosen, &workload, cost);
    ///     total
    /// } else {
    ///     run(chosen.index())
    /// };
    /// assert_eq!(total, 1000.0);
    /// # Ok::<(), pointsman::BuildError>(())
    /// ```
    pub fn prepare(&self, op: &str, candidates: &[Candidate]) -> Result<Prepared, BuildError> {
        self.environment()?;
        sound(op, candidates)?;
        let shared = self.shared();
        let named: Vec<(&str, Backend)> = candidates
            .iter()
            .map(|c| (c.name.as_str(), c.backend))
            .collect();
        let forced = shared.env.force.mask(op, &named)?;
        let disabled = shared.env.disable.mask(op, &named)?;
        for i in bits(forced & disabled) {
            let candidate = &candidates[usize::from(i)];
            if forced & !disabled == 0 || shared.env.force.names(op, &candidate.name) {
                return Err(BuildError::Impossible {
                    op: op.to_owned(),
                    variant: candidate.name.clone(),
                    backend: candidate.backend,
                    why: "disabled".to_owned(),
                });
            }
        }
        let state = self.state(op)?;
        let mut ids = Vec::with_capacity(candidates.len());
        let mut places = [0; MAX_VARIANTS];
        for (i, candidate) in candidates.iter().enumerate() {
            let revision = Some(candidate.revision);
            let (name, backend) = (&candidate.name, candidate.backend);
            let id = state
                .register(name, revision, backend, &shared.calibration)
                .ok_or(BuildError::TooMany {
                    what: "variants of one op under different names",
                    found: MAX_VARIANTS + 1,
                    most: MAX_VARIANTS,
                })?;
            ids.push(id);
            places[usize::from(id)] = i as u8;
        }
        self.teach(&state);
        let mut prepared = Prepared {
            plain: ids.iter().enumerate().all(|(i, id)| i == usize::from(*id)),
            selector: self.clone(),
            state,
            candidates: candidates.to_vec(),
            ids,
            places,
            able: 0,
            forced: 0,
            verified: false,
            salt: 0,
        };
        prepared.forced = prepared.numbers(forced);
        prepared.able = match shared.mode {
            Mode::Reference => prepared.numbers(1),
            _ => prepared.numbers(!disabled & u64::MAX >> (64 - candidates.len())),
        };
        Ok(prepared)
    }
}

/// Whether the names make sense.
fn sound(op: &str, candidates: &[Candidate]) -> Result<(), BuildError> {
    valid_name("op", op)?;
    if candidates.is_empty() {
        return Err(BuildError::References {
            op: op.to_owned(),
            found: 0,
        });
    }
    if candidates.len() > MAX_VARIANTS {
        return Err(BuildError::TooMany {
            what: "variants",
            found: candidates.len(),
            most: MAX_VARIANTS,
        });
    }
    for (i, candidate) in candidates.iter().enumerate() {
        valid_name("variant", &candidate.name)?;
        if candidates[..i].iter().any(|c| c.name == candidate.name) {
            return Err(BuildError::Duplicate {
                op: op.to_owned(),
                variant: candidate.name.clone(),
            });
        }
    }
    Ok(())
}

impl Prepared {
    /// Has each candidate but the reference checked before it serves: [`choose`](Self::choose) then
    /// names one [to check](Chosen::to_check), and the caller gives its verdict with
    /// [`judge`](Self::judge).
    pub fn verified(mut self) -> Self {
        self.verified = true;
        self.salt = mix(1, u64::from(self.ids[0]));
        self
    }

    /// Who serves this call, of these candidates. `None` if none of them may: all are disabled, or
    /// gave wrong results.
    ///
    /// A quarantine ends early if otherwise nobody could serve.
    #[inline]
    pub fn choose(&self, workload: &Workload, eligible: u64) -> Option<Chosen> {
        let key = workload.cell_key();
        let mask = self.eligible(workload, eligible)?;
        match self.state.published(key ^ self.salt, mask) {
            Look::Serve(choice, n) => {
                let index = self.places[usize::from(choice.variant)];
                let mut chosen = self.untimed(index, workload, choice.confidence());
                if trace::is_on() && self.state.gate.may_take(choice, n) {
                    let level_ns = || self.state.level_ns(key, choice.variant);
                    self.trace(&mut chosen, workload, choice.has_history, level_ns, None);
                }
                Some(chosen)
            }
            Look::Due(choice) => self.ask(workload, key, eligible, 1 << choice.period),
            Look::Ask => self.ask(workload, key, eligible, 1),
        }
    }

    /// Who would serve this call, for a caller who will not report: nothing is tried.
    #[inline]
    pub fn peek(&self, workload: &Workload, eligible: u64) -> Option<usize> {
        let key = workload.cell_key();
        let mask = self.eligible(workload, eligible)?;
        let id = match self
            .state
            .published
            .get(crate::cell::tag(key ^ self.salt, mask))
        {
            Some(choice) => choice.variant,
            None => self.look(workload, key, mask),
        };
        Some(self.place(id))
    }

    /// The same for a caller who reports failures only.
    pub fn known(&self, workload: &Workload, eligible: u64) -> Option<Chosen> {
        let index = self.peek(workload, eligible)?;
        self.state.counters.add(self.ids[index], 1);
        Some(self.untimed(index as u8, workload, 0.0))
    }

    /// The next to try after others have failed in this call; `eligible` is who is left.
    pub fn fallback(&self, workload: &Workload, eligible: u64) -> Option<Chosen> {
        let key = workload.cell_key();
        let mask = self.eligible(workload, eligible)?;
        let (mut pick, _) = self.pick(workload, key, mask, false);
        pick.reason = Reason::Fallback;
        Some(self.timed_choice(key, &pick, 1, self.shared().clock.now_ns()))
    }

    /// A span for the execution of a call, to be entered around the work; a disabled one if it is not
    /// traced: see [`Selector::span`].
    pub fn span(&self, chosen: &Chosen, workload: &Workload) -> tracing::Span {
        if !chosen.traced {
            return tracing::Span::none();
        }
        let candidate = &self.candidates[chosen.index()];
        let (name, backend) = (&candidate.name, candidate.backend);
        trace::execution(&self.state.span_names, workload, name, backend)
    }

    /// Runs a timed call between two readings of the clock. A time that says nothing about the
    /// candidate is a reasoned rejection.
    pub fn clocked<T>(
        &self,
        chosen: &Chosen,
        run: impl FnOnce() -> T,
    ) -> (T, Result<Cost, Rejection>) {
        let shared = self.shared();
        let trials = thread::trials();
        let start = shared.clock.now_ns();
        let value = self.inside(run);
        let end = shared.clock.now_ns();
        let cost = match thread::trials() == trials {
            true => measured(start, end, shared.clock_cost_ns),
            false => Err(Rejection::NestedTrial),
        };
        if chosen.reason.is_trial() {
            thread::count_trial();
        }
        (value, cost)
    }

    /// Runs a call that is not timed, so that calls of ops inside it know that they are.
    #[inline]
    pub fn inside<T>(&self, run: impl FnOnce() -> T) -> T {
        let _inside = Inside::enter();
        run()
    }

    /// Reports that a timed call was served, and what it cost.
    pub fn served(&self, chosen: &Chosen, workload: &Workload, cost: Result<Cost, Rejection>) {
        let pick = self.pick_of(chosen);
        self.state.counters.add(pick.variant, 1);
        let timed = self.timed(workload, chosen, pick);
        self.state.observe(self.shared(), &timed, cost);
        if let Ok(cost) = cost {
            let all = self.shared().clock.now_ns().saturating_sub(chosen.asked_ns);
            let beside = all.saturating_sub(cost.ns()) as f64;
            self.state.learner().note_sampled(beside);
        }
    }

    /// Reports that a call failed, timed or not. Two failures in a row put a candidate in quarantine,
    /// the reference excepted.
    pub fn failed(&self, chosen: &Chosen, workload: &Workload, why: &str) {
        self.uncount(chosen);
        let timed = self.timed(workload, chosen, self.pick_of(chosen));
        match chosen.index {
            0 => self.state.reference_failed(self.shared(), &timed),
            _ => {
                let why = why.to_owned();
                self.state.failed(self.shared(), &timed, false, why, 0.0);
            }
        }
    }

    /// Reports that a candidate had no memory for a call: it does not serve calls of this size or
    /// larger for a while.
    pub fn ran_out(&self, chosen: &Chosen, workload: &Workload, why: &str) {
        if chosen.index == 0 {
            return self.failed(chosen, workload, why);
        }
        self.uncount(chosen);
        let timed = self.timed(workload, chosen, self.pick_of(chosen));
        let why = why.to_owned();
        self.state.ran_out(self.shared(), &timed, why, 0.0);
    }

    /// Reports that a call was not run, or was interrupted: nothing is learned.
    pub fn cancelled(&self, chosen: &Chosen) {
        self.uncount(chosen);
        if chosen.timed {
            self.state.learner().cancel(&self.pick_of(chosen));
        }
    }

    /// Adds a measurement that the caller has made by itself.
    pub fn observe(&self, workload: &Workload, index: usize, cost: Result<Cost, Rejection>) {
        let Some(id) = self.ids.get(index) else {
            return;
        };
        let pick = Pick {
            reason: Reason::Forced,
            ..stand_in(*id)
        };
        let timed = Timed {
            workload,
            key: workload.cell_key(),
            pick,
            weight: 1,
            nested: thread::nested(),
        };
        self.state.counters.add(*id, 1);
        self.state.observe(self.shared(), &timed, cost);
    }

    /// The workloads on which a candidate is checked for the block of this one: see
    /// [`Verify`](crate::Verify).
    pub fn samples(&self, workload: &Workload) -> Vec<Workload> {
        check::samples(workload)
    }

    /// Notes what a check of a candidate has found for the block of this workload.
    pub fn judge(&self, workload: &Workload, index: usize, verdict: &Verdict, spent_ns: u64) {
        if let (Some(id), Some(candidate)) = (self.ids.get(index), self.candidates.get(index)) {
            let who = (*id, candidate.revision);
            let shared = self.shared();
            self.state.judged(shared, workload, who, verdict, spent_ns);
        }
    }

    /// Who would serve, and why. `why_not` says why a candidate may not serve this call, if so.
    pub fn explain(
        &self,
        workload: &Workload,
        why_not: impl Fn(usize) -> Option<String>,
    ) -> Explanation {
        let shared = self.shared();
        let now_ns = shared.clock.now_ns();
        self.state.release(now_ns);
        let refused: Vec<Option<String>> = (0..self.ids.len()).map(why_not).collect();
        let may = refused.iter().enumerate();
        let may = may.fold(0, |m, (i, why)| m | u64::from(why.is_none()) << i);
        let mask = self.eligible(workload, may).unwrap_or(0);
        let checked = self.state.checked().agreed(workload);
        let lines = refused.into_iter().enumerate().map(|(i, why)| {
            let id = self.ids[i];
            let quarantined = self.state.quarantine.why(id, now_ns);
            let quarantined = quarantined.filter(|_| mask & 1 << id == 0);
            Line {
                id,
                name: self.candidates[i].name.clone(),
                backend: self.candidates[i].backend,
                reference: i == 0,
                quarantined: quarantined.is_some(),
                why_not: why.or(quarantined).or_else(|| {
                    let ruled_out = mask & 1 << id == 0;
                    ruled_out.then(|| self.ruled_out_by(i).to_owned())
                }),
                assumed: false,
                checked: self.verified.then(|| i == 0 || checked & 1 << id != 0),
            }
        });
        let mut told = explanation(shared, &self.state, workload, lines.collect(), None);
        let chosen = self.candidates.iter().position(|c| c.name == told.chosen);
        if chosen.is_some_and(|i| self.is_forced(self.ids[i], workload))
            && shared.mode != Mode::Reference
        {
            told.reason = Reason::Forced;
        }
        told
    }

    fn ruled_out_by(&self, index: usize) -> &'static str {
        match self.able & 1 << self.ids[index] == 0 {
            true if self.shared().mode == Mode::Reference => "reference mode",
            true => "disabled",
            false if self.forced != 0 => "another one is forced",
            false => "the call prefers another backend, or it has no memory for this size",
        }
    }

    /// What choosing has cost so far, and what it was worth.
    pub fn stats(&self) -> OpStats {
        op_stats(self.shared(), &self.state)
    }

    /// Forgets what this process has learned about the op; verdicts of checks stay known.
    pub fn reset(&self) {
        self.state.reset();
    }

    /// What the selector's clock says, in nanoseconds since some moment.
    pub fn now_ns(&self) -> u64 {
        self.shared().clock.now_ns()
    }

    /// The selector it was prepared on.
    pub fn selector(&self) -> &Selector {
        &self.selector
    }

    fn shared(&self) -> &Shared {
        self.selector.shared()
    }

    #[inline]
    fn place(&self, id: u8) -> usize {
        usize::from(self.places[usize::from(id)])
    }

    /// A mask of places as one of numbers.
    #[inline]
    fn numbers(&self, places: u64) -> u64 {
        if self.plain {
            return places;
        }
        let known = places & u64::MAX >> (64 - self.ids.len());
        bits(known).fold(0, |m, i| m | 1 << self.ids[usize::from(i)])
    }

    /// Who may serve, by number; never empty.
    #[inline]
    fn eligible(&self, workload: &Workload, places: u64) -> Option<u64> {
        let given = self.numbers(places);
        let mut mask = given & self.able & !self.state.quarantine.mask();
        if mask & self.state.quarantine.full() != 0 {
            mask = self.with_memory(mask, workload);
        }
        if mask & self.forced != 0 {
            mask &= self.forced;
        }
        if workload.preference().is_some() {
            mask = self.preferred(mask, workload);
        }
        if mask == 0 {
            self.last(given)
        } else {
            Some(mask)
        }
    }

    /// Those of the mask that did not run out of memory lately at this size or below.
    #[cold]
    fn with_memory(&self, mask: u64, workload: &Workload) -> u64 {
        let quarantine = &self.state.quarantine;
        let lacks = |id: &u8| {
            let full = quarantine.full() & 1 << id != 0;
            full && quarantine
                .full_from(*id)
                .is_some_and(|(from, _)| workload.size() >= from)
        };
        bits(mask).filter(lacks).fold(mask, |m, id| m & !(1 << id))
    }

    #[cold]
    fn preferred(&self, mask: u64, workload: &Workload) -> u64 {
        let backend = |id: u8| self.candidates[self.place(id)].backend;
        let wanted = bits(mask)
            .filter(|id| Some(backend(*id)) == workload.preference())
            .fold(0, |m, id| m | 1 << id);
        if wanted == 0 { mask } else { wanted }
    }

    /// Who serves where nobody else is left: the reference, else whoever only failed lately.
    #[cold]
    fn last(&self, given: u64) -> Option<u64> {
        let reference = 1 << self.ids[0];
        if given & reference != 0 {
            return Some(reference);
        }
        let wrong = self.state.quarantine.wrong_mask();
        Some(given & self.able & !wrong).filter(|mask| *mask != 0)
    }

    #[cold]
    fn ask(&self, workload: &Workload, key: u64, places: u64, weight: u64) -> Option<Chosen> {
        let mut trail = Trail::new(&self.state, self.shared().clock.as_ref());
        trail.choosing();
        let asked_ns = self.shared().clock.now_ns();
        self.state.release(asked_ns);
        let mask = self.eligible(workload, places)?;
        let (pick, to_check) = self.pick(workload, key, mask, true);
        self.state.publish(key ^ self.salt, mask, &pick);
        let mut chosen = self.timed_choice(key, &pick, weight, asked_ns);
        chosen.to_check = to_check;
        let expected_ns = pick.predicted.ns();
        if trail.wants(expected_ns) {
            let (has_history, took_ns) = (pick.predicted.samples() > 0, trail.since_asked_ns());
            let expected = || Some(expected_ns);
            self.trace(&mut chosen, workload, has_history, expected, Some(took_ns));
        }
        Some(chosen)
    }

    /// Emits the span of a choice, if the op is not hot.
    #[cold]
    fn trace(
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

    /// Why a published choice serves.
    #[inline]
    fn settled_reason(&self, id: u8, workload: &Workload) -> Reason {
        match self.shared().mode {
            Mode::Reference => Reason::Reference,
            _ if self.is_forced(id, workload) => Reason::Forced,
            Mode::Frozen => Reason::Frozen,
            Mode::Learn if self.shared().policy.is_some() => Reason::Policy,
            Mode::Learn => Reason::Historical,
        }
    }

    #[cold]
    fn look(&self, workload: &Workload, key: u64, mask: u64) -> u8 {
        let (pick, _) = self.pick(workload, key, mask, false);
        self.state.publish(key ^ self.salt, mask, &pick);
        pick.variant
    }

    /// The learner's pick among those that have been checked, and one that it would like better.
    fn pick(&self, workload: &Workload, key: u64, mask: u64, explore: bool) -> (Pick, Option<u8>) {
        let mut pick = self.decide(workload, key, mask, explore);
        let mut to_check = None;
        if self.verified {
            let reference = 1 << self.ids[0];
            let agreed = (self.state.checked().agreed(workload) | reference) & mask;
            if agreed & 1 << pick.variant == 0 {
                self.state.learner().cancel(&pick);
                let now_ns = self.shared().clock.now_ns();
                let checks = self.state.checked();
                let open = checks.is_open(workload, pick.variant, now_ns);
                drop(checks);
                let may = open && self.shared().mode == Mode::Learn;
                to_check = may.then(|| self.place(pick.variant) as u8);
                let serving = if agreed == 0 { reference } else { agreed };
                pick = self.decide(workload, key, serving, explore);
                if may {
                    pick = pick.unpublished();
                }
            }
        }
        let trial = pick.reason.is_trial();
        if self.shared().mode == Mode::Reference {
            pick.reason = Reason::Reference;
        } else if !trial && self.is_forced(pick.variant, workload) {
            pick.reason = Reason::Forced;
        }
        (pick, to_check)
    }

    fn decide(&self, workload: &Workload, key: u64, eligible: u64, explore: bool) -> Pick {
        let ask = Ask {
            workload,
            key,
            eligible,
            reference: Some(self.ids[0]).filter(|id| eligible & 1 << id != 0),
            needs: &[],
            explore,
        };
        self.state.decide(self.shared(), &ask)
    }

    fn is_forced(&self, id: u8, workload: &Workload) -> bool {
        let backend = self.candidates[self.place(id)].backend;
        self.forced & 1 << id != 0 || workload.preference() == Some(backend)
    }

    #[inline]
    fn untimed(&self, index: u8, workload: &Workload, confidence: f64) -> Chosen {
        Chosen {
            index,
            timed: false,
            traced: false,
            to_check: None,
            reason: self.settled_reason(self.ids[usize::from(index)], workload),
            confidence,
            key: workload.cell_key(),
            predicted: Prediction::default(),
            best_ns: 0.0,
            reserved_ns: 0.0,
            weight: 1,
            asked_ns: 0,
        }
    }

    fn timed_choice(&self, key: u64, pick: &Pick, weight: u64, asked_ns: u64) -> Chosen {
        Chosen {
            index: self.places[usize::from(pick.variant)],
            timed: true,
            traced: false,
            to_check: None,
            reason: pick.reason,
            confidence: pick.confidence,
            key,
            predicted: pick.predicted,
            best_ns: pick.best_ns,
            reserved_ns: pick.reserved_ns,
            weight,
            asked_ns,
        }
    }

    fn pick_of(&self, chosen: &Chosen) -> Pick {
        Pick {
            reason: chosen.reason,
            confidence: chosen.confidence,
            predicted: chosen.predicted,
            best_ns: chosen.best_ns,
            reserved_ns: chosen.reserved_ns,
            ..stand_in(self.ids[chosen.index()])
        }
    }

    fn timed<'w>(&self, workload: &'w Workload, chosen: &Chosen, pick: Pick) -> Timed<'w> {
        Timed {
            workload,
            key: chosen.key,
            pick,
            weight: chosen.weight,
            nested: thread::nested(),
        }
    }

    /// A call from a published choice was counted when it was chosen.
    fn uncount(&self, chosen: &Chosen) {
        if !chosen.timed {
            self.state.counters.add(self.ids[chosen.index()], -1);
        }
    }
}

fn stand_in(id: u8) -> Pick {
    Pick {
        variant: id,
        reason: Reason::Historical,
        confidence: 0.0,
        predicted: Prediction::default(),
        best_ns: 0.0,
        reserved_ns: 0.0,
        burst: None,
        settled: false,
        publish: None,
    }
}
