//! Choosing by name: no declaration, any input, and still somebody serves.

mod common;

use std::time::Duration;

use common::{builder, selector, spend};
use pointsman::{Backend, FakeClock, Outcome, Reason, Selector, Workload};

const WORKLOAD: fn() -> Workload = || Workload::new([64]);

/// One call; `costs` in microseconds by candidate.
fn call<'c>(
    selector: &Selector,
    clock: &FakeClock,
    op: &str,
    candidates: &[&'c str],
    costs: &[u64],
) -> &'c str {
    let decision = selector.decide(op, &WORKLOAD(), candidates);
    assert_eq!(candidates[decision.index()], decision.variant());
    assert_eq!(decision.workload(), &WORKLOAD());
    let took = Duration::from_micros(costs[decision.index()]);
    clock.advance(took);
    selector.record(&decision, Outcome::took(took));
    decision.variant()
}

#[test]
fn names_are_made_known_on_first_use_and_learned() {
    let clock = FakeClock::new();
    let selector = selector(&clock);
    let served: Vec<&str> = (0..300)
        .map(|_| call(&selector, &clock, "op", &["a", "b", "c"], &[30, 10, 20]))
        .collect();
    assert!(served[100..].iter().filter(|who| **who == "b").count() > 190);
    let stats = selector.stats();
    assert_eq!(
        (stats.len(), stats[0].op.as_str(), stats[0].calls),
        (1, "op", 300)
    );
}

#[test]
fn candidates_may_change_from_call_to_call() {
    let clock = FakeClock::new();
    let selector = selector(&clock);
    for _ in 0..200 {
        call(&selector, &clock, "op", &["a", "b"], &[30, 10]);
    }
    // Another order, a part, one that joins later, one given twice.
    for _ in 0..100 {
        call(&selector, &clock, "op", &["b", "a"], &[10, 30]);
        assert_eq!(call(&selector, &clock, "op", &["a"], &[30]), "a");
        call(&selector, &clock, "op", &["c", "a", "b"], &[2, 30, 10]);
        call(&selector, &clock, "op", &["b", "b"], &[10, 10]);
    }
    let served = |candidates: &[&'static str], costs: &[u64]| {
        (0..20)
            .map(|_| call(&selector, &clock, "op", candidates, costs))
            .collect::<Vec<_>>()
    };
    let most = |who: Vec<&str>, name| who.iter().filter(|w| **w == name).count() >= 17;
    assert!(most(served(&["a", "b"], &[30, 10]), "b"));
    let told = selector
        .explain("op", &WORKLOAD(), &["a", "b", "c"])
        .unwrap();
    assert!(
        most(served(&["a", "b", "c"], &[30, 10, 2]), "c"),
        "{told}{}",
        selector.stats()[0]
    );
}

#[test]
fn two_thousand_op_names_still_serve_and_are_bounded() {
    let clock = FakeClock::new();
    let selector = selector(&clock);
    for round in 0..2 {
        for i in 0..2_000 {
            let op = format!("op {i}");
            let who = call(&selector, &clock, &op, &["a", "b"], &[1, 2]);
            assert!(who == "a" || who == "b", "round {round}");
        }
    }
    assert_eq!(selector.stats().len(), 1_024);
    let beyond = selector.decide("op 1999", &WORKLOAD(), &["a", "b"]);
    assert_eq!((beyond.variant(), beyond.reason()), ("a", Reason::Unknown));
    assert_eq!(beyond.confidence(), 0.0);
    assert!(
        selector
            .explain("op 1999", &WORKLOAD(), &["a", "b"])
            .is_none()
    );
    let known = selector.decide("op 5", &WORKLOAD(), &["a", "b"]);
    assert_ne!(known.reason(), Reason::Unknown);
}

#[test]
fn no_candidates_and_bad_names_do_no_harm() {
    let clock = FakeClock::new();
    let selector = selector(&clock);
    let nobody = selector.decide("op", &WORKLOAD(), &[]);
    assert_eq!(
        (nobody.variant(), nobody.index(), nobody.reason()),
        ("", 0, Reason::Unknown)
    );
    selector.record(&nobody, Outcome::took(Duration::from_micros(1)));
    selector.record(&nobody, Outcome::failed());

    let long = "x".repeat(1_000);
    for op in ["", "a\nb", long.as_str()] {
        let decision = selector.decide(op, &WORKLOAD(), &["first", "second"]);
        assert_eq!(
            (decision.variant(), decision.reason()),
            ("first", Reason::Unknown)
        );
        selector.record(&decision, Outcome::failed());
        assert!(selector.explain(op, &WORKLOAD(), &["first"]).is_none());
    }
    for _ in 0..100 {
        let candidates = ["", "good", "a\tb", long.as_str()];
        let decision = selector.decide("op", &WORKLOAD(), &candidates);
        assert_eq!(
            decision.variant(),
            "good",
            "the only one that can be remembered"
        );
        selector.record(&decision, Outcome::took(Duration::from_micros(1)));
    }
    let decision = selector.decide("op", &WORKLOAD(), &["", "\n"]);
    assert_eq!(
        (decision.variant(), decision.reason()),
        ("", Reason::Unknown)
    );
}

#[test]
fn explaining_candidates_with_bad_names_does_not_panic() {
    let clock = FakeClock::new();
    let selector = selector(&clock);
    selector.decide("op", &WORKLOAD(), &["good"]);
    let told = selector
        .explain("op", &WORKLOAD(), &["good", "", "a\nb"])
        .unwrap();
    assert_eq!(told.chosen, "good");
    assert!(!told.to_string().is_empty());
    let told = selector.explain("op", &WORKLOAD(), &[]).unwrap();
    assert_eq!((told.chosen.as_str(), told.variants.len()), ("", 0));
    let many: Vec<String> = (0..100).map(|i| format!("v{i}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(selector.explain("op", &WORKLOAD(), &many).is_some());
}

#[test]
fn more_than_64_candidates_serve_from_the_first_64() {
    let clock = FakeClock::new();
    let selector = selector(&clock);
    let names: Vec<String> = (0..100).map(|i| format!("v{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let costs: Vec<u64> = (0..100).map(|i| 100 - i).collect();
    for _ in 0..2_000 {
        let who = call(&selector, &clock, "op", &names, &costs);
        assert!(names[..64].contains(&who), "{who}");
    }
    // All of the op's names are taken: others serve without being learned.
    let decision = selector.decide("op", &WORKLOAD(), &["late", "later"]);
    assert_eq!(
        (decision.variant(), decision.reason()),
        ("late", Reason::Unknown)
    );
    let mixed = selector.decide("op", &WORKLOAD(), &["late", "v7"]);
    assert_eq!(mixed.variant(), "v7");
}

#[test]
fn a_decision_of_another_selector_is_ignored() {
    let clock = FakeClock::new();
    let (one, other) = (selector(&clock), selector(&clock));
    for _ in 0..100 {
        other.decide("op", &WORKLOAD(), &["a", "b"]);
        let decision = one.decide("op", &WORKLOAD(), &["a", "b"]);
        other.record(&decision, Outcome::took(Duration::from_micros(5)));
        other.record(&decision, Outcome::failed());
    }
    let stats = &other.stats()[0];
    assert_eq!(
        (stats.failures, stats.quarantines, stats.served_ns),
        (0, 0, 0.0)
    );
    let told = other.explain("op", &WORKLOAD(), &["a", "b"]).unwrap();
    assert!(told.variants.iter().all(|v| v.samples == 0));
}

#[test]
fn recording_twice_late_or_never_does_no_harm() {
    let clock = FakeClock::new();
    let selector = builder(&clock).budget(0.01).build().unwrap();
    let mut old = Vec::new();
    let mut trials = 0u64;
    for i in 0..5_000u32 {
        let decision = selector.decide("op", &WORKLOAD(), &["plain", "slow"]);
        let us = if decision.variant() == "plain" {
            10
        } else {
            100
        };
        trials += u64::from(us == 100);
        spend(&clock, us * 1_000);
        match i % 4 {
            0 => {} // never
            1 => old.push((decision, us)),
            n => (1..n).for_each(|_| {
                selector.record(&decision, Outcome::took(Duration::from_micros(us)));
            }),
        }
    }
    for (decision, us) in old {
        selector.record(&decision, Outcome::took(Duration::from_micros(us)));
    }
    assert_eq!(
        selector
            .explain("op", &WORKLOAD(), &["plain", "slow"])
            .unwrap()
            .chosen,
        "plain"
    );
    assert!(trials < 100, "{trials} calls of the slow one");
    let stats = &selector.stats()[0];
    assert_eq!(stats.calls, 5_000);
    assert!(stats.served_ns.is_finite() && stats.budget_left_ns.is_finite());
}

#[test]
fn cancelled_and_warm_up_outcomes_teach_nothing() {
    let clock = FakeClock::new();
    let selector = selector(&clock);
    for i in 0..100 {
        let decision = selector.decide("op", &WORKLOAD(), &["a", "b"]);
        selector.record(
            &decision,
            if i % 2 == 0 {
                Outcome::cancelled()
            } else {
                Outcome::warm_up()
            },
        );
    }
    let told = selector.explain("op", &WORKLOAD(), &["a", "b"]).unwrap();
    assert!(
        told.variants
            .iter()
            .all(|v| v.samples == 0 && v.failures == 0)
    );
    let stats = &selector.stats()[0];
    assert_eq!(stats.served_ns, 0.0);
    assert!(stats.rejected.get("warm_up").copied().unwrap_or(0) >= 1);
}

#[test]
fn a_cancelled_first_try_is_still_to_come() {
    let clock = FakeClock::new();
    let selector = selector(&clock);
    for _ in 0..20 {
        call(&selector, &clock, "op", &["a", "b"], &[30, 20]);
    }
    let mut cancelled = 0;
    let mut tried = 0;
    for _ in 0..200 {
        let decision = selector.decide("op", &WORKLOAD(), &["a", "b", "c"]);
        let first = decision.reason() == Reason::FirstTry;
        if first && cancelled < 10 {
            cancelled += 1;
            selector.record(&decision, Outcome::Cancelled);
            continue;
        }
        tried += u32::from(first);
        let took = Duration::from_micros([30, 20, 5][decision.index()]);
        clock.advance(took);
        selector.record(&decision, Outcome::took(took));
    }
    // The third is not needed: by then it serves.
    assert_eq!((cancelled, tried), (10, 2));
}

#[test]
fn reported_failures_quarantine_a_candidate_which_comes_back_after_its_time() {
    let clock = FakeClock::new();
    let selector = selector(&clock);
    let both = ["plain", "fast"];
    for _ in 0..300 {
        call(&selector, &clock, "op", &both, &[40, 10]);
    }
    let mut failed = 0;
    for _ in 0..200 {
        let decision = selector.decide("op", &WORKLOAD(), &both);
        if decision.variant() == "fast" {
            failed += 1;
            selector.record(&decision, Outcome::failed());
        } else {
            spend(&clock, 40_000);
            selector.record(&decision, Outcome::took(Duration::from_micros(40)));
        }
    }
    assert_eq!(failed, 2, "two failures in a row");
    let stats = &selector.stats()[0];
    assert_eq!((stats.failures, stats.quarantines), (2, 1));
    let told = selector.explain("op", &WORKLOAD(), &both).unwrap();
    let why = told.variants[1].why_not.as_deref().unwrap();
    assert!(
        why.starts_with("quarantined for") && why.contains("reported a failure"),
        "{why}"
    );

    clock.advance(Duration::from_secs(2));
    let served: Vec<&str> = (0..300)
        .map(|_| call(&selector, &clock, "op", &both, &[40, 10]))
        .collect();
    let fast = served.iter().filter(|who| **who == "fast").count();
    assert!(fast > 250, "{fast} of 300 after its time");
}

#[test]
fn when_every_candidate_fails_somebody_still_serves() {
    let clock = FakeClock::new();
    let selector = selector(&clock);
    for _ in 0..1_000 {
        let decision = selector.decide("op", &WORKLOAD(), &["a", "b"]);
        assert!(["a", "b"].contains(&decision.variant()));
        selector.record(&decision, Outcome::failed());
    }
    assert_eq!(selector.stats()[0].calls, 1_000);
}

#[test]
fn a_candidate_named_like_a_backend_is_found_by_preference() {
    let clock = FakeClock::new();
    let selector = selector(&clock);
    for _ in 0..100 {
        let workload = WORKLOAD().prefer(Backend::Threads);
        let decision = selector.decide("op", &workload, &["scalar", "threads"]);
        assert_eq!(decision.variant(), "threads");
        selector.record(&decision, Outcome::took(Duration::from_micros(50)));
    }
}

#[test]
fn the_reason_of_a_settled_decision_is_the_one_of_its_mode() {
    use pointsman::Mode;
    let clock = FakeClock::new();
    for (mode, force, reason) in [
        (Mode::Frozen, None, Reason::Frozen),
        (Mode::Reference, None, Reason::Reference),
        (Mode::Learn, Some("b"), Reason::Forced),
    ] {
        let mut builder = builder(&clock).mode(mode);
        if let Some(rules) = force {
            builder = builder.force(rules);
        }
        let selector = builder.build().unwrap();
        for call in 0..200 {
            let decision = selector.decide("op", &WORKLOAD(), &["a", "b"]);
            selector.record(&decision, Outcome::took(Duration::from_micros(5)));
            assert_eq!(decision.reason(), reason, "{mode}, call {call}");
        }
    }
}

#[test]
fn using_a_declared_op_by_name_forgets_nothing() {
    let clock = FakeClock::new();
    let log = common::Log::default();
    let selector = selector(&clock);
    let op = common::numbers(&selector, "op")
        .reference(
            "plain",
            Backend::Scalar,
            common::takes(&clock, &log, "plain", 40_000),
        )
        .variant(
            "fast",
            Backend::Simd,
            common::takes(&clock, &log, "fast", 10_000),
        )
        .revision(3)
        .build()
        .unwrap();
    for _ in 0..300 {
        op.run(&64);
    }
    let samples = || op.explain(WORKLOAD()).variants[1].samples;
    let before = samples();
    assert!(before > 10);
    selector.decide("op", &WORKLOAD(), &["plain", "fast", "of my own"]);
    assert_eq!(samples(), before);
}
