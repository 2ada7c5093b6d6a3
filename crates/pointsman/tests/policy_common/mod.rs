//! What the tests of policies share: scripted costs on a fake clock.
#![allow(dead_code)] // each test file uses a part

use std::time::Duration;

use pointsman::{
    Calibration, FakeClock, Outcome, Reason, Selector, SelectorBuilder, Workload, policy,
};

/// A small generator of scripted noise, so that the script does not depend on the library's.
pub(crate) struct Script(pub(crate) u64);

impl Script {
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A factor close to 1.
    pub(crate) fn noise(&mut self) -> f64 {
        let normal = (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0;
        (0.05 * normal).exp()
    }
}

pub(crate) fn builder(clock: &FakeClock, seed: u64) -> SelectorBuilder {
    Selector::builder()
        .in_memory()
        .ignore_environment()
        .clock(clock.clone())
        .calibration(Calibration::nominal())
        .seed(seed)
}

pub(crate) struct World {
    pub(crate) selector: Selector,
    pub(crate) clock: FakeClock,
    pub(crate) script: Script,
}

impl World {
    pub(crate) fn new(policy: impl policy::Policy + 'static, seed: u64) -> Self {
        let clock = FakeClock::new();
        World {
            selector: builder(&clock, seed).policy(policy).build().unwrap(),
            clock,
            script: Script(seed),
        }
    }

    pub(crate) fn named(policy: &str, seed: u64) -> Self {
        Self::new(policy::parse(policy).unwrap(), seed)
    }

    /// One call: who served and why.
    pub(crate) fn call(
        &mut self,
        workload: &Workload,
        names: &[&str],
        costs: &[f64],
    ) -> (usize, Reason) {
        let decision = self.selector.decide("op", workload, names);
        let ns = costs[decision.index()] * self.script.noise();
        let took = Duration::from_nanos(ns as u64);
        self.clock.advance(took);
        self.selector.record(&decision, Outcome::took(took));
        (decision.index(), decision.reason())
    }

    /// How many of so many calls each variant served.
    pub(crate) fn served(&mut self, calls: usize, names: &[&str], costs: &[f64]) -> Vec<usize> {
        let mut counts = vec![0; names.len()];
        for _ in 0..calls {
            counts[self.call(&Workload::new([1000]), names, costs).0] += 1;
        }
        counts
    }
}

pub(crate) const FOUR: [&str; 4] = ["a", "b", "c", "d"];
pub(crate) const COSTS: [f64; 4] = [80_000.0, 40_000.0, 20_000.0, 160_000.0];
