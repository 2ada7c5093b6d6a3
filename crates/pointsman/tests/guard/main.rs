//! Variants that fail, panic or hang: somebody else serves, and the caller never pays with a wrong
//! result or a dead lock. Rows 23 to 26 and 28 to 30 of the table of faults.

#[path = "../common/mod.rs"]
mod common;
mod errors;
mod hangs;
mod panics;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use common::{Log, numbers, selector, spend, takes, truth};
use pointsman::{Backend, Cap, FakeClock, Machine, Reason, Workload};

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
