//! Each policy on scripted costs and a fake clock: it does what its definition says.

use std::time::Duration;

use pointsman::{
    Calibration, FakeClock, Outcome, Reason, Selector, SelectorBuilder, Workload, policy,
};

/// A small generator of scripted noise, so that the script does not depend on the library's.
struct Script(u64);

impl Script {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A factor close to 1.
    fn noise(&mut self) -> f64 {
        let normal = (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0;
        (0.05 * normal).exp()
    }
}

fn builder(clock: &FakeClock, seed: u64) -> SelectorBuilder {
    Selector::builder()
        .in_memory()
        .ignore_environment()
        .clock(clock.clone())
        .calibration(Calibration::nominal())
        .seed(seed)
}

struct World {
    selector: Selector,
    clock: FakeClock,
    script: Script,
}

impl World {
    fn new(policy: impl policy::Policy + 'static, seed: u64) -> Self {
        let clock = FakeClock::new();
        World {
            selector: builder(&clock, seed).policy(policy).build().unwrap(),
            clock,
            script: Script(seed),
        }
    }

    fn named(policy: &str, seed: u64) -> Self {
        Self::new(policy::parse(policy).unwrap(), seed)
    }

    /// One call: who served and why.
    fn call(&mut self, workload: &Workload, names: &[&str], costs: &[f64]) -> (usize, Reason) {
        let decision = self.selector.decide("op", workload, names);
        let ns = costs[decision.index()] * self.script.noise();
        let took = Duration::from_nanos(ns as u64);
        self.clock.advance(took);
        self.selector.record(&decision, Outcome::took(took));
        (decision.index(), decision.reason())
    }

    /// How many of so many calls each variant served.
    fn served(&mut self, calls: usize, names: &[&str], costs: &[f64]) -> Vec<usize> {
        let mut counts = vec![0; names.len()];
        for _ in 0..calls {
            counts[self.call(&Workload::new([1000]), names, costs).0] += 1;
        }
        counts
    }
}

const FOUR: [&str; 4] = ["a", "b", "c", "d"];
const COSTS: [f64; 4] = [80_000.0, 40_000.0, 20_000.0, 160_000.0];

/// The policies that learn from what they see in one cell, and the share of calls that the best gets
/// once they know.
const LEARNING: [(&str, f64); 5] = [
    ("adaptive", 0.95),
    ("history", 1.0),
    ("epsilon-greedy", 0.85),
    ("ucb1", 0.85),
    ("thompson", 0.97),
];

#[test]
fn every_learning_policy_settles_on_the_best_wherever_it_is() {
    for (name, share) in LEARNING {
        for seed in 0..12 {
            let mut costs = COSTS;
            costs.rotate_right(seed as usize % 4);
            let best = (2 + seed as usize) % 4;
            let mut world = World::named(name, seed);
            world.served(400, &FOUR, &costs);
            let counts = world.served(1000, &FOUR, &costs);
            let right = counts[best] as f64 / 1000.0;
            assert!(right >= share, "{name}, seed {seed}: {counts:?}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_decisions_and_trials_are_counted() {
    for (name, _) in LEARNING {
        let run = |seed| {
            let mut world = World::named(name, seed);
            let calls: Vec<_> = (0..600usize)
                .map(|i| {
                    let workload = Workload::new([1usize << (i % 7)]);
                    world.call(&workload, &FOUR, &COSTS)
                })
                .collect();
            let trials = calls.iter().filter(|(_, why)| *why == Reason::Trial);
            let (trials, stats) = (trials.count() as u64, &world.selector.stats()[0]);
            assert_eq!(stats.trials, trials, "{name}");
            assert_eq!(stats.trial_excess_ns > 0.0, trials > 0, "{name}");
            calls
        };
        assert_eq!(run(5), run(5), "{name}");
    }
}

#[test]
fn epsilon_is_the_share_of_calls_that_go_to_anybody() {
    for (epsilon, low, high) in [(0.0, 0, 0), (0.3, 180, 270), (1.0, 700, 800)] {
        let mut world = World::new(policy::EpsilonGreedy::new(epsilon), 3);
        world.served(20, &FOUR, &COSTS);
        let counts = world.served(1000, &FOUR, &COSTS);
        let others = 1000 - counts[2];
        assert!((low..=high).contains(&others), "{epsilon}: {counts:?}");
    }
}

#[test]
fn the_exploration_of_ucb1_decides_how_much_it_explores() {
    let others = |exploration| {
        let mut world = World::new(policy::Ucb1::new(exploration), 3);
        world.served(20, &FOUR, &COSTS);
        1000 - world.served(1000, &FOUR, &COSTS)[2]
    };
    let counts = [0.0, 0.3, 3.0].map(others);
    assert_eq!(counts[0], 0);
    assert!(
        counts[0] < counts[1] && 2 * counts[1] < counts[2],
        "{counts:?}"
    );
}

#[test]
fn a_mean_that_forgets_follows_a_step_and_one_that_does_not_is_late() {
    let calls_until_b = |weight: Option<f64>| {
        let history = weight.map_or_else(policy::History::default, policy::History::forgetting);
        let mut world = World::new(history, 1);
        let names = ["a", "b"];
        world.served(1000, &names, &[20_000.0, 50_000.0]);
        let workload = Workload::new([1000]);
        (0..10_000).find(|_| world.call(&workload, &names, &[80_000.0, 50_000.0]).0 == 1)
    };
    let (quick, late) = (
        calls_until_b(Some(0.3)).unwrap(),
        calls_until_b(None).unwrap(),
    );
    assert!(quick <= 5, "{quick}");
    assert!(late > 500, "{late}");
}

#[test]
fn a_variant_whose_times_are_never_accepted_holds_nobody_up() {
    for (name, _) in LEARNING {
        let world = World::named(name, 2);
        let (mut lost, names) = (0, ["a", "unmeasured", "c"]);
        for _ in 0..1000 {
            let workload = Workload::new([64]);
            let decision = world.selector.decide("op", &workload, &names);
            let outcome = match decision.variant() {
                "unmeasured" => {
                    lost += 1;
                    Outcome::warm_up()
                }
                "a" => Outcome::took(Duration::from_micros(50)),
                _ => Outcome::took(Duration::from_micros(20)),
            };
            world.selector.record(&decision, outcome);
        }
        assert!(lost <= 200, "{name}: {lost} calls went to it");
    }
}
