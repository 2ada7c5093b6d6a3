//! Which workloads are called in which order, and what chance adds to their times.

use clap::ValueEnum;
use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use rand_distr::{Distribution as _, StandardNormal, Zipf};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng as _;
use serde::Serialize;

use super::table::{Case, Choice};

/// The order in which workloads are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Some workloads are called often and most rarely: the weight of rank r is 1/r
    Zipf,
    /// Every workload once
    Once,
}

/// One call. All that is drawn by lot is drawn before a policy is asked, so that all policies meet
/// the same calls and the same luck.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Which case of the table.
    pub case: u32,
    /// Which of the repeats, as a share of 2^32.
    lot: u32,
    /// Noise on the time of a workload with a single row.
    factor: f64,
}

impl Call {
    /// The seconds that a choice of the called case takes.
    pub fn seconds(&self, case: &Case, choice: &Choice) -> f64 {
        if case.rows == 1 {
            return choice.truth * self.factor;
        }
        let repeats = &choice.repeats;
        repeats[((u64::from(self.lot) * repeats.len() as u64) >> 32) as usize]
    }
}

/// The calls of a replay over this many cases (at least one): `calls` of them by
/// [`Order::Zipf`], each case once by [`Order::Once`]. `noise` is the standard deviation of the
/// log of a time.
pub fn stream(cases: usize, order: Order, calls: usize, noise: f64, seed: u64) -> Vec<Call> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut ranked: Vec<u32> = (0..cases as u32).collect();
    ranked.shuffle(&mut rng);
    let called: Vec<u32> = match (order, Zipf::new(cases as f64, 1.0)) {
        (Order::Zipf, Ok(zipf)) => {
            let rank = |_| zipf.sample(&mut rng) as usize;
            (0..calls).map(rank).map(|r| ranked[r - 1]).collect()
        }
        _ => ranked,
    };
    let call = |case| {
        let normal: f64 = StandardNormal.sample(&mut rng);
        Call {
            case,
            lot: rng.random(),
            factor: (noise * normal).exp(),
        }
    };
    called.into_iter().map(call).collect()
}
