//! What each backend has cost, by op, and the last choices.

use std::collections::BTreeMap;

use pointsman::OpStats;
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Summary {
    total_calls: u64,
    total_seconds: f64,
    failures: u64,
    /// By op, then by backend.
    ops: BTreeMap<String, BTreeMap<String, Account>>,
    /// The last choices that were learned from, oldest first.
    recent: Vec<Choice>,
}

#[derive(Default, Serialize)]
struct Account {
    count: u64,
    total_seconds: f64,
    average_seconds: Option<f64>,
    failures: u64,
    in_quarantine: bool,
}

#[derive(Serialize)]
struct Choice {
    op: String,
    backend: String,
    reason: &'static str,
    features: Vec<f64>,
    seconds: Option<f64>,
}

pub(super) fn summary(stats: &[OpStats]) -> Summary {
    let mut out = Summary {
        total_calls: 0,
        total_seconds: 0.0,
        failures: 0,
        ops: BTreeMap::new(),
        recent: Vec::new(),
    };
    for op in stats {
        let accounts = out.ops.entry(op.op.clone()).or_default();
        for variant in &op.variants {
            let ns = variant.served_ns + variant.trial_ns + variant.first_try_ns;
            let seconds = ns / 1e9;
            accounts.insert(
                variant.name.clone(),
                Account {
                    count: variant.calls,
                    total_seconds: seconds,
                    average_seconds: (variant.calls > 0).then(|| seconds / variant.calls as f64),
                    failures: variant.failures,
                    in_quarantine: variant.in_quarantine,
                },
            );
            out.total_calls += variant.calls;
            out.total_seconds += seconds;
            out.failures += variant.failures;
        }
        out.recent.extend(op.recent.iter().map(|choice| Choice {
            op: op.op.clone(),
            backend: choice.variant.clone(),
            reason: choice.reason.name(),
            features: choice.workload.features().to_vec(),
            seconds: choice.took_ns.map(|ns| ns as f64 / 1e9),
        }));
    }
    out
}
