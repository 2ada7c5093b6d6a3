//! A policy of your own: the variant that was fastest the last time it ran in this cell, and every
//! 32nd call to the next of the others.
//!
//! `cargo run --release -p pointsman --example own_policy`
#![allow(clippy::print_stdout)]

use std::collections::HashMap;

use pointsman::policy::{Call, Choice, Chooser, Policy};
use pointsman::{Backend, Cost, Selector, Workload};

struct LastTime;

impl Policy for LastTime {
    fn name(&self) -> &str {
        "last-time"
    }

    fn chooser(&self, _seed: u64) -> Option<Box<dyn Chooser>> {
        Some(Box::new(Memory::default()))
    }
}

/// What one op remembers: the last cost of each variant in each cell, and the calls so far.
#[derive(Default)]
struct Memory {
    last: HashMap<(u64, usize), u64>,
    calls: usize,
}

impl Chooser for Memory {
    fn choose(&mut self, call: &Call<'_>) -> Choice {
        self.calls += 1;
        let of = |variant| self.last.get(&(call.cell(), variant)).map(|ns| *ns as f64);
        let fastest = call.lowest(|c| of(c.variant()));
        let fastest = fastest.unwrap_or(call.reference().variant());
        if call.may_try() && self.calls.is_multiple_of(32) {
            let all = call.candidates().iter().map(|c| c.variant());
            let others: Vec<usize> = all.filter(|variant| *variant != fastest).collect();
            return Choice::trial(others[self.calls / 32 % others.len()]);
        }
        Choice::serve(fastest)
    }

    fn learn(&mut self, call: &Call<'_>, variant: usize, cost: Cost) {
        if self.last.len() == 10_000 {
            self.last.clear(); // a policy bounds its own memory
        }
        self.last.insert((call.cell(), variant), cost.ns());
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let selector = Selector::builder().in_memory().policy(LastTime).build()?;
    let sum = selector
        .function("example_sum_f32", |x: &[f32]| Workload::new([x.len()]))
        .reference("plain", Backend::Scalar, |x| x.iter().sum::<f32>())
        .variant("lanes", Backend::Simd, |x| {
            let (chunks, rest) = x.as_chunks::<8>();
            let mut sums = [0.0; 8];
            for chunk in chunks {
                (0..8).for_each(|i| sums[i] += chunk[i]);
            }
            sums.iter().chain(rest).sum()
        })
        .build()?;
    let x = vec![0.5; 4096];
    for _ in 0..3_000 {
        assert_eq!(sum.run(&x), 2048.0);
    }
    println!("{}", sum.explain(Workload::new([4096])));
    println!("{}", sum.stats());
    Ok(())
}

#[test]
fn it_follows_the_last_measurement() {
    use pointsman::{FakeClock, Outcome};
    use std::time::Duration;

    let builder = Selector::builder().in_memory().ignore_environment();
    let builder = builder.clock(FakeClock::new()).policy(LastTime);
    let selector = builder.build().unwrap();
    let served = |slow: &str| {
        let mut last = String::new();
        for _ in 0..200 {
            let decision = selector.decide("op", &Workload::new([1]), &["a", "b"]);
            let us = if decision.variant() == slow { 90 } else { 30 };
            selector.record(&decision, Outcome::took(Duration::from_micros(us)));
            last = decision.variant().to_owned();
        }
        last
    };
    assert_eq!(served("a"), "b");
    assert_eq!(served("b"), "a");
}
