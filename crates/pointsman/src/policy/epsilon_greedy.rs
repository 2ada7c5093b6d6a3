//! The lowest mean of the cell, and now and then anybody.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use super::arms::{Bandit, Scale};
use super::{Call, Choice, Chooser, Policy, within};
use crate::error::BuildError;
use crate::outcome::Cost;

/// Share of the calls that go to anybody, unless told otherwise: what textbooks use.
const EPSILON: f64 = 0.1;

/// Serves the lowest mean cost of the cell; a share ε of the calls goes to a variant drawn by lot,
/// whatever is known of it.
///
/// **Use it** as the simplest thing that recovers from a bad start. **It fails** where variants
/// differ by large factors: with ε = 0.1 and one of two variants a hundred times slower, trials
/// take five times as long as all the rest, and it never stops.
///
/// ```
/// use pointsman::{Selector, policy::EpsilonGreedy};
///
/// let built = Selector::builder().in_memory().policy(EpsilonGreedy::new(1.5)).build();
/// assert_eq!(built.unwrap_err().to_string(), "epsilon = 1.5: it must be a number from 0 to 1");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct EpsilonGreedy {
    epsilon: f64,
}

impl EpsilonGreedy {
    /// With this share of calls that go to anybody: 0 to 1, 0.1 by default.
    pub fn new(epsilon: f64) -> Self {
        EpsilonGreedy { epsilon }
    }
}

impl Default for EpsilonGreedy {
    fn default() -> Self {
        EpsilonGreedy::new(EPSILON)
    }
}

impl Policy for EpsilonGreedy {
    fn name(&self) -> &str {
        "epsilon-greedy"
    }

    fn check(&self) -> Result<(), BuildError> {
        within("epsilon", self.epsilon, 0.0..=1.0, "a number from 0 to 1")
    }

    fn chooser(&self, seed: u64) -> Option<Box<dyn Chooser>> {
        Some(Box::new(Greedy {
            epsilon: self.epsilon,
            bandit: Bandit::new(Scale::Ns),
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
        }))
    }
}

struct Greedy {
    epsilon: f64,
    bandit: Bandit,
    rng: Xoshiro256PlusPlus,
}

impl Chooser for Greedy {
    fn choose(&mut self, call: &Call<'_>) -> Choice {
        let rng = &mut self.rng;
        self.bandit.visit(call).choose(call, |_, best| {
            if rng.random::<f64>() < self.epsilon {
                let at = rng.random_range(0..call.candidates().len());
                call.candidates()[at].variant()
            } else {
                best
            }
        })
    }

    fn learn(&mut self, call: &Call<'_>, variant: usize, cost: Cost) {
        self.bandit.learn(call, variant, cost.ns(), None);
    }
}
