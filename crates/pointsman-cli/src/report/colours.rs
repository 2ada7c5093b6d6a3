//! A colour for each variant, the same on the whole page.

use std::collections::{BTreeMap, BTreeSet};

use super::op::Op;

/// Colours that the style sheet has; beyond them lines are dashed.
const COLOURS: usize = 8;

/// Which colour and which dash a name has. Ops have variants of the same name, so that there are
/// more names than colours; no two that share an op look alike.
pub(super) struct Colours(BTreeMap<String, usize>);

impl Colours {
    pub(super) fn new(ops: &[Op]) -> Self {
        let mut beside: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
        for op in ops {
            // Also who was never measured but would be predicted.
            let predicted = op.curve.iter().flat_map(|s| &s.predicted);
            let mut names: BTreeSet<&str> = predicted.map(|p| &*p.variant).collect();
            names.extend(op.variants.iter().map(|v| &*v.name));
            for name in &names {
                *uses.entry(name).or_default() += 1;
                beside.entry(name).or_default().extend(&names);
            }
        }
        let mut order: Vec<&str> = uses.keys().copied().collect();
        order.sort_by_key(|name| (std::cmp::Reverse(uses[name]), *name));
        let mut taken: BTreeMap<String, usize> = BTreeMap::new();
        for name in order {
            let others: BTreeSet<usize> = beside[name]
                .iter()
                .filter_map(|other| taken.get(*other).copied())
                .collect();
            let free = (0..).find(|i| !others.contains(i)).unwrap_or(0);
            taken.insert(name.to_owned(), free);
        }
        Colours(taken)
    }

    /// The classes of a variant's lines and points.
    pub(super) fn class(&self, variant: &str) -> String {
        let index = self.0.get(variant).copied().unwrap_or(0);
        let dash = index / COLOURS;
        match dash {
            0 => format!("c{}", index % COLOURS),
            dash => format!("c{} d{}", index % COLOURS, dash.min(3)),
        }
    }
}
