//! The lowest mean of the cell.

use super::arms::{Bandit, Scale};
use super::{Call, Choice, Chooser, Policy, within};
use crate::error::BuildError;
use crate::outcome::Cost;

/// Serves the variant with the lowest mean cost in the cell, after each has been measured once.
///
/// With [`forgetting`](Self::forgetting), the mean is an exponentially weighted one, in which the
/// last sample has the given weight: it follows a change of the variant that serves.
///
/// **Use it** for few workloads that repeat, with variants that differ a lot. **It fails** where
/// one slow sample hits the best variant at the beginning: the others serve from then on, and
/// nothing ever looks back. It also knows nothing of a size it has not seen.
///
/// ```
/// use pointsman::{Selector, policy::History};
///
/// let selector = Selector::builder().in_memory().policy(History::forgetting(0.2)).build()?;
/// assert_eq!(selector.policy(), "history");
/// # Ok::<(), pointsman::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct History {
    weight: Option<f64>,
}

impl History {
    /// With a mean in which the last sample has this weight: above 0, to 1.
    pub fn forgetting(weight: f64) -> Self {
        History {
            weight: Some(weight),
        }
    }
}

impl Policy for History {
    fn name(&self) -> &str {
        "history"
    }

    fn check(&self) -> Result<(), BuildError> {
        let weight = self.weight.unwrap_or(1.0);
        let valid = "a number above 0, to 1";
        within("weight", weight, f64::MIN_POSITIVE..=1.0, valid)
    }

    fn chooser(&self, _seed: u64) -> Option<Box<dyn Chooser>> {
        Some(Box::new(Lowest {
            weight: self.weight,
            bandit: Bandit::new(Scale::Ns),
        }))
    }
}

struct Lowest {
    weight: Option<f64>,
    bandit: Bandit,
}

impl Chooser for Lowest {
    fn choose(&mut self, call: &Call<'_>) -> Choice {
        self.bandit.visit(call).choose(call, |_, best| best)
    }

    fn learn(&mut self, call: &Call<'_>, variant: usize, cost: Cost) {
        self.bandit.learn(call, variant, cost.ns(), self.weight);
    }
}
