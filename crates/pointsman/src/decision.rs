//! Step 4 of a call: what was decided and why.

use std::fmt;

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use crate::backend::Backend;
use crate::table::table;
use crate::workload::Workload;

/// Why a variant was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// It is the fastest by what was measured in this cell.
    Historical,
    /// It is the fastest by prediction: the cost model and neighbouring cells.
    Prior,
    /// Another policy than `adaptive` chose it.
    Policy,
    /// It may be faster than the best known, and trying it fits the budget.
    Trial,
    /// It was never tried; one of its few first tries, on a cheap workload.
    FirstTry,
    /// The environment or the call's preference demanded it.
    Forced,
    /// Another variant failed.
    Fallback,
    /// Frozen mode: the fastest by what was known at the start.
    Frozen,
    /// Reference mode.
    Reference,
    /// Nobody else may serve this call.
    OnlyEligible,
    /// There is no room to learn about this op, or no candidate at all.
    Unknown,
}

impl Reason {
    /// All of them, in order of their numbers.
    pub(crate) const ALL: [Reason; 11] = [
        Reason::Historical,
        Reason::Prior,
        Reason::Policy,
        Reason::Trial,
        Reason::FirstTry,
        Reason::Forced,
        Reason::Fallback,
        Reason::Frozen,
        Reason::Reference,
        Reason::OnlyEligible,
        Reason::Unknown,
    ];

    /// Its name in spans, tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Historical => "historical",
            Reason::Prior => "prior",
            Reason::Policy => "policy",
            Reason::Trial => "trial",
            Reason::FirstTry => "first_try",
            Reason::Forced => "forced",
            Reason::Fallback => "fallback",
            Reason::Frozen => "frozen",
            Reason::Reference => "reference",
            Reason::OnlyEligible => "only_eligible",
            Reason::Unknown => "unknown",
        }
    }

    /// Whether it was chosen to be measured.
    pub(crate) fn is_trial(self) -> bool {
        matches!(self, Reason::Trial | Reason::FirstTry)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Log of a day in nanoseconds: no cost is longer.
const LONGEST: f64 = 32.09;

/// What a variant is expected to cost, with its uncertainty: a normal distribution of the log cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    mean: f64,
    sd: f64,
    samples: u32,
}

impl Prediction {
    pub(crate) fn new(mean: f64, sd: f64, samples: u32) -> Self {
        Prediction {
            mean: mean.clamp(0.0, LONGEST),
            sd: sd.clamp(0.0, LONGEST),
            samples,
        }
    }

    /// Mean of the log cost (natural logarithm of nanoseconds).
    pub(crate) fn mean(self) -> f64 {
        self.mean
    }

    /// Standard deviation of the log cost.
    pub(crate) fn sd(self) -> f64 {
        self.sd
    }

    /// Expected nanoseconds.
    pub fn ns(self) -> f64 {
        self.mean.exp()
    }

    /// Nanoseconds that two thirds of the expected range lie between: one standard deviation down
    /// and up.
    pub fn range_ns(self) -> (f64, f64) {
        let high = (self.mean + self.sd).min(LONGEST);
        ((self.mean - self.sd).exp(), high.exp())
    }

    /// Samples in this very cell that it rests on; 0 means neighbours and the cost model only.
    pub fn samples(self) -> u32 {
        self.samples
    }
}

impl Default for Prediction {
    /// Nothing is known: a microsecond, give or take a factor of 20.
    fn default() -> Self {
        Prediction::new(1000f64.ln(), 3.0, 0)
    }
}

impl Serialize for Prediction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (low, high) = self.range_ns();
        let mut out = serializer.serialize_struct("Prediction", 4)?;
        out.serialize_field("ns", &self.ns())?;
        out.serialize_field("low_ns", &low)?;
        out.serialize_field("high_ns", &high)?;
        out.serialize_field("samples", &self.samples)?;
        out.end()
    }
}

/// A choice made for a caller who runs the work: see [`Selector::decide`](crate::Selector::decide).
///
/// It is `Copy` and borrows nothing but the names of the candidates.
#[derive(Clone, Copy, Debug)]
pub struct Decision<'c> {
    pub(crate) variant: &'c str,
    pub(crate) index: usize,
    pub(crate) reason: Reason,
    pub(crate) confidence: f64,
    pub(crate) predicted: Option<Prediction>,
    pub(crate) ticket: Ticket,
}

/// What [`Selector::record`](crate::Selector::record) needs to know of a decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    pub(crate) selector: u64,
    pub(crate) op: u32,
    pub(crate) id: u8,
    /// Whether the learner wants to hear of it.
    pub(crate) sampled: bool,
    pub(crate) nested: bool,
    /// Whether its span was emitted.
    pub(crate) traced: bool,
    pub(crate) weight: u64,
    pub(crate) key: u64,
    pub(crate) best_ns: f64,
    pub(crate) reserved_ns: f64,
    pub(crate) workload: Workload,
}

impl<'c> Decision<'c> {
    #[inline]
    pub(crate) fn point_at(&mut self, candidates: &[&'c str], index: usize) {
        self.variant = candidates[index];
        self.index = index;
    }

    /// Name of the chosen candidate; empty if there was no candidate.
    pub fn variant(&self) -> &'c str {
        self.variant
    }

    /// Its place in the list of candidates.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Why it was chosen.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// Probability that it is within 5 % of the fastest candidate.
    pub fn confidence(&self) -> f64 {
        self.confidence
    }

    /// What it is expected to cost; `None` on the hot path, where nothing but the choice is read.
    pub fn predicted(&self) -> Option<Prediction> {
        self.predicted
    }

    /// The workload it was made for.
    pub fn workload(&self) -> &Workload {
        &self.ticket.workload
    }
}

/// What is known of a decision: a table for people ([`Display`](fmt::Display)) and JSON for programs.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The op.
    pub op: String,
    /// The workload it is about.
    pub workload: Workload,
    /// Mode of the selector.
    pub mode: crate::Mode,
    /// Name of the policy that chooses.
    pub policy: String,
    /// The variant that would serve, or served, this workload.
    pub chosen: String,
    /// Why.
    pub reason: Reason,
    /// Probability that it is within 5 % of the fastest eligible variant.
    pub confidence: f64,
    /// Whether the op is called so often that its calls are not traced: see
    /// [`trace_hot_above`](crate::SelectorBuilder::trace_hot_above). Where nobody listens to spans, the
    /// rate is the average since somebody last asked.
    pub hot: bool,
    /// Time the call took, if it was run and timed.
    pub took_ns: Option<u64>,
    /// Variants that failed before the chosen one served, with their errors.
    pub failed: Vec<(String, String)>,
    /// Every variant.
    pub variants: Vec<VariantReport>,
}

/// One line of an [`Explanation`].
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct VariantReport {
    /// Its name.
    pub name: String,
    /// Where it runs.
    pub backend: Backend,
    /// Whether it is the reference.
    pub reference: bool,
    /// Why it may not serve this workload; `None` if it may.
    pub why_not: Option<String>,
    /// Whether it may not because it failed, or gave a wrong result.
    pub quarantined: bool,
    /// Whether it may only if its condition on the arguments holds, which was taken as met because
    /// there were none to ask it of.
    pub assumed: bool,
    /// What it is expected to cost.
    pub predicted: Prediction,
    /// Accepted measurements in this cell.
    pub samples: u64,
    /// Failures in this cell.
    pub failures: u64,
    /// Probability that it is within 5 % of the fastest eligible variant.
    pub confidence: f64,
    /// Whether it has been checked against the reference here; `None` if the op has no check.
    pub checked: Option<bool>,
}

impl VariantReport {
    /// Whether it may serve this workload.
    pub fn eligible(&self) -> bool {
        self.why_not.is_none()
    }
}

/// Nanoseconds as a person writes them.
pub(crate) fn human_ns(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "µs"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let digits = if value < 10.0 {
        2
    } else {
        usize::from(value < 100.0)
    };
    format!("{value:.digits$} {unit}")
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({} mode", self.op, self.workload, self.mode)?;
        if self.policy != "adaptive" {
            write!(f, ", policy {}", self.policy)?;
        }
        writeln!(f, ")")?;
        write!(
            f,
            "→ {} ({}, confidence {:.0} %)",
            self.chosen,
            self.reason,
            100.0 * self.confidence
        )?;
        if let Some(ns) = self.took_ns {
            write!(f, ", took {}", human_ns(ns as f64))?;
        }
        if self.hot {
            write!(f, ", hot: called too often to be traced")?;
        }
        writeln!(f)?;
        for (variant, error) in &self.failed {
            writeln!(f, "  {variant} failed: {error}")?;
        }
        let head = [
            "",
            "variant",
            "backend",
            "predicted",
            "range",
            "samples",
            "failures",
            "best",
            "note",
        ];
        let rows: Vec<_> = self.variants.iter().map(|v| self.row(v)).collect();
        table(f, head, 3..8, &rows)
    }
}

impl Explanation {
    fn row(&self, v: &VariantReport) -> [String; 9] {
        let (low, high) = v.predicted.range_ns();
        let mut notes = Vec::new();
        if v.reference {
            notes.push("reference".to_owned());
        }
        notes.extend(v.why_not.clone());
        if v.assumed {
            notes.push("if its condition holds".to_owned());
        }
        if v.eligible() && v.checked == Some(false) {
            notes.push("not yet checked here".to_owned());
        }
        [
            if v.name == self.chosen { "→" } else { "" }.to_owned(),
            v.name.clone(),
            v.backend.to_string(),
            human_ns(v.predicted.ns()),
            format!("{}–{}", human_ns(low), human_ns(high)),
            v.samples.to_string(),
            v.failures.to_string(),
            if v.eligible() {
                format!("{:.0} %", 100.0 * v.confidence)
            } else {
                "–".to_owned()
            },
            notes.join(", "),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_a_person_writes_them() {
        assert_eq!(human_ns(3.25), "3.25 ns");
        assert_eq!(human_ns(46_300.0), "46.3 µs");
        assert_eq!(human_ns(462_000_000.0), "462 ms");
        assert_eq!(human_ns(2e9), "2.00 s");
    }
}
