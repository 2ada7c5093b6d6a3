//! Variants that hang.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use pointsman::{Backend, FakeClock, Reason, Workload};

use crate::Switch;
use crate::common::{Log, MICRO, numbers, selector, spend, takes};

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
