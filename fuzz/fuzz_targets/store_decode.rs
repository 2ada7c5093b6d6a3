//! Any bytes as one record of the store: read strictly, or not at all.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| pointsman::store::fuzz_decode(bytes));
