//! Any bytes as an export file. What is read must be what an export of it writes, and a failed
//! import must leave a store as it was.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use pointsman::store::{Knowledge, MemoryStore, Store, export, import};

fuzz_target!(|bytes: &[u8]| -> Corpus {
    // Checksums would stop nearly every input: half of the inputs have theirs made right.
    let (repair, bytes) = match bytes.split_first() {
        Some((first, rest)) => (first % 2 == 1, rest),
        None => return Corpus::Reject,
    };
    let repaired;
    let bytes = if repair {
        repaired = with_checksums(bytes);
        &repaired
    } else {
        bytes
    };
    let mut store = MemoryStore::new();
    if let Ok(knowledge) = import(&mut &bytes[..]) {
        let mut again = Vec::new();
        export(&knowledge, &mut again).expect("what was imported can be exported");
        // Entries on backends that nobody named are left out, so the export may be shorter, and it
        // is always of the latest format.
        assert!(again == bytes || again.len() < bytes.len() || bytes[12] < again[12]);
        store
            .merge(&knowledge)
            .expect("what was imported can be stored");
        assert_eq!(store.load().expect("memory loads"), knowledge);
    } else {
        assert_eq!(store.load().expect("memory loads"), Knowledge::default());
    }
    Corpus::Keep
});

/// Takes the bytes as records (one of tag, two of length, the payload) and frames them as a file
/// whose checksums are right.
fn with_checksums(mut input: &[u8]) -> Vec<u8> {
    let mut file = b"pointsman\r\n\x1a\x02\x00\x00\x00".to_vec();
    let (mut entries, mut machines) = (0u32, 0u32);
    while let Some((&[tag, low, high], rest)) = input.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([low, high]) % 5001).min(rest.len());
        let (payload, rest) = rest.split_at(length);
        input = rest;
        let tag = tag % 2 + 1;
        *(if tag == 1 {
            &mut entries
        } else {
            &mut machines
        }) += 1;
        put(&mut file, tag, payload);
    }
    let sum = crc32(&file);
    let end = [
        entries.to_le_bytes(),
        machines.to_le_bytes(),
        sum.to_le_bytes(),
    ]
    .concat();
    put(&mut file, 255, &end);
    file
}

fn put(file: &mut Vec<u8>, tag: u8, payload: &[u8]) {
    let start = file.len();
    file.push(tag);
    file.extend((payload.len() as u32).to_le_bytes());
    file.extend(payload);
    let sum = crc32(&file[start..]);
    file.extend(sum.to_le_bytes());
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum: u32, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg())
        })
    })
}
