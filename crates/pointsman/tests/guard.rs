//! Variants that fail, panic or hang: somebody else serves, and the caller never pays with a wrong
//! result or a dead lock. Rows 23 to 26 and 28 to 30 of the table of faults.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use common::{Log, MICRO, numbers, selector, spend, takes, truth};
use pointsman::{Backend, Cap, Failure, FakeClock, Machine, Reason, Workload};

/// A switch that tests flip while ops run.
#[derive(Clone, Default)]
struct Switch(Arc<AtomicBool>);

impl Switch {
    fn set(&self, on: bool) {
        self.0.store(on, SeqCst);
    }

    fn is_on(&self) -> bool {
        self.0.load(SeqCst)
    }
}

#[derive(Debug, PartialEq)]
struct Broken(&'static str);

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is broken", self.0)
    }
}

impl std::error::Error for Broken {}

#[test]
fn f23_an_error_goes_to_the_next_best_and_in_the_end_to_the_reference() {
    let clock = FakeClock::new();
    let log = Log::default();
    let (first_fails, second_fails) = (Switch::default(), Switch::default());
    let failing = |who: &'static str, ns: u64, switch: &Switch| {
        let body = takes(&clock, &log, who, ns);
        let switch = switch.clone();
        move |n: &mut &usize| {
            let value = body(n);
            if switch.is_on() {
                Err(Broken(who))
            } else {
                Ok(value)
            }
        }
    };
    let op = numbers(&selector(&clock), "op")
        .reference(
            "plain",
            Backend::Scalar,
            takes(&clock, &log, "plain", 40 * MICRO),
        )
        .try_variant(
            "fast",
            Backend::Simd,
            failing("fast", 10 * MICRO, &first_fails),
        )
        .try_variant(
            "middle",
            Backend::Threads,
            failing("middle", 20 * MICRO, &second_fails),
        )
        .build()
        .unwrap();
    for _ in 0..300 {
        assert_eq!(op.run(&64), truth(64));
    }
    assert_eq!(op.explain(Workload::new([64])).chosen, "fast");

    log.take();
    first_fails.set(true);
    let told = op.run_explained(&64);
    assert_eq!(told.output, truth(64));
    assert_eq!(log.take(), ["fast", "middle"]);
    assert_eq!(told.explanation.chosen, "middle");
    assert_eq!(told.explanation.reason, Reason::Fallback);
    assert_eq!(
        told.explanation.failed,
        [("fast".to_owned(), "fast is broken".to_owned())]
    );
    assert_eq!(op.stats().failures, 1);

    second_fails.set(true);
    let told = op.run_explained(&64);
    assert_eq!(told.output, truth(64));
    assert_eq!(log.take(), ["fast", "middle", "plain"]);
    assert_eq!(told.explanation.chosen, "plain");
    assert_eq!(told.explanation.failed.len(), 2);
    assert_eq!(op.stats().failures, 3);
    let report = op.explain(Workload::new([64]));
    let failures = |name: &str| {
        report
            .variants
            .iter()
            .find(|v| v.name == name)
            .unwrap()
            .failures
    };
    assert_eq!(
        (failures("fast"), failures("middle"), failures("plain")),
        (2, 1, 0)
    );
}

#[test]
fn f23_a_published_choice_that_fails_falls_back_within_the_same_call() {
    let clock = FakeClock::new();
    let log = Log::default();
    let fails = Switch::default();
    let body = takes(&clock, &log, "fast", 200);
    let switch = fails.clone();
    let op = numbers(&selector(&clock), "op")
        .reference("plain", Backend::Scalar, takes(&clock, &log, "plain", 900))
        .try_variant("fast", Backend::Simd, move |n| {
            let value = body(n);
            if switch.is_on() {
                Err(Broken("fast"))
            } else {
                Ok(value)
            }
        })
        .build()
        .unwrap();
    for _ in 0..5_000 {
        op.run(&64);
    }
    fails.set(true);
    log.take();
    for _ in 0..1_000 {
        assert_eq!(op.run(&64), truth(64));
    }
    assert!(log.count("fast") <= 2, "two errors in a row are enough");
    assert_eq!(log.count("plain"), 1_000);
    assert_eq!(op.stats().failures, log.count("fast") as u64);
}

#[test]
fn f23_each_attempt_is_in_the_error_when_all_fail() {
    let clock = FakeClock::new();
    let log = Log::default();
    let fails = Switch::default();
    let failing = |who: &'static str, ns: u64| {
        let (body, switch) = (takes(&clock, &log, who, ns), fails.clone());
        move |n: &mut &usize| {
            let value = body(n);
            if switch.is_on() {
                Err(Broken(who))
            } else {
                Ok(value)
            }
        }
    };
    let (body, switch) = (takes(&clock, &log, "panics", 20 * MICRO), fails.clone());
    let op = numbers(&selector(&clock), "op")
        .try_reference("plain", Backend::Scalar, failing("plain", 40 * MICRO))
        .try_variant("gpu", Backend::Gpu(0), failing("gpu", 10 * MICRO))
        .variant("panics", Backend::Simd, move |n| {
            assert!(!switch.is_on(), "out of luck");
            body(n)
        })
        .build()
        .unwrap();
    for _ in 0..300 {
        assert_eq!(op.run(&64).unwrap(), truth(64));
    }
    fails.set(true);
    let error = op.run(&64).unwrap_err();
    let told: Vec<(&str, String)> = error
        .attempts()
        .iter()
        .map(|a| (a.variant.as_str(), a.failure.to_string()))
        .collect();
    let expected = [
        ("gpu", "gpu is broken"),
        ("panics", "panicked: out of luck"),
        ("plain", "plain is broken"),
    ];
    assert_eq!(told, expected.map(|(name, why)| (name, why.to_owned())));
    assert!(matches!(error.attempts()[1].failure, Failure::Panic(_)));
    assert_eq!(error.attempts()[0].backend, Backend::Gpu(0));
    for (name, why) in expected {
        assert!(error.to_string().contains(name) && error.to_string().contains(why));
    }
    assert_eq!(op.stats().failures, 3);
}

#[test]
fn f32_a_variant_that_fails_at_some_sizes_is_not_tried_there_on_every_call() {
    // As a GPU does that is out of memory for large calls, and serves the small ones in between.
    let clock = FakeClock::new();
    let log = Log::default();
    let refused = Arc::new(AtomicUsize::new(0));
    let body = takes(&clock, &log, "gpu", 5 * MICRO);
    let counted = refused.clone();
    let op = numbers(&selector(&clock), "op")
        .reference(
            "plain",
            Backend::Scalar,
            takes(&clock, &log, "plain", 50 * MICRO),
        )
        .try_variant("gpu", Backend::Gpu(0), move |n| {
            if **n >= 1_000_000 {
                counted.fetch_add(1, SeqCst);
                return Err(Broken("gpu"));
            }
            Ok(body(n))
        })
        .build()
        .unwrap();
    for _ in 0..1_000 {
        assert_eq!(op.run(&1_000), truth(1_000));
        assert_eq!(op.run(&4_000_000), truth(4_000_000));
    }
    let refused = refused.load(SeqCst);
    assert!(
        refused <= 100,
        "{refused} of 1,000 large calls were tried on a variant that cannot"
    );
    assert!(
        log.count("gpu") >= 800,
        "small calls are still served by the fast one"
    );
}

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
fn f26_a_variant_that_hangs_once_is_counted_and_never_wins() {
    for at in [0, 1, 2, 5, 20] {
        let clock = FakeClock::new();
        let log = Log::default();
        let body = takes(&clock, &log, "hangs", 60 * MICRO);
        let (calls, time) = (AtomicUsize::new(0), clock.clone());
        let op = numbers(&selector(&clock), "op")
            .reference(
                "plain",
                Backend::Scalar,
                takes(&clock, &log, "plain", 40 * MICRO),
            )
            .variant("hangs", Backend::Simd, move |n| {
                if calls.fetch_add(1, SeqCst) == at {
                    spend(&time, 10_000_000_000);
                }
                body(n)
            })
            .build()
            .unwrap();
        let mut won = 0;
        for call in 0..2_000 {
            let told = op.run_explained(&64).explanation;
            let trial = matches!(told.reason, Reason::Trial | Reason::FirstTry);
            // Before anything is measured, anybody may be asked.
            won += u32::from(told.chosen == "hangs" && !trial && call >= 20);
        }
        assert_eq!(won, 0, "hangs at its call {at}: chosen, and not as a trial");
        assert_eq!(op.explain(Workload::new([64])).chosen, "plain");
        let stats = op.stats();
        if log.count("hangs") > at {
            let booked = stats.trial_ns + stats.first_try_excess_ns + stats.served_ns;
            assert!(booked >= 10e9, "the hang is counted: {stats}");
        }
    }
}

#[test]
fn f26_a_variant_that_always_hangs_is_hardly_ever_tried() {
    let clock = FakeClock::new();
    let log = Log::default();
    let op = numbers(&selector(&clock), "op")
        .reference(
            "plain",
            Backend::Scalar,
            takes(&clock, &log, "plain", 40 * MICRO),
        )
        .variant(
            "hangs",
            Backend::Simd,
            takes(&clock, &log, "hangs", 10_000_000_000),
        )
        .build()
        .unwrap();
    for _ in 0..20_000 {
        op.run(&64);
    }
    assert!(
        log.count("hangs") <= 4,
        "{} tries of 10 s each",
        log.count("hangs")
    );
}

#[test]
fn f26_the_best_variant_wins_again_after_it_hung_once() {
    let clock = FakeClock::new();
    let log = Log::default();
    let hang = Switch::default();
    let (body, switch, time) = (
        takes(&clock, &log, "fast", 10 * MICRO),
        hang.clone(),
        clock.clone(),
    );
    let op = numbers(&selector(&clock), "op")
        .reference(
            "plain",
            Backend::Scalar,
            takes(&clock, &log, "plain", 40 * MICRO),
        )
        .variant("fast", Backend::Simd, move |n| {
            if switch.0.swap(false, SeqCst) {
                spend(&time, 10_000_000_000);
            }
            body(n)
        })
        .build()
        .unwrap();
    for _ in 0..300 {
        op.run(&64);
    }
    hang.set(true);
    op.run_explained(&64); // timed for certain
    log.take();
    for _ in 0..200 {
        op.run(&64);
    }
    assert!(log.count("fast") >= 190, "{} of 200", log.count("fast"));
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

#[test]
fn f28_the_error_of_the_reference_reaches_the_caller_unchanged() {
    let clock = FakeClock::new();
    let fails = Switch::default();
    let (switch, time) = (fails.clone(), clock.clone());
    let op = numbers(&selector(&clock), "op")
        .try_reference("plain", Backend::Scalar, move |n| {
            spend(&time, 300);
            if switch.is_on() {
                Err(Broken("plain"))
            } else {
                Ok(truth(**n))
            }
        })
        .build()
        .unwrap();
    for calls in [0, 5_000] {
        for _ in 0..calls {
            assert_eq!(op.run(&64).unwrap(), truth(64));
        }
        fails.set(true);
        for _ in 0..3 {
            let error = op.run(&64).unwrap_err();
            assert_eq!(error.downcast_ref(), Some(&Broken("plain")));
            assert_eq!(error.attempts().len(), 1);
            let source = std::error::Error::source(&error).unwrap();
            assert_eq!(source.downcast_ref(), Some(&Broken("plain")));
        }
        fails.set(false);
        assert_eq!(op.run(&64).unwrap(), truth(64));
        assert_eq!(op.stats().quarantines, 0);
    }
}

#[test]
fn f28_the_error_of_the_reference_is_found_also_after_a_variant_failed_first() {
    // The same bad arguments must look the same to the caller, whoever was tried before.
    #[derive(Debug)]
    struct DeviceLost;
    impl std::fmt::Display for DeviceLost {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("device lost")
        }
    }
    impl std::error::Error for DeviceLost {}

    let clock = FakeClock::new();
    let log = Log::default();
    let fails = Switch::default();
    let (plain, gpu) = (
        takes(&clock, &log, "plain", 40 * MICRO),
        takes(&clock, &log, "gpu", 10 * MICRO),
    );
    let (for_plain, for_gpu) = (fails.clone(), fails.clone());
    let op = numbers(&selector(&clock), "op")
        .try_reference("plain", Backend::Scalar, move |n| {
            let value = plain(n);
            if for_plain.is_on() {
                Err(Broken("plain"))
            } else {
                Ok(value)
            }
        })
        .try_variant("gpu", Backend::Gpu(0), move |n| {
            let value = gpu(n);
            if for_gpu.is_on() {
                Err(DeviceLost)
            } else {
                Ok(value)
            }
        })
        .build()
        .unwrap();
    for _ in 0..300 {
        op.run(&64).unwrap();
    }
    fails.set(true);
    for call in 0..4 {
        let error = op.run(&64).unwrap_err();
        let found: Option<&Broken> = error.downcast_ref();
        assert_eq!(found, Some(&Broken("plain")), "call {call}: {error}");
    }
}

#[test]
fn f29_a_winner_that_may_not_serve_this_call_gives_way() {
    let clock = FakeClock::new();
    let log = Log::default();
    let body = |who: &'static str, ns: u64| {
        let (clock, log) = (clock.clone(), log.clone());
        move |call: &mut &(usize, usize)| {
            log.note(who);
            spend(&clock, ns);
            assert!(who != "aligned" || call.0.is_multiple_of(32), "SIGSEGV");
            truth(call.1)
        }
    };
    let op = selector(&clock)
        .function("op", |call: &(usize, usize)| {
            Workload::new([call.1]).aligned(call.0)
        })
        .reference("plain", Backend::Scalar, body("plain", 4_000))
        .variant("aligned", Backend::Simd, body("aligned", 1_000))
        .alignment(32)
        .variant("any", Backend::Simd, body("any", 2_000))
        .build()
        .unwrap();
    for _ in 0..1_000 {
        op.run(&(4096, 64));
        op.run(&(4096 + 16, 64));
    }
    log.take();
    for _ in 0..1_000 {
        assert_eq!(op.run(&(4096, 64)), truth(64));
    }
    assert!(log.count("aligned") > 950);
    log.take();
    for _ in 0..1_000 {
        assert_eq!(op.run(&(4096 + 16, 64)), truth(64));
    }
    assert_eq!(log.count("aligned"), 0);
    assert!(log.count("any") > 900, "the best of those that may");
    let stats = op.stats();
    assert_eq!(stats.failures, 0);
}

#[test]
fn f30_with_every_capability_masked_the_reference_serves() {
    let clock = FakeClock::new();
    let log = Log::default();
    let bare = Machine::detect()
        .features
        .into_iter()
        .fold(Machine::detect(), |machine, cap| machine.without(cap));
    let selector = common::builder(&clock).machine(bare).build().unwrap();
    let op = numbers(&selector, "op")
        .reference("plain", Backend::Scalar, takes(&clock, &log, "plain", 900))
        .variant("avx2", Backend::Simd, takes(&clock, &log, "avx2", 10))
        .requires(Cap::Avx2)
        .variant("neon", Backend::Simd, takes(&clock, &log, "neon", 10))
        .requires(Cap::Neon)
        .variant("gpu", Backend::Gpu(0), takes(&clock, &log, "gpu", 10))
        .requires(Cap::Gpu(0))
        .build()
        .unwrap();
    let plan = op.plan(Workload::new([64]));
    for _ in 0..1_000 {
        assert_eq!(op.run(&64), truth(64));
        assert_eq!(plan.run(&64), truth(64));
    }
    assert_eq!(log.count("plain"), 2_000);
    let told = op.explain(Workload::new([64]));
    assert_eq!(
        (told.chosen.as_str(), told.reason),
        ("plain", Reason::OnlyEligible)
    );
    for (name, cap) in [("avx2", "avx2"), ("neon", "neon"), ("gpu", "gpu:0")] {
        let report = told.variants.iter().find(|v| v.name == name).unwrap();
        let why = report.why_not.as_deref().unwrap();
        assert!(
            why.contains("this machine has no") && why.contains(cap),
            "{why}"
        );
    }
}
