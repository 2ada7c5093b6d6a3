//! Workloads far from those on which a variant was measured. What a user loses if these fail: a variant that is best there, and is
//! never tried.

use std::time::Duration;

use pointsman::{Backend, FakeClock, Selector, Workload};

use super::{Call, FOUR, World, is_trial, noisy};

#[test]
fn a_dear_launch_keeps_nobody_from_large_workloads() {
    // The vectors lose on all that is small, by the time it takes to begin; then large calls come.
    let workload = |n: f64| Workload::new([n]).flops(2.0 * n).bytes(8.0 * n);
    let late = |seed: u64| {
        let mut world = World::new(seed);
        let mut call = |n: f64| {
            let costs = [100.0 + n, 10_000.0 + 0.1 * n];
            world.call(&workload(n), &["scalar", "simd"], &costs, noisy)
        };
        for n in [16.0, 50.0, 200.0, 700.0] {
            (0..200).for_each(|_| _ = call(n));
        }
        (0..30).filter(|_| call(1e6).variant == 0).count()
    };
    let late: Vec<usize> = (1..=20).map(late).collect();
    // In 14 of 400 seeds it took more than three calls.
    let soon = late.iter().filter(|calls| **calls <= 3).count();
    assert!(soon >= 18, "{late:?}");
    assert!(late.iter().all(|calls| *calls <= 10), "{late:?}");
}

#[test]
fn one_dear_measurement_keeps_nobody_from_small_workloads() {
    // The first call that counts for the plain variant is a large one; what it took there is no launch.
    for seed in 1..=20 {
        let mut world = World::new(seed);
        let mut call = |n: f64| {
            let costs = [1_000.0 + 100.0 * n, 1e6 + n];
            let workload = Workload::new([n]).bytes(8.0 * n);
            world.call(&workload, &["plain", "heavy"], &costs, |_| 1.0)
        };
        (0..100).for_each(|_| _ = (call(16.0), call(1e6)));
        let late: Vec<(Call, Call)> = (0..20).map(|_| (call(16.0), call(1e6))).collect();
        let right = late
            .iter()
            .filter(|(s, l)| (s.variant, l.variant) == (0, 1));
        assert!(right.count() >= 19, "seed {seed}");
    }
}

/// What NumPy, Numba and JAX took for one function of so many numbers on a machine of ours, in microseconds.
const LIBRARIES: [(u32, [f64; 3]); 10] = [
    (16, [14.5, 5.6, 32.5]),
    (54, [15.4, 7.0, 34.9]),
    (188, [17.8, 9.4, 84.8]),
    (645, [20.5, 18.0, 89.3]),
    (2_211, [25.3, 44.3, 86.4]),
    (7_584, [34.5, 130.9, 101.1]),
    (26_007, [66.8, 448.6, 153.7]),
    (89_180, [187.2, 1_513.5, 264.6]),
    (305_798, [497.4, 5_087.5, 434.2]),
    (1_048_576, [1_799.8, 17_415.8, 1_034.2]),
];

#[test]
fn a_dear_trial_is_approached_in_steps() {
    // The third loses on all that is cheap, by far where it has its first tries, and is the best on the dearest workload,
    // which is half of all the time.
    let found = |seed: u64| {
        let mut world = World::new(seed);
        let mut served = |_: &u32| {
            let (n, costs) = LIBRARIES[(world.script.uniform() * 10.0) as usize];
            let workload = Workload::new([n]).bytes(4 * u64::from(n));
            let call = world.call(&workload, &FOUR[..3], &costs.map(|us| 1e3 * us), noisy);
            n == 1_048_576 && call.variant == 2 && !is_trial(&call)
        };
        (0..10_000).find(|i| served(i)).unwrap_or(10_000)
    };
    let mut found: Vec<u32> = (1..=60).map(found).collect();
    found.sort_unstable();
    // Calls of all sizes until it serves there. Without steps, one in ten takes 1,500 or more, and the slowest 2,800.
    let (slow, slowest) = (found[54], found[59]);
    assert!(slow <= 1_000 && slowest <= 1_600, "{found:?}");
}

#[test]
fn one_measurement_next_door_is_heard_before_much_else_is_new() {
    let both = ["a", "b"];
    let late = |seed: u64| {
        let mut world = World::new(seed);
        // Much is known of what is small, where b takes 100 times as long, and the model rests on it.
        for n in (4..12).flat_map(|octave| [4u32, 5, 6, 7].map(|eighths| eighths << octave)) {
            let costs = [10.0 * f64::from(n), 1e3 * f64::from(n)];
            for _ in 0..12 {
                world.call(&Workload::new([n]), &both, &costs, noisy);
            }
        }
        let large = Workload::new([1 << 20]);
        let call = |world: &mut World| world.call(&large, &both, &[1e7, 5e5], noisy).variant;
        assert_eq!((0..8).map(|_| call(&mut world)).sum::<usize>(), 0);
        world.call(&Workload::new([9 << 17]), &["b"], &[5e5], noisy);
        (0..20).position(|_| call(&mut world) == 1).unwrap_or(20)
    };
    let late: Vec<usize> = (1..=10).map(late).collect();
    assert!(late.iter().all(|calls| *calls <= 2), "{late:?}");
}

#[test]
fn a_cost_model_that_knows_no_difference_keeps_nobody_from_being_tried() {
    let clock = FakeClock::new();
    let builder = Selector::builder().in_memory().ignore_environment();
    let selector = builder.clock(clock.clone()).build().unwrap();
    let takes = |ns: u64| {
        let clock = clock.clone();
        move |_: &mut &usize| clock.advance(Duration::from_nanos(ns))
    };
    let workload = |n: &usize| Workload::new([*n]).flops(2 * n).bytes(8 * n);
    let op = selector
        .function("op", workload)
        .reference("a", Backend::Scalar, takes(1_000_000))
        .variant("b", Backend::Scalar, takes(1_000))
        .variant("c", Backend::Scalar, takes(100))
        .build()
        .unwrap();
    (0..50).for_each(|_| op.run(&1000));
    let explanation = op.explain(workload(&1000));
    assert_eq!(explanation.chosen, "c", "{explanation}");
}
