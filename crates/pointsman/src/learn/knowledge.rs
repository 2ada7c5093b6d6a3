//! What the learner takes from the store and gives to it.

use super::cells::MAX_CELLS;
use super::samples::Samples;
use super::{Foreign, Known, Learner, Work};
use crate::cell::Cell;
use crate::outcome::Cost;
use crate::store::{Costs, Entry, Fact};

/// Most foreign cells that are listened to.
const MAX_FOREIGN: usize = 2048;

impl Learner {
    /// Takes over what the store knows of the variants that exist here, in the revision that they
    /// have here. `ours` tells knowledge of this machine from that of others.
    pub(crate) fn learn_from<'a>(
        &mut self,
        entries: impl Iterator<Item = (&'a Entry, bool)>,
        now_unix: u64,
    ) {
        self.foreign.clear(); // told again, with every variant that has joined since
        for (entry, ours) in entries {
            let Fact::Costs(costs) = &entry.fact else {
                continue;
            };
            let known = |v: &Known| v.name == entry.variant && v.revision == entry.revision;
            let Some(variant) = self.variants.iter().position(known) else {
                continue; // another build's variant, or another revision of ours
            };
            if ours {
                self.load(variant as u8, entry, costs, now_unix);
            } else if let Some(ln_cost) = median(&costs.recent)
                && self.foreign.len() < MAX_FOREIGN
            {
                let at: Vec<f64> = entry.cell.coordinates().collect();
                self.basis.admit(&entry.cell, &at);
                self.foreign.push(Foreign {
                    variant: variant as u8,
                    cell: entry.cell,
                    at,
                    work: Work::stored(&entry.cell, costs),
                    ln_cost,
                });
            }
        }
        self.fit();
    }

    fn load(&mut self, variant: u8, entry: &Entry, costs: &Costs, now_unix: u64) {
        let key = entry.cell.key();
        let at = match self.cells.find(key) {
            Some(at) => at,
            None if self.cells.len() < MAX_CELLS => {
                let work = Work::stored(&entry.cell, costs);
                self.cells.insert(entry.cell, key, work, MAX_CELLS).0
            }
            None => return,
        };
        let place = self.cells.at_mut(at);
        if place.of(variant).is_some() {
            return; // known already: a second handle of the same op
        }
        let age_days = now_unix.saturating_sub(entry.updated) as f64 / 86_400.0;
        let keep = samples_after(age_days, costs.recent.len());
        let samples = Samples::load(variant, costs, keep);
        self.points += usize::from(samples.held() > 0);
        let tried = u32::try_from(costs.count).unwrap_or(u32::MAX);
        for known in [&mut self.tries, &mut self.measured] {
            known[usize::from(variant)] = known[usize::from(variant)].saturating_add(tried);
        }
        place.samples.push(samples);
        let place = self.cells.at(at);
        self.basis.admit(&place.cell, &place.at);
    }

    /// What the store does not have yet: variant, cell, and the change in what is known.
    pub(crate) fn take_unsaved(&mut self) -> Vec<(u8, Cell, Costs)> {
        let mut out = Vec::new();
        // Evicted ones first: what is newer must be the store's last.
        let evicted = self.evicted.iter_mut();
        for place in evicted.chain(self.cells.iter_mut()) {
            for samples in &mut place.samples {
                if let Some(mut costs) = samples.take_unsaved() {
                    costs.flops = place.work.flops.round() as u64;
                    costs.bytes = place.work.bytes.round() as u64;
                    out.push((samples.variant, place.cell, costs));
                }
            }
        }
        self.evicted.clear();
        out
    }

    /// A variant has new code: what was measured of the old is dropped.
    pub(crate) fn change_revision(&mut self, variant: u8, revision: u32) {
        self.variants[usize::from(variant)].revision = revision;
        self.tries[usize::from(variant)] = 0;
        self.measured[usize::from(variant)] = 0;
        self.warm &= !(1 << variant);
        for place in self.cells.iter_mut() {
            place.samples.retain(|s| s.variant != variant);
            place.expected = super::Expected::default();
        }
        for place in &mut self.evicted {
            place.samples.retain(|s| s.variant != variant);
        }
        self.foreign.retain(|f| f.variant != variant);
        if let Some(asked) = &mut self.asked {
            asked.forget();
        }
        self.points = self
            .cells
            .iter()
            .flat_map(|p| &p.samples)
            .filter(|s| s.held() > 0)
            .count();
        self.fit();
    }
}

/// Half of the evidence goes every seven days, but never the last sample.
fn samples_after(days: f64, held: usize) -> usize {
    ((held as f64 * 0.5f64.powf(days / 7.0)).round() as usize).max(1)
}

fn median(costs: &[Cost]) -> Option<f64> {
    let mut sorted = costs.to_vec();
    sorted.sort_unstable();
    sorted
        .get(sorted.len().saturating_sub(1) / 2)
        .map(|c| c.ln())
}
