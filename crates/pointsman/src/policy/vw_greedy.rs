//! Phases of exploring and exploiting.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use super::table::Table;
use super::{Call, Choice, Chooser, Policy};
use crate::error::BuildError;
use crate::outcome::Cost;

/// Calls at the beginning of a phase that run cold and are not counted, where a phase is longer.
const COLD: u32 = 2;

/// Phases that a variant is given at most until it has a mean; after that, the lot decides. The
/// first may be all warm-up.
const FIRST_PHASES: u32 = 2;

/// Serves in phases, as the micro-adaptivity of the database Vectorwise does (Răducanu, Boncz and
/// Żukowski, 2013).
///
/// In each cell, every variant is first given a phase of EXPLORE_LENGTH calls. From then on the
/// variant whose *last* phase had the lowest mean serves for EXPLOIT_PERIOD calls, after which its
/// mean is that of the phase just ended; and every EXPLORE_PERIOD calls, a variant drawn by lot gets a
/// phase of EXPLORE_LENGTH calls. The first two calls of a phase by another variant than before are
/// not counted. Only the last phase of each variant is remembered: that is how it follows change.
///
/// **Use it** for long streams of similar short calls whose costs change with the data. **It fails**
/// where a cell gets fewer calls than an exploring phase of each variant takes, and where a hopeless
/// variant is dear: it is explored as often as any other, for ever.
///
/// ```
/// use pointsman::{Selector, policy::VwGreedy};
///
/// let selector = Selector::builder().in_memory().policy(VwGreedy::new(1024, 256, 32)).build()?;
/// assert_eq!(selector.policy(), "vw-greedy");
/// # Ok::<(), pointsman::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct VwGreedy {
    explore_period: u32,
    exploit_period: u32,
    explore_length: u32,
}

impl VwGreedy {
    /// EXPLORE_PERIOD, EXPLOIT_PERIOD and EXPLORE_LENGTH, in calls: all 1 or more, and the latter two
    /// no longer than the first. 1024, 256 and 32 by default.
    pub fn new(explore_period: u32, exploit_period: u32, explore_length: u32) -> Self {
        VwGreedy {
            explore_period,
            exploit_period,
            explore_length,
        }
    }
}

impl Default for VwGreedy {
    fn default() -> Self {
        VwGreedy::new(1024, 256, 32)
    }
}

impl Policy for VwGreedy {
    fn name(&self) -> &str {
        "vw-greedy"
    }

    fn check(&self) -> Result<(), BuildError> {
        let parts = [
            ("explore_period", self.explore_period),
            ("exploit_period", self.exploit_period),
            ("explore_length", self.explore_length),
        ];
        for (name, calls) in parts {
            if !(1..=self.explore_period).contains(&calls) {
                return Err(BuildError::Setting {
                    name,
                    value: calls.to_string(),
                    valid: "1 or more calls, and no more than explore_period",
                });
            }
        }
        Ok(())
    }

    fn chooser(&self, seed: u64) -> Option<Box<dyn Chooser>> {
        Some(Box::new(Phases {
            settings: *self,
            cells: Table::default(),
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
        }))
    }
}

struct Phases {
    settings: VwGreedy,
    cells: Table<Stage>,
    rng: Xoshiro256PlusPlus,
}

/// What is remembered of one variant in one cell.
#[derive(Clone, Copy)]
struct Past {
    variant: usize,
    /// Mean of its last phase.
    mean: Option<f64>,
    /// Phases it was given without a mean to show for it.
    asked: u32,
}

/// Where one cell stands.
#[derive(Default)]
struct Stage {
    past: Vec<Past>,
    calls: u64,
    /// The phase under way: who, until which call, what it has cost so far.
    current: Option<usize>,
    ends: u64,
    cold: u32,
    sum: f64,
    samples: u32,
    next_explore: u64,
}

impl Stage {
    fn admit(&mut self, call: &Call<'_>) {
        for candidate in call.candidates() {
            let variant = candidate.variant();
            if self.past.iter().all(|p| p.variant != variant) {
                self.past.push(Past {
                    variant,
                    mean: candidate.level_ns(),
                    asked: 0,
                });
            }
        }
    }

    fn past_of(&mut self, variant: usize) -> Option<&mut Past> {
        self.past.iter_mut().find(|p| p.variant == variant)
    }

    fn mean_of(&self, variant: usize) -> Option<f64> {
        self.past.iter().find(|p| p.variant == variant)?.mean
    }

    fn best(&self, call: &Call<'_>) -> Option<usize> {
        call.lowest(|c| self.mean_of(c.variant()))
    }

    /// The phase under way becomes its variant's past.
    fn finish(&mut self) {
        if let Some(variant) = self.current
            && self.samples > 0
        {
            let mean = self.sum / f64::from(self.samples);
            if let Some(past) = self.past_of(variant) {
                past.mean = Some(mean);
            }
        }
    }

    fn start(&mut self, variant: usize, calls: u32) {
        let switched = self.current != Some(variant);
        self.cold = if switched && calls > COLD { COLD } else { 0 };
        (self.sum, self.samples) = (0.0, 0);
        self.current = Some(variant);
        self.ends = self.calls + u64::from(calls);
    }

    fn untried(&self, call: &Call<'_>) -> Option<usize> {
        let may = |p: &&Past| p.mean.is_none() && call.candidate(p.variant).is_some();
        self.past
            .iter()
            .filter(may)
            .filter(|p| p.asked < FIRST_PHASES)
            .min_by_key(|p| p.asked)
            .map(|p| p.variant)
    }

    fn next_phase(&mut self, call: &Call<'_>, settings: &VwGreedy, rng: &mut Xoshiro256PlusPlus) {
        if let Some(variant) = self.untried(call) {
            if let Some(past) = self.past_of(variant) {
                past.asked = past.asked.saturating_add(1);
            }
            self.next_explore = self.calls + u64::from(settings.explore_period);
            self.start(variant, settings.explore_length);
        } else if self.calls >= self.next_explore {
            self.next_explore = self.calls + u64::from(settings.explore_period);
            let at = rng.random_range(0..call.candidates().len());
            self.start(call.candidates()[at].variant(), settings.explore_length);
        } else {
            let best = self.best(call);
            let best = best.unwrap_or_else(|| call.reference().variant());
            self.start(best, settings.exploit_period);
        }
    }
}

impl Chooser for Phases {
    fn choose(&mut self, call: &Call<'_>) -> Choice {
        let stage = self.cells.enter(call.cell());
        stage.admit(call);
        if !call.may_try() {
            let best = stage.best(call);
            return Choice::serve(best.unwrap_or_else(|| call.reference().variant()));
        }
        let serving = stage.current.filter(|v| call.candidate(*v).is_some());
        if serving.is_none() || stage.calls >= stage.ends {
            stage.finish();
            stage.next_phase(call, &self.settings, &mut self.rng);
        }
        stage.calls += 1;
        let current = stage.current.unwrap_or_else(|| call.reference().variant());
        Choice::one_of(current, stage.best(call).unwrap_or(current))
    }

    fn learn(&mut self, call: &Call<'_>, variant: usize, cost: Cost) {
        let stage = self.cells.enter(call.cell());
        if stage.current != Some(variant) {
            return; // of a phase that is over
        }
        if stage.cold > 0 {
            stage.cold -= 1;
            return;
        }
        stage.sum += cost.ns() as f64;
        stage.samples += 1;
    }
}
