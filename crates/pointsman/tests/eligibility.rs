//! Who may serve is exact on every call, whatever was learned: promise P5.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use common::{Log, MICRO, builder, numbers, selector, takes, truth};
use pointsman::{
    Backend, BuildError, Cap, DType, FakeClock, Machine, Memory, Outcome, Reason, Workload,
};

/// Free memory that the test sets.
#[derive(Clone, Default)]
struct Scripted(Arc<AtomicU64>);

impl Memory for Scripted {
    fn free_bytes(&self, backend: Backend) -> Option<u64> {
        (backend == Backend::Gpu(0)).then(|| self.0.load(SeqCst))
    }
}

fn why(told: &pointsman::Explanation, name: &str) -> Option<String> {
    told.variants
        .iter()
        .find(|v| v.name == name)
        .unwrap()
        .why_not
        .clone()
}

#[test]
fn sizes_are_exact_at_both_edges_on_every_call() {
    let clock = FakeClock::new();
    let log = Log::default();
    let within = |range: std::ops::RangeInclusive<usize>, who, ns| {
        let body = takes(&clock, &log, who, ns);
        move |n: &mut &usize| {
            assert!(range.contains(*n), "served {n}");
            body(n)
        }
    };
    let op = numbers(&selector(&clock), "op")
        .reference(
            "plain",
            Backend::Scalar,
            takes(&clock, &log, "plain", 40 * MICRO),
        )
        .variant(
            "small",
            Backend::Simd,
            within(0..=1_000, "small", 10 * MICRO),
        )
        .max_size(1_000)
        .variant(
            "large",
            Backend::Threads,
            within(1_002..=usize::MAX, "large", 5 * MICRO),
        )
        .min_size(1_002)
        .build()
        .unwrap();
    for i in 0..3_000usize {
        let n = 999 + i % 5; // one cell, both sides of both edges
        assert_eq!(op.run(&n), truth(n));
    }
    assert_eq!(op.stats().failures, 0);
    assert_eq!(
        log.count("plain") - 600,
        3_000 - 600 - log.count("small") - log.count("large")
    );
    log.take();
    op.run(&1_001);
    assert_eq!(log.take(), ["plain"], "nobody else may");
    let told = op.explain(Workload::new([1_001]));
    assert_eq!(why(&told, "small").unwrap(), "size 1001 is above 1000");
    assert_eq!(why(&told, "large").unwrap(), "size 1001 is below 1002");
    assert_eq!(told.reason, Reason::OnlyEligible);
}

#[test]
fn dtypes_gradients_and_conditions_are_exact_on_every_call() {
    let clock = FakeClock::new();
    let log = Log::default();
    let body = |who: &'static str, ns: u64| {
        let (clock, log) = (clock.clone(), log.clone());
        move |call: &mut &(DType, bool, usize)| {
            log.note(who);
            common::spend(&clock, ns);
            match who {
                "floats" => assert_eq!(call.0, DType::F32),
                "forward" => assert!(!call.1),
                "even" => assert_eq!(call.2 % 2, 0),
                _ => {}
            }
            truth(call.2)
        }
    };
    let op = selector(&clock)
        .function("op", |c: &(DType, bool, usize)| {
            Workload::new([c.2]).dtype(c.0).gradient(c.1)
        })
        .reference("plain", Backend::Scalar, body("plain", 40 * MICRO))
        .variant("floats", Backend::Simd, body("floats", 8 * MICRO))
        .dtypes(&[DType::F32])
        .variant("forward", Backend::Simd, body("forward", 4 * MICRO))
        .without_gradient()
        .variant("even", Backend::Simd, body("even", 2 * MICRO))
        .when(|c| c.2 % 2 == 0)
        .build()
        .unwrap();
    for i in 0..8_000usize {
        let call = (
            if i & 1 == 0 { DType::F32 } else { DType::I64 },
            i & 2 == 0,
            1_000 + (i >> 2) % 2,
        );
        assert_eq!(op.run(&call), truth(call.2));
    }
    assert_eq!(op.stats().failures, 0, "{}", op.stats());
    for who in ["plain", "floats", "forward", "even"] {
        assert!(log.count(who) > 500, "{who}: {}", log.count(who));
    }
}

#[test]
fn two_conditions_must_both_hold() {
    let clock = FakeClock::new();
    let log = Log::default();
    let op = numbers(&selector(&clock), "op")
        .reference(
            "plain",
            Backend::Scalar,
            takes(&clock, &log, "plain", 40 * MICRO),
        )
        .variant(
            "picky",
            Backend::Simd,
            takes(&clock, &log, "picky", 10 * MICRO),
        )
        .when(|n| **n % 2 == 0)
        .when(|n| **n >= 100)
        .build()
        .unwrap();
    for _ in 0..300 {
        op.run(&101);
    }
    assert_eq!(log.count("picky"), 0, "101 is odd");
}

#[test]
fn a_preferred_backend_serves_if_it_may() {
    let clock = FakeClock::new();
    let log = Log::default();
    let body = |who: &'static str, ns: u64| {
        let (clock, log) = (clock.clone(), log.clone());
        move |call: &mut &(usize, Option<Backend>)| {
            log.note(who);
            common::spend(&clock, ns);
            truth(call.0)
        }
    };
    let op = selector(&clock)
        .function("op", |c: &(usize, Option<Backend>)| {
            let workload = Workload::new([c.0]);
            c.1.map_or(workload, |backend| workload.prefer(backend))
        })
        .reference("plain", Backend::Scalar, body("plain", 40 * MICRO))
        .variant("fast", Backend::Simd, body("fast", 10 * MICRO))
        .variant("pool", Backend::Threads, body("pool", 90 * MICRO))
        .min_size(50)
        .build()
        .unwrap();
    for _ in 0..300 {
        op.run(&(64, None));
    }
    log.take();
    for _ in 0..300 {
        let told = op.run_explained(&(64, Some(Backend::Threads))).explanation;
        assert_eq!(
            (told.chosen.as_str(), told.reason),
            ("pool", Reason::Forced)
        );
        assert_eq!(
            why(&told, "fast").unwrap(),
            "the call prefers another backend"
        );
        op.run(&(64, Some(Backend::Scalar)));
    }
    assert_eq!((log.count("pool"), log.count("plain")), (300, 300));
    log.take();
    for _ in 0..300 {
        op.run(&(64, None));
    }
    assert!(log.count("fast") > 290, "a preference is for one call");
    log.take();
    for _ in 0..300 {
        assert_eq!(op.run(&(20, Some(Backend::Threads))), truth(20)); // too small for the pool
        assert_eq!(op.run(&(64, Some(Backend::Gpu(3)))), truth(64)); // there is none
    }
    assert_eq!(log.count("pool"), 0);
    let told = op.explain(Workload::new([64]).prefer(Backend::Gpu(3)));
    assert_ne!(
        told.reason,
        Reason::Forced,
        "nobody was there to be forced: {told}"
    );
}

#[test]
fn memory_decides_per_call_and_is_read_once_a_minute() {
    let clock = FakeClock::new();
    let log = Log::default();
    let free = Scripted::default();
    free.0.store(1_000, SeqCst);
    let selector = builder(&clock)
        .memory(free.clone())
        .memory_reserve(0.5)
        .build()
        .unwrap();
    let op = numbers(&selector, "op")
        .reference(
            "plain",
            Backend::Scalar,
            takes(&clock, &log, "plain", 40 * MICRO),
        )
        .variant(
            "gpu",
            Backend::Gpu(0),
            takes(&clock, &log, "gpu", 10 * MICRO),
        )
        .memory(|w| w.size())
        .variant(
            "other",
            Backend::Gpu(1),
            takes(&clock, &log, "other", MICRO),
        )
        .memory(|_| 1)
        .build()
        .unwrap();
    let served = |n: usize| {
        for _ in 0..100 {
            op.run(&n);
        }
        let by_gpu = log.count("gpu");
        assert_eq!(log.count("other"), 0, "of its memory nothing is known");
        log.take();
        by_gpu
    };
    assert!(served(500) > 80);
    assert_eq!(served(501), 0, "half of the memory is reserved");
    let told = op.explain(Workload::new([501]));
    assert_eq!(
        why(&told, "gpu").unwrap(),
        "needs 501 bytes, 500 may be used"
    );
    assert!(why(&told, "other").unwrap().contains("unknown"));
    free.0.store(100, SeqCst);
    assert!(served(500) > 80, "the reading is kept for a minute");
    clock.advance(Duration::from_secs(61));
    assert_eq!(served(500), 0);
    free.0.store(u64::MAX, SeqCst);
    clock.advance(Duration::from_secs(61));
    assert!(served(501) > 80, "and it comes back");
}

#[test]
fn memory_is_read_again_after_the_clock_went_back() {
    let clock = FakeClock::new();
    clock.set_ns(1 << 60);
    let log = Log::default();
    let free = Scripted::default();
    let selector = builder(&clock).memory(free.clone()).build().unwrap();
    let op = numbers(&selector, "op")
        .reference(
            "plain",
            Backend::Scalar,
            takes(&clock, &log, "plain", 40 * MICRO),
        )
        .variant(
            "gpu",
            Backend::Gpu(0),
            takes(&clock, &log, "gpu", 10 * MICRO),
        )
        .memory(|w| w.size())
        .build()
        .unwrap();
    op.run(&64);
    free.0.store(1 << 40, SeqCst);
    clock.set_ns(0);
    for _ in 0..300 {
        clock.advance(Duration::from_secs(1));
        op.run(&64);
    }
    assert!(log.count("gpu") > 100, "300 s later: {}", log.count("gpu"));
}

#[test]
fn f34_a_forced_capability_that_is_not_there_is_refused_and_never_run() {
    let clock = FakeClock::new();
    let log = Log::default();
    let machine = Machine::detect().without(Cap::Avx2);
    for force in ["avx2", "op=avx2", "other=plain,op=avx2"] {
        let selector = builder(&clock)
            .machine(machine.clone())
            .force(force)
            .build()
            .unwrap();
        let error = numbers(&selector, "op")
            .reference("plain", Backend::Scalar, takes(&clock, &log, "plain", 10))
            .variant("avx2", Backend::Simd, takes(&clock, &log, "avx2", 1))
            .requires(Cap::Avx2)
            .build()
            .err()
            .unwrap();
        assert!(matches!(&error, BuildError::Impossible { variant, .. } if variant == "avx2"));
        let text = error.to_string();
        assert!(text.contains("op") && text.contains("no avx2"), "{text}");
    }
    // Nor by any other way in.
    let selector = builder(&clock).machine(machine).build().unwrap();
    let op = numbers(&selector, "op")
        .reference("plain", Backend::Scalar, takes(&clock, &log, "plain", 10))
        .variant("avx2", Backend::Simd, takes(&clock, &log, "avx2", 1))
        .requires(Cap::Avx2)
        .build()
        .unwrap();
    let error = op
        .variant("avx2")
        .unwrap()
        .run(&64)
        .unwrap_err()
        .to_string();
    assert!(error.contains("no avx2"), "{error}");
    for _ in 0..500 {
        op.run(&64);
    }
    assert_eq!(log.count("avx2"), 0);
}

#[test]
fn f34_forcing_a_backend_takes_those_of_its_variants_that_can_run() {
    let clock = FakeClock::new();
    let log = Log::default();
    let machine = Machine::detect().without(Cap::Avx512f);
    let selector = builder(&clock)
        .machine(machine)
        .force("simd")
        .build()
        .unwrap();
    let built = numbers(&selector, "op")
        .reference("plain", Backend::Scalar, takes(&clock, &log, "plain", 10))
        .variant(
            "portable",
            Backend::Simd,
            takes(&clock, &log, "portable", 20),
        )
        .variant("avx512", Backend::Simd, takes(&clock, &log, "avx512", 1))
        .requires(Cap::Avx512f)
        .build();
    let op = match built {
        Ok(op) => op,
        Err(error) => panic!("the backend can serve: {error}"),
    };
    for _ in 0..300 {
        op.run(&64);
    }
    assert_eq!((log.count("portable"), log.count("avx512")), (300, 0));
}

#[test]
fn forced_and_disabled_variants_by_rule() {
    let clock = FakeClock::new();
    let served = |force: Option<&str>, disable: Option<&str>| {
        let log = Log::default();
        let mut builder = builder(&clock);
        if let Some(rules) = force {
            builder = builder.force(rules);
        }
        if let Some(rules) = disable {
            builder = builder.disable(rules);
        }
        let op = numbers(&builder.build().unwrap(), "op")
            .reference(
                "plain",
                Backend::Scalar,
                takes(&clock, &log, "plain", 40 * MICRO),
            )
            .variant("a", Backend::Simd, takes(&clock, &log, "a", 20 * MICRO))
            .variant("b", Backend::Threads, takes(&clock, &log, "b", 10 * MICRO))
            .build()
            .unwrap();
        for _ in 0..300 {
            op.run(&64);
        }
        let told = op.explain(Workload::new([64]));
        let mut who = log.take();
        who.sort_unstable();
        who.dedup();
        (who, told)
    };
    assert_eq!(served(None, None).0, ["a", "b", "plain"]);
    let (who, told) = served(Some("a"), None);
    assert_eq!((who, told.reason), (vec!["a"], Reason::Forced));
    assert_eq!(why(&told, "b").unwrap(), "another one is forced");
    assert_eq!(served(Some("op=plain"), None).0, ["plain"]);
    assert_eq!(served(Some("scalar,a"), None).0, ["a", "plain"]);
    assert_eq!(served(Some("other=b"), None).0, ["a", "b", "plain"]);
    let (who, told) = served(None, Some("threads, plain"));
    assert_eq!(
        who,
        ["a"],
        "the reference may be disabled while another can serve"
    );
    assert_eq!(why(&told, "b").unwrap(), "disabled");
    assert_eq!(
        served(None, Some("a,b,plain")).0,
        ["plain"],
        "somebody must serve"
    );
}

#[test]
fn forced_and_disabled_candidates_by_name() {
    let clock = FakeClock::new();
    let served = |builder: pointsman::SelectorBuilder| {
        let selector = builder.build().unwrap();
        let mut who: Vec<&str> = (0..300)
            .map(|_| {
                let candidates = ["first", "simd", "numba"];
                let decision = selector.decide("op", &Workload::new([64]), &candidates);
                selector.record(&decision, Outcome::took(Duration::from_micros(7)));
                decision.variant()
            })
            .collect();
        who.sort_unstable();
        who.dedup();
        who
    };
    assert_eq!(served(builder(&clock).force("numba")), ["numba"]);
    assert_eq!(served(builder(&clock).force("op=simd")), ["simd"]);
    assert_eq!(served(builder(&clock).force("elsewhere=simd")).len(), 3);
    assert_eq!(served(builder(&clock).force("unheard_of")).len(), 3);
    assert_eq!(served(builder(&clock).disable("first,numba")), ["simd"]);
    assert_eq!(served(builder(&clock).disable("first,numba,simd")).len(), 3);
    let env = common::environment(&[("POINTSMAN_FORCE", "op=first")]);
    assert_eq!(served(builder(&clock).environment(env)), ["first"]);
}
