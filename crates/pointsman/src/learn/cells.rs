//! The cells of one op that something is known about: bounded, with eviction.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::Work;
use super::samples::Samples;
use crate::cell::{Cell, KeyHasher};
use crate::policy::adaptive::Burst;
use crate::workload::Workload;

/// Most cells one op remembers: 4,096 cover 8 an octave over all sizes in one dimension twenty times
/// over, and a scan of all of them takes some 20 µs, once per new cell. With half as many, replays of
/// 5,000 convolutions, none of which came twice, were 2 % slower in the geometric mean.
pub(crate) const MAX_CELLS: usize = 4096;

/// What everything but a cell's own samples says of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expected {
    /// Which fit it comes from, and how much news and how many calls of the cell there had been.
    pub(crate) version: u64,
    pub(crate) news: u64,
    pub(crate) calls: f64,
    /// Variance of what all variants have in common: how dear calls are here, whoever serves.
    pub(crate) shared: f64,
    /// By variant; `None` if nobody has asked.
    pub(crate) own: Vec<Option<Own>>,
}

/// The same of one variant: mean log cost, and the variance that is its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own {
    pub(crate) mean: f64,
    pub(crate) variance: f64,
}

/// One cell: where it lies and what was seen there.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) cell: Cell,
    pub(crate) key: u64,
    /// Coordinates of its middle in log space.
    pub(crate) at: Vec<f64>,
    pub(crate) work: Work,
    pub(crate) samples: Vec<Samples>,
    /// What neighbours say; refreshed when the model has changed.
    pub(crate) expected: Expected,
    /// Who was chosen last: near-ties stay with it.
    pub(crate) incumbent: Option<u8>,
    /// The confidence of that choice.
    pub(crate) sure: f64,
    /// A run of trials under way.
    pub(crate) burst: Option<Burst>,
    /// Calls that came past the learner, and calls that they stand for.
    pub(crate) visits: u32,
    pub(crate) calls: f64,
    used: bool,
}

impl Place {
    /// Notes a call. From its second on, a cell is one to keep.
    pub(crate) fn visit(&mut self) {
        self.used = self.visits > 0;
        self.visits = self.visits.saturating_add(1);
    }

    pub(crate) fn of(&self, variant: u8) -> Option<&Samples> {
        self.samples.iter().find(|s| s.variant == variant)
    }

    pub(crate) fn of_mut(&mut self, variant: u8, spread: f64) -> &mut Samples {
        let at = match self.samples.iter().position(|s| s.variant == variant) {
            Some(at) => at,
            None => {
                self.samples.push(Samples::new(variant, spread));
                self.samples.len() - 1
            }
        };
        &mut self.samples[at]
    }
}

/// The cells of one op.
#[derive(Default)]
pub(crate) struct Cells {
    places: Vec<Place>,
    index: HashMap<u64, u32, BuildHasherDefault<KeyHasher>>,
    hand: usize,
}

impl Cells {
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn all(&self) -> &[Place] {
        &self.places
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Place> {
        self.places.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Place> {
        self.places.iter_mut()
    }

    pub(crate) fn find(&self, key: u64) -> Option<usize> {
        self.index.get(&key).map(|at| *at as usize)
    }

    pub(crate) fn at(&self, index: usize) -> &Place {
        &self.places[index]
    }

    pub(crate) fn at_mut(&mut self, index: usize) -> &mut Place {
        &mut self.places[index]
    }

    /// The cell of a workload, made if it is new. The second value is what had to go for it.
    pub(crate) fn enter(
        &mut self,
        workload: &Workload,
        key: u64,
        limit: usize,
    ) -> (usize, Option<Place>) {
        match self.find(key) {
            Some(at) => (at, None),
            None => self.insert(workload.cell(), key, Work::of(workload), limit),
        }
    }

    pub(crate) fn insert(
        &mut self,
        cell: Cell,
        key: u64,
        work: Work,
        limit: usize,
    ) -> (usize, Option<Place>) {
        let place = Place {
            at: cell.coordinates().collect(),
            cell,
            key,
            work,
            samples: Vec::new(),
            expected: Expected::default(),
            incumbent: None,
            sure: 0.0,
            burst: None,
            visits: 0,
            calls: 0.0,
            used: false,
        };
        if self.places.len() < limit.clamp(1, MAX_CELLS) {
            self.index.insert(key, self.places.len() as u32);
            self.places.push(place);
            return (self.places.len() - 1, None);
        }
        let at = self.victim();
        let old = std::mem::replace(&mut self.places[at], place);
        self.index.remove(&old.key);
        self.index.insert(key, at as u32);
        (at, Some(old))
    }

    /// The next cell that was not used since the hand last passed it.
    fn victim(&mut self) -> usize {
        loop {
            self.hand = (self.hand + 1) % self.places.len();
            if !std::mem::take(&mut self.places[self.hand].used) {
                return self.hand;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f39_cells_are_bounded_and_used_ones_stay() {
        let mut cells = Cells::default();
        let often = Workload::new([1_000_000]);
        for n in 0..5_000usize {
            let (at, _) = cells.enter(&often, often.cell_key(), 64);
            cells.at_mut(at).visit();
            let w = Workload::new([n % 4000, n]);
            cells.enter(&w, w.cell_key(), 64);
        }
        assert_eq!(cells.len(), 64);
        let at = cells.find(often.cell_key()).unwrap();
        assert_eq!(cells.at(at).visits, 5_000);
        assert_eq!(cells.index.len(), 64);
    }
}
