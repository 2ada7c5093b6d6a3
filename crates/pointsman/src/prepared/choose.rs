//! Who serves a call of a prepared op.

use super::Prepared;
use crate::decision::{Prediction, Reason};
use crate::learn::published::Choice;
use crate::learn::{Pick, bits};
use crate::selector::Mode;
use crate::state::{Ask, Look};
use crate::thread;
use crate::trace::{self, Trail};
use crate::workload::Workload;

/// Who serves a call of a [`Prepared`] op.
#[derive(Clone, Copy, Debug)]
pub struct Chosen {
    pub(super) index: u8,
    pub(super) timed: bool,
    /// Whether it counts already, which a report of its failure takes back.
    pub(super) counted: bool,
    pub(super) traced: bool,
    to_check: Option<u8>,
    pub(super) reason: Reason,
    pub(super) confidence: f64,
    pub(super) key: u64,
    /// Of a timed call only.
    pub(super) predicted: Prediction,
    pub(super) best_ns: f64,
    pub(super) reserved_ns: f64,
    pub(super) weight: u64,
    pub(super) asked_ns: u64,
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

impl Prepared {
    /// Who serves this call, of these candidates. `None` if none of them may: all are disabled, or
    /// gave wrong results.
    ///
    /// A quarantine ends early if otherwise nobody could serve.
    #[inline]
    pub fn choose(&self, workload: &Workload, eligible: u64) -> Option<Chosen> {
        let key = workload.cell_key();
        let mask = self.eligible(workload, eligible)?;
        let look = self.state.published(key ^ self.salt, mask);
        self.after(look, workload, (key, eligible), |choice| 1 << choice.period)
    }

    /// The choice after a look at what is published; `weight` is how many calls a look stands for that is due.
    #[inline]
    pub(super) fn after(
        &self,
        look: Look,
        workload: &Workload,
        (key, eligible): (u64, u64),
        weight: impl FnOnce(Choice) -> u64,
    ) -> Option<Chosen> {
        match look {
            Look::Serve(choice, n) => {
                let index = self.places[usize::from(choice.variant)];
                let mut chosen = self.untimed(index, workload, choice.confidence());
                if trace::is_on() && self.state.gate.may_take(choice, n) {
                    let level_ns = || self.state.level_ns(key, choice.variant);
                    self.trace(&mut chosen, workload, choice.has_history, level_ns, None);
                }
                Some(chosen)
            }
            Look::Due(choice) => self.ask(workload, key, eligible, weight(choice)),
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

    /// The same for a caller who reports failures only: nothing is counted.
    pub fn known(&self, workload: &Workload, eligible: u64) -> Option<Chosen> {
        if self.state.quarantine.mask() != 0 {
            self.state.release(self.shared().clock.now_ns());
        }
        let index = self.peek(workload, eligible)?;
        let mut chosen = self.untimed(index as u8, workload, 0.0);
        chosen.counted = false;
        Some(chosen)
    }

    /// The next to try after others have failed in this call; `eligible` is who is left.
    pub fn fallback(&self, workload: &Workload, eligible: u64) -> Option<Chosen> {
        let key = workload.cell_key();
        let mask = self.eligible(workload, eligible)?;
        let (mut pick, _) = self.pick(workload, key, mask, false);
        pick.reason = Reason::Fallback;
        Some(self.timed_choice(key, &pick, 1, self.shared().clock.now_ns()))
    }

    /// Who may serve, by number; never empty.
    #[inline]
    pub(super) fn eligible(&self, workload: &Workload, places: u64) -> Option<u64> {
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
        if self.has_reference && given & reference != 0 {
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
        if to_check.is_some() {
            thread::count_probe(); // whoever serves now is not who will serve
        }
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
            reference: Some(self.ids[0]).filter(|id| self.has_reference && eligible & 1 << id != 0),
            needs: &[],
            explore,
        };
        self.state.decide(self.shared(), &ask)
    }

    pub(super) fn is_forced(&self, id: u8, workload: &Workload) -> bool {
        let backend = self.candidates[self.place(id)].backend;
        self.forced & 1 << id != 0 || workload.preference() == Some(backend)
    }

    pub(super) fn untimed(&self, index: u8, workload: &Workload, confidence: f64) -> Chosen {
        Chosen {
            index,
            timed: false,
            counted: true,
            traced: false,
            to_check: None,
            reason: (self.shared())
                .settled_reason(|| self.is_forced(self.ids[usize::from(index)], workload)),
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
            counted: false,
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
}
