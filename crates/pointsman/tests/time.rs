//! Clocks that stand still, go back or jump: rows 16 and 17 of the table of faults.

mod common;

use std::time::Duration;

use common::{Log, MICRO, numbers, selector, spend, takes, truth};
use pointsman::{Backend, FakeClock, Outcome, Reason, Workload};

const DAYS_2: Duration = Duration::from_secs(2 * 86_400);

/// Runs an op whose variant `odd` moves the clock in this way; `plain` takes 10 µs.
fn with_odd_clock(
    calls: usize,
    odd: impl Fn(&FakeClock) + Send + Sync + 'static,
) -> (pointsman::OpStats, Log, u32) {
    let clock = FakeClock::new();
    clock.set_ns(1 << 60);
    let log = Log::default();
    let (time, noted) = (clock.clone(), log.clone());
    let op = numbers(&selector(&clock), "op")
        .reference(
            "plain",
            Backend::Scalar,
            takes(&clock, &log, "plain", 10 * MICRO),
        )
        .variant("odd", Backend::Simd, move |n| {
            noted.note("odd");
            odd(&time);
            truth(**n)
        })
        .build()
        .unwrap();
    let mut best = 0;
    for _ in 0..calls {
        let told = op.run_explained(&64);
        assert_eq!(told.output, truth(64));
        let trial = matches!(told.explanation.reason, Reason::Trial | Reason::FirstTry);
        best += u32::from(told.explanation.chosen == "odd" && !trial);
        assert_eq!(
            told.explanation.took_ns.is_some(),
            told.explanation.chosen == "plain"
        );
    }
    let report = op.explain(Workload::new([64]));
    assert_eq!(report.chosen, "plain");
    assert_eq!(report.variants[1].samples, 0, "nothing was accepted");
    (op.stats(), log, best)
}

#[test]
fn f16_a_clock_that_stands_still_never_makes_a_variant_the_best() {
    let (stats, log, best) = with_odd_clock(2_000, |_| ());
    assert_eq!(best, 0, "chosen as the best without a single measurement");
    assert_eq!(
        stats.rejected.get("zero"),
        Some(&(log.count("odd") as u64)),
        "{stats}"
    );
    assert_eq!(stats.calls, 2_000);
}

#[test]
fn f17_a_clock_that_goes_back_never_makes_a_variant_the_best() {
    let (stats, log, best) = with_odd_clock(2_000, |clock| clock.set_ns(1 << 50));
    assert_eq!(best, 0);
    let back = stats.rejected.get("clock_went_back").copied().unwrap_or(0);
    let zero = stats.rejected.get("zero").copied().unwrap_or(0); // when it is there already
    assert!(back >= 1, "{stats:?}");
    assert_eq!(back + zero, log.count("odd") as u64, "{stats:?}");
}

#[test]
fn f17_a_clock_that_jumps_two_days_is_no_measurement() {
    let (stats, log, best) = with_odd_clock(2_000, |clock| clock.advance(DAYS_2));
    assert_eq!(best, 0);
    assert_eq!(
        stats.rejected.get("too_long"),
        Some(&(log.count("odd") as u64)),
        "{stats:?}"
    );
    assert!(
        stats.served_ns < 2_000.0 * 10_000.0 + 1.0,
        "a jump is not time served"
    );
}

#[test]
fn f17_a_variant_that_cannot_be_measured_is_not_tried_for_ever() {
    // Each such trial may have cost anything: it must not be free for the budget.
    for (name, odd) in [
        (
            "jumps",
            (|clock: &FakeClock| clock.advance(DAYS_2)) as fn(&FakeClock),
        ),
        ("goes back", |clock| clock.set_ns(1 << 50)),
        ("stands still", |_| ()),
    ] {
        let (_, log, _) = with_odd_clock(5_000, odd);
        let tried = log.count("odd");
        assert!(
            tried <= 100,
            "clock {name}: tried in {tried} of 5,000 calls"
        );
    }
}

#[test]
fn f17_a_jump_during_the_best_variant_changes_nothing() {
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
        .build()
        .unwrap();
    for _ in 0..300 {
        op.run(&64);
    }
    for jump in [DAYS_2, Duration::from_secs(30 * 86_400), Duration::MAX] {
        clock.advance(jump); // suspended between two calls
        log.take();
        for _ in 0..200 {
            assert_eq!(op.run(&64), truth(64));
        }
        let most = if jump == Duration::MAX { 0 } else { 190 };
        assert!(
            log.count("fast") >= most,
            "{} after {jump:?}",
            log.count("fast")
        );
    }
    clock.set_ns(0); // set back to the beginning
    log.take();
    for _ in 0..200 {
        assert_eq!(op.run(&64), truth(64));
    }
    assert!(
        log.count("fast") >= 150,
        "{} after going back",
        log.count("fast")
    );
}

#[test]
fn f16_f17_reported_times_that_cannot_be_are_rejected_and_counted() {
    let clock = FakeClock::new();
    let selector = selector(&clock);
    let workload = Workload::new([64]);
    let mut odd = 0;
    for call in 0..300u32 {
        let decision = selector.decide("op", &workload, &["plain", "odd"]);
        spend(&clock, 10 * MICRO);
        let took = match (decision.variant(), call % 2) {
            ("plain", _) => Duration::from_micros(10),
            (_, 0) => Duration::ZERO,
            (_, _) => Duration::MAX,
        };
        odd += u64::from(decision.variant() == "odd");
        selector.record(&decision, Outcome::took(took));
    }
    let stats = &selector.stats()[0];
    let rejected = |why: &str| stats.rejected.get(why).copied().unwrap_or(0);
    assert!(odd > 0);
    assert_eq!(rejected("zero") + rejected("too_long"), odd, "{stats:?}");
    let told = selector
        .explain("op", &workload, &["plain", "odd"])
        .unwrap();
    assert_eq!(told.chosen, "plain");
}
