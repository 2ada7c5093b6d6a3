//! Variants that return errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use pointsman::{Backend, Failure, FakeClock, Reason, Workload};

use crate::common::{Log, MICRO, numbers, selector, spend, takes, truth};
use crate::{Broken, Switch};

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
