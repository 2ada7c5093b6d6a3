//! Plans: the hot loop must be as safe and as well informed as a plain call.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use common::{Log, MICRO, numbers, selector, spend, takes, truth};
use pointsman::{Backend, FakeClock, Workload};

#[test]
fn a_plan_serves_from_the_best_and_explains_itself() {
    let clock = FakeClock::new();
    let log = Log::default();
    let op = numbers(&selector(&clock), "op")
        .reference("plain", Backend::Scalar, takes(&clock, &log, "plain", 900))
        .variant("fast", Backend::Simd, takes(&clock, &log, "fast", 200))
        .build()
        .unwrap();
    let plan = op.plan(Workload::new([64]));
    for _ in 0..5_000 {
        assert_eq!(plan.run(&64), truth(64));
    }
    assert!(log.count("fast") > 4_800, "{}", log.count("fast"));
    assert_eq!(plan.workload(), &Workload::new([64]));
    assert_eq!(plan.explain().chosen, "fast");
    assert_eq!(plan.clone().run(&64), truth(64));
}

#[test]
fn a_plan_used_alone_notices_a_4_times_step() {
    for (fast, slow) in [
        (300u64, 600u64),
        (3 * MICRO, 6 * MICRO),
        (100 * MICRO, 200 * MICRO),
    ] {
        let clock = FakeClock::new();
        let log = Log::default();
        let cost = Arc::new(AtomicU64::new(fast));
        let (time, noted, now) = (clock.clone(), log.clone(), cost.clone());
        let op = numbers(&selector(&clock), "op")
            .reference(
                "steady",
                Backend::Scalar,
                takes(&clock, &log, "steady", slow),
            )
            .variant("drifts", Backend::Simd, move |n| {
                noted.note("drifts");
                spend(&time, now.load(SeqCst));
                truth(**n)
            })
            .build()
            .unwrap();
        let plan = op.plan(Workload::new([64]));
        for _ in 0..10_000 {
            plan.run(&64);
        }
        assert_eq!(plan.explain().chosen, "drifts");
        cost.store(4 * fast, SeqCst);
        log.take();
        for _ in 0..100_000 {
            plan.run(&64);
        }
        let stayed = log.count("drifts");
        assert!(
            stayed < 50_000,
            "{fast} ns: {stayed} of 100,000 calls on what became slow"
        );
        assert_eq!(plan.explain().chosen, "steady", "{fast} ns");
    }
}

#[test]
fn a_plan_follows_quarantine_at_once_and_comes_back() {
    let clock = FakeClock::new();
    let log = Log::default();
    let panics = Arc::new(AtomicBool::new(false));
    let (body, switch) = (takes(&clock, &log, "fast", 200), panics.clone());
    let op = numbers(&selector(&clock), "op")
        .reference("plain", Backend::Scalar, takes(&clock, &log, "plain", 900))
        .variant("fast", Backend::Simd, move |n| {
            let value = body(n);
            assert!(!switch.load(SeqCst), "boom");
            value
        })
        .build()
        .unwrap();
    let (plan, other) = (op.plan(Workload::new([64])), op.plan(Workload::new([64])));
    for _ in 0..5_000 {
        plan.run(&64);
        other.run(&64);
    }
    panics.store(true, SeqCst);
    log.take();
    for _ in 0..1_000 {
        assert_eq!(plan.run(&64), truth(64));
        assert_eq!(other.run(&64), truth(64));
    }
    assert_eq!(log.count("fast"), 1, "both plans hear of one panic");
    panics.store(false, SeqCst);
    clock.advance(Duration::from_secs(2));
    log.take();
    for _ in 0..20_000 {
        plan.run(&64);
    }
    assert!(
        log.count("fast") > 10_000,
        "{} of 20,000 after its time",
        log.count("fast")
    );
}

#[test]
fn a_plan_asks_the_condition_on_every_run() {
    let clock = FakeClock::new();
    let log = Log::default();
    let body = |who: &'static str, ns: u64| {
        let (clock, log) = (clock.clone(), log.clone());
        move |call: &mut &(usize, bool)| {
            assert!(who != "picky" || call.1, "served against its condition");
            log.note(who);
            spend(&clock, ns);
            truth(call.0)
        }
    };
    let op = selector(&clock)
        .function("op", |call: &(usize, bool)| Workload::new([call.0]))
        .reference("plain", Backend::Scalar, body("plain", 900))
        .variant("picky", Backend::Simd, body("picky", 200))
        .when(|call| call.1)
        .build()
        .unwrap();
    let plan = op.plan(Workload::new([64]));
    for i in 0..20_000u32 {
        assert_eq!(plan.run(&(64, i % 3 != 0)), truth(64));
    }
    assert!(log.count("picky") > 12_000, "{}", log.count("picky"));
    assert_eq!(op.stats().failures, 0);
}

#[test]
fn a_plan_counts_each_call_once() {
    for (calls, ns) in [
        (100u64, 200),
        (1_000, 200),
        (777, 90 * MICRO),
        (10_001, 2 * MICRO),
    ] {
        let clock = FakeClock::new();
        let log = Log::default();
        let op = numbers(&selector(&clock), "op")
            .reference(
                "plain",
                Backend::Scalar,
                takes(&clock, &log, "plain", 3 * ns),
            )
            .variant("fast", Backend::Simd, takes(&clock, &log, "fast", ns))
            .build()
            .unwrap();
        let plan = op.plan(Workload::new([64]));
        for _ in 0..calls {
            plan.run(&64);
        }
        assert_eq!(op.stats().calls, calls, "{ns} ns");
    }
}

#[test]
fn a_plan_books_the_time_it_served() {
    // `served_ns` is an estimate from the timed calls; it feeds the budget, so a factor matters.
    let clock = FakeClock::new();
    let log = Log::default();
    let op = numbers(&selector(&clock), "op")
        .reference("plain", Backend::Scalar, takes(&clock, &log, "plain", 300))
        .build()
        .unwrap();
    let plan = op.plan(Workload::new([64]));
    for _ in 0..3_000_000 {
        plan.run(&64);
    }
    let (served, real) = (op.stats().served_ns, 3_000_000.0 * 300.0);
    let ratio = served / real;
    assert!(
        (0.5..2.0).contains(&ratio),
        "booked {ratio:.3} of the time served"
    );
}

#[test]
fn one_plan_may_be_shared_by_threads() {
    let clock = FakeClock::new();
    let log = Log::default();
    let op = numbers(&selector(&clock), "op")
        .reference("plain", Backend::Scalar, takes(&clock, &log, "plain", 900))
        .variant("fast", Backend::Simd, takes(&clock, &log, "fast", 200))
        .build()
        .unwrap();
    let plan = op.plan(Workload::new([64]));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..5_000).for_each(|_| assert_eq!(plan.run(&64), truth(64))));
        }
    });
    assert_eq!(log.take().len(), 20_000);
}
