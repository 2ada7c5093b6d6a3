//! Optimism that shrinks with the number of samples.

use super::arms::{Bandit, Scale};
use super::{Call, Choice, Chooser, Policy, within};
use crate::error::BuildError;
use crate::outcome::Cost;

/// Serves the variant whose reward, taken optimistically, is the highest in the cell.
///
/// The reward is the lowest mean cost divided by the variant's mean cost, so between 0 and 1; to it
/// comes c · √(2 ln N / n), with n of the cell's N samples. With c = 1, the default, this is UCB1 of
/// Auer, Cesa-Bianchi and Fischer (2002).
///
/// **Use it** where the costs of a cell are noisy but do not change, and variants are within a
/// factor of a few. **It fails** to notice a change soon, as its means never forget, and it samples
/// a hopeless variant again and again, ever more rarely: it counts samples, not the time they take.
///
/// ```
/// use pointsman::{Selector, policy::Ucb1};
///
/// let selector = Selector::builder().in_memory().policy(Ucb1::default()).build()?;
/// assert_eq!(selector.policy(), "ucb1");
/// # Ok::<(), pointsman::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Ucb1 {
    exploration: f64,
}

impl Ucb1 {
    /// With this factor on the optimism: 0 to 100, 1 by default.
    pub fn new(exploration: f64) -> Self {
        Ucb1 { exploration }
    }
}

impl Default for Ucb1 {
    fn default() -> Self {
        Ucb1::new(1.0)
    }
}

impl Policy for Ucb1 {
    fn name(&self) -> &str {
        "ucb1"
    }

    fn check(&self) -> Result<(), BuildError> {
        let valid = "a number from 0 to 100";
        within("exploration", self.exploration, 0.0..=100.0, valid)
    }

    fn chooser(&self, _seed: u64) -> Option<Box<dyn Chooser>> {
        Some(Box::new(Optimist {
            exploration: self.exploration,
            bandit: Bandit::new(Scale::Ns),
        }))
    }
}

struct Optimist {
    exploration: f64,
    bandit: Bandit,
}

impl Chooser for Optimist {
    fn choose(&mut self, call: &Call<'_>) -> Choice {
        self.bandit.visit(call).choose(call, |arms, best| {
            let measured = || call.candidates().iter().filter_map(|c| arms.measured(c));
            let samples: f64 = measured().map(|arm| arm.count).sum();
            let lowest = measured().map(|arm| arm.mean).fold(f64::INFINITY, f64::min);
            let index = call.lowest(|candidate| {
                let arm = arms.measured(candidate)?;
                let optimism = (2.0 * samples.ln() / arm.count).sqrt();
                Some(-(lowest / arm.mean + self.exploration * optimism))
            });
            index.unwrap_or(best)
        })
    }

    fn learn(&mut self, call: &Call<'_>, variant: usize, cost: Cost) {
        self.bandit.learn(call, variant, cost.ns(), None);
    }
}
