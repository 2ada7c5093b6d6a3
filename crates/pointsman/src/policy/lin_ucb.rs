//! Optimism on linear models of the features.

use super::linear::Linear;
use super::{Call, Choice, Chooser, Policy, within};
use crate::error::BuildError;
use crate::outcome::Cost;

/// Fits a linear model of the log cost per variant, on the logarithms of the features and a column
/// per category, and serves the lowest expectation less α · √(xᵀ A⁻¹ x): LinUCB with disjoint models
/// (Li, Chu, Langford and Schapire, 2010). Of the categories, that is codes and combinations of
/// dtype, flags and location, the first twelve have a column each; later ones share them.
///
/// **Use it** for shapes that never repeat, where costs are close to powers of the features. **It
/// fails** where they are not: a launch cost that dominates small calls bends the curve, and the
/// straight line misses on both sides of the bend; it never forgets, so it does not follow a
/// change. What the store knows from earlier processes is not used.
///
/// ```
/// use pointsman::{Selector, policy::LinUcb};
///
/// let selector = Selector::builder().in_memory().policy(LinUcb::default()).build()?;
/// assert_eq!(selector.policy(), "lin-ucb");
/// # Ok::<(), pointsman::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LinUcb {
    alpha: f64,
}

impl LinUcb {
    /// With this factor on the optimism, in log cost: 0 to 100, 0.5 by default.
    pub fn new(alpha: f64) -> Self {
        LinUcb { alpha }
    }
}

impl Default for LinUcb {
    fn default() -> Self {
        LinUcb::new(0.5)
    }
}

impl Policy for LinUcb {
    fn name(&self) -> &str {
        "lin-ucb"
    }

    fn check(&self) -> Result<(), BuildError> {
        within("alpha", self.alpha, 0.0..=100.0, "a number from 0 to 100")
    }

    fn chooser(&self, _seed: u64) -> Option<Box<dyn Chooser>> {
        Some(Box::new(Optimist {
            alpha: self.alpha,
            linear: Linear::default(),
        }))
    }
}

struct Optimist {
    alpha: f64,
    linear: Linear,
}

impl Chooser for Optimist {
    fn choose(&mut self, call: &Call<'_>) -> Choice {
        let alpha = self.alpha;
        self.linear
            .choose(call, |mean, distance| mean - alpha * distance)
    }

    fn learn(&mut self, call: &Call<'_>, variant: usize, cost: Cost) {
        self.linear.learn(call, variant, cost);
    }
}
