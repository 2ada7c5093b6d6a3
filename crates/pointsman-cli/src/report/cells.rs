//! What the store holds of one op, cell by cell.

use std::collections::{BTreeMap, HashMap};

use pointsman::store::{Account, Costs, Entry, Fact};
use pointsman::{Cell, Cost, Workload};

use super::line::extent;

/// The entries of one op on one machine, only the latest revision of each variant.
#[derive(Default)]
pub(super) struct Known<'k> {
    pub(super) entries: Vec<&'k Entry>,
    /// Variants of which older revisions are kept, too.
    pub(super) outdated: usize,
}

impl<'k> Known<'k> {
    pub(super) fn latest(entries: impl Iterator<Item = &'k Entry>) -> Self {
        let entries: Vec<&Entry> = entries.collect();
        let mut latest: HashMap<&str, (u64, u32)> = HashMap::new();
        for entry in &entries {
            let at = (entry.updated, entry.revision);
            let known = latest.entry(&entry.variant).or_insert(at);
            *known = (*known).max(at);
        }
        let is_latest = |e: &&Entry| latest.get(&*e.variant).is_some_and(|l| l.1 == e.revision);
        let all = entries.len();
        let entries: Vec<&Entry> = entries.into_iter().filter(is_latest).collect();
        Known {
            outdated: all - entries.len(),
            entries,
        }
    }

    /// Names of all variants, in order.
    pub(super) fn variants(&self) -> Vec<&'k str> {
        let mut names: Vec<&str> = self.entries.iter().map(|e| &*e.variant).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Each variant's account.
    pub(super) fn account(&self, variant: &str) -> Option<&'k Account> {
        self.entries.iter().find_map(|e| match &e.fact {
            Fact::Account(account) if *e.variant == *variant => Some(&**account),
            _ => None,
        })
    }

    /// The cells in which something was measured, small ones first.
    pub(super) fn cells(&self) -> Vec<Measured> {
        let mut cells: HashMap<Cell, Measured> = HashMap::new();
        for entry in &self.entries {
            let Fact::Costs(costs) = &entry.fact else {
                continue;
            };
            let Some(times) = Times::of(costs) else {
                continue;
            };
            let cell = cells
                .entry(entry.cell)
                .or_insert_with(|| Measured::new(entry.cell));
            cell.flops = cell.flops.max(costs.flops as f64);
            cell.bytes = cell.bytes.max(costs.bytes as f64);
            cell.times.insert(entry.variant.to_string(), times);
        }
        let mut cells: Vec<Measured> = cells
            .into_values()
            .map(|mut cell| {
                if cell.flops > 0.0 {
                    cell.workload = cell.workload.flops(cell.flops);
                }
                if cell.bytes > 0.0 {
                    cell.workload = cell.workload.bytes(cell.bytes);
                }
                cell
            })
            .collect();
        cells.sort_by(|a, b| {
            let features = |c: &Measured| c.workload.features().to_vec();
            let by_features = || features(a).partial_cmp(&features(b));
            let by_extent = a.extent.total_cmp(&b.extent);
            by_extent.then_with(|| by_features().unwrap_or(std::cmp::Ordering::Equal))
        });
        cells
    }
}

/// A cell in which something was measured.
pub(super) struct Measured {
    pub(super) cell: Cell,
    /// A workload from its middle.
    pub(super) workload: Workload,
    pub(super) extent: f64,
    /// The extent at which it begins: that of the powers of two that tuning goes through.
    pub(super) begin: f64,
    pub(super) flops: f64,
    pub(super) bytes: f64,
    /// By variant.
    pub(super) times: BTreeMap<String, Times>,
}

impl Measured {
    fn new(cell: Cell) -> Self {
        let workload = cell.workload();
        let lowest: Vec<f64> = cell.ranges().map(|(from, _)| from).collect();
        Measured {
            cell,
            extent: extent(workload.features()),
            begin: extent(&lowest),
            workload,
            flops: 0.0,
            bytes: 0.0,
            times: BTreeMap::new(),
        }
    }

    /// Names of the variants that were measured here.
    pub(super) fn variants(&self) -> Vec<&str> {
        self.times.keys().map(String::as_str).collect()
    }

    /// The lowest median of all variants.
    pub(super) fn best_ns(&self) -> f64 {
        let medians = self.times.values().map(|t| t.median_ns);
        medians.fold(f64::INFINITY, f64::min)
    }
}

/// What a variant took in a cell: the last few measurements, at most nine.
pub(super) struct Times {
    pub(super) median_ns: f64,
    pub(super) least_ns: f64,
    pub(super) most_ns: f64,
    /// How many of them the store keeps, and how many there were.
    pub(super) kept: usize,
    pub(super) count: u64,
}

impl Times {
    fn of(costs: &Costs) -> Option<Self> {
        let mut ns: Vec<u64> = costs.recent.iter().copied().map(Cost::ns).collect();
        ns.sort_unstable();
        let (first, last) = (*ns.first()?, *ns.last()?);
        Some(Times {
            // As the learner takes it: of an even number the lower one.
            median_ns: ns[(ns.len() - 1) / 2] as f64,
            least_ns: first as f64,
            most_ns: last as f64,
            kept: ns.len(),
            count: costs.count,
        })
    }
}
