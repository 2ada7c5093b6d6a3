//! Statistics of each variant and backend: who served, who was tried, who fails.

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::{Log, MICRO, builder, numbers, selector, spend, takes};
use pointsman::{Backend, FakeClock, Mode, OpStats, Outcome, Reason, VariantStats, Workload};

fn of<'s>(stats: &'s OpStats, name: &str) -> &'s VariantStats {
    let found = stats.variants.iter().find(|v| v.name == name);
    found.unwrap_or_else(|| panic!("no {name} in {stats}"))
}

/// What is the sum over variants, as whole numbers and as times.
fn op_sums(s: &OpStats) -> ([u64; 6], [f64; 5]) {
    (
        [
            s.calls,
            s.samples,
            s.trials,
            s.first_tries,
            s.failures,
            s.quarantines,
        ],
        [
            s.served_ns,
            s.trial_ns,
            s.trial_excess_ns,
            s.first_try_ns,
            s.first_try_excess_ns,
        ],
    )
}

/// The same, added up over some variants.
fn variant_sums<'s>(variants: impl Iterator<Item = &'s VariantStats>) -> ([u64; 6], [f64; 5]) {
    variants.fold(([0; 6], [0.0; 5]), |(mut counts, mut times), v| {
        let more = [
            v.calls,
            v.samples,
            v.trials,
            v.first_tries,
            v.failures,
            v.quarantines,
        ];
        let longer = [
            v.served_ns,
            v.trial_ns,
            v.trial_excess_ns,
            v.first_try_ns,
            v.first_try_excess_ns,
        ];
        counts.iter_mut().zip(more).for_each(|(sum, n)| *sum += n);
        times.iter_mut().zip(longer).for_each(|(sum, t)| *sum += t);
        (counts, times)
    })
}

fn near((a, x): ([u64; 6], [f64; 5]), (b, y): ([u64; 6], [f64; 5])) -> bool {
    // Sums of fewer than 64 numbers, in any order.
    let same = |(x, y): (&f64, &f64)| (x - y).abs() <= 64.0 * f64::EPSILON * x.abs();
    a == b && x.iter().zip(&y).all(same)
}

#[test]
fn failures_and_quarantines_count_for_the_variant_that_failed_and_its_backend() {
    let (clock, log) = (FakeClock::new(), Log::default());
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
        .try_variant("never", Backend::Gpu(0), {
            let (log, clock) = (log.clone(), clock.clone());
            move |_: &mut &usize| {
                log.note("never");
                spend(&clock, 5 * MICRO);
                Err::<usize, _>("no device")
            }
        })
        .build()
        .unwrap();
    let is_in = || of(&op.stats(), "never").in_quarantine;
    let mut entered = 0;
    for _ in 0..2_000 {
        let was_in = is_in();
        op.run(&64);
        entered += u64::from(is_in() && !was_in);
        clock.advance(Duration::from_millis(50));
    }
    let stats = op.stats();
    let never = of(&stats, "never");
    assert!(entered >= 2, "it was let out and failed again: {stats}");
    assert_eq!(never.failures, log.count("never") as u64);
    assert_eq!(never.quarantines, entered);
    assert_eq!((never.calls, never.samples, never.served_ns), (0, 0, 0.0));
    // A failed try costs all of its time.
    assert!(never.trials + never.first_tries > 0);
    let tried_ns = (never.trials + never.first_tries) as f64 * 5_000.0;
    assert_eq!(never.trial_ns + never.first_try_ns, tried_ns);
    assert_eq!(
        never.trial_excess_ns + never.first_try_excess_ns,
        tried_ns,
        "{stats}"
    );
    for name in ["plain", "fast"] {
        let v = of(&stats, name);
        assert_eq!(
            (v.failures, v.quarantines, v.in_quarantine),
            (0, 0, false),
            "{name}"
        );
    }
    let gpu = &stats.backends["gpu:0"];
    assert_eq!(
        (gpu.failures, gpu.quarantines),
        (never.failures, never.quarantines)
    );
    assert_eq!(
        (
            stats.backends["simd"].failures,
            stats.backends["scalar"].failures
        ),
        (0, 0)
    );
    assert_eq!(
        (stats.failures, stats.quarantines),
        (never.failures, never.quarantines)
    );
}

#[test]
fn a_quarantine_is_told_while_it_lasts_and_not_longer() {
    let clock = FakeClock::new();
    let selector = selector(&clock);
    let workload = Workload::new([64]);
    let mut failed = 0;
    while failed < 2 {
        let decision = selector.decide("op", &workload, &["a", "b"]);
        let is_b = decision.variant() == "b";
        let outcome = if is_b {
            Outcome::failed()
        } else {
            Outcome::took(Duration::from_micros(5))
        };
        failed += u32::from(is_b);
        selector.record(&decision, outcome);
    }
    let told = |stats: &OpStats| {
        let b = of(stats, "b");
        (b.failures, b.quarantines, b.in_quarantine)
    };
    let stats = &selector.stats()[0];
    assert_eq!(told(stats), (2, 1, true), "{stats}");
    assert!(!of(stats, "a").in_quarantine);
    assert!(stats.to_string().contains("in quarantine"), "{stats}");
    assert_eq!(
        stats.backends["unknown"].in_quarantine, 1,
        "both run on a backend without a name"
    );
    clock.advance(Duration::from_secs(1));
    let stats = &selector.stats()[0];
    assert_eq!(told(stats), (2, 1, false), "no call was needed to end it");
}

#[test]
fn trials_samples_and_time_belong_to_a_variant_and_add_up() {
    let (clock, log) = (FakeClock::new(), Log::default());
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
        .variant(
            "close",
            Backend::Simd,
            takes(&clock, &log, "close", 12 * MICRO),
        )
        .build()
        .unwrap();
    // By name: trials, first tries, time of both, time of the rest.
    let mut seen: BTreeMap<String, (u64, u64, u64, u64)> = BTreeMap::new();
    for _ in 0..3_000 {
        let told = op.run_explained(&64).explanation;
        let took = told.took_ns.unwrap();
        let (trials, first_tries, tried_ns, served_ns) = seen.entry(told.chosen).or_default();
        match told.reason {
            Reason::Trial => (*trials += 1, *tried_ns += took),
            Reason::FirstTry => (*first_tries += 1, *tried_ns += took),
            _ => ((), *served_ns += took),
        };
    }
    let stats = op.stats();
    assert!(stats.trials > 0 && stats.first_tries > 0, "{stats}");
    for v in &stats.variants {
        let (trials, first_tries, tried_ns, served_ns) = seen[&v.name];
        assert_eq!((v.trials, v.first_tries), (trials, first_tries), "{stats}");
        assert_eq!(v.trial_ns + v.first_try_ns, tried_ns as f64, "{stats}");
        assert_eq!(v.served_ns, served_ns as f64, "every call was timed");
        assert_eq!(v.calls, log.count(&v.name) as u64);
        assert!(v.trial_excess_ns <= v.trial_ns && v.first_try_excess_ns <= v.first_try_ns);
        assert!(v.samples > 0 && v.samples < v.calls, "warm-up is no sample");
    }
    let accepted: u64 = stats.variants.iter().map(|v| v.samples).sum();
    let rejected: u64 = stats.rejected.values().sum();
    assert_eq!(accepted + rejected, 3_000);

    assert!(near(op_sums(&stats), variant_sums(stats.variants.iter())));
    assert_eq!(stats.backends.len(), 2);
    for (name, b) in &stats.backends {
        let there = || {
            let variants = stats.variants.iter();
            variants.filter(|v| v.backend.to_string() == *name)
        };
        assert_eq!(b.variants, there().count() as u64);
        let sums = (
            [
                b.calls,
                b.samples,
                b.trials,
                b.first_tries,
                b.failures,
                b.quarantines,
            ],
            [
                b.served_ns,
                b.trial_ns,
                b.trial_excess_ns,
                b.first_try_ns,
                b.first_try_excess_ns,
            ],
        );
        assert!(near(sums, variant_sums(there())), "{name}: {stats}");
    }
    let text = stats.to_string();
    assert!(text.contains("(all 2)  simd"), "{text}");
    assert!(!text.contains("(all 1)"), "a sum of one says nothing");
    let json = serde_json::to_value(&stats).unwrap();
    assert_eq!(json["variants"][0]["name"], "fast");
    assert_eq!(json["variants"][0]["backend"], "simd");
    assert_eq!(json["variants"][0]["in_quarantine"], false);
    assert_eq!(json["backends"]["simd"]["variants"], 2);

    op.reset();
    let stats = op.stats();
    let nothing = ([0; 6], [0.0; 5]);
    assert_eq!(op_sums(&stats), nothing);
    for v in &stats.variants {
        assert_eq!(variant_sums([v].into_iter()), nothing, "{}", v.name);
    }
    assert_eq!(stats.backends["simd"].calls, 0);
}

#[test]
fn reset_ends_quarantines_and_clears_failures() {
    let (clock, log) = (FakeClock::new(), Log::default());
    let op = numbers(&selector(&clock), "op")
        .reference(
            "plain",
            Backend::Scalar,
            takes(&clock, &log, "plain", MICRO),
        )
        .variant("broken", Backend::Simd, |_| panic!("boom"))
        .build()
        .unwrap();
    for _ in 0..200 {
        op.run(&64);
    }
    let stats = op.stats();
    let broken = of(&stats, "broken");
    assert_eq!(
        (broken.failures, broken.quarantines, broken.in_quarantine),
        (1, 1, true),
        "{stats}"
    );
    op.reset();
    let stats = op.stats();
    let broken = of(&stats, "broken");
    assert_eq!(
        (broken.failures, broken.quarantines, broken.in_quarantine),
        (0, 0, false)
    );
}

#[test]
fn errors_of_the_reference_are_counted_in_every_mode() {
    for mode in [Mode::Learn, Mode::Frozen, Mode::Reference] {
        let clock = FakeClock::new();
        let op = numbers(&builder(&clock).mode(mode).build().unwrap(), "op")
            .try_reference("plain", Backend::Scalar, |n| match **n {
                13 => Err("unlucky"),
                n => Ok(n),
            })
            .build()
            .unwrap();
        for n in 0..100usize {
            assert_eq!(op.run(&n).is_err(), n == 13);
        }
        for _ in 0..99 {
            assert!(op.run(&13).is_err());
        }
        let stats = op.stats();
        let plain = of(&stats, "plain");
        assert_eq!((plain.failures, plain.quarantines), (100, 0), "{mode}");
    }
}

#[test]
fn a_new_revision_does_not_rewrite_what_happened() {
    let (clock, log) = (FakeClock::new(), Log::default());
    let selector = selector(&clock);
    let declare = |revision: u32| {
        numbers(&selector, "op")
            .reference(
                "plain",
                Backend::Scalar,
                takes(&clock, &log, "plain", MICRO),
            )
            .variant("new", Backend::Simd, move |n| {
                assert!(revision > 0, "boom");
                *n * 3
            })
            .revision(revision)
            .build()
            .unwrap()
    };
    let count = |revision: u32| {
        let op = declare(revision);
        for _ in 0..200 {
            op.run(&64);
        }
        let stats = op.stats();
        let new = of(&stats, "new");
        (new.failures, new.quarantines, new.in_quarantine)
    };
    assert_eq!(count(0), (1, 1, true));
    assert_eq!(count(1), (1, 1, false));
}

#[test]
fn calls_are_counted_by_reason_and_none_is_lost() {
    let (clock, log) = (FakeClock::new(), Log::default());
    let op = numbers(&selector(&clock), "op")
        .reference("plain", Backend::Scalar, takes(&clock, &log, "plain", 900))
        .variant("fast", Backend::Simd, takes(&clock, &log, "fast", 200))
        .build()
        .unwrap();
    let plan = op.plan(Workload::new([64]));
    for _ in 0..5_000 {
        op.run(&64);
        plan.run(&64);
    }
    let stats = op.stats();
    for variant in &stats.variants {
        let sum: u64 = variant.reasons.values().sum();
        assert_eq!(sum, variant.calls, "{variant:?}");
        let of = |reason: &str| variant.reasons.get(reason).copied().unwrap_or(0);
        assert_eq!(of("trial"), variant.trials);
        assert_eq!(of("first_try"), variant.first_tries);
    }
    let fast = of(&stats, "fast");
    assert!(fast.reasons["settled"] > 9_000, "{fast:?}");
    assert!(fast.reasons["historical"] > 0, "{fast:?}");
    let confidence = stats.confidence.unwrap();
    assert!((0.9..=1.0).contains(&confidence), "{confidence}");
    assert_eq!(stats.wrong_excess_ns, 0.0);
    drop(plan); // which reports what it has served
    op.reset();
    assert!(op.stats().variants.iter().all(|v| v.reasons.is_empty()));
}

#[test]
fn what_a_wrong_choice_costs_is_told() {
    let (clock, log) = (FakeClock::new(), Log::default());
    let op = numbers(&selector(&clock), "op")
        .reference("plain", Backend::Scalar, takes(&clock, &log, "plain", 900))
        .variant("fast", Backend::Simd, takes(&clock, &log, "fast", 200))
        .build()
        .unwrap();
    let [plain, fast] = ["plain", "fast"].map(|name| op.variant(name).unwrap());
    for _ in 0..10 {
        fast.measure(&64).unwrap();
    }
    // Warm-up, two samples that judge nothing yet, and ten calls that are 700 ns worse.
    for _ in 0..13 {
        plain.measure(&64).unwrap();
    }
    let wrong = op.stats().wrong_excess_ns;
    assert!((wrong / 7_000.0 - 1.0).abs() < 0.2, "{wrong}");
}
