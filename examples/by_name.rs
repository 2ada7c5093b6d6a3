//! Choosing without closures: the caller runs the work and reports what happened.
//!
//! `cargo run --release -p pointsman --example by_name`
#![allow(clippy::print_stdout)]

use std::time::Instant;

use pointsman::{Outcome, Selector, Workload};

fn main() {
    let selector = Selector::new();
    let candidates = ["stable", "unstable", "counting"];
    for round in 0..2_000u64 {
        let n = 1usize << (4 + round % 14);
        let mut keys: Vec<u8> = (0..n as u64)
            .map(|i| (i * 2_654_435_761 + round) as u8)
            .collect();

        let decision = selector.decide("example_sort_u8", &Workload::new([n]), &candidates);
        let start = Instant::now();
        match decision.variant() {
            "stable" => keys.sort(),
            "unstable" => keys.sort_unstable(),
            _ => {
                let mut counts = [0usize; 256];
                keys.iter().for_each(|key| counts[usize::from(*key)] += 1);
                keys.clear();
                for (key, count) in counts.iter().enumerate() {
                    keys.resize(keys.len() + count, key as u8);
                }
            }
        }
        selector.record(&decision, Outcome::took(start.elapsed()));
        assert!(keys.is_sorted() && keys.len() == n);
    }
    for n in [64, 1_024, 65_536] {
        if let Some(explanation) =
            selector.explain("example_sort_u8", &Workload::new([n]), &candidates)
        {
            println!("{explanation}");
        }
    }
}
