//! Learn once, then run frozen: no trials, no changes, the same decisions every time.
//!
//! `cargo run --release -p pointsman --example frozen`
#![allow(clippy::print_stdout)]

use std::time::Duration;

use pointsman::store::MemoryStore;
use pointsman::{Backend, BuildError, Function, Handle, Mode, Selector, Workload};

fn sum(selector: &Selector) -> Result<Handle<Function<[f32], f32>>, BuildError> {
    selector
        .function("example_sum_f32", |x: &[f32]| Workload::new([x.len()]))
        .reference("plain", Backend::Scalar, |x| x.iter().sum())
        .variant("lanes", Backend::Simd, |x| {
            let mut lanes = [0.0f32; 16];
            let blocks = x.chunks_exact(16);
            let rest: f32 = blocks.remainder().iter().sum();
            blocks.for_each(|b| (0..16).for_each(|i| lanes[i] += b[i]));
            lanes.iter().sum::<f32>() + rest
        })
        .build()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = MemoryStore::new(); // a file in real life: `.store_file("knowledge.sqlite")`
    let x: Vec<f32> = (0..100_000).map(|i| (i % 10) as f32).collect();

    let learning = Selector::builder().store(store.clone()).build()?;
    let op = sum(&learning)?;
    for i in 0..20_000 {
        op.run(&x[..1 + i * 5]);
    }
    learning.flush(Duration::from_secs(5))?;

    let run = || -> Result<Vec<u32>, BuildError> {
        let frozen = Selector::builder()
            .store(store.clone())
            .mode(Mode::Frozen)
            .build()?;
        let op = sum(&frozen)?;
        Ok((0..1_000)
            .map(|i| op.run(&x[..100 * i]).to_bits())
            .collect())
    };
    assert_eq!(run()?, run()?, "the same variants, hence the same bits");

    let frozen = Selector::builder()
        .store(store)
        .mode(Mode::Frozen)
        .build()?;
    println!("{}", sum(&frozen)?.explain(Workload::new([50_000])));
    Ok(())
}
