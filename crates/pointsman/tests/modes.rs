//! Frozen and reference mode: nothing is tried, nothing changes, and the same store gives the same
//! decisions. Promise P6 and row 35 of the table of faults.

mod common;

use std::time::Duration;

use common::{Log, MICRO, builder, numbers, spend, takes, truth};
use pointsman::store::{MemoryStore, Store};
use pointsman::{Backend, FakeClock, Handle, Mode, Outcome, Reason, Selector, Workload};

const SECONDS_10: Duration = Duration::from_secs(10);

/// A store that has learned: `fast` below 10,000, `wide` above.
fn taught() -> MemoryStore {
    let store = MemoryStore::new();
    let clock = FakeClock::new();
    let selector = builder(&clock).store(store.clone()).build().unwrap();
    let op = three(&selector, &clock, &Log::default());
    for i in 0..4_000usize {
        op.run(&(100 << (i % 12)));
    }
    selector.flush(SECONDS_10).unwrap();
    store
}

fn three(
    selector: &Selector,
    clock: &FakeClock,
    log: &Log,
) -> Handle<pointsman::Function<usize, usize>> {
    let body = |who: &'static str, launch: u64, per: f64| {
        let (clock, log) = (clock.clone(), log.clone());
        move |n: &mut &usize| {
            log.note(who);
            spend(&clock, launch + (per * **n as f64) as u64);
            truth(**n)
        }
    };
    numbers(selector, "op")
        .reference("plain", Backend::Scalar, body("plain", 20, 4.0))
        .variant("fast", Backend::Simd, body("fast", 50, 1.0))
        .variant("wide", Backend::Threads, body("wide", 8_000, 0.2))
        .build()
        .unwrap()
}

#[test]
fn frozen_makes_no_trials_and_changes_nothing() {
    let store = taught();
    let before = store.clone().load().unwrap();
    assert!(before.entries.len() > 10);
    let clock = FakeClock::new();
    let selector = builder(&clock)
        .store(store.clone())
        .mode(Mode::Frozen)
        .build()
        .unwrap();
    let log = Log::default();
    let op = three(&selector, &clock, &log);
    for i in 0..5_000usize {
        let n = 100 << (i % 14); // also sizes it has never seen
        assert_eq!(op.run(&n), truth(n));
        if i % 500 == 0 {
            let told = op.run_explained(&n).explanation;
            assert_eq!(told.reason, Reason::Frozen);
        }
    }
    let stats = op.stats();
    assert_eq!(
        (stats.trials, stats.first_tries, stats.drifts, stats.checks),
        (0, 0, 0, 0)
    );
    assert_eq!(stats.trial_ns + stats.first_try_excess_ns, 0.0);
    selector.flush(SECONDS_10).unwrap();
    drop((op, selector));
    assert_eq!(store.clone().load().unwrap(), before);
}

#[test]
fn frozen_does_not_follow_a_change_of_costs() {
    let store = taught();
    let clock = FakeClock::new();
    let selector = builder(&clock)
        .store(store)
        .mode(Mode::Frozen)
        .build()
        .unwrap();
    let log = Log::default();
    let op = numbers(&selector, "op")
        .reference("plain", Backend::Scalar, takes(&clock, &log, "plain", 10))
        .variant(
            "fast",
            Backend::Simd,
            takes(&clock, &log, "fast", 1_000 * MICRO),
        )
        .variant("wide", Backend::Threads, takes(&clock, &log, "wide", 10))
        .build()
        .unwrap();
    for _ in 0..5_000 {
        op.run(&800);
    }
    assert_eq!(log.count("fast"), 5_000);
}

/// Who served each of these calls, and why.
fn decisions(mode: Mode, store: &MemoryStore, seed: u64) -> Vec<(String, Reason)> {
    let clock = FakeClock::new();
    let own = MemoryStore::new();
    own.clone().merge(&store.clone().load().unwrap()).unwrap();
    let selector = builder(&clock)
        .store(own)
        .mode(mode)
        .seed(seed)
        .build()
        .unwrap();
    let op = three(&selector, &clock, &Log::default());
    (0..2_000usize)
        .map(|i| {
            let n = 100 << ((i * i) % 13);
            let told = op.run_explained(&n).explanation;
            (told.chosen, told.reason)
        })
        .collect()
}

#[test]
fn the_same_seed_and_store_give_the_same_2000_decisions() {
    let store = taught();
    for mode in [Mode::Learn, Mode::Frozen, Mode::Reference] {
        let first = decisions(mode, &store, 42);
        assert_eq!(first, decisions(mode, &store, 42), "{mode}");
        if mode == Mode::Frozen {
            assert_eq!(
                first,
                decisions(mode, &store, 43),
                "nothing is drawn by lot"
            );
        }
    }
    let empty = MemoryStore::new();
    let first = decisions(Mode::Learn, &empty, 42);
    assert_eq!(first, decisions(Mode::Learn, &empty, 42));
    assert!(first.iter().any(|(_, reason)| *reason == Reason::Trial));
}

#[test]
fn the_same_seed_gives_the_same_decisions_on_the_fast_way() {
    let run = || {
        let clock = FakeClock::new();
        let log = Log::default();
        let op = three(&builder(&clock).build().unwrap(), &clock, &log);
        let plan = op.plan(Workload::new([800]));
        for i in 0..2_000usize {
            op.run(&(100 << (i % 13)));
            plan.run(&800);
        }
        log.take()
    };
    assert_eq!(run(), run());
}

/// A store in which two candidates differ by 2 %, less than what an incumbent is worth.
fn near_tie() -> (FakeClock, MemoryStore) {
    let (clock, store) = (FakeClock::new(), MemoryStore::new());
    let selector = builder(&clock).store(store.clone()).build().unwrap();
    for prefer in [Backend::Scalar, Backend::Simd] {
        for _ in 0..40 {
            let workload = Workload::new([64]).prefer(prefer);
            let decision = selector.decide("op", &workload, &["scalar", "simd"]);
            let took = if decision.variant() == "scalar" {
                10_000
            } else {
                10_200
            };
            spend(&clock, took);
            selector.record(&decision, Outcome::took(Duration::from_nanos(took)));
        }
    }
    selector.flush(SECONDS_10).unwrap();
    (clock, store)
}

#[test]
fn frozen_decisions_do_not_depend_on_the_calls_before() {
    let (clock, store) = near_tie();
    let frozen = || {
        builder(&clock)
            .store(store.clone())
            .mode(Mode::Frozen)
            .build()
            .unwrap()
    };
    let workload = Workload::new([64]);
    let candidates = ["scalar", "simd"];
    let fresh = frozen().decide("op", &workload, &candidates).variant();
    assert_eq!(fresh, "scalar");
    let later = frozen();
    later.decide("op", &workload.prefer(Backend::Simd), &candidates);
    assert_eq!(later.decide("op", &workload, &candidates).variant(), fresh);
}

#[test]
fn frozen_keeps_what_it_knew_whatever_else_is_called() {
    // Thousands of workloads that nobody has seen must not push out the one that somebody has.
    let (clock, store) = (FakeClock::new(), MemoryStore::new());
    let known = Workload::new([100, 100]);
    let candidates = ["slow", "fast"];
    let learning = builder(&clock).store(store.clone()).build().unwrap();
    for _ in 0..200 {
        let decision = learning.decide("op", &known, &candidates);
        let took = if decision.variant() == "fast" {
            10_000
        } else {
            40_000
        };
        spend(&clock, took);
        learning.record(&decision, Outcome::took(Duration::from_nanos(took)));
    }
    learning.flush(SECONDS_10).unwrap();

    let frozen = builder(&clock)
        .store(store)
        .mode(Mode::Frozen)
        .build()
        .unwrap();
    let samples = || -> Vec<u64> {
        let told = frozen.explain("op", &known, &candidates).unwrap();
        assert_eq!(told.chosen, "fast");
        told.variants.iter().map(|v| v.samples).collect()
    };
    frozen.decide("op", &known, &candidates);
    let before = samples();
    assert!(before.iter().all(|n| *n > 0), "{before:?}");
    for i in 0..10_000u32 {
        let workload = Workload::new([1.2f64.powi(i as i32 % 100), 1.2f64.powi(i as i32 / 100)]);
        frozen.decide("op", &workload, &candidates);
    }
    assert_eq!(samples(), before);
}

#[test]
fn frozen_still_keeps_harm_away() {
    let clock = FakeClock::new();
    let log = Log::default();
    let selector = builder(&clock)
        .store(taught())
        .mode(Mode::Frozen)
        .build()
        .unwrap();
    let noted = log.clone();
    let op = numbers(&selector, "op")
        .reference("plain", Backend::Scalar, takes(&clock, &log, "plain", 10))
        .variant("fast", Backend::Simd, move |_| {
            noted.note("fast");
            panic!("broken in this build")
        })
        .build()
        .unwrap();
    for _ in 0..1_000 {
        assert_eq!(op.run(&800), truth(800));
    }
    assert_eq!(
        log.count("fast"),
        1,
        "quarantined for a second that never passes"
    );
    let stats = op.stats();
    assert_eq!((stats.failures, stats.quarantines), (1, 1));
}

#[test]
fn reference_mode_serves_from_the_reference_only() {
    let store = taught();
    let before = store.clone().load().unwrap();
    let clock = FakeClock::new();
    let log = Log::default();
    let selector = builder(&clock)
        .store(store.clone())
        .mode(Mode::Reference)
        .build()
        .unwrap();
    let op = three(&selector, &clock, &log);
    let plan = op.plan(Workload::new([800]));
    for i in 0..1_000usize {
        let n = 100 << (i % 12);
        assert_eq!(op.run(&n), truth(n));
        assert_eq!(plan.run(&n), truth(n));
        let told = op.run_explained(&n).explanation;
        assert_eq!(
            (told.chosen.as_str(), told.reason),
            ("plain", Reason::Reference)
        );
        // Not even a preference counts.
        let decision = selector.decide(
            "op",
            &Workload::new([n]).prefer(Backend::Simd),
            &["plain", "fast"],
        );
        assert_eq!(
            (decision.variant(), decision.reason()),
            ("plain", Reason::Reference)
        );
        selector.record(&decision, Outcome::took(Duration::from_micros(1)));
    }
    assert_eq!(log.count("plain"), 3_000);
    let told = op.explain(Workload::new([800]));
    assert_eq!(told.reason, Reason::Reference);
    assert!(
        told.variants[1]
            .why_not
            .as_deref()
            .unwrap()
            .contains("reference mode")
    );
    selector.flush(SECONDS_10).unwrap();
    assert_eq!(store.clone().load().unwrap(), before);
}

#[test]
fn f35_frozen_and_reference_mode_are_bit_stable() {
    // Summing in another order gives other bits; each mode must give the same ones every time.
    let data: Vec<f32> = (0..10_000u32)
        .map(|i| (i as f32 * 0.7).sin() * 1e3 + 1e-3)
        .collect();
    let run = |mode: Mode| {
        let selector = Selector::builder()
            .in_memory()
            .ignore_environment()
            .mode(mode)
            .build()
            .unwrap();
        let op = selector
            .function("sum", |x: &[f32]| Workload::new([x.len()]))
            .reference("forward", Backend::Scalar, |x| x.iter().sum::<f32>())
            .variant("backward", Backend::Simd, |x| x.iter().rev().sum::<f32>())
            .variant("pairs", Backend::Simd, |x| {
                x.chunks(2)
                    .map(|pair| pair.iter().sum::<f32>())
                    .sum::<f32>()
            })
            .build()
            .unwrap();
        (0..500)
            .map(|i| op.run(&data[..1_000 + 17 * i]).to_bits())
            .collect::<Vec<u32>>()
    };
    for mode in [Mode::Frozen, Mode::Reference] {
        assert_eq!(run(mode), run(mode), "{mode}");
    }
    let plain: Vec<u32> = (0..500)
        .map(|i| data[..1_000 + 17 * i].iter().sum::<f32>().to_bits())
        .collect();
    assert_eq!(run(Mode::Reference), plain);
}
