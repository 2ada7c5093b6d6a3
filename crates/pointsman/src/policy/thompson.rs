//! A draw from what each variant may cost.

use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use super::arms::{Bandit, Scale};
use super::{Call, Choice, Chooser, Policy, within};
use crate::error::BuildError;
use crate::outcome::Cost;

/// Spread of log costs assumed before there are samples, unless told otherwise: a factor of 1.6.
const SPREAD: f64 = 0.5;

/// Samples that the assumed spread counts as.
const SPREAD_SAMPLES: f64 = 2.0;

/// Draws the mean log cost of each variant in the cell from what its samples leave open, a normal
/// distribution, and serves the lowest draw: each variant gets as many calls as it is likely to be
/// the best.
///
/// **Use it** where ε-greedy would do: it needs no share to be set, and leaves hopeless variants
/// alone after a few samples. **It fails** to notice that a variant it has given up on has become
/// faster, and it knows nothing of a size it has not seen.
///
/// ```
/// use pointsman::{Selector, policy::Thompson};
///
/// let selector = Selector::builder().in_memory().policy(Thompson::default()).build()?;
/// assert_eq!(selector.policy(), "thompson");
/// # Ok::<(), pointsman::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Thompson {
    spread: f64,
}

impl Thompson {
    /// With this standard deviation of log costs assumed at first: above 0, to 10; 0.5 by default. A
    /// larger one explores more.
    pub fn new(spread: f64) -> Self {
        Thompson { spread }
    }
}

impl Default for Thompson {
    fn default() -> Self {
        Thompson::new(SPREAD)
    }
}

impl Policy for Thompson {
    fn name(&self) -> &str {
        "thompson"
    }

    fn check(&self) -> Result<(), BuildError> {
        let valid = "a number above 0, to 10";
        within("spread", self.spread, f64::MIN_POSITIVE..=10.0, valid)
    }

    fn chooser(&self, seed: u64) -> Option<Box<dyn Chooser>> {
        Some(Box::new(Draws {
            variance: self.spread * self.spread,
            bandit: Bandit::new(Scale::Ln),
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
        }))
    }
}

struct Draws {
    variance: f64,
    bandit: Bandit,
    rng: Xoshiro256PlusPlus,
}

impl Chooser for Draws {
    fn choose(&mut self, call: &Call<'_>) -> Choice {
        let rng = &mut self.rng;
        self.bandit.visit(call).choose(call, |arms, best| {
            let lowest = call.lowest(|candidate| {
                let arm = arms.measured(candidate)?;
                let squares = arm.squares + SPREAD_SAMPLES * self.variance;
                let variance = squares / (arm.count + SPREAD_SAMPLES);
                let normal: f64 = StandardNormal.sample(rng);
                Some(arm.mean + normal * (variance / arm.count).sqrt())
            });
            lowest.unwrap_or(best)
        })
    }

    fn learn(&mut self, call: &Call<'_>, variant: usize, cost: Cost) {
        self.bandit.learn(call, variant, cost.ns(), None);
    }
}
