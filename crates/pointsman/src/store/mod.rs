//! Where knowledge lives between runs. Nothing here is on the path of a call.
//!
//! Knowledge is a set of [`Entry`]s: names and whole numbers, each checked when it is read. A
//! [`Store`] loads them all at once and merges changes: what two processes learned at the same time
//! adds up. [`SqliteStore`] keeps them in one file for many processes; [`MemoryStore`] keeps them
//! while it exists. [`export_to`] and [`import_from`] carry them from one machine to another.
//!
//! ```
//! use pointsman::store::{Knowledge, MemoryStore, Store};
//!
//! let mut store = MemoryStore::new();
//! let mut other_handle = store.clone();
//! store.merge(&Knowledge::default())?;
//! assert_eq!(other_handle.load()?, Knowledge::default());
//! # Ok::<(), pointsman::store::StoreError>(())
//! ```

mod account;
mod codec;
mod error;
mod file;
mod memory;
mod path;
#[cfg(feature = "sqlite")]
mod rescue;
#[cfg(feature = "sqlite")]
mod rows;
#[cfg(feature = "sqlite")]
mod sqlite;

pub(crate) use account::tenth;
pub use account::{Account, Stated, TENTHS};
pub use error::StoreError;
pub use file::{export, export_to, import, import_from};
pub use memory::MemoryStore;
pub use path::default_path;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;

use crate::cell::Cell;
pub use crate::machine::MachineRecord;
use crate::outcome::Cost;

/// Most recent costs kept for one variant in one cell: a median of nine survives four outliers.
pub(crate) const RECENT: usize = 9;

/// Longest name of an op or a variant, in bytes.
pub const MAX_NAME: usize = 128;

/// Most entries a store or an export file holds, unless told otherwise. With nine costs and short
/// names an entry takes some 310 bytes, so that a full store loads into 10 MB.
pub(crate) const MAX_ENTRIES: usize = 32_768;

/// Most memory that loaded knowledge may take, as counted by [`Entry::weight`]: a hostile file
/// with the longest of names stops here, below the 16 MB that loading may take in all.
pub(crate) const MAX_WEIGHT: usize = 13_000_000;

/// Most machines a store or an export file describes; a description takes up to 5 kB.
pub(crate) const MAX_MACHINES: usize = 64;

/// A place that keeps knowledge. Every wait in it is bounded; nothing in it panics.
pub trait Store: Send {
    /// All that is known. Records that are damaged, or that this build cannot read, are left out.
    fn load(&mut self) -> Result<Knowledge, StoreError>;

    /// Adds what was learned since the last merge: see [`Entry::merge`]. After an error nothing
    /// of it is stored, so the same change may be merged again later.
    fn merge(&mut self, change: &Knowledge) -> Result<(), StoreError>;

    /// Drops the entries of one op, or with `None` everything.
    fn forget(&mut self, op: Option<&str>) -> Result<(), StoreError>;

    /// What and where it is, for people.
    fn describe(&self) -> String;
}

/// What a store holds, or a change to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Knowledge {
    /// What is known of variants.
    pub entries: Vec<Entry>,
    /// The machines it was learned on.
    pub machines: Vec<MachineRecord>,
}

/// One piece of knowledge: what is known of a variant (name and revision) of an op on a machine,
/// in a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Fingerprint of the machine it was learned on.
    pub machine: u64,
    /// Name of the op: 1 to 128 bytes, no control characters.
    pub op: Box<str>,
    /// Name of the variant: 1 to 128 bytes, no control characters.
    pub variant: Box<str>,
    /// Revision of the variant's code.
    pub revision: u32,
    /// The cell it was learned in.
    pub cell: Cell,
    /// Seconds since 1970 when it was last changed.
    pub updated: u64,
    /// What is known.
    pub fact: Fact,
}

/// What is known of a variant in a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// How long it took.
    Costs(Costs),
    /// It was checked against the reference in the block of cells that `cell` begins, and agreed.
    Agreed,
    /// It was checked against the reference and gave another result.
    Disagreed,
    /// What it has cost, whatever the workload: its cell is [`Cell::whole`].
    Account(Box<Account>),
}

/// Measured costs of one variant in one cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Costs {
    /// Measurements accepted so far.
    pub count: u64,
    /// Failures so far.
    pub failures: u64,
    /// The last few costs, oldest first; at most nine, and no more than `count`.
    pub recent: Vec<Cost>,
    /// Floating-point operations of a typical call here, rounded; 0 if unknown.
    pub flops: u64,
    /// Bytes moved by a typical call here, rounded; 0 if unknown.
    pub bytes: u64,
}

impl Entry {
    /// Whether both speak of the same thing: machine, op, variant, revision, cell, and either
    /// costs, a verdict or an account. Such entries merge; all others live side by side.
    pub fn same_key(&self, other: &Entry) -> bool {
        self.machine == other.machine
            && self.op == other.op
            && self.variant == other.variant
            && self.revision == other.revision
            && self.cell == other.cell
            && codec::kind(&self.fact) == codec::kind(&other.fact)
    }

    /// Adds a change to what is stored under the same key. The fact merges as in [`Fact::merge`];
    /// the later of both times counts.
    pub fn merge(&mut self, change: &Entry) {
        self.fact.merge(&change.fact);
        self.updated = self.updated.max(change.updated);
    }

    /// The entry as it is stored when it is the first of its key.
    pub(crate) fn trimmed(mut self) -> Self {
        if let Fact::Costs(costs) = &mut self.fact {
            costs.keep_latest();
        }
        self
    }

    /// An upper estimate of the memory it takes: the struct, its three allocations and what the
    /// allocator adds to each.
    pub(crate) fn weight(&self) -> usize {
        let recent = match &self.fact {
            Fact::Costs(costs) => costs.recent.capacity(),
            Fact::Agreed | Fact::Disagreed => 0,
            Fact::Account(_) => size_of::<Account>() / 8,
        };
        size_of::<Entry>() + self.op.len() + self.variant.len() + 8 * recent + 48
    }
}

impl Fact {
    /// Adds a change.
    ///
    /// Costs: counts and failures add up, the last nine costs stay, and the change's flops and
    /// bytes replace the stored ones unless they are unknown. Verdicts: disagreement wins, since
    /// one wrong result is proof and any number of right ones is not. Accounts add up. A change of the other kind
    /// has another key and changes nothing here.
    pub fn merge(&mut self, change: &Fact) {
        match (self, change) {
            (Fact::Costs(stored), Fact::Costs(change)) => stored.merge(change),
            (stored @ Fact::Agreed, Fact::Disagreed) => *stored = Fact::Disagreed,
            (Fact::Account(stored), Fact::Account(change)) => stored.merge(change),
            _ => {}
        }
    }
}

impl Costs {
    fn merge(&mut self, change: &Costs) {
        self.count = self.count.saturating_add(change.count);
        self.failures = self.failures.saturating_add(change.failures);
        self.recent.extend(&change.recent);
        self.keep_latest();
        if change.flops != 0 {
            self.flops = change.flops;
        }
        if change.bytes != 0 {
            self.bytes = change.bytes;
        }
    }

    fn keep_latest(&mut self) {
        let old = self.recent.len().saturating_sub(RECENT);
        self.recent.drain(..old);
    }
}

/// Reads arbitrary bytes as an entry and as a machine, and checks that what was read is written
/// as the same bytes. For the fuzzer.
#[doc(hidden)]
pub fn fuzz_decode(bytes: &[u8]) {
    codec::fuzz(bytes);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::backend::Backend;
    use crate::workload::{DType, Workload};
    use proptest::prelude::*;

    pub(crate) fn any_cell() -> impl Strategy<Value = Cell> {
        (
            prop::collection::vec(any::<f64>(), 0..=16),
            prop::collection::vec(any::<u32>(), 0..=4),
            0u8..4,
        )
            .prop_map(|(numbers, codes, place)| {
                let workload = Workload::from_slice(&numbers)
                    .unwrap()
                    .codes_from_slice(&codes)
                    .unwrap();
                let workload =
                    workload.dtype([DType::F32, DType::Unspecified][usize::from(place % 2)]);
                let places = [
                    Backend::Scalar,
                    Backend::Gpu(3),
                    Backend::custom("numba").unwrap(),
                ];
                workload.located(places[usize::from(place) % 3]).cell()
            })
    }

    pub(crate) fn any_fact() -> impl Strategy<Value = Fact> {
        let costs = (
            any::<u64>(),
            any::<u64>(),
            prop::collection::vec(1..1_000_000u64, 0..=9),
            any::<u64>(),
            any::<u64>(),
        );
        prop_oneof![
            3 => costs.prop_map(|(count, failures, recent, flops, bytes)| Fact::Costs(Costs {
                count: count.max(recent.len() as u64),
                failures,
                recent: recent.into_iter().map(|ns| Cost::from_ns(ns).unwrap()).collect(),
                flops,
                bytes,
            })),
            1 => Just(Fact::Agreed),
            1 => Just(Fact::Disagreed),
            1 => any_account().prop_map(|account| Fact::Account(Box::new(account))),
        ]
    }

    fn any_account() -> impl Strategy<Value = Account> {
        let stated = prop::array::uniform10((any::<u64>(), any::<u64>(), any::<u64>()));
        (prop::array::uniform9(any::<u64>()), stated).prop_map(|(plain, stated)| {
            let stated = stated.map(|(a, b, sum)| [a.max(b), a.min(b), sum]);
            let mut numbers = plain.into_iter().chain(stated.into_iter().flatten());
            Account::read(|| numbers.next()).unwrap()
        })
    }

    pub(crate) fn any_entry() -> impl Strategy<Value = Entry> {
        (
            any::<u64>(),
            "[^\\p{Cc}]{1,24}",
            "[^\\p{Cc}]{1,24}",
            any::<u32>(),
            any_cell(),
            any::<u64>(),
            any_fact(),
        )
            .prop_map(
                |(machine, op, variant, revision, cell, updated, fact)| Entry {
                    machine,
                    op: op.into(),
                    variant: variant.into(),
                    revision,
                    cell,
                    updated,
                    fact,
                },
            )
    }

    pub(crate) fn any_machine() -> impl Strategy<Value = MachineRecord> {
        (
            any::<u64>(),
            "[^\\p{Cc}]{0,40}",
            prop::collection::vec(1e-300..1e300f64, 0..=64),
        )
            .prop_map(|(fingerprint, text, numbers)| MachineRecord {
                fingerprint,
                text,
                numbers,
            })
    }

    proptest! {
        #[test]
        fn one_merge_of_a_sum_equals_two_merges(a in any_fact(), b in any_fact(), c in any_fact()) {
            let mut in_steps = a.clone();
            in_steps.merge(&b);
            in_steps.merge(&c);
            let mut sum = b.clone();
            sum.merge(&c);
            let mut at_once = a.clone();
            at_once.merge(&sum);
            let one_kind = codec::kind(&a) == codec::kind(&b) && codec::kind(&b) == codec::kind(&c);
            prop_assert!(!one_kind || in_steps == at_once);
        }
    }

    #[test]
    fn one_disagreement_outlasts_any_agreement() {
        let mut fact = Fact::Agreed;
        fact.merge(&Fact::Disagreed);
        fact.merge(&Fact::Agreed);
        assert_eq!(fact, Fact::Disagreed);
    }

    #[test]
    fn the_last_nine_costs_stay() {
        let costs = |range: std::ops::Range<u64>| Costs {
            count: range.end - range.start,
            recent: range.map(|ns| Cost::from_ns(ns).unwrap()).collect(),
            flops: 7,
            ..Costs::default()
        };
        let mut fact = Fact::Costs(costs(1..8));
        fact.merge(&Fact::Costs(Costs {
            flops: 0,
            failures: 2,
            ..costs(8..13)
        }));
        let Fact::Costs(merged) = fact else {
            panic!("a cost stays a cost")
        };
        assert_eq!(
            merged,
            Costs {
                count: 12,
                failures: 2,
                ..costs(4..13)
            }
        );
    }
}
