//! The methods: their weights, and what the weights are applied to.

use std::fmt;

use libm::tgamma;

use crate::powers::first;

/// A method for fractional derivatives on a uniform grid: a factor times a causal convolution.
pub trait Method: Copy + Default + fmt::Debug + Send + Sync + 'static {
    /// The name of the function, and those of the op for `f32` and `f64`.
    const NAMES: [&'static str; 3];
    /// The order must be below this, and above 0.
    const BELOW: f64;
    /// What must hold for the order.
    const RULE: &'static str;
    /// Whether the weights are for the differences of neighbours, not for the values themselves.
    const DIFFERENCES: bool;

    /// The weights w₀, w₁, … without end.
    fn weights(order: f64) -> impl Iterator<Item = f64>;

    /// What the sums are multiplied by.
    fn factor(order: f64, step: f64) -> f64;
}

/// Grünwald and Letnikov's: wⱼ = (−1)ʲ C(α, j).
#[derive(Clone, Copy, Debug, Default)]
pub struct GrunwaldLetnikov;

impl Method for GrunwaldLetnikov {
    const NAMES: [&'static str; 3] = [
        "grunwald_letnikov",
        "grunwald_letnikov_f32",
        "grunwald_letnikov_f64",
    ];
    const BELOW: f64 = 2.0;
    const RULE: &'static str = "above 0 and below 2";
    const DIFFERENCES: bool = false;

    fn weights(order: f64) -> impl Iterator<Item = f64> {
        let mut weight = 1.0;
        (1..).map(move |j: u64| {
            let this = weight;
            // Not 1 − (α + 1) / j, which cancels for orders near 1.
            weight *= ((j - 1) as f64 - order) / j as f64;
            this
        })
    }

    fn factor(order: f64, step: f64) -> f64 {
        step.powf(-order)
    }
}

/// Caputo's derivative by the method L1, a straight line between neighbours:
/// wⱼ = (j + 1)^(1−α) − j^(1−α).
#[derive(Clone, Copy, Debug, Default)]
pub struct CaputoL1;

impl Method for CaputoL1 {
    const NAMES: [&'static str; 3] = ["caputo_l1", "caputo_l1_f32", "caputo_l1_f64"];
    const BELOW: f64 = 1.0;
    const RULE: &'static str = "above 0 and below 1";
    const DIFFERENCES: bool = true;

    fn weights(order: f64) -> impl Iterator<Item = f64> {
        (0..).map(move |j| first(j, 1.0 - order))
    }

    fn factor(order: f64, step: f64) -> f64 {
        step.powf(-order) / tgamma(2.0 - order)
    }
}
