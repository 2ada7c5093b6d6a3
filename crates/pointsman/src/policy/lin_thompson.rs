//! Draws from linear models of the features.

use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use super::linear::Linear;
use super::{Call, Choice, Chooser, Policy, within};
use crate::error::BuildError;
use crate::outcome::Cost;

/// Fits a linear model of the log cost per variant, as [`LinUcb`](super::LinUcb) does, draws the
/// expected cost of each from what its samples leave open, N(xᵀθ, v² · xᵀ A⁻¹ x), and serves the
/// lowest draw (Agrawal and Goyal, 2013).
///
/// **Use it** and **it fails** as `lin-ucb`; it explores less where two variants are about equal, and
/// goes on exploring a little for ever.
///
/// ```
/// use pointsman::{Selector, policy::LinThompson};
///
/// let selector = Selector::builder().in_memory().policy(LinThompson::default()).build()?;
/// assert_eq!(selector.policy(), "lin-thompson");
/// # Ok::<(), pointsman::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LinThompson {
    spread: f64,
}

impl LinThompson {
    /// With this standard deviation of a sample, in log cost: 0 to 100, 0.3 by default.
    pub fn new(spread: f64) -> Self {
        LinThompson { spread }
    }
}

impl Default for LinThompson {
    fn default() -> Self {
        LinThompson::new(0.3)
    }
}

impl Policy for LinThompson {
    fn name(&self) -> &str {
        "lin-thompson"
    }

    fn check(&self) -> Result<(), BuildError> {
        within("spread", self.spread, 0.0..=100.0, "a number from 0 to 100")
    }

    fn chooser(&self, seed: u64) -> Option<Box<dyn Chooser>> {
        Some(Box::new(Draws {
            spread: self.spread,
            linear: Linear::default(),
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
        }))
    }
}

struct Draws {
    spread: f64,
    linear: Linear,
    rng: Xoshiro256PlusPlus,
}

impl Chooser for Draws {
    fn choose(&mut self, call: &Call<'_>) -> Choice {
        let (spread, rng) = (self.spread, &mut self.rng);
        self.linear.choose(call, |mean, distance| {
            let normal: f64 = StandardNormal.sample(rng);
            mean + spread * distance * normal
        })
    }

    fn learn(&mut self, call: &Call<'_>, variant: usize, cost: Cost) {
        self.linear.learn(call, variant, cost);
    }
}
