//! One entry or one machine as bytes, and back.
//!
//! An entry is a key (machine, op, variant, revision, kind, cell) followed by a value (time and
//! fact). Every field has a fixed width or its length in front, so that no two entries share an
//! encoding. Reading is strict: it gives back exactly what was written, or nothing. Numbers are
//! little-endian.

use super::{Account, Costs, Entry, Fact, MAX_NAME, RECENT, StoreError};
use crate::backend::Backend;
use crate::cell::Cell;
use crate::machine::MachineRecord;
use crate::outcome::Cost;

/// Longest description of a machine, in bytes.
pub(super) const MAX_TEXT: usize = 4096;

/// Most calibration numbers of a machine.
pub(super) const MAX_NUMBERS: usize = 64;

/// Longest encoded entry or machine: a machine with the longest text and all its numbers, rounded
/// up. Nothing longer is ever read into memory.
pub(super) const MAX_ENCODED: usize = 5000;

pub(super) const COSTS: u8 = 1;
pub(super) const VERDICT: u8 = 2;
// 3 is a machine, among the rows of SQLite.
pub(super) const ACCOUNT: u8 = 4;

const AGREED: u8 = 1;
const DISAGREED: u8 = 2;

/// What sort of fact it is: part of the key, so that costs, verdicts and accounts live side by side.
pub(super) fn kind(fact: &Fact) -> u8 {
    match fact {
        Fact::Costs(_) => COSTS,
        Fact::Agreed | Fact::Disagreed => VERDICT,
        Fact::Account(_) => ACCOUNT,
    }
}

/// Why some bytes gave no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// Not what [`entry`] writes.
    Malformed,
    /// A cell on a backend that this process has not named: valid, and of use to others.
    UnknownBackend,
}

/// The parts of a key as they are written, whether or not this process knows the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key<'a> {
    pub(super) machine: u64,
    pub(super) op: &'a str,
    pub(super) variant: &'a str,
    pub(super) revision: u32,
    pub(super) kind: u8,
    pub(super) cell: &'a [u8],
}

impl Key<'_> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.machine.to_le_bytes());
        put_short(out, self.op.as_bytes());
        put_short(out, self.variant.as_bytes());
        out.extend(self.revision.to_le_bytes());
        out.push(self.kind);
        put_short(out, self.cell);
    }
}

/// The encoded key of an entry: what it is sorted and found by.
pub(super) fn key(entry: &Entry) -> Vec<u8> {
    let mut out = Vec::with_capacity(96);
    Key {
        machine: entry.machine,
        op: &entry.op,
        variant: &entry.variant,
        revision: entry.revision,
        kind: kind(&entry.fact),
        cell: &entry.cell.encode(),
    }
    .encode(&mut out);
    out
}

/// The encoded value of an entry.
pub(super) fn value(entry: &Entry) -> Vec<u8> {
    let mut out = Vec::with_capacity(41 + 8 * RECENT);
    out.extend(entry.updated.to_le_bytes());
    match &entry.fact {
        Fact::Costs(costs) => {
            for number in [costs.count, costs.failures, costs.flops, costs.bytes] {
                out.extend(number.to_le_bytes());
            }
            let latest = &costs.recent[costs.recent.len().saturating_sub(RECENT)..];
            out.push(latest.len() as u8);
            latest
                .iter()
                .for_each(|cost| out.extend(cost.ns().to_le_bytes()));
        }
        Fact::Agreed => out.push(AGREED),
        Fact::Disagreed => out.push(DISAGREED),
        Fact::Account(account) => {
            for number in account.numbers() {
                out.extend(number.to_le_bytes());
            }
        }
    }
    out
}

/// An entry as bytes: its key, then its value.
pub(super) fn entry(entry: &Entry) -> Vec<u8> {
    let mut out = key(entry);
    out.extend(value(entry));
    out
}

/// Reads what [`entry`] wrote.
pub(super) fn decode_entry(bytes: &[u8]) -> Result<Entry, Unread> {
    let mut input = Input(bytes);
    let key = input.key().ok_or(Unread::Malformed)?;
    decode_parts(key, input.0)
}

/// Splits what [`entry`] wrote into the key, as it is written, and the rest.
pub(super) fn split_key(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut input = Input(bytes);
    input.key()?;
    bytes.split_at_checked(bytes.len() - input.0.len())
}

/// Reads an entry from the parts of its key and its encoded value.
pub(super) fn decode_parts(key: Key<'_>, value: &[u8]) -> Result<Entry, Unread> {
    let mut input = Input(value);
    let updated = input.u64().ok_or(Unread::Malformed)?;
    let fact = input.fact(key.kind).ok_or(Unread::Malformed)?;
    if !input.0.is_empty() || !is_name(key.op) || !is_name(key.variant) {
        return Err(Unread::Malformed);
    }
    let cell = match Cell::decode(key.cell) {
        Some(cell) => cell,
        None if names_unknown_backend(key.cell) => return Err(Unread::UnknownBackend),
        None => return Err(Unread::Malformed),
    };
    Ok(Entry {
        machine: key.machine,
        op: key.op.into(),
        variant: key.variant.into(),
        revision: key.revision,
        cell,
        updated,
        fact,
    })
}

/// Whether a cell that was not read is well formed but for a custom backend that nobody has named
/// in this process. Naming it here would let a file use up the names a process may give.
fn names_unknown_backend(cell: &[u8]) -> bool {
    let mut input = Input(cell);
    let (Some(head), Some(name)) = (input.take(4), input.short()) else {
        return false;
    };
    let Ok(name) = std::str::from_utf8(name) else {
        return false;
    };
    let letters = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    if name.is_empty()
        || name.len() > 32
        || !name.bytes().all(letters)
        || name.parse::<Backend>().is_ok()
    {
        return false;
    }
    let mut on_the_host = head.to_vec();
    put_short(&mut on_the_host, Backend::Scalar.to_string().as_bytes());
    on_the_host.extend(input.0);
    Cell::decode(&on_the_host).is_some()
}

/// A machine as bytes: its fingerprint, text and numbers.
pub(super) fn machine(record: &MachineRecord) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 + record.text.len() + 8 * record.numbers.len());
    out.extend(record.fingerprint.to_le_bytes());
    out.extend((record.text.len() as u16).to_le_bytes());
    out.extend(record.text.as_bytes());
    out.push(record.numbers.len() as u8);
    for number in &record.numbers {
        out.extend(number.to_bits().to_le_bytes());
    }
    out
}

/// Reads what [`machine`] wrote.
pub(super) fn decode_machine(bytes: &[u8]) -> Option<MachineRecord> {
    let mut input = Input(bytes);
    let fingerprint = input.u64()?;
    let length = usize::from(input.u16()?);
    let text = std::str::from_utf8(input.take(length)?).ok()?;
    let count = usize::from(input.u8()?);
    if length > MAX_TEXT || count > MAX_NUMBERS || !is_text(text) {
        return None;
    }
    let mut numbers = Vec::with_capacity(count);
    for _ in 0..count {
        numbers.push(Some(f64::from_bits(input.u64()?)).filter(|n| is_number(*n))?);
    }
    input.0.is_empty().then(|| MachineRecord {
        fingerprint,
        text: text.into(),
        numbers,
    })
}

/// Whether an entry may be stored, or what is wrong with it.
pub(super) fn check_entry(entry: &Entry) -> Result<(), StoreError> {
    for (what, name) in [("op", &entry.op), ("variant", &entry.variant)] {
        if !is_name(name) {
            return Err(StoreError::Invalid {
                what: format!(
                    "name of the {what} {name:?}: it must have 1 to {MAX_NAME} bytes and no control characters"
                ),
            });
        }
    }
    match &entry.fact {
        Fact::Costs(costs) if costs.recent.len() as u64 > costs.count => Err(StoreError::Invalid {
            what: format!(
                "{} of {}: {} recent costs, but only {} measurements",
                entry.variant,
                entry.op,
                costs.recent.len(),
                costs.count
            ),
        }),
        Fact::Account(account) if !account.is_sound() => Err(StoreError::Invalid {
            what: format!(
                "{} of {}: more choices were right than were judged",
                entry.variant, entry.op
            ),
        }),
        _ => Ok(()),
    }
}

/// Whether a machine may be stored, or what is wrong with it.
pub(super) fn check_machine(record: &MachineRecord) -> Result<(), StoreError> {
    let invalid = |what: String| Err(StoreError::Invalid { what });
    let MachineRecord {
        fingerprint,
        text,
        numbers,
    } = record;
    if text.len() > MAX_TEXT || !is_text(text) {
        return invalid(format!(
            "description of machine {fingerprint:016x}: it must have at most {MAX_TEXT} bytes \
             and no control characters but line ends and tabs"
        ));
    }
    if numbers.len() > MAX_NUMBERS {
        return invalid(format!(
            "machine {fingerprint:016x} has {} numbers: at most {MAX_NUMBERS} are kept",
            numbers.len()
        ));
    }
    match numbers.iter().find(|number| !is_number(**number)) {
        Some(bad) => invalid(format!(
            "machine {fingerprint:016x} has the number {bad}: they must be positive and finite"
        )),
        None => Ok(()),
    }
}

fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && !name.chars().any(char::is_control)
}

/// People see these texts in a terminal: no escape sequences.
fn is_text(text: &str) -> bool {
    !text
        .chars()
        .any(|c| c.is_control() && c != '\n' && c != '\t')
}

fn is_number(number: f64) -> bool {
    number.is_finite() && number > 0.0
}

/// Appends bytes with their length, at most 255, in front.
fn put_short(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(bytes.len() as u8);
    out.extend(bytes);
}

/// What is left to read.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn short(&mut self) -> Option<&'a [u8]> {
        let length = self.u8()?;
        self.take(usize::from(length))
    }

    fn name(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.short()?).ok()
    }

    fn key(&mut self) -> Option<Key<'a>> {
        Some(Key {
            machine: self.u64()?,
            op: self.name()?,
            variant: self.name()?,
            revision: self.u32()?,
            kind: self.u8()?,
            cell: self.short()?,
        })
    }

    fn fact(&mut self, kind: u8) -> Option<Fact> {
        match kind {
            COSTS => self.costs().map(Fact::Costs),
            VERDICT => match self.u8()? {
                AGREED => Some(Fact::Agreed),
                DISAGREED => Some(Fact::Disagreed),
                _ => None,
            },
            ACCOUNT => Account::read(|| self.u64()).map(|read| Fact::Account(Box::new(read))),
            _ => None,
        }
    }

    fn costs(&mut self) -> Option<Costs> {
        let [count, failures, flops, bytes] = [self.u64()?, self.u64()?, self.u64()?, self.u64()?];
        let length = usize::from(self.u8()?);
        if length > RECENT || length as u64 > count {
            return None;
        }
        let mut recent = Vec::with_capacity(length);
        for _ in 0..length {
            recent.push(Cost::from_ns(self.u64()?).ok()?);
        }
        Some(Costs {
            count,
            failures,
            recent,
            flops,
            bytes,
        })
    }
}

pub(super) fn fuzz(bytes: &[u8]) {
    if let Ok(read) = decode_entry(bytes) {
        assert_eq!(entry(&read), bytes);
        assert!(check_entry(&read).is_ok());
    }
    if let Some(read) = decode_machine(bytes) {
        assert_eq!(machine(&read), bytes);
        assert!(check_machine(&read).is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{any_entry, any_machine};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_back(e in any_entry(), m in any_machine()) {
            let bytes = entry(&e);
            prop_assert!(bytes.len() <= MAX_ENCODED && machine(&m).len() <= MAX_ENCODED);
            prop_assert_eq!(decode_entry(&bytes), Ok(e));
            prop_assert_eq!(decode_machine(&machine(&m)), Some(m));
        }

        #[test]
        fn f03_any_bytes_decode_strictly(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            fuzz(&bytes);
        }

        #[test]
        fn f03_changed_bytes_decode_strictly(e in any_entry(), m in any_machine(), at: prop::sample::Index, to: u8) {
            for mut bytes in [entry(&e), machine(&m)] {
                let at = at.index(bytes.len());
                bytes[at] = to;
                fuzz(&bytes);
                fuzz(&bytes[..at]);
                bytes.push(to);
                fuzz(&bytes);
            }
        }

        #[test]
        fn f18_no_number_of_a_file_is_nan_negative_or_infinite(bits: u64) {
            let number = f64::from_bits(bits);
            let record = MachineRecord { fingerprint: 1, text: String::new(), numbers: vec![number] };
            let good = number.is_finite() && number > 0.0;
            prop_assert_eq!(decode_machine(&machine(&record)).is_some(), good);
            prop_assert_eq!(check_machine(&record).is_ok(), good);
        }
    }

    #[test]
    fn f18_bad_numbers_cannot_be_represented() {
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, -0.0] {
            let record = MachineRecord {
                fingerprint: 1,
                text: String::new(),
                numbers: vec![1.0, number],
            };
            assert_eq!(decode_machine(&machine(&record)), None, "{number}");
        }
    }

    #[test]
    fn f07_a_cell_on_a_backend_nobody_named_is_not_damage() {
        let written = sample("op");
        let mut cell = written.cell.encode();
        let name = b"never-named";
        assert_eq!(&cell[4..11], b"\x06scalar");
        cell.splice(4..11, [&[name.len() as u8], name.as_slice()].concat());
        let read = |cell: &[u8]| {
            let key = Key {
                machine: 1,
                op: "op",
                variant: "v",
                revision: 0,
                kind: COSTS,
                cell,
            };
            decode_parts(key, &value(&written))
        };
        assert_eq!(read(&cell), Err(Unread::UnknownBackend));
        cell[6] = b' ';
        assert_eq!(read(&cell), Err(Unread::Malformed));
    }

    fn sample(op: &str) -> Entry {
        Entry {
            machine: 1,
            op: op.into(),
            variant: "v".into(),
            revision: 0,
            cell: crate::workload::Workload::new([64]).cell(),
            updated: 5,
            fact: Fact::Costs(Costs {
                count: 3,
                ..Costs::default()
            }),
        }
    }

    #[test]
    fn names_out_of_bounds_are_named_in_the_error() {
        for bad in ["", "a\nb", "\u{1b}[2J", &"x".repeat(129)] {
            assert!(check_entry(&sample(bad)).is_err(), "{bad:?}");
            assert!(decode_entry(&entry(&sample(bad))).is_err(), "{bad:?}");
        }
        let error = check_entry(&sample("tab\t")).unwrap_err().to_string();
        assert!(error.contains("tab\\t") && error.contains("128"), "{error}");
    }
}
