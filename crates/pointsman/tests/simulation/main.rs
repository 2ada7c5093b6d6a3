//! The policy on scripted costs and a fake clock: no real time decides these tests.

mod far;

use std::time::Duration;

use pointsman::{Calibration, FakeClock, Outcome, Reason, Selector, Workload};

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

    /// Sum of twelve uniforms less six: normal enough for noise.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

struct World {
    selector: Selector,
    clock: FakeClock,
    script: Script,
}

/// What one call cost, and what the best would have cost, both without noise.
#[derive(Clone, Copy)]
struct Call {
    variant: usize,
    reason: Reason,
    cost: f64,
    best: f64,
}

impl World {
    fn new(seed: u64) -> Self {
        let clock = FakeClock::new();
        let selector = Selector::builder()
            .in_memory()
            .ignore_environment()
            .calibration(Calibration::nominal())
            .clock(clock.clone())
            .seed(seed)
            .build()
            .unwrap();
        World {
            selector,
            clock,
            script: Script(seed),
        }
    }

    /// One call: `costs` in nanoseconds without noise, `noise` as a factor on them.
    fn call(
        &mut self,
        workload: &Workload,
        names: &[&str],
        costs: &[f64],
        noise: impl FnOnce(&mut Script) -> f64,
    ) -> Call {
        let decision = self.selector.decide("op", workload, names);
        let variant = decision.index();
        let took = Duration::from_nanos((costs[variant] * noise(&mut self.script)) as u64);
        self.clock.advance(took);
        self.selector.record(&decision, Outcome::took(took));
        let best = costs.iter().copied().fold(f64::INFINITY, f64::min);
        Call {
            variant,
            reason: decision.reason(),
            cost: costs[variant],
            best,
        }
    }
}

fn is_trial(call: &Call) -> bool {
    matches!(call.reason, Reason::Trial | Reason::FirstTry)
}

const FOUR: [&str; 4] = ["a", "b", "c", "d"];

fn noisy(script: &mut Script) -> f64 {
    (0.08 * script.normal()).exp()
}

#[test]
fn a_lone_cell_with_four_variants_is_settled_on_the_best_within_50_calls() {
    let mut settled = 0;
    for seed in 0..100 {
        let mut world = World::new(seed);
        let best = seed as usize % 4;
        let costs: Vec<f64> = (0..4)
            .map(|v| 20_000.0 * 2f64.powi(((v + 4 - best) % 4) as i32))
            .collect();
        let workload = Workload::new([1000]);
        for _ in 0..50 {
            world.call(&workload, &FOUR, &costs, noisy);
        }
        let after: Vec<Call> = (0..50)
            .map(|_| world.call(&workload, &FOUR, &costs, noisy))
            .collect();
        let right = after
            .iter()
            .filter(|c| !is_trial(c))
            .all(|c| c.variant == best);
        settled += u32::from(right);
    }
    assert!(
        settled >= 99,
        "settled on the best in {settled} of 100 seeds"
    );
}

/// Each is a surprise to whoever has seen the others.
const APART: [f64; 4] = [1e6, 1e3, 1e2, 3e4];

#[test]
fn variants_that_are_orders_of_magnitude_apart_are_told_apart_within_50_calls() {
    for seed in 0..96 {
        let mut world = World::new(seed);
        let mut costs = APART;
        costs.rotate_left(seed as usize % 4);
        costs[1..].rotate_left(seed as usize / 4 % 3);
        let workload = Workload::new([1000]);
        let mut call = || world.call(&workload, &FOUR, &costs, noisy);
        (0..50).for_each(|_| _ = call());
        let wrong = (0..50).filter(|_| {
            let call = call();
            !is_trial(&call) && call.cost > call.best
        });
        assert_eq!(wrong.count(), 0, "seed {seed}: {costs:?}");
    }
}

#[test]
fn a_long_call_hears_at_once_what_its_neighbours_have_found_out() {
    let mut world = World::new(1);
    let [small, large] = [16, 1 << 20].map(|n| Workload::new([n]));
    for _ in 0..40 {
        world.call(&small, &["a", "b"], &[1e4, 1e6], noisy);
    }
    let call = |world: &mut World| world.call(&large, &["a", "b"], &[1e7, 5e5], noisy).variant;
    let before: usize = (0..5).map(|_| call(&mut world)).sum();
    assert_eq!(before, 0, "from small calls, b would take a second");
    for n in [7 << 17, 9 << 17, 7 << 17, 9 << 17] {
        world.call(&Workload::new([n]), &["b"], &[5e5], noisy);
    }
    let after: usize = (0..3).map(|_| call(&mut world)).sum();
    assert!(after > 0, "it takes 0.5 ms next door");
}

#[test]
fn a_cell_whose_neighbours_are_known_is_right_within_3_calls() {
    let mut right = 0;
    for seed in 0..50 {
        let mut world = World::new(seed);
        let costs = |n: f64| [n * 4.0, 2_000.0 + n, n * 9.0, 50_000.0 + n * 0.3];
        for round in 0..40 {
            for n in [64_000usize, 96_000, 190_000, 256_000] {
                world.call(&Workload::new([n + round]), &FOUR, &costs(n as f64), noisy);
            }
        }
        let n = 128_000;
        let calls: Vec<Call> = (0..10)
            .map(|_| world.call(&Workload::new([n]), &FOUR, &costs(n as f64), noisy))
            .collect();
        let served = calls[3..].iter().filter(|c| !is_trial(c));
        right += u32::from(served.into_iter().all(|c| c.cost <= 1.05 * c.best));
    }
    assert!(right >= 49, "right after 3 calls in {right} of 50 seeds");
}

/// Four backends over sizes 2^4 to 2^26: launch costs and rates as on a real machine.
fn stream_costs(n: f64) -> [f64; 4] {
    [
        20.0 + n * 1.0,
        25.0 + n * 0.25,
        8_000.0 + n * 0.12,
        60_000.0 + n * 0.05,
    ]
}

struct Totals {
    total: f64,
    best: f64,
    excess: f64,
    trials: u64,
    worst_trial: f64,
    first_excess: f64,
}

fn stream(seed: u64, calls: usize) -> (Totals, World) {
    let mut world = World::new(seed);
    let mut t = Totals {
        total: 0.0,
        best: 0.0,
        excess: 0.0,
        trials: 0,
        worst_trial: 0.0,
        first_excess: 0.0,
    };
    for _ in 0..calls {
        let n = (4.0 + 22.0 * world.script.uniform()).exp2();
        let call = world.call(
            &Workload::new([n as usize]),
            &FOUR,
            &stream_costs(n),
            |script| {
                let spike = if script.uniform() < 0.01 { 5.0 } else { 1.0 };
                noisy(script) * spike
            },
        );
        t.total += call.cost;
        t.best += call.best;
        match call.reason {
            Reason::Trial => {
                t.trials += 1;
                t.excess += call.cost - call.best;
                t.worst_trial = t.worst_trial.max(call.cost - call.best);
            }
            Reason::FirstTry => t.first_excess += call.cost - call.best,
            _ => {}
        }
    }
    (t, world)
}

#[test]
fn a_stream_of_four_backends_ends_within_2_percent_of_the_oracle_and_keeps_the_budget() {
    let (mut sum, mut sum_later, mut unlucky, seeds) = (0.0, 0.0, 0, 40);
    for seed in 0..seeds {
        let (start, _) = stream(seed, 300);
        let (t, world) = stream(seed, 20_000);
        let ratio = t.total / t.best;
        let later = (t.total - start.total) / (t.best - start.best);
        let stats = &world.selector.stats()[0];
        println!(
            "seed {seed}: {ratio:.4} of the oracle, {later:.4} after 300 calls, {} trials cost {:.2} %, first tries {:.3} %",
            t.trials,
            100.0 * t.excess / t.total,
            100.0 * t.first_excess / t.total
        );
        (sum, sum_later) = (sum + ratio, sum_later + later);
        // One of the largest calls, served by the slowest before anything is known, is 1.5 % of all the time there is: a
        // seed may start with several of them, or a spike may hit the first measurement of a backend.
        unlucky += u32::from(ratio > 1.05);
        assert!(t.trials > 0, "seed {seed}: nothing was tried");
        // The promise: the budget, in which the first 80 ms count six times, plus one bad trial.
        assert!(
            t.excess <= 0.01 * (t.total + 5.0 * 80e6) + t.worst_trial,
            "seed {seed}: {} of {}",
            t.excess,
            t.total
        );
        assert!(
            stats.first_tries <= 4 * 4, // one of each may be too slow to count
            "first tries: {}",
            stats.first_tries
        );
        assert_eq!(stats.trials, t.trials);
    }
    let (mean, later) = (sum / seeds as f64, sum_later / seeds as f64);
    println!("mean {mean:.4}, after 300 calls {later:.4}, {unlucky} of {seeds} above 1.05");
    assert!(mean <= 1.02, "{mean} of the oracle over {seeds} seeds");
    assert!(later <= 1.01, "{later} of the oracle after 300 calls");
    assert!(unlucky <= 4, "{unlucky} of {seeds} above 1.05");
}

#[test]
fn first_tries_happen_only_on_workloads_no_dearer_than_the_median_seen() {
    let mut world = World::new(5);
    let mut seen: Vec<f64> = Vec::new();
    for _ in 0..2_000 {
        let n = (4.0 + 22.0 * world.script.uniform()).exp2();
        let call = world.call(
            &Workload::new([n as usize]),
            &FOUR,
            &stream_costs(n),
            |_| 1.0,
        );
        if call.reason == Reason::FirstTry {
            let mut sorted = seen.clone();
            sorted.sort_by(f64::total_cmp);
            // What it would have cost is a prediction from a handful of samples: allow it to be off by a
            // factor of ten. The dearest workloads are a thousand times the median.
            assert!(
                call.best <= 10.0 * sorted[sorted.len() / 2],
                "{} against {}",
                call.best,
                sorted[sorted.len() / 2]
            );
        } else {
            seen.push(call.cost);
        }
    }
}

/// Calls until the choice is right for ten served calls in a row.
fn calls_until_right(
    world: &mut World,
    workload: &Workload,
    names: &[&str],
    costs: &[f64],
    most: usize,
) -> usize {
    let mut in_a_row = 0;
    for i in 0..most {
        let call = world.call(workload, names, costs, noisy);
        if is_trial(&call) {
            continue;
        }
        in_a_row = if call.cost <= 1.05 * call.best {
            in_a_row + 1
        } else {
            0
        };
        if in_a_row == 10 {
            return i - 9;
        }
    }
    most
}

#[test]
fn f22_a_step_of_4_times_is_noticed_within_64_calls() {
    let mut slowest = 0;
    for seed in 0..50 {
        let mut world = World::new(seed);
        let workload = Workload::new([4096]);
        let names = ["fast", "steady"];
        for _ in 0..2_000 {
            world.call(&workload, &names, &[100_000.0, 180_000.0], noisy);
        }
        // The fast one is throttled: now the steady one is the better by a factor of 2.2.
        let calls = calls_until_right(
            &mut world,
            &workload,
            &names,
            &[400_000.0, 180_000.0],
            1_000,
        );
        slowest = slowest.max(calls);
    }
    println!("slowest of 50 seeds: {slowest} calls");
    assert!(slowest <= 64, "{slowest} calls");
}

#[test]
fn f19_one_outlier_of_1000_times_also_as_the_first_sample_is_got_over() {
    for at in [0, 1, 2, 3, 5, 8, 20] {
        let mut world = World::new(at as u64);
        let workload = Workload::new([64]);
        let (names, costs) = (["a", "b"], [50_000.0, 100_000.0]);
        for i in 0..at {
            world.call(&workload, &names, &costs, noisy);
            let _ = i;
        }
        world.call(&workload, &names, &costs, |_| 1000.0);
        let calls = calls_until_right(&mut world, &workload, &names, &costs, 5_000);
        println!("outlier at call {at}: right after {calls} calls");
        assert!(
            calls <= 60,
            "outlier at call {at}: right only after {calls} calls"
        );
    }
}

#[test]
fn f20_a_quarter_of_noisy_samples_and_lucky_shots_still_give_the_right_winner() {
    let mut right = 0;
    for seed in 0..200 {
        let mut world = World::new(seed);
        let workload = Workload::new([777]);
        let costs = [30_000.0, 45_000.0, 60_000.0, 25_000.0];
        let noise = |script: &mut Script| {
            let kind = script.uniform();
            let small = (0.05 * script.normal()).exp();
            match kind {
                k if k < 0.20 => small * (1.0 + 3.0 * script.uniform()), // interrupted
                k if k < 0.25 => small * 0.5,                            // a lucky shot
                _ => small,
            }
        };
        for _ in 0..3_000 {
            world.call(&workload, &FOUR, &costs, noise);
        }
        let served: Vec<Call> = (0..100)
            .map(|_| world.call(&workload, &FOUR, &costs, noise))
            .filter(|c| !is_trial(c))
            .collect();
        let best = served.iter().filter(|c| c.variant == 3).count();
        right += u32::from(2 * best > served.len());
    }
    println!("right winner in {right} of 200 seeds");
    assert!(right >= 198, "right winner in {right} of 200 seeds");
}

#[test]
fn f21_background_load_during_measurement_is_not_frozen_in() {
    let mut recovered = 0;
    for seed in 0..20 {
        let mut world = World::new(seed);
        let workload = Workload::new([512]);
        let names = ["a", "b"];
        let idle = [2_000_000.0, 1_000_000.0];
        // While the machine is loaded, b suffers: a looks better.
        for _ in 0..300 {
            world.call(&workload, &names, &[2_200_000.0, 6_000_000.0], noisy);
        }
        // The load ends. Half an hour later at the latest, b serves again.
        let mut served_b = 0;
        for _ in 0..1_000_000 {
            let call = world.call(&workload, &names, &idle, noisy);
            served_b = if call.variant == 1 {
                served_b + 1
            } else if is_trial(&call) {
                served_b
            } else {
                0
            };
            if served_b >= 50 {
                recovered += 1;
                break;
            }
        }
    }
    assert_eq!(recovered, 20);
}

#[test]
fn near_ties_do_not_flip_flop() {
    let mut flips = 0;
    for seed in 0..20 {
        let mut world = World::new(seed);
        let workload = Workload::new([2048]);
        let costs = [100_000.0, 101_000.0, 99_500.0, 100_500.0];
        let mut last = None;
        for i in 0..4_000 {
            let call = world.call(&workload, &FOUR, &costs, noisy);
            if is_trial(&call) || i < 200 {
                continue;
            }
            flips += u32::from(last.is_some_and(|l| l != call.variant));
            last = Some(call.variant);
        }
    }
    println!("{flips} flips in 20 × 3,800 calls between equals");
    assert!(flips <= 20 * 8, "{flips} flips");
}

#[test]
fn the_same_seed_gives_the_same_decisions() {
    let run = |seed| {
        let mut world = World::new(seed);
        (0..3_000)
            .map(|_| {
                let n = (4.0 + 22.0 * world.script.uniform()).exp2();
                world
                    .call(&Workload::new([n as usize]), &FOUR, &stream_costs(n), noisy)
                    .variant
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(run(3), run(3));
}

#[test]
fn confidence_is_calibrated() {
    let (mut bins, mut right) = ([0u32; 10], [0u32; 10]);
    for seed in 0..40 {
        let mut world = World::new(seed);
        // Every seed has its own machine: rates drawn by lot, within a factor of four.
        let rates: Vec<f64> = (0..4)
            .map(|_| (1.4 * world.script.uniform()).exp())
            .collect();
        for _ in 0..600 {
            let n = (6.0 + 14.0 * world.script.uniform()).exp2();
            let costs: Vec<f64> = rates
                .iter()
                .enumerate()
                .map(|(i, r)| 300.0 * (i + 1) as f64 + n * r)
                .collect();
            let workload = Workload::new([n as usize]);
            let decision = world.selector.decide("op", &workload, &FOUR);
            let best = costs.iter().copied().fold(f64::INFINITY, f64::min);
            let took =
                Duration::from_nanos((costs[decision.index()] * noisy(&mut world.script)) as u64);
            if !matches!(decision.reason(), Reason::Trial | Reason::FirstTry) {
                let bin = ((decision.confidence() * 10.0) as usize).min(9);
                bins[bin] += 1;
                right[bin] += u32::from(costs[decision.index()] <= 1.05 * best);
            }
            world.clock.advance(took);
            world.selector.record(&decision, Outcome::took(took));
        }
    }
    for bin in 0..10 {
        println!(
            "confidence {:.1}–{:.1}: {} of {} right",
            bin as f64 / 10.0,
            (bin + 1) as f64 / 10.0,
            right[bin],
            bins[bin]
        );
    }
    // Of decisions with confidence 0.9 and more, nine in ten are right; low confidence is rightly low.
    assert!(
        f64::from(right[9]) >= 0.9 * f64::from(bins[9]),
        "{} of {}",
        right[9],
        bins[9]
    );
    let low: u32 = bins[..5].iter().sum();
    let low_right: u32 = right[..5].iter().sum();
    assert!(
        low == 0 || f64::from(low_right) < 0.85 * f64::from(low),
        "{low_right} of {low}"
    );
}

#[test]
fn f39_ten_million_distinct_workloads_stay_in_bounded_memory() {
    let resident = || {
        let text = std::fs::read_to_string("/proc/self/statm").ok()?;
        text.split(' ')
            .nth(1)?
            .parse::<u64>()
            .ok()
            .map(|pages| pages * 4096)
    };
    let mut world = World::new(1);
    let count = if cfg!(debug_assertions) {
        1_000_000u64
    } else {
        10_000_000
    };
    let mut after_some = None;
    for i in 0..count {
        let n = 1 + i;
        // Two features: tens of thousands of cells, far more than are kept.
        let workload = Workload::new([n, (i.wrapping_mul(2_654_435_761) >> 7) % 5_000]);
        let cost = n as f64;
        world.call(&workload, &["a", "b"], &[cost, 1.5 * cost], |_| 1.0);
        if i == count / 10 {
            after_some = resident();
        }
    }
    let stats = &world.selector.stats()[0];
    assert!(stats.cells <= 4096, "{} cells", stats.cells);
    if let (Some(early), Some(late)) = (after_some, resident()) {
        println!(
            "resident {} MiB after a tenth, {} MiB after {count} workloads",
            early >> 20,
            late >> 20
        );
        assert!(
            late < early + (32 << 20),
            "memory grew from {early} to {late} bytes"
        );
    }
}

#[test]
fn calibration_is_the_prior_of_the_first_call() {
    // Threads cost 20 µs to start: for a short call the scalar variant must be the first guess.
    let calibration = Calibration::measure();
    let selector = Selector::builder()
        .in_memory()
        .ignore_environment()
        .calibration(calibration)
        .build()
        .unwrap();
    let small = Workload::new([64]).flops(128).bytes(512);
    let decision = selector.decide("op", &small, &["threads", "scalar"]);
    assert_eq!(decision.variant(), "scalar");
}
