//! Variants, conditions and estimates that panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use pointsman::{Backend, FakeClock, Workload};

use crate::common::{Log, MICRO, numbers, selector, takes, truth};
use crate::{Broken, Switch};

#[test]
fn f24_a_panic_is_caught_and_the_variant_quarantined_for_its_time() {
    let clock = FakeClock::new();
    let log = Log::default();
    let panics = Switch::default();
    let body = takes(&clock, &log, "fast", 10 * MICRO);
    let switch = panics.clone();
    let op = numbers(&selector(&clock), "op")
        .reference(
            "plain",
            Backend::Scalar,
            takes(&clock, &log, "plain", 40 * MICRO),
        )
        .variant("fast", Backend::Simd, move |n| {
            let value = body(n);
            assert!(!switch.is_on(), "boom at {n}");
            value
        })
        .build()
        .unwrap();
    for _ in 0..300 {
        op.run(&64);
    }
    log.take();
    panics.set(true);
    for _ in 0..300 {
        assert_eq!(op.run(&64), truth(64));
    }
    assert_eq!(log.count("fast"), 1, "one panic is enough");
    let stats = op.stats();
    assert_eq!((stats.failures, stats.quarantines), (1, 1));

    panics.set(false);
    clock.advance(Duration::from_secs(2));
    for _ in 0..300 {
        assert_eq!(op.run(&64), truth(64));
    }
    assert!(log.count("fast") > 200, "it is back: {}", log.count("fast"));
}

#[test]
fn f24_sixteen_threads_survive_a_variant_that_panics() {
    let clock = FakeClock::new();
    let log = Log::default();
    let body = takes(&clock, &log, "fast", MICRO);
    let calls = AtomicUsize::new(0);
    let op = numbers(&selector(&clock), "op")
        .reference(
            "plain",
            Backend::Scalar,
            takes(&clock, &log, "plain", 9 * MICRO),
        )
        .variant("fast", Backend::Simd, move |n| {
            assert!(calls.fetch_add(1, SeqCst) % 50 != 49, "every fiftieth call");
            body(n)
        })
        .build()
        .unwrap();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for n in 0..500usize {
                    assert_eq!(op.run(&n), truth(n));
                    if n % 100 == 0 {
                        clock.advance(Duration::from_secs(4_000)); // past every quarantine
                    }
                }
            });
        }
    });
    let stats = op.stats();
    assert!(stats.quarantines >= 1, "{stats}");
    // Every lock is still usable.
    assert!(op.explain(Workload::new([64])).to_string().contains("fast"));
    op.reset();
    assert_eq!(op.run(&5), truth(5));
}

#[test]
fn f24_one_incident_on_sixteen_threads_is_one_quarantine() {
    // A device that is lost fails every call that is under way. Its return must be found as soon
    // as after one failure, not hours later.
    let clock = FakeClock::new();
    let log = Log::default();
    let lost = Switch::default();
    let under_way = Arc::new(AtomicUsize::new(0));
    let body = takes(&clock, &log, "device", 10 * MICRO);
    let (switch, all) = (lost.clone(), under_way.clone());
    let op = numbers(&selector(&clock), "op")
        .reference(
            "plain",
            Backend::Scalar,
            takes(&clock, &log, "plain", 900 * MICRO),
        )
        .variant("device", Backend::Gpu(0), move |n| {
            if switch.is_on() {
                all.fetch_add(1, SeqCst);
                let start = Instant::now();
                while all.load(SeqCst) < 16 && start.elapsed() < Duration::from_secs(10) {
                    std::thread::yield_now();
                }
                panic!("device lost");
            }
            body(n)
        })
        .build()
        .unwrap();
    for _ in 0..300 {
        op.run(&64);
    }
    assert_eq!(op.explain(Workload::new([64])).chosen, "device");
    lost.set(true);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            // In a settled cell trials of the slow reference do not fit the budget.
            scope.spawn(|| assert_eq!(op.run(&64), truth(64)));
        }
    });
    lost.set(false);
    log.take();
    clock.advance(Duration::from_secs(3));
    for _ in 0..200 {
        op.run(&64);
    }
    assert!(
        log.count("device") > 100,
        "back after 3 s: {}",
        op.explain(Workload::new([64]))
    );
}

#[test]
fn f25_a_panic_in_when_means_not_eligible() {
    let clock = FakeClock::new();
    let log = Log::default();
    let panics = Switch::default();
    let switch = panics.clone();
    let op = numbers(&selector(&clock), "op")
        .reference(
            "plain",
            Backend::Scalar,
            takes(&clock, &log, "plain", 40 * MICRO),
        )
        .variant(
            "fast",
            Backend::Simd,
            takes(&clock, &log, "fast", 10 * MICRO),
        )
        .when(move |n| {
            assert!(!switch.is_on(), "cannot say");
            **n < 1_000
        })
        .build()
        .unwrap();
    for _ in 0..300 {
        op.run(&64);
    }
    log.take();
    panics.set(true);
    let plan = op.plan(Workload::new([64]));
    for _ in 0..300 {
        assert_eq!(op.run(&64), truth(64));
        assert_eq!(plan.run(&64), truth(64));
    }
    assert_eq!(log.count("fast"), 0);
    assert_eq!(op.stats().failures, 0, "a condition is no attempt");
    panics.set(false);
    for _ in 0..300 {
        op.run(&64);
    }
    assert!(log.count("fast") > 200, "and is eligible again at once");
}

#[test]
fn f25_a_panic_in_the_memory_estimate_means_not_eligible() {
    let clock = FakeClock::new();
    let log = Log::default();
    let op = numbers(&selector(&clock), "op")
        .reference(
            "plain",
            Backend::Scalar,
            takes(&clock, &log, "plain", 40 * MICRO),
        )
        .variant(
            "fast",
            Backend::Simd,
            takes(&clock, &log, "fast", 10 * MICRO),
        )
        .memory(|_| panic!("cannot say"))
        .build()
        .unwrap();
    let output = catch_unwind(AssertUnwindSafe(|| op.run(&64)));
    assert_eq!(
        output.ok(),
        Some(truth(64)),
        "the reference needs no estimate"
    );
    assert_eq!(log.take(), ["plain"]);
}

#[test]
fn f25_a_panic_in_workload_reaches_the_caller_and_harms_nothing() {
    let clock = FakeClock::new();
    let log = Log::default();
    let op = selector(&clock)
        .function("op", |n: &usize| {
            if *n == 13 {
                std::panic::panic_any(Broken("workload"));
            }
            Workload::new([*n])
        })
        .reference(
            "plain",
            Backend::Scalar,
            takes(&clock, &log, "plain", 40 * MICRO),
        )
        .variant(
            "fast",
            Backend::Simd,
            takes(&clock, &log, "fast", 10 * MICRO),
        )
        .build()
        .unwrap();
    for n in 0..500usize {
        let result = catch_unwind(AssertUnwindSafe(|| op.run(&n)));
        match result {
            Ok(value) => assert_eq!(value, truth(n)),
            Err(payload) => {
                assert_eq!(n, 13);
                assert_eq!(payload.downcast_ref(), Some(&Broken("workload")));
            }
        }
    }
    let stats = op.stats();
    assert_eq!((stats.calls, stats.failures), (499, 0));
    assert_eq!(log.take().len(), 499);
}

#[test]
fn f28_the_panic_of_the_reference_reaches_the_caller_unchanged() {
    let clock = FakeClock::new();
    let log = Log::default();
    let panics = Switch::default();
    let (body, switch) = (takes(&clock, &log, "plain", 300), panics.clone());
    let op = numbers(&selector(&clock), "op")
        .reference("plain", Backend::Scalar, move |n| {
            if switch.is_on() {
                std::panic::panic_any(Broken("plain"));
            }
            body(n)
        })
        .build()
        .unwrap();
    let plan = op.plan(Workload::new([64]));
    let check = |calls: usize| {
        // First through the learner, later on the fast way.
        (0..calls).for_each(|_| _ = op.run(&64));
        panics.set(true);
        for _ in 0..3 {
            let payload = catch_unwind(AssertUnwindSafe(|| op.run(&64))).unwrap_err();
            assert_eq!(payload.downcast_ref(), Some(&Broken("plain")));
            let payload = catch_unwind(AssertUnwindSafe(|| plan.run(&64))).unwrap_err();
            assert_eq!(payload.downcast_ref(), Some(&Broken("plain")));
        }
        panics.set(false);
        assert_eq!(op.run(&64), truth(64));
        assert_eq!(plan.run(&64), truth(64));
        assert_eq!(op.stats().quarantines, 0, "nobody is behind the reference");
    };
    check(0);
    check(5_000);
}
