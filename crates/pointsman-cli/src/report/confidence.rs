//! How sure choices were, and how often they were right.

use pointsman::store::{Account, Entry, Fact, Knowledge, MemoryStore, Store as _};
use pointsman::{Calibration, Machine, Mode, Selector};
use serde::Serialize;

use super::cells::{Known, Measured};

/// Parts that the cells of an op are cut into; each is predicted from the others.
const FOLDS: usize = 8;

/// Measurements that a variant must have in a cell to say who is best there.
const ENOUGH: usize = 3;

/// Most cells of one op that are predicted: the time this takes is bounded.
const MOST_CELLS: usize = 256;

/// What counts as right: within 5 % of the best, as confidence is defined.
const NEAR: f64 = 1.05;

/// Choices that were made with about the same confidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Tenth {
    pub(super) judged: u64,
    pub(super) right: u64,
    /// Sum of their confidences.
    pub(super) sum: f64,
}

impl Tenth {
    pub(super) fn stated(&self) -> f64 {
        self.sum / self.judged.max(1) as f64
    }

    pub(super) fn share(&self) -> f64 {
        self.right as f64 / self.judged.max(1) as f64
    }

    fn add(&mut self, more: &Tenth) {
        self.judged = self.judged.saturating_add(more.judged);
        self.right = self.right.saturating_add(more.right);
        self.sum += more.sum;
    }
}

/// Adds tenth to tenth.
pub(super) fn sum<'a>(all: impl Iterator<Item = &'a [Tenth]>) -> Vec<Tenth> {
    let mut out = vec![Tenth::default(); 10];
    for tenths in all {
        for (slot, more) in out.iter_mut().zip(tenths) {
            slot.add(more);
        }
    }
    out
}

/// What programs have counted as they chose.
pub(super) fn stated<'a>(accounts: impl Iterator<Item = &'a Account>) -> Vec<Tenth> {
    let mut out = vec![Tenth::default(); 10];
    for account in accounts {
        for (slot, stated) in out.iter_mut().zip(&account.stated) {
            slot.add(&Tenth {
                judged: stated.judged,
                right: stated.right,
                sum: stated.sum as f64 / 1000.0,
            });
        }
    }
    out
}

/// Makes selectors that know some entries, whatever machine they are from.
pub(super) struct Predictor<'a> {
    pub(super) calibration: &'a Calibration,
}

impl Predictor<'_> {
    /// Ops by name that know these entries as if they had been measured here. Only the latest
    /// revision of a variant is given, which by name is the first.
    pub(super) fn knowing<'e>(
        &self,
        entries: impl Iterator<Item = &'e Entry>,
    ) -> Result<Selector, String> {
        let machine = Machine::detect();
        let fingerprint = machine.fingerprint();
        let entries: Vec<Entry> = entries
            .map(|e| Entry {
                machine: fingerprint,
                revision: 0,
                ..e.clone()
            })
            .collect();
        let mut memory = MemoryStore::new().with_limit(entries.len().max(1));
        let known = Knowledge {
            entries,
            machines: Vec::new(),
        };
        memory.merge(&known).map_err(|error| error.to_string())?;
        Selector::builder()
            .ignore_environment()
            .machine(machine)
            .calibration(self.calibration.clone())
            .mode(Mode::Frozen)
            .store(memory)
            .build()
            .map_err(|error| error.to_string())
    }
}

/// What would be chosen in each cell if nothing had been measured there, how surely, and whether
/// that is right by what was measured. The cells are left out in eight parts, one after the other.
pub(super) fn held_out(
    op: &str,
    known: &Known<'_>,
    cells: &[Measured],
    predict: &Predictor<'_>,
) -> Vec<Tenth> {
    let mut out = vec![Tenth::default(); 10];
    // A cell says who is best only if several variants were measured well.
    let judges = |cell: &Measured| {
        let well = cell.times.values().filter(|t| t.kept >= ENOUGH).count();
        well >= 2 && well == cell.times.len()
    };
    let thin = cells.len().div_ceil(MOST_CELLS).max(1);
    for fold in 0..FOLDS.min(cells.len()) {
        let held = |i: usize| i % FOLDS == fold;
        let part: Vec<&Measured> = (0..cells.len())
            .filter(|i| held(*i) && (i / FOLDS).is_multiple_of(thin))
            .map(|i| &cells[i])
            .filter(|cell| judges(cell))
            .collect();
        if part.is_empty() || cells.len() < 2 {
            continue;
        }
        let hidden: std::collections::HashSet<_> = (0..cells.len())
            .filter(|i| held(*i))
            .map(|i| cells[i].cell)
            .collect();
        let costs = |e: &&&Entry| matches!(e.fact, Fact::Costs(_)) && !hidden.contains(&e.cell);
        let shown = known.entries.iter().filter(costs).copied();
        let Ok(selector) = predict.knowing(shown) else {
            continue;
        };
        for cell in part {
            let Some(told) = selector.explain(op, &cell.workload, &cell.variants()) else {
                continue;
            };
            let Some(chosen) = cell.times.get(&told.chosen) else {
                continue;
            };
            let tenth = &mut out[((told.confidence * 10.0) as usize).min(9)];
            tenth.judged += 1;
            tenth.right += u64::from(chosen.median_ns <= NEAR * cell.best_ns());
            tenth.sum += told.confidence;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman::store::Costs;
    use pointsman::{Cost, Workload};

    /// `a` takes 10 ns an element and `b` 1 µs and 1 ns an element.
    fn entries(sizes: impl Iterator<Item = usize>) -> Vec<Entry> {
        let entry = |n: usize, variant: &str, ns: usize| Entry {
            machine: 1,
            op: "op".into(),
            variant: variant.into(),
            revision: 7,
            cell: Workload::new([n]).cell(),
            updated: 1,
            fact: Fact::Costs(Costs {
                count: 5,
                recent: vec![Cost::from_ns(ns as u64).unwrap(); 5],
                ..Costs::default()
            }),
        };
        sizes
            .flat_map(|n| [entry(n, "a", 10 * n), entry(n, "b", 1000 + n)])
            .collect()
    }

    #[test]
    fn cells_that_were_left_out_are_predicted_from_the_others() {
        let entries = entries((0..16).map(|i| 1 << i));
        let known = Known::latest(entries.iter());
        let calibration = Calibration::nominal();
        let predict = Predictor {
            calibration: &calibration,
        };
        let tenths = held_out("op", &known, &known.cells(), &predict);
        let judged: u64 = tenths.iter().map(|t| t.judged).sum();
        let right: u64 = tenths.iter().map(|t| t.right).sum();
        assert_eq!(judged, 16);
        assert!(right >= 12, "two straight lines are easy: {tenths:?}");
        assert!(tenths.iter().all(|t| t.stated() <= 1.0));
    }

    #[test]
    fn a_cell_with_one_variant_judges_nobody() {
        let mut entries = entries([4, 64, 1024].into_iter());
        entries.retain(|e| &*e.variant == "a");
        let known = Known::latest(entries.iter());
        let calibration = Calibration::nominal();
        let predict = Predictor {
            calibration: &calibration,
        };
        let tenths = held_out("op", &known, &known.cells(), &predict);
        assert_eq!(tenths, vec![Tenth::default(); 10]);
    }
}
