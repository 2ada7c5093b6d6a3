//! A weighted sum of what speaks for a variant.

use super::{Call, Candidate, Choice, Chooser, Policy, within};
use crate::backend::Backend;
use crate::error::BuildError;
use crate::outcome::Cost;
use crate::workload::Workload;

/// What each part of a [`Score`] counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// Time by the calibrated cost model.
    pub time: f64,
    /// Memory that the call needs.
    pub memory: f64,
    /// How much of the data fits the caches of the backend.
    pub cache: f64,
    /// Time as measured in the cell.
    pub history: f64,
    /// Staying with the variant that served the op's last call.
    pub switching: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Weights {
            time: 0.4,
            memory: 0.2,
            cache: 0.2,
            history: 0.15,
            switching: 0.05,
        }
    }
}

/// Serves the variant with the highest weighted sum of five parts, each between 0 and 1:
///
/// - *time* (0.4): the lowest estimate of the cost model ÷ the variant's own;
/// - *memory* (0.2): the lowest need ÷ its own, where variants declare what they need
///   ([`OpBuilder::memory`](crate::OpBuilder::memory)); others are taken to need the call's bytes;
/// - *cache* (0.2): the part of the call's bytes that fits the caches of its backend; on another
///   device, 1 if the data is there and 0 if not;
/// - *history* (0.15): the lowest level measured in the cell ÷ its own; ½ where it has none;
/// - *switching* (0.05): 1 for the variant that served the op's last call, 0 for others.
///
/// **Use it** where memory or caches matter beside time, and their worth can be put into numbers.
/// **It fails** as a way to be fast: measured time is one part of five, and a wrong cost model
/// outvotes it for ever. Nothing is tried: what has not been measured stays so until it wins.
///
/// ```
/// use pointsman::{Selector, policy::{Score, Weights}};
///
/// let by_history = Weights { time: 0.2, history: 0.8, ..Weights::default() };
/// let selector = Selector::builder().in_memory().policy(Score::new(by_history)).build()?;
/// assert_eq!(selector.policy(), "score");
/// # Ok::<(), pointsman::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Score {
    weights: Weights,
    core_cache: u64,
    all_caches: u64,
}

impl Default for Score {
    fn default() -> Self {
        Score::new(Weights::default())
    }
}

impl Score {
    /// With these weights: each 0 or more, not all 0.
    pub fn new(weights: Weights) -> Self {
        Score {
            weights,
            core_cache: 1 << 20,
            all_caches: 32 << 20,
        }
    }

    /// Bytes of cache that one core has for itself, 1 MiB by default, and that all cores have
    /// together, 32 MiB by default; both above 0. [`Machine`](crate::Machine) knows this machine's.
    pub fn caches(mut self, core: u64, all: u64) -> Self {
        (self.core_cache, self.all_caches) = (core, all);
        self
    }

    fn cache_part(&self, backend: Backend, workload: &Workload) -> f64 {
        let bytes = workload.byte_count().max(1.0);
        let fits = |cache: u64| (cache as f64 / bytes).min(1.0);
        match backend {
            Backend::Gpu(_) => f64::from(workload.location() == backend),
            Backend::Threads => fits(self.all_caches),
            _ => fits(self.core_cache),
        }
    }
}

impl Policy for Score {
    fn name(&self) -> &str {
        "score"
    }

    fn check(&self) -> Result<(), BuildError> {
        let w = &self.weights;
        let parts = [
            ("time", w.time),
            ("memory", w.memory),
            ("cache", w.cache),
            ("history", w.history),
            ("switching", w.switching),
        ];
        for (name, weight) in parts {
            within(name, weight, 0.0..=1e9, "a number from 0 to 1e9")?;
        }
        let sum: f64 = parts.iter().map(|(_, weight)| weight).sum();
        let some = f64::MIN_POSITIVE..;
        within("sum of the weights", sum, some, "above 0")?;
        let caches = self.core_cache.min(self.all_caches) as f64;
        within("cache bytes", caches, 1.0.., "1 or more")
    }

    fn chooser(&self, _seed: u64) -> Option<Box<dyn Chooser>> {
        Some(Box::new(Sums {
            score: *self,
            last: None,
        }))
    }
}

struct Sums {
    score: Score,
    /// Who served the last call.
    last: Option<usize>,
}

impl Chooser for Sums {
    fn choose(&mut self, call: &Call<'_>) -> Choice {
        let workload = call.workload();
        let (flops, bytes) = (workload.flop_count(), workload.byte_count());
        let estimate = |c: &Candidate<'_>| c.estimate_ns(flops, bytes);
        let need = |c: &Candidate<'_>| Some(c.memory().map_or(bytes, |b| b as f64).max(1.0));
        let level = |c: &Candidate<'_>| c.level_ns();
        let lows = [
            lowest(call, estimate),
            lowest(call, need),
            lowest(call, level),
        ];
        let share = |low: Option<f64>, own: Option<f64>| match (low, own) {
            (Some(low), Some(own)) => low / own,
            _ => 0.5,
        };
        let w = &self.score.weights;
        let best = call.lowest(|c| {
            let stays = f64::from(self.last == Some(c.variant()));
            let sum = w.time * share(lows[0], estimate(c))
                + w.memory * share(lows[1], need(c))
                + w.cache * self.score.cache_part(c.backend(), workload)
                + w.history * share(lows[2], level(c))
                + w.switching * stays;
            Some(-sum)
        });
        let best = best.unwrap_or_else(|| call.reference().variant());
        self.last = Some(best);
        Choice::serve(best)
    }

    fn learn(&mut self, _call: &Call<'_>, variant: usize, _cost: Cost) {
        self.last = Some(variant); // also where nobody else was eligible and nobody asked
    }
}

fn lowest(call: &Call<'_>, value: impl Fn(&Candidate<'_>) -> Option<f64>) -> Option<f64> {
    let values = call.candidates().iter().filter_map(value);
    values.reduce(f64::min)
}
