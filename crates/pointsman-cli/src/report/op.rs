//! What is known of one op: its cells, its curves, who serves where, and what that is worth.

use pointsman::store::{Account, Fact};
use pointsman::{Explanation, Selector, Workload};
use serde::Serialize;

use super::cells::{Known, Measured};
use super::confidence::{self, Tenth};
use super::line::{Line, extent};
use super::text;
use crate::map;

/// Points of a curve for each power of two.
const PER_OCTAVE: u32 = 2;

/// Most points of a curve: more than can be told apart.
const MOST_POINTS: usize = 160;

/// One op of the report.
#[derive(Clone, Serialize)]
pub(super) struct Op {
    pub(super) op: String,
    /// Whether this build has it: then predictions and eligibility are those of its own variants.
    pub(super) in_this_build: bool,
    /// Whether it was learned by programs that do not look for this machine's GPUs, which is kept
    /// apart from what others learn.
    pub(super) without_gpus: bool,
    /// What the curves are drawn along.
    pub(super) line: String,
    pub(super) variants: Vec<Variant>,
    pub(super) cells: Vec<Row>,
    pub(super) curve: Vec<Step>,
    pub(super) spans: Vec<Span>,
    pub(super) worth: Worth,
    /// Choices that were made and judged, by the confidence they were made with.
    pub(super) stated: Vec<Tenth>,
    /// The same of predictions for cells whose own measurements were left out.
    pub(super) held_out: Vec<Tenth>,
    /// Entries of older revisions, which are not used.
    pub(super) outdated: usize,
    /// Why there are no curves.
    pub(super) trouble: Option<String>,
    /// Seconds since 1970 when something was last added.
    pub(super) updated: u64,
}

#[derive(Clone, Serialize)]
pub(super) struct Variant {
    pub(super) name: String,
    /// Where it runs, if this build has it.
    pub(super) backend: Option<String>,
    pub(super) reference: Option<bool>,
    pub(super) cells: usize,
    pub(super) measurements: u64,
    pub(super) failures: u64,
    /// Cells it failed in.
    pub(super) failed_in: usize,
    /// Blocks of cells in which it agreed with the reference.
    pub(super) agreed: usize,
    /// Whether it ever disagreed: then it serves no more.
    pub(super) disagreed: bool,
    /// What choosing it has cost; `None` where no program has said so.
    pub(super) account: Option<Spent>,
}

/// An account, without what is told elsewhere.
#[derive(Clone, Default, Serialize)]
pub(super) struct Spent {
    pub(super) calls: u64,
    pub(super) served_ns: u64,
    pub(super) trials: u64,
    pub(super) trial_ns: u64,
    pub(super) trial_excess_ns: u64,
    pub(super) first_tries: u64,
    pub(super) first_try_ns: u64,
    pub(super) first_try_excess_ns: u64,
    pub(super) quarantines: u64,
}

impl Spent {
    fn of(account: &Account) -> Self {
        Spent {
            calls: account.calls,
            served_ns: account.served_ns,
            trials: account.trials,
            trial_ns: account.trial_ns,
            trial_excess_ns: account.trial_excess_ns,
            first_tries: account.first_tries,
            first_try_ns: account.first_try_ns,
            first_try_excess_ns: account.first_try_excess_ns,
            quarantines: account.quarantines,
        }
    }

    pub(super) fn add(&mut self, more: &Spent) {
        for (slot, more) in [
            (&mut self.calls, more.calls),
            (&mut self.served_ns, more.served_ns),
            (&mut self.trials, more.trials),
            (&mut self.trial_ns, more.trial_ns),
            (&mut self.trial_excess_ns, more.trial_excess_ns),
            (&mut self.first_tries, more.first_tries),
            (&mut self.first_try_ns, more.first_try_ns),
            (&mut self.first_try_excess_ns, more.first_try_excess_ns),
            (&mut self.quarantines, more.quarantines),
        ] {
            *slot = slot.saturating_add(more);
        }
    }
}

/// A cell in which something was measured.
#[derive(Clone, Serialize)]
pub(super) struct Row {
    /// What it spans.
    pub(super) cell: String,
    /// Where it begins.
    pub(super) extent: f64,
    /// Whether it lies on the line of the curves.
    pub(super) on_line: bool,
    /// Of the variants that were measured here, the one that would be chosen, and how surely.
    pub(super) chosen: Option<String>,
    pub(super) confidence: f64,
    pub(super) times: Vec<Point>,
}

/// What one variant took in a cell.
#[derive(Clone, Serialize)]
pub(super) struct Point {
    pub(super) variant: String,
    pub(super) median_ns: f64,
    pub(super) least_ns: f64,
    pub(super) most_ns: f64,
    /// Measurements that the store keeps, and how many there have been.
    pub(super) kept: usize,
    pub(super) count: u64,
}

/// A point of the curves.
#[derive(Clone, Serialize)]
pub(super) struct Step {
    pub(super) workload: String,
    /// How far along the line it is.
    pub(super) size: usize,
    pub(super) extent: f64,
    pub(super) chosen: String,
    pub(super) confidence: f64,
    /// Of the variants that may serve.
    pub(super) predicted: Vec<Predicted>,
}

#[derive(Clone, Serialize)]
pub(super) struct Predicted {
    pub(super) variant: String,
    pub(super) ns: f64,
    /// One standard deviation down and up.
    pub(super) low_ns: f64,
    pub(super) high_ns: f64,
}

/// Sizes that one variant serves.
#[derive(Clone, Serialize)]
pub(super) struct Span {
    pub(super) variant: String,
    /// Extents of the first and the last workload, and how far along the line they are.
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) from_size: usize,
    pub(super) to_size: usize,
    /// The first and the last workload, in words.
    pub(super) from_workload: String,
    pub(super) to_workload: String,
}

/// What choosing is worth, by the medians of the store's cells.
#[derive(Clone, Default, Serialize)]
pub(super) struct Worth {
    /// Cells in which at least two variants were measured, and so something could be chosen.
    pub(super) cells: usize,
    /// How many times longer the choice takes than the best measured, geometric mean.
    pub(super) over_best: Option<f64>,
    pub(super) fixed: Vec<Fixed>,
}

/// One variant for all calls.
#[derive(Clone, Serialize)]
pub(super) struct Fixed {
    pub(super) variant: String,
    /// How many times longer it takes than the choice: geometric mean, and the most.
    pub(super) ratio: f64,
    pub(super) worst: f64,
    /// Cells that this rests on: it and the choice were measured there.
    pub(super) cells: usize,
}

/// Where an op is looked up.
pub(super) struct Source<'a> {
    pub(super) selector: &'a Selector,
    pub(super) line: Option<Box<dyn Line + 'a>>,
    pub(super) in_this_build: bool,
}

impl Op {
    pub(super) fn new(
        name: &str,
        known: &Known<'_>,
        source: &Source<'_>,
        predict: &confidence::Predictor<'_>,
    ) -> Self {
        let measured = known.cells();
        let (curve, trouble) = match &source.line {
            None => (Curve::default(), None),
            Some(line) => match Curve::new(&**line, &measured) {
                Ok(curve) => (curve, None),
                Err(why) => (Curve::default(), Some(why)),
            },
        };
        let rows: Vec<Row> = measured
            .iter()
            .map(|cell| {
                let line = source.line.as_deref();
                let on_line = line.is_some_and(|l| l.holds(&cell.workload, &curve.workloads));
                let told = source
                    .selector
                    .explain(name, &cell.workload, &cell.variants());
                Row::new(cell, on_line, told.as_ref())
            })
            .collect();
        let accounts = known.variants();
        let accounts = accounts.iter().filter_map(|v| known.account(v));
        Op {
            op: name.to_owned(),
            in_this_build: source.in_this_build,
            without_gpus: false,
            line: source.line.as_ref().map_or(String::new(), |l| l.describe()),
            variants: variants(known, &curve, source.in_this_build),
            worth: Worth::new(&rows),
            stated: confidence::stated(accounts),
            held_out: confidence::held_out(name, known, &measured, predict),
            cells: rows,
            curve: curve.steps,
            spans: curve.spans,
            outdated: known.outdated,
            trouble,
            updated: known.entries.iter().map(|e| e.updated).max().unwrap_or(0),
        }
    }

    pub(super) fn points(&self) -> usize {
        self.cells.iter().map(|row| row.times.len()).sum()
    }

    pub(super) fn measurements(&self) -> u64 {
        let counts = self.variants.iter().map(|v| v.measurements);
        counts.fold(0, u64::saturating_add)
    }

    /// How many times longer the reference takes.
    pub(super) fn over_reference(&self) -> Option<&Fixed> {
        let reference = self.variants.iter().find(|v| v.reference == Some(true))?;
        let mut fixed = self.worth.fixed.iter();
        fixed.find(|f| f.variant == reference.name)
    }
}

/// Of ops by name, nobody says where variants run nor which is the reference.
fn variants(known: &Known<'_>, curve: &Curve, in_this_build: bool) -> Vec<Variant> {
    let mut variants: Vec<Variant> = known
        .variants()
        .into_iter()
        .map(|name| {
            let told = curve.told.iter().find(|(n, _, _)| n == name);
            let told = told.filter(|_| in_this_build);
            let mut variant = Variant {
                name: name.to_owned(),
                backend: told.map(|(_, backend, _)| backend.clone()),
                reference: told.map(|(_, _, reference)| *reference),
                cells: 0,
                measurements: 0,
                failures: 0,
                failed_in: 0,
                agreed: 0,
                disagreed: false,
                account: known.account(name).map(Spent::of),
            };
            for entry in known.entries.iter().filter(|e| *e.variant == *name) {
                match &entry.fact {
                    Fact::Costs(costs) => {
                        variant.cells += usize::from(!costs.recent.is_empty());
                        variant.measurements = variant.measurements.saturating_add(costs.count);
                        variant.failures = variant.failures.saturating_add(costs.failures);
                        variant.failed_in += usize::from(costs.failures > 0);
                    }
                    Fact::Agreed => variant.agreed += 1,
                    Fact::Disagreed => variant.disagreed = true,
                    Fact::Account(_) => {}
                }
            }
            variant
        })
        .collect();
    let place = |v: &Variant| curve.told.iter().position(|(n, _, _)| *n == v.name);
    variants.sort_by_key(|v| place(v).unwrap_or(usize::MAX));
    variants
}

/// The curves of an op, and what explanations say of its variants.
#[derive(Default)]
struct Curve {
    steps: Vec<Step>,
    spans: Vec<Span>,
    workloads: Vec<Workload>,
    /// Name, backend, and whether it is the reference, in order of declaration.
    told: Vec<(String, String, bool)>,
}

impl Curve {
    fn new(line: &dyn Line, cells: &[Measured]) -> Result<Self, String> {
        let (Some(first), Some(last)) = (cells.first(), cells.last()) else {
            return Ok(Curve::default());
        };
        // From the first size that the smallest cell holds.
        let mut sizes = line.sizes(first.begin, last.extent, PER_OCTAVE)?;
        if sizes.is_empty() {
            sizes = vec![first.extent.round().clamp(1.0, 1e15) as usize];
        }
        let thin = sizes.len().div_ceil(MOST_POINTS);
        let mut curve = Curve::default();
        let mut points: Vec<(usize, Explanation)> = Vec::new();
        for size in sizes.into_iter().step_by(thin) {
            let told = line.explain(size)?;
            curve.workloads.push(told.workload);
            curve.steps.push(Step::new(size, line.label(size), &told));
            points.push((size, told));
        }
        if let Some((_, told)) = points.first() {
            let named =
                |v: &pointsman::VariantReport| (v.name.clone(), v.backend.to_string(), v.reference);
            curve.told = told.variants.iter().map(named).collect();
        }
        let free = points.iter().filter(|(_, told)| !is_held_back(told));
        let chosen: Vec<(usize, &str)> = free.map(|(s, t)| (*s, &*t.chosen)).collect();
        let runs = map::runs(&chosen, |size| Ok(line.explain(size)?.chosen))?;
        for run in runs {
            let at = |size| Ok::<_, String>(extent(line.workload(size)?.features()));
            curve.spans.push(Span {
                from: at(run.from)?,
                to: at(run.to)?,
                from_size: run.from,
                to_size: run.to,
                from_workload: line.label(run.from),
                to_workload: line.label(run.to),
                variant: run.variant,
            });
        }
        Ok(curve)
    }
}

/// Whether the reference serves only until a faster variant has been checked there: then time does
/// not say who serves, and the sizes around do.
fn is_held_back(told: &Explanation) -> bool {
    let chosen = told.variants.iter().find(|v| v.name == told.chosen);
    chosen.is_some_and(|chosen| {
        let faster = |v: &&pointsman::VariantReport| v.predicted.ns() < chosen.predicted.ns();
        let waits = |v: &&pointsman::VariantReport| v.eligible() && v.checked == Some(false);
        chosen.reference && told.variants.iter().filter(faster).any(|v| waits(&v))
    })
}

impl Step {
    fn new(size: usize, workload: String, told: &Explanation) -> Self {
        let may = told.variants.iter().filter(|v| v.eligible());
        Step {
            workload,
            size,
            extent: extent(told.workload.features()),
            chosen: told.chosen.clone(),
            confidence: told.confidence,
            predicted: may
                .map(|v| {
                    let (low_ns, high_ns) = v.predicted.range_ns();
                    Predicted {
                        variant: v.name.clone(),
                        ns: v.predicted.ns(),
                        low_ns,
                        high_ns,
                    }
                })
                .collect(),
        }
    }
}

impl Row {
    fn new(cell: &Measured, on_line: bool, told: Option<&Explanation>) -> Self {
        let told = told.filter(|_| cell.times.len() > 1);
        Row {
            cell: text::ranges(cell.cell.ranges()),
            extent: cell.begin,
            on_line,
            chosen: told.map(|t| t.chosen.clone()),
            confidence: told.map_or(0.0, |t| t.confidence),
            times: cell
                .times
                .iter()
                .map(|(variant, t)| Point {
                    variant: variant.clone(),
                    median_ns: t.median_ns,
                    least_ns: t.least_ns,
                    most_ns: t.most_ns,
                    kept: t.kept,
                    count: t.count,
                })
                .collect(),
        }
    }

    pub(super) fn median_of(&self, variant: &str) -> Option<f64> {
        let point = self.times.iter().find(|p| p.variant == variant)?;
        Some(point.median_ns)
    }
}

impl Worth {
    fn new(rows: &[Row]) -> Self {
        let mut names: Vec<&str> = Vec::new();
        let mut over_best = Vec::new();
        for row in rows {
            let Some(chosen) = row.chosen.as_deref().and_then(|c| row.median_of(c)) else {
                continue;
            };
            let medians = row.times.iter().map(|p| p.median_ns);
            over_best.push((chosen / medians.fold(f64::INFINITY, f64::min)).ln());
            names.extend(row.times.iter().map(|p| &*p.variant));
        }
        names.sort_unstable();
        names.dedup();
        let mut fixed: Vec<Fixed> = names
            .into_iter()
            .filter_map(|variant| Fixed::new(variant, rows))
            .collect();
        fixed.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
        Worth {
            cells: over_best.len(),
            over_best: geometric_mean(&over_best),
            fixed,
        }
    }
}

impl Fixed {
    fn new(variant: &str, rows: &[Row]) -> Option<Self> {
        let ratio = |row: &Row| {
            let chosen = row.median_of(row.chosen.as_deref()?)?;
            Some((row.median_of(variant)? / chosen).ln())
        };
        let logs: Vec<f64> = rows.iter().filter_map(ratio).collect();
        Some(Fixed {
            variant: variant.to_owned(),
            ratio: geometric_mean(&logs)?,
            worst: logs.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b)).exp(),
            cells: logs.len(),
        })
    }
}

/// From logarithms; `None` of nothing.
pub(super) fn geometric_mean(logs: &[f64]) -> Option<f64> {
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}
