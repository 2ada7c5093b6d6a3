//! Choosing for callers who run the work themselves and do so often: the op and its candidates are
//! looked up once. What another language's bindings are built on.

mod again;
mod choose;
mod report;
mod traced;

use std::fmt;
use std::sync::Arc;

use self::again::Lately;
pub use self::choose::Chosen;
use crate::backend::Backend;
use crate::cell::mix;
use crate::error::BuildError;
use crate::learn::bits;
use crate::op::valid_name;
use crate::selector::{Mode, Selector, Shared};
use crate::state::{MAX_VARIANTS, OpState};
use crate::stats::{OpStats, op_stats};

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
    /// The first of them, unless nobody's result is the truth.
    has_reference: bool,
    salt: u64,
    lately: Arc<Lately>,
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("op", &self.state.name)
            .field("candidates", &self.candidates)
            .finish_non_exhaustive()
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
        let known = candidates.iter();
        let known = known.map(|c| (c.name.as_str(), c.revision, c.backend));
        let (ids, places) = state.register_all(known, &shared.calibration)?;
        self.teach(&state);
        let mut prepared = Prepared {
            plain: ids.iter().enumerate().all(|(i, id)| i == usize::from(*id)),
            selector: self.clone(),
            lately: Lately::of(&state),
            state,
            candidates: candidates.to_vec(),
            ids,
            places,
            able: 0,
            forced: 0,
            verified: false,
            has_reference: true,
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

    /// Treats all candidates alike: the first is no reference, so that it is kept away like any other when it fails. In
    /// reference mode it still serves.
    ///
    /// ```
    /// use pointsman::{Backend, Candidate, Selector, Workload};
    ///
    /// # let selector = Selector::builder().in_memory().build()?;
    /// let candidates = ["cuda", "cpu"].map(|name| Candidate::new(name, Backend::Scalar));
    /// let op = selector.prepare("solve", &candidates)?.without_reference();
    /// let workload = Workload::new([100]);
    /// for _ in 0..2 {
    ///     let chosen = op.known(&workload, 0b01).expect("it may serve");
    ///     op.failed(&chosen, &workload, "no driver");
    /// }
    /// assert_eq!(op.peek(&workload, 0b11), Some(1)); // two failures in a row: the other one, for a while
    /// # Ok::<(), pointsman::BuildError>(())
    /// ```
    pub fn without_reference(mut self) -> Self {
        self.has_reference = false;
        self
    }

    /// Whether a candidate is the reference.
    #[inline]
    fn is_reference(&self, place: usize) -> bool {
        place == 0 && self.has_reference
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
}
