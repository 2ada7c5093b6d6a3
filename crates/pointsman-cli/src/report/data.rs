//! All that the report says, from one state of the store.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use pointsman::store::{Entry, Fact, Knowledge};
use pointsman::{Calibration, Selector};
use pointsman_ops::catalogue;
use serde::Serialize;

use super::cells::Known;
use super::confidence::{self, Predictor, Tenth};
use super::line::{Line, Trend, Typical};
use super::machine::{Elsewhere, Machine};
use super::op::{Op, Source, Spent, geometric_mean};
use crate::catalogue::{Catalogue, Steer};
use crate::output::Failure;

/// What the page shows.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) version: &'static str,
    pub(super) store: String,
    pub(super) entries: usize,
    /// Seconds since 1970 when something was last added; 0 if nothing is known.
    pub(super) updated: u64,
    pub(super) machine: Option<Machine>,
    pub(super) ops: Vec<Op>,
    pub(super) elsewhere: Vec<Elsewhere>,
    pub(super) totals: Totals,
    pub(super) stated: Vec<Tenth>,
    pub(super) held_out: Vec<Tenth>,
}

/// Sums over all ops.
#[derive(Serialize)]
pub(super) struct Totals {
    pub(super) variants: usize,
    pub(super) cells: usize,
    pub(super) points: usize,
    pub(super) measurements: u64,
    pub(super) failures: u64,
    pub(super) disagreed: usize,
    pub(super) spent: Option<Spent>,
    /// Geometric means over the ops that have them, and how many those are.
    pub(super) over_reference: Option<f64>,
    pub(super) referenced: usize,
    pub(super) over_best: Option<f64>,
}

/// Ops as they were last reported, by what was known of them: most stay as they are while a program
/// runs.
#[derive(Default)]
pub(super) struct Cache(HashMap<(String, bool), (u64, Op)>);

impl Report {
    pub(super) fn new(store: &Path, known: &Knowledge, cache: &mut Cache) -> Result<Self, Failure> {
        let mut report = Report {
            version: env!("CARGO_PKG_VERSION"),
            store: store.display().to_string(),
            entries: known.entries.len(),
            updated: known.entries.iter().map(|e| e.updated).max().unwrap_or(0),
            machine: None,
            ops: Vec::new(),
            elsewhere: Vec::new(),
            totals: Totals::new(&[]),
            stated: Vec::new(),
            held_out: Vec::new(),
        };
        let machine = Machine::choose(known);
        report.elsewhere = Elsewhere::all(known, machine.as_ref());
        if let Some(machine) = machine {
            report.ops = ops(known, &machine, cache)?;
            report.machine = Some(machine);
        }
        report.totals = Totals::new(&report.ops);
        report.stated = confidence::sum(report.ops.iter().map(|op| &*op.stated));
        report.held_out = confidence::sum(report.ops.iter().map(|op| &*op.held_out));
        Ok(report)
    }
}

fn ops(known: &Knowledge, machine: &Machine, cache: &mut Cache) -> Result<Vec<Op>, Failure> {
    let mut by_op: BTreeMap<(&str, bool), Vec<&Entry>> = BTreeMap::new();
    for entry in &known.entries {
        if let Some(bare) = machine.holds(entry.machine) {
            by_op.entry((&entry.op, bare)).or_default().push(entry);
        }
    }
    let old = std::mem::take(&mut cache.0);
    let (mut done, mut left) = (Vec::new(), Vec::new());
    for ((name, bare), entries) in by_op {
        let state = state_of(&entries);
        match old.get(&(name.to_owned(), bare)) {
            Some((before, op)) if *before == state => done.push((state, op.clone())),
            _ => left.push(Left {
                name,
                bare,
                state,
                known: Known::latest(entries.into_iter()),
            }),
        }
    }
    if !left.is_empty() {
        done.extend(fresh(known, machine, &left)?);
    }
    done.sort_by(|a, b| (&a.1.op, a.1.without_gpus).cmp(&(&b.1.op, b.1.without_gpus)));
    let key = |op: &Op| (op.op.clone(), op.without_gpus);
    let keyed = |(state, op): &(u64, Op)| (key(op), (*state, op.clone()));
    cache.0 = done.iter().map(keyed).collect();
    Ok(done.into_iter().map(|(_, op)| op).collect())
}

/// An op of which something new is known.
struct Left<'k> {
    name: &'k str,
    /// Of programs that do not look for GPUs.
    bare: bool,
    state: u64,
    known: Known<'k>,
}

/// Ops of which something new is known.
fn fresh(
    known: &Knowledge,
    machine: &Machine,
    left: &[Left<'_>],
) -> Result<Vec<(u64, Op)>, Failure> {
    let nominal = Calibration::nominal();
    let calibration = machine.calibration().unwrap_or(&nominal);
    let predict = Predictor { calibration };
    // Variants of another machine may not even run here: of those, names are all that is known.
    let catalogue = match machine.is_this() && left.iter().any(|op| !op.bare) {
        true => Some(Catalogue::knowing(known, &Steer::default())?),
        false => None,
    };
    let listed = |op: &Left<'_>| {
        let mut entries = catalogue.iter().flat_map(Catalogue::entries);
        entries.find(|e| !op.bare && e.name() == op.name)
    };
    // One selector each for what was learned apart: an op may be in both.
    let named = |bare: bool| {
        let others = left
            .iter()
            .filter(|op| op.bare == bare && listed(op).is_none());
        let entries = others.flat_map(|op| op.known.entries.iter().copied());
        predict.knowing(entries).map_err(Failure::new)
    };
    let (named, named_bare) = (named(false)?, named(true)?);
    let mut done = Vec::new();
    for op in left {
        let source = match (listed(op), &catalogue) {
            (Some(entry), Some(catalogue)) => typical(entry, &catalogue.selector),
            _ if op.bare => trend(op.name, &op.known, &named_bare),
            _ => trend(op.name, &op.known, &named),
        };
        let mut made = Op::new(op.name, &op.known, &source, &predict);
        made.without_gpus = op.bare;
        done.push((op.state, made));
    }
    Ok(done)
}

fn typical<'a>(entry: &'a dyn catalogue::Entry, selector: &'a Selector) -> Source<'a> {
    Source {
        selector,
        line: Some(Box::new(Typical(entry))),
        in_this_build: true,
    }
}

fn trend<'a>(name: &'a str, known: &Known<'a>, selector: &'a Selector) -> Source<'a> {
    let line = Trend::new(selector, name, known.variants(), &known.cells());
    Source {
        selector,
        line: line.map(|line| Box::new(line) as Box<dyn Line>),
        in_this_build: false,
    }
}

/// A number that changes when anything that is known of an op does.
fn state_of(entries: &[&Entry]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for entry in entries {
        (&entry.variant, entry.revision, entry.cell, entry.updated).hash(&mut hasher);
        match &entry.fact {
            Fact::Costs(costs) => {
                (costs.count, costs.failures, costs.flops, costs.bytes).hash(&mut hasher);
                let recent = costs.recent.iter().map(|cost| cost.ns());
                recent.for_each(|ns| ns.hash(&mut hasher));
            }
            other => format!("{other:?}").hash(&mut hasher),
        }
    }
    hasher.finish()
}

impl Totals {
    fn new(ops: &[Op]) -> Self {
        let variants = || ops.iter().flat_map(|op| &op.variants);
        let mut spent: Option<Spent> = None;
        for account in variants().filter_map(|v| v.account.as_ref()) {
            spent.get_or_insert_default().add(account);
        }
        let logs = |of: fn(&Op) -> Option<f64>| -> Vec<f64> {
            ops.iter().filter_map(of).map(f64::ln).collect()
        };
        let references = logs(|op| op.over_reference().map(|f| f.ratio));
        Totals {
            variants: variants().count(),
            cells: ops.iter().map(|op| op.cells.len()).sum(),
            points: ops.iter().map(Op::points).sum(),
            measurements: ops
                .iter()
                .map(Op::measurements)
                .fold(0, u64::saturating_add),
            failures: variants().map(|v| v.failures).fold(0, u64::saturating_add),
            disagreed: variants().filter(|v| v.disagreed).count(),
            spent,
            over_reference: geometric_mean(&references),
            referenced: references.len(),
            over_best: geometric_mean(&logs(|op| op.worth.over_best)),
        }
    }
}
