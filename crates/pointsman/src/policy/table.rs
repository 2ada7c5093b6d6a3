//! What a policy keeps for each cell: bounded, with eviction.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::cell::KeyHasher;
use crate::learn::MAX_CELLS;

struct Row<T> {
    key: u64,
    used: bool,
    value: T,
}

/// Values by cell. When it is full, the next one that was not used twice since the hand last passed
/// makes room.
pub(super) struct Table<T> {
    rows: Vec<Row<T>>,
    index: HashMap<u64, u32, BuildHasherDefault<KeyHasher>>,
    hand: usize,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table {
            rows: Vec::new(),
            index: HashMap::default(),
            hand: 0,
        }
    }
}

impl<T: Default> Table<T> {
    /// The value of a cell, made if it is new.
    pub(super) fn enter(&mut self, key: u64) -> &mut T {
        let at = match self.index.get(&key) {
            Some(at) => {
                let at = *at as usize;
                self.rows[at].used = true;
                at
            }
            None => self.insert(key),
        };
        &mut self.rows[at].value
    }

    fn insert(&mut self, key: u64) -> usize {
        let row = Row {
            key,
            used: false,
            value: T::default(),
        };
        let at = if self.rows.len() < MAX_CELLS {
            self.rows.push(row);
            self.rows.len() - 1
        } else {
            let at = self.victim();
            self.index.remove(&self.rows[at].key);
            self.rows[at] = row;
            at
        };
        self.index.insert(key, at as u32);
        at
    }

    fn victim(&mut self) -> usize {
        loop {
            self.hand = (self.hand + 1) % self.rows.len();
            if !std::mem::take(&mut self.rows[self.hand].used) {
                return self.hand;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f39_a_table_is_bounded_and_used_cells_stay() {
        let mut table: Table<u32> = Table::default();
        for key in 1..10_000u64 {
            *table.enter(0) += 1;
            *table.enter(key) += 1;
        }
        assert_eq!(table.rows.len(), MAX_CELLS);
        assert_eq!(table.index.len(), MAX_CELLS);
        assert_eq!(*table.enter(0), 9_999, "the busy cell was never dropped");
        assert_eq!(*table.enter(1), 0, "an idle one was");
    }
}
