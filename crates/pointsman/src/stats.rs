//! What choosing has cost so far, and what it was worth.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::backend::Backend;
use crate::decision::human_ns;
use crate::selector::Shared;
use crate::state::{OpState, RecentDecision};
use crate::table::table;

/// Statistics of one op. What is counted per variant has the same name here, where it is the sum
/// over all variants.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct OpStats {
    /// The op.
    pub op: String,
    /// Calls served, exact.
    pub calls: u64,
    /// Each variant, most used first.
    pub variants: Vec<VariantStats>,
    /// Each backend, by name: the sum over its variants.
    pub backends: BTreeMap<String, BackendStats>,
    /// Cells that something is known about.
    pub cells: usize,
    /// Accepted measurements, of this process.
    pub samples: u64,
    /// Trials; with [`Adaptive`](crate::policy::Adaptive) within the budget.
    pub trials: u64,
    /// Time spent in trials, in nanoseconds.
    pub trial_ns: f64,
    /// What they cost beyond the best known variant, in nanoseconds.
    pub trial_excess_ns: f64,
    /// First tries of variants nobody had tried, outside the budget.
    pub first_tries: u64,
    /// Time spent in first tries, in nanoseconds.
    pub first_try_ns: f64,
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
    /// What the choices that were not right cost beyond the best measured alternative, in nanoseconds,
    /// estimated from the timed calls.
    pub wrong_excess_ns: f64,
    /// Mean confidence of the choices that are in force, by the calls of their cells; `None` while there
    /// are none, or if another policy than [`Adaptive`](crate::policy::Adaptive) chooses.
    pub confidence: Option<f64>,
    /// The last decisions that went through the learner, oldest first.
    pub recent: Vec<RecentDecision>,
}

/// Statistics of one variant of an op.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct VariantStats {
    /// The variant.
    pub name: String,
    /// Where it runs.
    pub backend: Backend,
    /// Calls it served, exact.
    pub calls: u64,
    /// The same by reason, those that are not 0: by the name of a [`Reason`](crate::Reason), and
    /// `settled` for calls served by a choice that had been made before, which are most.
    pub reasons: BTreeMap<&'static str, u64>,
    /// Accepted measurements, of this process.
    pub samples: u64,
    /// Time it spent serving in nanoseconds, estimated from the timed calls; trials are not in it.
    pub served_ns: f64,
    /// Trials of it within the budget, failed ones included.
    pub trials: u64,
    /// Time spent in them, in nanoseconds. One whose time was not accepted counts with the time
    /// that was set aside for it.
    pub trial_ns: f64,
    /// What they cost beyond the best known variant, in nanoseconds: what the budget pays.
    pub trial_excess_ns: f64,
    /// First tries of it, outside the budget, failed ones included.
    pub first_tries: u64,
    /// Time spent in them, in nanoseconds.
    pub first_try_ns: f64,
    /// What they cost beyond the best known variant, in nanoseconds.
    pub first_try_excess_ns: f64,
    /// Failed attempts. A panic of the reference goes straight to the caller and is counted only
    /// if the call was timed.
    pub failures: u64,
    /// How often it was put in quarantine.
    pub quarantines: u64,
    /// Whether it is there now.
    pub in_quarantine: bool,
}

/// Statistics of one backend: the sum over the variants of an op that run there.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct BackendStats {
    /// Variants that run there.
    pub variants: u64,
    /// Calls they served, exact.
    pub calls: u64,
    /// Accepted measurements, of this process.
    pub samples: u64,
    /// Time spent serving in nanoseconds, estimated from the timed calls; trials are not in it.
    pub served_ns: f64,
    /// Trials within the budget.
    pub trials: u64,
    /// Time spent in trials, in nanoseconds.
    pub trial_ns: f64,
    /// What they cost beyond the best known variant, in nanoseconds.
    pub trial_excess_ns: f64,
    /// First tries, outside the budget.
    pub first_tries: u64,
    /// Time spent in first tries, in nanoseconds.
    pub first_try_ns: f64,
    /// What they cost beyond the best known variant, in nanoseconds.
    pub first_try_excess_ns: f64,
    /// Failed attempts.
    pub failures: u64,
    /// Quarantines.
    pub quarantines: u64,
    /// How many of the variants are in quarantine now.
    pub in_quarantine: u64,
}

impl BackendStats {
    fn add(&mut self, variant: &VariantStats) {
        self.variants += 1;
        self.calls += variant.calls;
        self.samples += variant.samples;
        self.served_ns += variant.served_ns;
        self.trials += variant.trials;
        self.trial_ns += variant.trial_ns;
        self.trial_excess_ns += variant.trial_excess_ns;
        self.first_tries += variant.first_tries;
        self.first_try_ns += variant.first_try_ns;
        self.first_try_excess_ns += variant.first_try_excess_ns;
        self.failures += variant.failures;
        self.quarantines += variant.quarantines;
        self.in_quarantine += u64::from(variant.in_quarantine);
    }
}

pub(crate) fn op_stats(shared: &Shared, state: &OpState) -> OpStats {
    // A quarantine whose time is over lasts until somebody looks.
    state.release(shared.clock.now_ns());
    let recent = state.recent();
    let (checks, check_ns) = {
        let checked = state.checked();
        (checked.checks, checked.spent_ns)
    };
    let learner = state.learner();
    let tally = &learner.tally;
    // Under the learner's lock, or a name could come without its account.
    let mut variants: Vec<VariantStats> = (0u8..)
        .zip(state.names().iter())
        .map(|(id, named)| {
            let account = tally.of(id);
            let calls = state.calls(id);
            VariantStats {
                name: named.name.to_string(),
                backend: named.backend,
                calls,
                reasons: reasons(state, id, calls),
                samples: account.samples,
                served_ns: account.served_ns,
                trials: account.trials,
                trial_ns: account.trial_ns,
                trial_excess_ns: account.trial_excess_ns,
                first_tries: account.first_tries,
                first_try_ns: account.first_try_ns,
                first_try_excess_ns: account.first_try_excess_ns,
                failures: account.failures,
                quarantines: state.quarantine.times(id),
                in_quarantine: state.quarantine.mask() & 1 << id != 0,
            }
        })
        .collect();
    variants.sort_by_key(|v| std::cmp::Reverse(v.calls));
    let mut total = BackendStats::default();
    let mut backends = BTreeMap::<String, BackendStats>::new();
    for variant in &variants {
        total.add(variant);
        backends
            .entry(variant.backend.to_string())
            .or_default()
            .add(variant);
    }
    OpStats {
        op: state.name.to_string(),
        calls: total.calls,
        variants,
        backends,
        cells: learner.cell_count(),
        samples: total.samples,
        trials: total.trials,
        trial_ns: total.trial_ns,
        trial_excess_ns: total.trial_excess_ns,
        first_tries: total.first_tries,
        first_try_ns: total.first_try_ns,
        first_try_excess_ns: total.first_try_excess_ns,
        served_ns: total.served_ns,
        budget_left_ns: learner.balance_ns(),
        failures: total.failures,
        quarantines: total.quarantines,
        drifts: tally.drifts,
        checks,
        check_ns,
        rejected: tally.rejected().clone(),
        right_share: (tally.judged > 0).then(|| tally.right as f64 / tally.judged as f64),
        wrong_excess_ns: tally.wrong_ns,
        confidence: learner.mean_confidence(),
        recent,
    }
}

/// Why a variant served its calls.
fn reasons(state: &OpState, id: u8, calls: u64) -> BTreeMap<&'static str, u64> {
    let asked = state.counters.reasons(id).map(|(r, n)| (r.name(), n));
    let mut reasons: BTreeMap<_, _> = asked.filter(|(_, n)| *n > 0).collect();
    let settled = calls.saturating_sub(reasons.values().sum());
    if settled > 0 {
        reasons.insert("settled", settled);
    }
    reasons
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
        let head = [
            "", // indents
            "variant",
            "backend",
            "calls",
            "served",
            "samples",
            "trials",
            "cost",
            "first tries",
            "cost",
            "failures",
            "quarantines",
            "note",
        ];
        let mut rows: Vec<_> = self.variants.iter().map(variant_row).collect();
        // The sum over one variant says nothing new.
        let shared = self.backends.iter().filter(|(_, b)| b.variants > 1);
        rows.extend(shared.map(|(name, backend)| backend_row(name, backend)));
        table(f, head, 3..12, &rows)?;
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

/// A time, if there is any to tell of.
fn time(ns: f64) -> String {
    if ns == 0.0 {
        "–".to_owned()
    } else {
        human_ns(ns)
    }
}

fn variant_row(v: &VariantStats) -> [String; 13] {
    [
        String::new(),
        v.name.clone(),
        v.backend.to_string(),
        v.calls.to_string(),
        time(v.served_ns),
        v.samples.to_string(),
        v.trials.to_string(),
        time(v.trial_excess_ns),
        v.first_tries.to_string(),
        time(v.first_try_excess_ns),
        v.failures.to_string(),
        v.quarantines.to_string(),
        if v.in_quarantine { "in quarantine" } else { "" }.to_owned(),
    ]
}

fn backend_row(name: &str, b: &BackendStats) -> [String; 13] {
    let note = match b.in_quarantine {
        0 => String::new(),
        n => format!("{n} in quarantine"),
    };
    [
        String::new(),
        format!("(all {})", b.variants),
        name.to_owned(),
        b.calls.to_string(),
        time(b.served_ns),
        b.samples.to_string(),
        b.trials.to_string(),
        time(b.trial_excess_ns),
        b.first_tries.to_string(),
        time(b.first_try_excess_ns),
        b.failures.to_string(),
        b.quarantines.to_string(),
        note,
    ]
}
