//! What happened to a call of a prepared op, and what is known of it.

use super::{Chosen, Prepared};
use crate::check::{self, Verdict};
use crate::decision::{Explanation, Reason};
use crate::explain::{Line, explanation};
use crate::learn::Pick;
use crate::outcome::{Cost, Rejection, measured};
use crate::selector::Mode;
use crate::state::Timed;
use crate::thread::{self, Inside};
use crate::workload::Workload;

impl Prepared {
    /// Runs a timed call between two readings of the clock. A time that says nothing about the
    /// candidate is a reasoned rejection.
    pub fn clocked<T>(
        &self,
        chosen: &Chosen,
        run: impl FnOnce() -> T,
    ) -> (T, Result<Cost, Rejection>) {
        let shared = self.shared();
        let probes = thread::probes();
        let start = shared.clock.now_ns();
        let value = self.inside(run);
        let end = shared.clock.now_ns();
        let cost = match thread::probes() == probes {
            true => measured(start, end, shared.clock_cost_ns),
            false => Err(Rejection::NestedTrial),
        };
        if chosen.reason.is_trial() {
            thread::count_probe();
        }
        (value, cost)
    }

    /// Runs a call that is not timed, so that calls of ops inside it know that they are.
    #[inline]
    pub fn inside<T>(&self, run: impl FnOnce() -> T) -> T {
        let _inside = Inside::enter();
        run()
    }

    /// Whether this thread is inside of a call of an op.
    pub fn is_inside(&self) -> bool {
        thread::nested()
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
        match self.is_reference(chosen.index()) {
            true => self.state.reference_failed(self.shared(), &timed),
            false => {
                let why = why.to_owned();
                self.state.failed(self.shared(), &timed, false, why, 0.0);
            }
        }
    }

    /// Reports that a candidate had no memory for a call: it does not serve calls of this size or
    /// larger for a while.
    pub fn ran_out(&self, chosen: &Chosen, workload: &Workload, why: &str) {
        if self.is_reference(chosen.index()) {
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
            ..Pick::of(*id)
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
        let (checked, untold) = {
            let checks = self.state.checked();
            let why = |id: &u8| checks.why_open(workload, *id).map(str::to_owned);
            let untold: Vec<_> = self.ids.iter().map(why).collect();
            (checks.agreed(workload), untold)
        };
        let lines = refused.into_iter().enumerate().map(|(i, why)| {
            let id = self.ids[i];
            let quarantined = self.state.quarantine.why(id, now_ns);
            let quarantined = quarantined.filter(|_| mask & 1 << id == 0);
            Line {
                id,
                name: self.candidates[i].name.clone(),
                backend: self.candidates[i].backend,
                reference: self.is_reference(i),
                quarantined: quarantined.is_some(),
                why_not: why
                    .or(quarantined)
                    .or_else(|| {
                        let open = self.verified && checked & 1 << id == 0;
                        let untold = untold[i].as_ref().filter(|_| open);
                        untold.map(|why| format!("could not be checked: {why}"))
                    })
                    .or_else(|| {
                        let ruled_out = mask & 1 << id == 0;
                        ruled_out.then(|| self.ruled_out_by(i).to_owned())
                    }),
                assumed: false,
                checked: self
                    .verified
                    .then(|| self.is_reference(i) || checked & 1 << id != 0),
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

    fn pick_of(&self, chosen: &Chosen) -> Pick {
        Pick {
            reason: chosen.reason,
            confidence: chosen.confidence,
            predicted: chosen.predicted,
            best_ns: chosen.best_ns,
            reserved_ns: chosen.reserved_ns,
            ..Pick::of(self.ids[chosen.index()])
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
        if chosen.counted {
            self.state.counters.add(self.ids[chosen.index()], -1);
        }
    }
}
