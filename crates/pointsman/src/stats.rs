//! What choosing has cost so far, and what it was worth.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::backend::Backend;
use crate::decision::human_ns;
use crate::state::{OpState, RecentDecision};

/// Statistics of one op.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct OpStats {
    /// The op.
    pub op: String,
    /// Calls served, exact.
    pub calls: u64,
    /// Calls by variant, most used first.
    pub variants: Vec<(String, Backend, u64)>,
    /// Calls by backend.
    pub backends: BTreeMap<String, u64>,
    /// Cells that something is known about.
    pub cells: usize,
    /// Trials; with [`Adaptive`](crate::policy::Adaptive) within the budget.
    pub trials: u64,
    /// Time spent in trials, in nanoseconds.
    pub trial_ns: f64,
    /// What they cost beyond the best known variant, in nanoseconds.
    pub trial_excess_ns: f64,
    /// First tries of variants nobody had tried, outside the budget.
    pub first_tries: u64,
    /// What they cost beyond the best known variant, in nanoseconds.
    pub first_try_excess_ns: f64,
    /// Time spent serving in nanoseconds, estimated from the timed calls; trials are not in it.
    pub served_ns: f64,
    /// What trials may cost now, in nanoseconds; negative after a bad one, or if another policy
    /// spends more than [`Adaptive`](crate::policy::Adaptive) would.
    pub budget_left_ns: f64,
    /// Failed attempts.
    pub failures: u64,
    /// Quarantines.
    pub quarantines: u64,
    /// Settled cells that were opened again because costs had changed.
    pub drifts: u64,
    /// Checks against the reference, one per variant and block.
    pub checks: u64,
    /// Time those checks took, in nanoseconds.
    pub check_ns: u64,
    /// Measurements that were not accepted, by reason.
    pub rejected: BTreeMap<&'static str, u64>,
    /// Share of the choices that were within 5 % of the best measured alternative in their cell;
    /// `None` while no alternative has been measured. It says nothing of variants that have not
    /// been measured there.
    pub right_share: Option<f64>,
    /// The last decisions that went through the learner, oldest first.
    pub recent: Vec<RecentDecision>,
}

pub(crate) fn op_stats(state: &OpState) -> OpStats {
    let names = state.names();
    let mut variants: Vec<(String, Backend, u64)> = names
        .iter()
        .enumerate()
        .map(|(id, n)| (n.name.to_string(), n.backend, state.calls(id as u8)))
        .collect();
    variants.sort_by_key(|v| std::cmp::Reverse(v.2));
    let mut backends = BTreeMap::new();
    for (_, backend, calls) in &variants {
        *backends.entry(backend.to_string()).or_default() += calls;
    }
    let recent = state.recent();
    let (checks, check_ns) = {
        let checked = state.checked();
        (checked.checks, checked.spent_ns)
    };
    let learner = state.learner();
    let tally = &learner.tally;
    OpStats {
        op: state.name.to_string(),
        calls: variants.iter().map(|v| v.2).sum(),
        variants,
        backends,
        cells: learner.cell_count(),
        trials: tally.trials,
        trial_ns: tally.trial_ns,
        trial_excess_ns: tally.trial_excess_ns,
        first_tries: tally.first_tries,
        first_try_excess_ns: tally.first_try_excess_ns,
        served_ns: tally.served_ns,
        budget_left_ns: learner.balance_ns(),
        failures: tally.failures,
        quarantines: state.quarantine.total(),
        drifts: tally.drifts,
        checks,
        check_ns,
        rejected: tally.rejected().clone(),
        right_share: (tally.judged > 0).then(|| tally.right as f64 / tally.judged as f64),
        recent,
    }
}

impl fmt::Display for OpStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} calls, {} served, {} cells",
            self.op,
            self.calls,
            human_ns(self.served_ns),
            self.cells
        )?;
        for (name, backend, calls) in &self.variants {
            writeln!(f, "  {name} ({backend}): {calls}")?;
        }
        writeln!(
            f,
            "  {} trials cost {}, {} first tries cost {}",
            self.trials,
            human_ns(self.trial_excess_ns),
            self.first_tries,
            human_ns(self.first_try_excess_ns)
        )?;
        write!(
            f,
            "  {} failures, {} quarantines, {} drifts",
            self.failures, self.quarantines, self.drifts
        )?;
        if let Some(right) = self.right_share {
            write!(f, ", right in hindsight {:.0} %", 100.0 * right)?;
        }
        writeln!(f)
    }
}
