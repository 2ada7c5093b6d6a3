//! Knowledge that lives as long as the process: the fallback where nothing can be written, and
//! the model that the tests hold other stores against.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use super::{Entry, Knowledge, MAX_ENTRIES, MAX_MACHINES, Store, StoreError, codec};
use crate::machine::MachineRecord;

/// A store in memory. Clones share their contents.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    contents: Arc<Mutex<Contents>>,
    limit: usize,
}

#[derive(Debug, Default)]
struct Contents {
    /// By encoded key.
    entries: BTreeMap<Vec<u8>, Entry>,
    /// By fingerprint, with the number of the merge that brought it.
    machines: BTreeMap<u64, (u64, MachineRecord)>,
    merges: u64,
}

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStore {
            contents: Arc::default(),
            limit: MAX_ENTRIES,
        }
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same store, keeping at most this many entries: the ones not changed for longest go.
    pub fn with_limit(mut self, entries: usize) -> Self {
        self.limit = entries;
        self
    }

    fn change<T>(&self, change: impl FnOnce(&mut Contents) -> T) -> T {
        // No change can panic halfway, so the contents are whole even if the lock is poisoned.
        change(&mut self.contents.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Store for MemoryStore {
    fn load(&mut self) -> Result<Knowledge, StoreError> {
        Ok(self.change(|contents| Knowledge {
            entries: contents.entries.values().cloned().collect(),
            machines: contents
                .machines
                .values()
                .map(|(_, machine)| machine.clone())
                .collect(),
        }))
    }

    fn merge(&mut self, change: &Knowledge) -> Result<(), StoreError> {
        change.check()?;
        let limit = self.limit;
        self.change(|contents| contents.merge(change, limit));
        Ok(())
    }

    fn forget(&mut self, op: Option<&str>) -> Result<(), StoreError> {
        self.change(|contents| match op {
            Some(op) => contents.entries.retain(|_, entry| &*entry.op != op),
            None => *contents = Contents::default(),
        });
        Ok(())
    }

    fn describe(&self) -> String {
        format!(
            "memory only, {} entries",
            self.change(|contents| contents.entries.len())
        )
    }
}

impl Knowledge {
    /// Whether all of it may be stored, or what is wrong with the first that may not.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.entries.iter().try_for_each(codec::check_entry)?;
        self.machines.iter().try_for_each(codec::check_machine)
    }
}

impl Contents {
    fn merge(&mut self, change: &Knowledge, limit: usize) {
        for entry in &change.entries {
            self.entries
                .entry(codec::key(entry))
                .and_modify(|stored| stored.merge(entry))
                .or_insert_with(|| entry.clone().trimmed());
        }
        self.merges += 1;
        for machine in &change.machines {
            self.machines
                .insert(machine.fingerprint, (self.merges, machine.clone()));
        }
        if self.entries.len() > limit {
            self.evict(limit);
        }
        while self.machines.len() > MAX_MACHINES {
            let oldest = self
                .machines
                .iter()
                .min_by_key(|(print, (merge, _))| (*merge, **print as i64));
            let Some((&oldest, _)) = oldest else { break };
            self.machines.remove(&oldest);
        }
    }

    /// Drops the entries not changed for longest until seven eighths of the limit are left, so that
    /// a full store does not evict at every merge.
    fn evict(&mut self, limit: usize) {
        let now = now();
        let mut order: Vec<_> = self
            .entries
            .iter()
            .map(|(key, entry)| (rank(entry, now), key))
            .collect();
        order.sort();
        let excess = self.entries.len() - limit / 8 * 7;
        let keys: Vec<_> = order
            .into_iter()
            .take(excess)
            .map(|(_, key)| key.clone())
            .collect();
        for key in keys {
            self.entries.remove(&key);
        }
    }
}

/// Who goes first. A time that has not come yet is no time: such entries would stay for ever.
/// Among equals the order is that of the columns in SQLite.
fn rank(entry: &Entry, now: u64) -> impl Ord + use<> {
    let time = if entry.updated > now {
        0
    } else {
        entry.updated
    };
    let Entry {
        machine,
        op,
        variant,
        revision,
        ..
    } = entry;
    (
        time,
        *machine as i64,
        op.clone(),
        variant.clone(),
        *revision,
        codec::kind(&entry.fact),
        entry.cell.encode(),
    )
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
