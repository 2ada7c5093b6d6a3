//! Puts an explanation together from what the op knows.

use crate::backend::Backend;
use crate::decision::{Explanation, Reason, VariantReport};
use crate::learn::{Pick, Question};
use crate::policy::adaptive::{Candidate, confidence};
use crate::selector::{Mode, Shared};
use crate::state::OpState;
use crate::workload::Workload;

/// How much dearer than the best an incumbent may be and still serve: the most that is noise.
const NEAR_TIE: f64 = 1.1;

/// What is known of a variant before the learner is asked.
pub(crate) struct Line {
    pub(crate) id: u8,
    pub(crate) name: String,
    pub(crate) backend: Backend,
    pub(crate) reference: bool,
    pub(crate) why_not: Option<String>,
    pub(crate) quarantined: bool,
    pub(crate) assumed: bool,
    pub(crate) checked: Option<bool>,
}

/// Explains the pick that was made for this workload, or the one that would be made now.
pub(crate) fn explanation(
    shared: &Shared,
    state: &OpState,
    workload: &Workload,
    lines: Vec<Line>,
    pick: Option<&Pick>,
) -> Explanation {
    let now_ns = shared.clock.now_ns();
    let mut learner = state.learner();
    learner.catch_up();
    let asked = lines.iter().fold(0, |mask, line| mask | 1u64 << line.id);
    let (known, common) = learner.predict(workload, asked, now_ns);
    let all: Vec<Candidate> = lines
        .iter()
        .filter_map(|line| known.iter().find(|c| c.variant == line.id).copied())
        .collect();
    let may = |(line, _): &(&Line, &Candidate)| line.why_not.is_none();
    let eligible: Vec<Candidate> = lines
        .iter()
        .zip(&all)
        .filter(may)
        .map(|(_, c)| *c)
        .collect();
    // What has been chosen here stands; in a cell nobody has called, the lowest prediction would.
    let serving: Vec<u8> = lines
        .iter()
        .filter(|l| l.why_not.is_none() && l.checked != Some(false))
        .map(|l| l.id)
        .collect();
    let lowest = || {
        let rank = |id: &u8| {
            let candidate = eligible.iter().find(|c| c.variant == *id);
            candidate.map_or((true, f64::MAX), |c| (!c.measured, c.prediction.ns()))
        };
        serving.iter().min_by(|a, b| {
            let (a, b) = (rank(a), rank(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        })
    };
    // Calls of the same cell for which fewer may serve choose among those: what they chose does not
    // stand where it is no near-tie.
    let near = |id: &u8| {
        let of = |id: u8| eligible.iter().find(|c| c.variant == id && c.measured);
        match (of(*id), lowest().and_then(|id| of(*id))) {
            (Some(own), Some(best)) => own.prediction.ns() <= NEAR_TIE * best.prediction.ns(),
            (None, Some(_)) => false, // a guess does not serve where somebody was measured
            _ => true,
        }
    };
    let incumbent = learner
        .incumbent(workload)
        .filter(|id| serving.contains(id) && (learner.is_asked() || near(id)));
    let reference = lines.iter().find(|l| l.reference).map(|l| l.id);
    let constant = {
        let question = Question {
            workload,
            key: workload.cell_key(),
            eligible: serving.iter().fold(0, |mask, id| mask | 1 << id),
            reference,
            needs: &[],
            now_ns,
            explore: false,
            frozen: true,
        };
        learner.constant_choice(&question).map(|(id, _)| id)
    };
    let chosen = match pick {
        Some(pick) => Some(pick.variant),
        None => constant
            .or(incumbent)
            .or_else(|| lowest().copied())
            .or(reference),
    };
    let measured = chosen.is_some_and(|id| learner.counts(workload, id).0 > 0);
    let reason = match pick {
        Some(pick) => pick.reason,
        None if shared.mode == Mode::Reference => Reason::Reference,
        None if eligible.len() < 2 => Reason::OnlyEligible,
        None if shared.mode == Mode::Frozen => Reason::Frozen,
        None if constant.is_some() => Reason::Policy,
        None if learner.is_asked() && incumbent.is_some() => Reason::Policy,
        None if measured => Reason::Historical,
        None => Reason::Prior,
    };
    let sure = |id: u8| match eligible.iter().find(|c| c.variant == id) {
        Some(candidate) => confidence(candidate, &eligible, common),
        None => 0.0,
    };
    let variants: Vec<VariantReport> = lines
        .into_iter()
        .zip(&all)
        .map(|(line, candidate)| {
            let (samples, failures) = learner.counts(workload, line.id);
            VariantReport {
                name: line.name,
                backend: line.backend,
                reference: line.reference,
                why_not: line.why_not,
                quarantined: line.quarantined,
                assumed: line.assumed,
                predicted: candidate.prediction,
                samples,
                failures,
                confidence: sure(line.id),
                checked: line.checked,
            }
        })
        .collect();
    drop(learner);
    Explanation {
        op: state.name.to_string(),
        workload: *workload,
        mode: shared.mode,
        policy: shared.policy_name.clone(),
        chosen: chosen.map_or_else(String::new, |id| state.name_of(id)),
        reason,
        confidence: chosen.map_or(0.0, sure),
        hot: state.is_hot(now_ns),
        took_ns: None,
        failed: Vec::new(),
        variants,
    }
}
