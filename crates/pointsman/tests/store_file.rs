//! Export files, damaged in every way. What a user loses if these fail: a file from elsewhere
//! could teach wrong costs, take all memory, or bring the program down.

#![allow(clippy::print_stderr)] // what was measured, and what was skipped

mod store_common;

use std::io::Read;
use std::path::Path;

use pointsman::store::{
    Knowledge, MemoryStore, Store, StoreError, export, export_to, import, import_from,
};
use proptest::prelude::*;
use store_common::*;

fn exported(knowledge: &Knowledge) -> Vec<u8> {
    let mut bytes = Vec::new();
    export(knowledge, &mut bytes).unwrap();
    bytes
}

#[test]
fn what_is_exported_is_imported() {
    for knowledge in [Knowledge::default(), sample(), sample_with_account()] {
        assert_eq!(
            import(&mut exported(&knowledge).as_slice()).unwrap(),
            knowledge
        );
    }
}

#[test]
fn the_seed_of_the_fuzzer_is_still_a_valid_export() {
    // From a seed that is not, it never gets behind the first checks.
    let seed = include_bytes!("../../../fuzz/seeds/import/whole");
    let knowledge = import(&mut &seed[1..]).unwrap();
    assert_eq!((knowledge.entries.len(), knowledge.machines.len()), (11, 1));
    let account =
        |e: &pointsman::store::Entry| matches!(e.fact, pointsman::store::Fact::Account(_));
    assert!(knowledge.entries.iter().any(account));
}

#[test]
fn the_same_knowledge_gives_the_same_bytes() {
    let mut shuffled = sample();
    shuffled.entries.reverse();
    shuffled.machines.reverse();
    assert_eq!(exported(&shuffled), exported(&sample()));
}

#[test]
fn f01_export_truncated_at_any_byte_gives_nothing() {
    let bytes = exported(&sample());
    for length in 0..bytes.len() {
        assert!(
            import(&mut &bytes[..length]).is_err(),
            "{length} of {} bytes",
            bytes.len()
        );
    }
    assert!(
        import(&mut [bytes, vec![0]].concat().as_slice()).is_err(),
        "one byte too many"
    );
}

#[test]
fn f02_export_with_any_bit_flipped_gives_nothing() {
    let bytes = exported(&sample());
    for bit in 0..8 * bytes.len() {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(import(&mut flipped.as_slice()).is_err(), "bit {bit}");
    }
}

#[test]
fn f04_f05_other_versions_are_told_apart() {
    let mut bytes = exported(&sample());
    bytes[12] = 3;
    let error = import(&mut bytes.as_slice()).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::NewerFormat {
                found: 3,
                known: 2,
                ..
            }
        ),
        "{error}"
    );
    bytes[12] = 0;
    assert!(matches!(
        import(&mut bytes.as_slice()),
        Err(StoreError::Damaged { .. })
    ));
}

/// Every later version must read these files: one of each format, written when it was new.
#[test]
fn f05_the_golden_files_load_for_ever() {
    let golden = |format: u32| {
        let name = format!("tests/golden/knowledge-v{format}.pointsman");
        Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
    };
    let latest = golden(2);
    if std::env::var_os("POINTSMAN_WRITE_GOLDEN").is_some() && !latest.exists() {
        export_to(&sample_with_account(), &latest).unwrap();
    }
    assert_eq!(import_from(&golden(1)).unwrap(), sample());
    assert_eq!(import_from(&latest).unwrap(), sample_with_account());
    assert_eq!(
        std::fs::read(latest).unwrap(),
        exported(&sample_with_account()),
        "format 2 is fixed"
    );
}

#[test]
fn f05_an_account_in_a_file_of_the_first_format_is_damage() {
    let mut bytes = exported(&sample_with_account());
    bytes[12] = 1;
    // The last checksums are of everything before, so made right again.
    let end = bytes.len() - 21;
    let sum = crc32fast::hash(&bytes[..end]).to_le_bytes();
    bytes[end + 13..end + 17].copy_from_slice(&sum);
    let sum = crc32fast::hash(&bytes[end..end + 17]).to_le_bytes();
    bytes[end + 17..].copy_from_slice(&sum);
    let error = import(&mut bytes.as_slice()).unwrap_err().to_string();
    assert!(error.contains("account"), "{error}");
}

#[test]
fn f42_a_failed_import_changes_nothing() {
    let mut store = MemoryStore::new();
    store.merge(&sample()).unwrap();
    let before = store.load().unwrap();
    let mut random = Random(42);
    let bytes = exported(&sample());
    for _ in 0..2_000 {
        let mut hostile = bytes.clone();
        for _ in 0..=random.next() % 4 {
            let at = random.next() as usize % hostile.len();
            hostile[at] = random.next() as u8;
        }
        match import(&mut hostile.as_slice()) {
            Ok(read) => assert_eq!(read, sample(), "only a file that did not change is read"),
            Err(_) => assert_eq!(store.load().unwrap(), before),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]
    #[test]
    fn f03_random_bytes_are_an_error(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        prop_assert!(import(&mut bytes.as_slice()).is_err());
        let mut after_the_head = exported(&sample())[..16].to_vec();
        after_the_head.extend(bytes);
        prop_assert!(import(&mut after_the_head.as_slice()).is_err());
    }
}

/// A file that claims and delivers as much as it may: valid records with the longest names.
struct Endless {
    head: Vec<u8>,
    record: Box<dyn FnMut(u64) -> Vec<u8>>,
    buffer: Vec<u8>,
    number: u64,
    served: u64,
}

impl Read for Endless {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.buffer.is_empty() {
            self.buffer = match self.number {
                0 => self.head.clone(),
                number => (self.record)(number),
            };
            self.number += 1;
        }
        let length = out.len().min(self.buffer.len());
        out[..length].copy_from_slice(&self.buffer[..length]);
        self.buffer.drain(..length);
        self.served += length as u64;
        Ok(length)
    }
}

fn endless(record: impl FnMut(u64) -> Vec<u8> + 'static) -> Endless {
    let head = exported(&Knowledge::default())[..16].to_vec();
    Endless {
        head,
        record: Box::new(record),
        buffer: Vec::new(),
        number: 0,
        served: 0,
    }
}

/// One record as it stands in a file: an export of one entry without head and end.
fn record(entry: pointsman::store::Entry) -> Vec<u8> {
    let bytes = exported(&Knowledge {
        entries: vec![entry],
        machines: vec![],
    });
    bytes[16..bytes.len() - 21].to_vec()
}

#[cfg(target_os = "linux")]
#[test]
fn f03_hostile_files_take_less_than_16_mb() {
    const NAME: &str = "f03_hostile_files_take_less_than_16_mb";
    let Some((case, _)) = role() else {
        for case in [
            "lengths", "short", "long", "costs", "machines", "entry", "noise",
        ] {
            let status = child(NAME, case, Path::new("")).status().unwrap();
            assert!(status.success(), "{case}");
        }
        return;
    };
    let fact = costs(9, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    // Machines sort first in the key, so that counting them up keeps the records in order.
    let numbered = move |op: &str, variant: &str, fact: pointsman::store::Fact| {
        let mut one = entry(op, 1, 1, fact);
        one.variant = variant.into();
        move |number: u64| {
            record(pointsman::store::Entry {
                machine: number.swap_bytes(),
                ..one.clone()
            })
        }
    };
    let long = "n".repeat(128);
    let mut input = match &*case {
        "lengths" => endless(|_| [&[1u8][..], &u32::MAX.to_le_bytes(), &[0; 64]].concat()),
        "short" => endless(numbered("o", "v", pointsman::store::Fact::Agreed)),
        "long" => endless(numbered(&long, &long, fact)),
        "costs" => endless(numbered("dot_f32", "avx2", fact)),
        "machines" => endless(|number| {
            let mut big = machine(number);
            big.text = "t".repeat(4096);
            big.numbers = vec![1.0; 64];
            let bytes = exported(&Knowledge {
                entries: vec![],
                machines: vec![big],
            });
            bytes[16..bytes.len() - 21].to_vec()
        }),
        "entry" => endless(|_| [&[1u8][..], &4999u32.to_le_bytes(), &[255; 5003]].concat()),
        _ => endless(|number| [&[7u8][..], &number.to_le_bytes()].concat()),
    };
    let _ = import(&mut exported(&sample()).as_slice()); // what every import needs once
    let before = peak_memory();
    let error = import(&mut input).unwrap_err();
    let taken = peak_memory() - before;
    eprintln!(
        "{case}: {taken} bytes of memory for {} bytes read: {error}",
        input.served
    );
    assert!(taken < 16_000_000, "{case} took {taken} bytes");
    assert!(
        input.served < 32 << 20,
        "{case} was read for {} bytes",
        input.served
    );
}

#[test]
fn more_than_an_import_takes_is_not_exported() {
    let entries = (0..40_000)
        .map(|n| entry(&format!("op{n}"), 1, 1, costs(1, &[1])))
        .collect();
    let error = export(
        &Knowledge {
            entries,
            machines: vec![],
        },
        &mut Vec::new(),
    )
    .unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { .. }), "{error}");
}

#[test]
fn an_export_is_written_whole_or_not_at_all() {
    let dir = directory();
    let path = dir.path().join("knowledge.pointsman");
    export_to(&sample(), &path).unwrap();
    let mut bad = sample();
    bad.machines[0].numbers[0] = f64::NAN;
    let error = export_to(&bad, &path).unwrap_err().to_string();
    assert!(
        error.contains("NaN") && error.contains("positive"),
        "{error}"
    );
    assert_eq!(import_from(&path).unwrap(), sample(), "the old file stays");
    assert_eq!(
        std::fs::read_dir(&dir).unwrap().count(),
        1,
        "no draft stays"
    );
    let error = export_to(&sample(), &dir.path().join("missing/file"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("missing/file"), "{error}");
    let error = import_from(&dir.path().join("none")).unwrap_err();
    assert!(error.to_string().contains("none") && std::error::Error::source(&error).is_some());
}
