//! Each policy on scripted costs and a fake clock: it does what its definition says.

mod policy_common;

use std::time::Duration;

use pointsman::{
    Backend, BackendCost, BuildError, Calibration, FakeClock, Memory, Outcome, Reason, Selector,
    Workload, policy,
};
use policy_common::{COSTS, FOUR, Script, World, builder};

/// The policies that learn from what they see in one cell, and the share of calls that the best gets
/// once they know.
const LEARNING: [(&str, f64); 8] = [
    ("adaptive", 0.95),
    ("history", 1.0),
    ("epsilon-greedy", 0.85),
    ("ucb1", 0.85),
    ("thompson", 0.97),
    ("lin-ucb", 0.85),
    ("lin-thompson", 0.97),
    ("vw-greedy", 0.95),
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
            if name == "epsilon-greedy" {
                // One call in 13 or so costs two to eight times the best.
                assert!(stats.trial_excess_ns > 1e6, "{}", stats.trial_excess_ns);
            }
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

#[test]
fn fixed_never_leaves_its_variant_and_gives_way_to_the_reference_where_it_may_not_serve() {
    let mut world = World::named("fixed(d)", 1);
    assert_eq!(world.served(2000, &FOUR, &COSTS), [0, 0, 0, 2000]);
    assert_eq!(world.served(100, &["b", "c"], &COSTS), [100, 0]);
    let clock = FakeClock::new();
    let selector = builder(&clock, 1).policy(policy::Fixed::new("large"));
    let op = selector
        .build()
        .unwrap()
        .function("op", |n: &usize| Workload::new([*n]))
        .variant("other", Backend::Simd, |_| "other")
        .reference("plain", Backend::Scalar, |_| "plain")
        .variant("large", Backend::Threads, |_| "large")
        .min_size(100)
        .build()
        .unwrap();
    for _ in 0..100 {
        assert_eq!((op.run(&99), op.run(&100)), ("plain", "large"));
    }
    let told = op.explain(Workload::new([500]));
    assert_eq!(
        (told.chosen.as_str(), told.policy.as_str()),
        ("large", "fixed")
    );
    assert!(
        told.to_string().contains("(learn mode, policy fixed)"),
        "{told}"
    );
}

const KINDS: [&str; 4] = ["scalar", "simd", "threads", "gpu:0"];

#[test]
fn rules_switch_exactly_at_their_thresholds_also_when_choices_are_published() {
    let at = |world: &mut World, workload: Workload| world.call(&workload, &KINDS, &COSTS).0;
    let never = u64::MAX;
    let classes = [
        (1.0, [64, 1_000_000, never]),
        (10.0, [32, 100_000, 10_000_000]),
        (32.0, [16, 10_000, 100_000]),
    ];
    let mut world = World::named("rules", 1);
    for round in 0..100 {
        for (per_element, steps) in classes {
            for (kind, step) in steps.iter().enumerate().filter(|(_, s)| **s < never) {
                for (n, wanted) in [(step - 1, kind), (*step, kind + 1), (step + 1, kind + 1)] {
                    let workload = Workload::new([n]).flops(per_element * n as f64);
                    assert_eq!(at(&mut world, workload), wanted, "{n} in round {round}");
                }
            }
        }
        let workload = Workload::new([1u64 << 60]).flops(1.0);
        assert_eq!(
            at(&mut world, workload),
            2,
            "a low class never takes the GPU"
        );
    }
    // Of a product of matrices, the largest feature counts if told so.
    let largest = policy::Rules::default().size(policy::Size::Largest);
    let mut world = World::new(largest.class(policy::Class::High), 1);
    assert_eq!(at(&mut world, Workload::new([15, 15, 15])), 0);
    assert_eq!(at(&mut world, Workload::new([15, 15, 16])), 1);
    let own = policy::Thresholds {
        simd: None,
        threads: Some(7),
        gpu: None,
    };
    let rules = policy::Rules::default().thresholds(policy::Class::Medium, own);
    let mut world = World::new(rules, 1);
    assert_eq!([6, 7].map(|n| at(&mut world, Workload::new([n]))), [0, 2]);
}

#[test]
fn rules_take_the_next_smaller_kind_and_wrong_rules_are_refused() {
    let mut world = World::named("rules(high)", 1);
    let large = Workload::new([1_000_000]);
    assert_eq!(world.call(&large, &["simd", "scalar"], &COSTS).0, 0);
    assert_eq!(
        world
            .call(&Workload::new([1]), &["gpu", "threads"], &COSTS)
            .0,
        1
    );
    assert_eq!(world.call(&large, &["numpy", "numba"], &COSTS).0, 0);
    let unordered = policy::Thresholds {
        simd: Some(100),
        threads: Some(10),
        gpu: None,
    };
    let rules = policy::Rules::default();
    for (wrong, part) in [
        (rules.thresholds(policy::Class::Low, unordered), "ascending"),
        (rules.flops_per_element(3.0, 2.0), "medium_from"),
        (rules.flops_per_element(f64::NAN, 2.0), "medium_from"),
        (rules.flops_per_element(1.0, f64::INFINITY), "high_from"),
    ] {
        let built = builder(&FakeClock::new(), 1).policy(wrong).build();
        let error = built.err().map(|error: BuildError| error.to_string());
        assert!(
            error.as_ref().is_some_and(|e| e.contains(part)),
            "{error:?}"
        );
    }
}

fn with_gpu(gpu: BackendCost, factor: f64) -> Selector {
    let mut calibration = Calibration::nominal();
    calibration.set(Backend::Gpu(0), gpu).unwrap();
    builder(&FakeClock::new(), 1)
        .calibration(calibration)
        .policy(policy::CostModel::transfer_factor(factor))
        .build()
        .unwrap()
}

const GPU: BackendCost = BackendCost {
    launch_ns: 2e4,
    flops_per_s: 1e13,
    bytes_per_s: 5e11,
    transfer_bytes_per_s: Some(1e10),
};

fn serves(selector: &Selector, flops: f64, bytes: f64) -> &'static str {
    let workload = Workload::new([flops, bytes]).flops(flops).bytes(bytes);
    let decision = selector.decide("op", &workload, &KINDS);
    selector.record(&decision, Outcome::took(Duration::from_micros(100)));
    decision.variant()
}

#[test]
fn cost_follows_the_calibration_and_the_transfer_rule() {
    let selector = with_gpu(GPU, 0.0);
    // Nominal: simd launches in 2 ns at 4e10 flops, threads in 20 µs at 8e10.
    for _ in 0..100 {
        assert_eq!(serves(&selector, 1e5, 0.0), "simd");
        assert_eq!(serves(&selector, 7.9e5, 0.0), "simd"); // 19.75 µs, the GPU 20.08
        assert_eq!(serves(&selector, 8.1e5, 0.0), "gpu:0"); // 20.25 µs against 20.08
    }
    let slow = BackendCost {
        launch_ns: 1e6,
        ..GPU
    };
    assert_eq!(serves(&with_gpu(slow, 0.0), 1.7e6, 0.0), "threads");
    // 1 ms of work on threads, 0.5 ms of transfer: the model says GPU, the rule says no.
    let (flops, bytes) = (8e7, 5e6);
    assert_eq!(serves(&selector, flops, bytes), "gpu:0");
    assert_eq!(serves(&with_gpu(GPU, 5.0), flops, bytes), "threads");
    assert_eq!(serves(&with_gpu(GPU, 5.0), 3.0 * flops, bytes), "gpu:0");
    // Data that is there already needs no transfer.
    let there = Workload::new([1]).flops(flops).bytes(bytes);
    let there = there.located(Backend::Gpu(0));
    let decision = with_gpu(GPU, 5.0).decide("op", &there, &KINDS).variant();
    assert_eq!(decision, "gpu:0");
}

#[test]
fn a_faster_gpu_is_never_chosen_less() {
    let mut script = Script(11);
    let mut between = |low: f64, high: f64| low * (high / low).powf(script.uniform());
    let (mut chosen, mut refused) = (0, 0);
    for _ in 0..60 {
        let slow = BackendCost {
            launch_ns: between(1e3, 1e6),
            flops_per_s: between(1e10, 1e13),
            bytes_per_s: between(1e10, 1e12),
            transfer_bytes_per_s: Some(between(1e8, 1e11)),
        };
        let fast = BackendCost {
            launch_ns: slow.launch_ns / between(1.0, 10.0),
            flops_per_s: slow.flops_per_s * between(1.0, 100.0),
            bytes_per_s: slow.bytes_per_s * between(1.0, 100.0),
            transfer_bytes_per_s: slow.transfer_bytes_per_s.map(|r| r * between(1.0, 10.0)),
        };
        for factor in [0.0, 5.0, 50.0] {
            let (slow, fast) = (with_gpu(slow, factor), with_gpu(fast, factor));
            for _ in 0..40 {
                let (flops, bytes) = (between(1e3, 1e12), between(1e2, 1e10));
                if serves(&slow, flops, bytes) == "gpu:0" {
                    assert_eq!(serves(&fast, flops, bytes), "gpu:0");
                    chosen += 1;
                } else {
                    refused += 1;
                }
            }
        }
    }
    assert!(chosen > 500 && refused > 500, "{chosen} {refused}");
}

struct Plenty;

impl Memory for Plenty {
    fn free_bytes(&self, _: Backend) -> Option<u64> {
        Some(u64::MAX)
    }
}

#[test]
fn each_of_the_five_weights_of_score_changes_the_choice() {
    use policy::{Score, Weights};
    let standard = Weights::default();
    let first = |weights: Weights, names: &[&str], workload: Workload| {
        World::new(Score::new(weights), 1)
            .call(&workload, names, &COSTS)
            .0
    };
    // Time: simd by the model; without it nothing speaks for either, and the first serves.
    let work = Workload::new([1]).flops(1e6);
    let time = |time| first(Weights { time, ..standard }, &KINDS[..2], work);
    assert_eq!((time(0.4), time(0.0)), (1, 0));

    // Memory: simd is faster by a third but needs a hundred times as much.
    let memory = |memory| {
        let score = Score::new(Weights { memory, ..standard });
        let selector = builder(&FakeClock::new(), 1).memory(Plenty).policy(score);
        let selector = selector.build().unwrap();
        let op = selector
            .function("op", |n: &usize| Workload::new([*n]).bytes(1e8))
            .reference("plain", Backend::Scalar, |_| "plain")
            .variant("lean", Backend::Scalar, |_| "lean")
            .memory(|_| 1_000_000)
            .variant("greedy", Backend::Simd, |_| "greedy")
            .memory(|_| 100_000_000)
            .build();
        op.unwrap().run(&64)
    };
    assert_eq!((memory(0.0), memory(0.2)), ("greedy", "lean"));

    // Cache: 16 MiB fit the caches of all cores, not that of one.
    let wide = Workload::new([1]).bytes(16 << 20);
    let names = ["scalar", "threads"];
    let weights = |cache| Weights {
        time: 0.0,
        cache,
        ..standard
    };
    assert_eq!(first(weights(0.2), &names, wide), 1);
    assert_eq!(first(weights(0.0), &names, wide), 0);
    let small = Score::new(weights(0.2)).caches(1 << 30, 1 << 30);
    assert_eq!(World::new(small, 1).call(&wide, &names, &COSTS).0, 0);

    // History: simd by the model, scalar by what was measured.
    let history = |history| {
        let mut world = World::new(
            Score::new(Weights {
                history,
                ..standard
            }),
            1,
        );
        for backend in [Backend::Scalar, Backend::Simd].repeat(5) {
            world.call(&work.prefer(backend), &KINDS[..2], &[10_000.0, 90_000.0]);
        }
        world.call(&work, &KINDS[..2], &COSTS).0
    };
    assert_eq!((history(0.15), history(2.0)), (1, 0));

    // Switching: simd has just served; nothing else tells the two apart.
    let switching = |switching| {
        let weights = Weights {
            switching,
            ..standard
        };
        let mut world = World::new(Score::new(weights), 1);
        assert_eq!(world.call(&work, &KINDS[..2], &COSTS).0, 1);
        world.call(&Workload::new([2]), &KINDS[..2], &COSTS).0
    };
    assert_eq!((switching(0.05), switching(0.0)), (1, 0));
}

#[test]
fn vw_greedy_goes_through_its_phases() {
    let mut world = World::new(policy::VwGreedy::new(64, 16, 4), 4);
    let mut calls = |n: usize, costs: &[f64; 4]| -> Vec<usize> {
        (0..n)
            .map(|_| world.call(&Workload::new([1000]), &FOUR, costs).0)
            .collect()
    };
    // Four calls of each, then phases of 16 for the best until 64 calls after the last exploration.
    let start = calls(16, &COSTS);
    assert_eq!(start, [[0; 4], [1; 4], [2; 4], [3; 4]].concat());
    let mut seen = [0; 4];
    for _ in 0..40 {
        assert_eq!(calls(64, &COSTS), [2; 64]);
        let explored = calls(4, &COSTS);
        assert_eq!(explored, [explored[0]; 4]);
        seen[explored[0]] += 1;
    }
    assert!(seen.iter().all(|phases| *phases >= 4), "{seen:?}");
    // Only the last phase counts: a step is seen at the end of the phase it falls into.
    let slower = [80_000.0, 40_000.0, 100_000.0, 160_000.0];
    assert_eq!(calls(16, &slower), [2; 16]);
    assert_eq!(calls(16, &slower), [1; 16]);
}

#[test]
fn linear_policies_are_right_at_sizes_and_for_categories_nobody_has_measured() {
    let names = ["steep", "flat"];
    for name in ["lin-ucb", "lin-thompson"] {
        for seed in 0..10 {
            let mut world = World::named(name, seed);
            // They cross at n = 90,000, in the second category at 100.
            let costs =
                |n: f64, code: u32| [10.0 * n * f64::from(1 + 29 * code), 3000.0 * n.sqrt()];
            for i in 0..600u32 {
                let low = if i % 3 == 0 { 20.0 } else { 6.0 };
                let n = (low + 4.0 * world.script.uniform()).exp2().round();
                let workload = Workload::new([n]).codes([i % 2]);
                world.call(&workload, &names, &costs(n, i % 2));
            }
            for n in [12_000.0, 700_000.0, 1e9] {
                for code in [0, 1] {
                    let costs = costs(n, code);
                    let best = usize::from(costs[1] < costs[0]);
                    let workload = Workload::new([n]).codes([code]);
                    let (first, _) = world.call(&workload, &names, &costs);
                    assert_eq!(first, best, "{name}, seed {seed}: {n} #{code}");
                }
            }
        }
    }
}
