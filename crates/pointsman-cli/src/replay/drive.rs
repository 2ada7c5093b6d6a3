//! The driver: a real selector serves a stream of calls, with time that only the calls move.

use std::time::{Duration, Instant};

use pointsman::{Calibration, FakeClock, Outcome, Reason, Selector, policy};

use super::stream::Call;
use super::table::{Case, Table};
use crate::output::Failure;

/// The op, as the selector knows it.
const OP: &str = "replay";

/// Longer than any replay: knowledge that is saved every few seconds of real time would make
/// what is evicted first depend on how fast this machine is.
const NEVER: Duration = Duration::from_secs(1 << 30);

/// The policies that `all` stands for: every one that needs no variant named.
pub fn policies() -> Vec<&'static str> {
    let all = policy::names().iter().copied();
    all.filter(|name| policy::parse(name).is_ok()).collect()
}

/// A selector with this policy that learns from nothing but the calls: no store, no environment,
/// no calibration of this machine.
pub fn selector(
    policy: &str,
    seed: u64,
    budget: f64,
    clock: FakeClock,
) -> Result<Selector, Failure> {
    let policy = policy::parse(policy).map_err(Failure::new)?;
    Selector::builder()
        .in_memory()
        .ignore_environment()
        .calibration(Calibration::nominal())
        .save_every(NEVER)
        .clock(clock)
        .seed(seed)
        .budget(budget)
        .policy(policy)
        .build()
        .map_err(Failure::new)
}

/// How a call was served.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// Which case of the table.
    pub case: u32,
    /// Which of the case's choices.
    pub choice: u32,
    /// Why.
    pub reason: Reason,
    /// Probability to be within 5 % of the best, as the policy sees it.
    pub confidence: f64,
    /// What the call took, in seconds.
    pub seconds: f64,
}

impl Served {
    /// Whether it was served to learn.
    pub fn is_trial(&self) -> bool {
        matches!(self.reason, Reason::Trial | Reason::FirstTry)
    }
}

/// A replay of one stream.
#[derive(Clone, Debug)]
pub struct Run {
    /// The calls, in order.
    pub served: Vec<Served>,
    /// Real time that choosing and recording took.
    pub elapsed: Duration,
}

/// Sends the calls through the selector, whose clock this is.
pub fn drive(table: &Table, calls: &[Call], selector: &Selector, clock: &FakeClock) -> Run {
    let names: Vec<Vec<&str>> = table.cases.iter().map(|case| names(table, case)).collect();
    let mut served = Vec::with_capacity(calls.len());
    let start = Instant::now();
    for call in calls {
        let case = &table.cases[call.case as usize];
        let decision = selector.decide(OP, &case.workload, &names[call.case as usize]);
        let seconds = call.seconds(case, &case.choices[decision.index()]);
        let nanoseconds = |s: f64| Duration::from_nanos((s * 1e9).round().max(1.0) as u64);
        // Costs are scaled so that rounding does not matter; time is not, because knowledge ages.
        clock.advance(nanoseconds(seconds));
        let took = nanoseconds(seconds * table.scale);
        selector.record(&decision, Outcome::took(took));
        served.push(Served {
            case: call.case,
            choice: decision.index() as u32,
            reason: decision.reason(),
            confidence: decision.confidence(),
            seconds,
        });
    }
    Run {
        served,
        elapsed: start.elapsed(),
    }
}

fn names<'t>(table: &'t Table, case: &Case) -> Vec<&'t str> {
    let name = |choice: &super::table::Choice| &*table.variants[choice.variant];
    case.choices.iter().map(name).collect()
}
