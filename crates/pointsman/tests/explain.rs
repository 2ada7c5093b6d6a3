//! What a person and a program are told: explanations and statistics.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use common::{Log, MICRO, builder, numbers, selector, takes};
use pointsman::{Backend, Cap, FakeClock, Function, Handle, Machine, Mode, Reason, Workload};
use serde_json::Value;

type Op = Handle<Function<usize, usize>>;

fn fixture(clock: &FakeClock, log: &Log, panics: &Arc<AtomicBool>) -> Op {
    let machine = Machine::detect().without(Cap::Avx2);
    let (body, switch) = (takes(clock, log, "fast", 10 * MICRO), panics.clone());
    numbers(
        &builder(clock)
            .machine(machine)
            .disable("off")
            .build()
            .unwrap(),
        "dot",
    )
    .reference(
        "plain",
        Backend::Scalar,
        takes(clock, log, "plain", 40 * MICRO),
    )
    .variant("fast", Backend::Threads, move |n| {
        assert!(!switch.load(SeqCst), "boom");
        body(n)
    })
    .variant("avx2", Backend::Simd, takes(clock, log, "avx2", MICRO))
    .requires(Cap::Avx2)
    .variant("large", Backend::Gpu(0), takes(clock, log, "large", MICRO))
    .min_size(1_000_000)
    .variant("off", Backend::Simd, takes(clock, log, "off", MICRO))
    .build()
    .unwrap()
}

#[test]
fn the_table_has_every_variant_and_why_not() {
    let (clock, log) = (FakeClock::new(), Log::default());
    let op = fixture(&clock, &log, &Arc::default());
    for _ in 0..300 {
        op.run(&64);
    }
    let told = op.explain(Workload::new([64]));
    let names: Vec<&str> = told.variants.iter().map(|v| v.name.as_str()).collect();
    assert_eq!(names, ["plain", "fast", "avx2", "large", "off"]);
    assert_eq!((told.op.as_str(), told.chosen.as_str()), ("dot", "fast"));
    assert_eq!((told.reason, told.mode), (Reason::Historical, Mode::Learn));
    assert!(told.confidence > 0.8, "{told}");
    assert!(told.took_ns.is_none() && told.failed.is_empty());
    let why: Vec<Option<&str>> = told.variants.iter().map(|v| v.why_not.as_deref()).collect();
    assert_eq!(
        why,
        [
            None,
            None,
            Some("this machine has no avx2"),
            Some("size 64 is below 1000000"),
            Some("disabled"),
        ]
    );
    let eligible: Vec<bool> = told.variants.iter().map(|v| v.eligible()).collect();
    assert_eq!(eligible, [true, true, false, false, false]);
    assert!(told.variants[0].reference && !told.variants[1].reference);
    assert!(told.variants[1].samples > 10 && told.variants[2].samples == 0);
    let fast = told.variants[1].predicted;
    assert!((9_000.0..11_000.0).contains(&fast.ns()), "{}", fast.ns());
    assert!(fast.range_ns().0 < fast.ns() && fast.ns() < fast.range_ns().1);

    let table = told.to_string();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(
        lines.len(),
        3 + 5,
        "two lines, a head, one line each:\n{table}"
    );
    assert!(
        lines[0].starts_with("dot 64") && lines[0].contains("learn"),
        "{table}"
    );
    assert!(
        lines[1].starts_with("→ fast (historical, confidence"),
        "{table}"
    );
    for (line, name) in lines[3..].iter().zip(names) {
        assert!(line.contains(name), "{table}");
    }
    assert!(lines[5].contains("this machine has no avx2"), "{table}");
    assert!(
        table.lines().all(|line| line == line.trim_end()),
        "no trailing spaces"
    );
}

#[test]
fn two_equal_measurements_are_believed() {
    let (clock, log) = (FakeClock::new(), Log::default());
    let op = fixture(&clock, &log, &Arc::default());
    for _ in 0..300 {
        op.run(&64);
        let told = op.explain(Workload::new([64]));
        for (variant, us) in told.variants.iter().zip([40.0, 10.0]) {
            if variant.samples >= 2 {
                let off = variant.predicted.ns() / (us * 1e3);
                assert!(
                    (0.5..2.0).contains(&off),
                    "{off:.2} of what it took, each time: {told}"
                );
            }
        }
    }
}

#[test]
fn explaining_changes_nothing() {
    let (clock, log) = (FakeClock::new(), Log::default());
    let op = fixture(&clock, &log, &Arc::default());
    for _ in 0..100 {
        op.run(&64);
    }
    let before = (
        op.stats().calls,
        op.stats().cells,
        format!("{:?}", op.stats()),
    );
    for n in 0..2_000usize {
        op.explain(Workload::new([n * 997]));
    }
    let after = (
        op.stats().calls,
        op.stats().cells,
        format!("{:?}", op.stats()),
    );
    assert_eq!(after, before);
}

#[test]
fn an_explanation_is_json_with_the_documented_fields() {
    let (clock, log) = (FakeClock::new(), Log::default());
    let panics = Arc::new(AtomicBool::new(false));
    let op = fixture(&clock, &log, &panics);
    for _ in 0..300 {
        op.run(&64);
    }
    panics.store(true, SeqCst);
    let told = op.run_explained(&64).explanation;
    let json: Value = serde_json::from_str(&serde_json::to_string(&told).unwrap()).unwrap();
    let keys = |value: &Value| -> Vec<String> {
        let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        keys.sort_unstable();
        keys
    };
    assert_eq!(
        keys(&json),
        [
            "chosen",
            "confidence",
            "failed",
            "hot",
            "mode",
            "op",
            "policy",
            "reason",
            "took_ns",
            "variants",
            "workload"
        ]
    );
    assert_eq!(json["op"], "dot");
    assert_eq!(json["chosen"], "plain");
    assert_eq!(json["reason"], "fallback");
    assert_eq!(json["mode"], "learn");
    assert_eq!(json["took_ns"], 40_000);
    assert_eq!(
        json["failed"],
        serde_json::json!([["fast", "panicked: boom"]])
    );
    assert_eq!(json["workload"]["features"], serde_json::json!([64.0]));
    let variants = json["variants"].as_array().unwrap();
    assert_eq!(variants.len(), 5);
    for variant in variants {
        assert_eq!(
            keys(variant),
            [
                "assumed",
                "backend",
                "checked",
                "confidence",
                "failures",
                "name",
                "predicted",
                "quarantined",
                "reference",
                "samples",
                "why_not"
            ]
        );
        assert_eq!(
            keys(&variant["predicted"]),
            ["high_ns", "low_ns", "ns", "samples"]
        );
        for field in ["ns", "low_ns", "high_ns"] {
            assert!(
                variant["predicted"][field].is_f64(),
                "a number, not null: {variant}"
            );
        }
    }
    assert_eq!(variants[3]["backend"], "gpu:0");
}

#[test]
fn quarantine_is_visible_with_the_time_that_is_left() {
    let (clock, log) = (FakeClock::new(), Log::default());
    let panics = Arc::new(AtomicBool::new(false));
    let op = fixture(&clock, &log, &panics);
    for _ in 0..300 {
        op.run(&64);
    }
    panics.store(true, SeqCst);
    op.run_explained(&64);
    let why = || op.explain(Workload::new([64])).variants[1].why_not.clone();
    assert!(
        why()
            .unwrap()
            .starts_with("quarantined for 1000 ms: panicked: boom")
            || why()
                .unwrap()
                .starts_with("quarantined for 1.00 s: panicked: boom"),
        "{:?}",
        why()
    );
    clock.advance(Duration::from_millis(750));
    let text = why().unwrap();
    assert!(text.starts_with("quarantined for 250 ms"), "{text}");
    let told = op.explain(Workload::new([64]));
    let in_quarantine: Vec<bool> = told.variants.iter().map(|v| v.quarantined).collect();
    assert_eq!(in_quarantine, [false, true, false, false, false]);
    let table = told.to_string();
    assert!(table.contains("quarantined for 250 ms"), "{table}");
    clock.advance(Duration::from_millis(250));
    assert_eq!(
        why(),
        None,
        "its time is over: the next call may be served by it"
    );
}

#[test]
fn a_preference_for_a_backend_that_is_not_there_is_not_called_forced() {
    let (clock, log) = (FakeClock::new(), Log::default());
    let op = fixture(&clock, &log, &Arc::default());
    for _ in 0..300 {
        op.run(&64);
    }
    let told = op.explain(Workload::new([64]).prefer(Backend::Gpu(7)));
    assert_eq!(
        (told.chosen.as_str(), told.reason),
        ("fast", Reason::Historical)
    );
}

#[test]
fn an_explained_run_tells_what_it_did() {
    let (clock, log) = (FakeClock::new(), Log::default());
    let op = fixture(&clock, &log, &Arc::default());
    for _ in 0..300 {
        log.take();
        let told = op.run_explained(&64).explanation;
        assert_eq!(log.take(), [told.chosen.as_str()]);
        assert_eq!(
            told.took_ns,
            Some(if told.chosen == "fast" {
                10_000
            } else {
                40_000
            })
        );
        assert!((0.0..=1.0).contains(&told.confidence));
    }
}

#[test]
fn calls_are_counted_exactly() {
    // Long calls are timed often, short ones rarely: neither may count twice or not at all.
    for ns in [100, 5 * MICRO, 100 * MICRO, 5_000 * MICRO] {
        let (clock, log) = (FakeClock::new(), Log::default());
        let op = numbers(&selector(&clock), "op")
            .reference(
                "plain",
                Backend::Scalar,
                takes(&clock, &log, "plain", 4 * ns),
            )
            .variant("fast", Backend::Simd, takes(&clock, &log, "fast", ns))
            .build()
            .unwrap();
        for i in 0..1_000usize {
            op.run(&(64 << (i % 3)));
        }
        let stats = op.stats();
        assert_eq!(stats.calls, 1_000, "{ns} ns");
        for v in &stats.variants {
            assert_eq!(v.calls, log.count(&v.name) as u64, "{ns} ns: {}", v.name);
        }
        assert_eq!(stats.backends.values().map(|b| b.calls).sum::<u64>(), 1_000);
    }
}

#[test]
fn a_call_with_failed_attempts_counts_once() {
    let (clock, log) = (FakeClock::new(), Log::default());
    let op = numbers(&selector(&clock), "op")
        .reference(
            "plain",
            Backend::Scalar,
            takes(&clock, &log, "plain", 40 * MICRO),
        )
        .try_variant("never", Backend::Simd, |_| Err::<usize, _>("no"))
        .build()
        .unwrap();
    for _ in 0..500 {
        op.run(&64);
        clock.advance(Duration::from_secs(5));
    }
    let stats = op.stats();
    assert!(stats.failures > 0);
    assert_eq!(stats.calls, 500, "{} failures", stats.failures);
    assert_eq!(log.count("plain"), 500);
}

#[test]
fn statistics_add_up() {
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
        .build()
        .unwrap();
    assert_eq!(op.stats().right_share, None, "nothing to compare yet");
    let mut tried = (0u64, 0u64);
    for _ in 0..2_000 {
        match op.run_explained(&64).explanation.reason {
            Reason::Trial => tried.0 += 1,
            Reason::FirstTry => tried.1 += 1,
            _ => {}
        }
    }
    let stats = op.stats();
    assert_eq!((stats.trials, stats.first_tries), tried);
    assert_eq!((stats.calls, stats.cells, stats.failures), (2_000, 1, 0));
    assert_eq!(stats.variants[0].name, "fast", "most used first");
    assert!(stats.right_share.unwrap() > 0.98, "{:?}", stats.right_share);
    assert_eq!(stats.recent.len(), 32);
    let last = stats.recent.last().unwrap();
    assert_eq!(
        (last.workload, last.took_ns.is_some()),
        (Workload::new([64]), true)
    );
    assert_eq!(
        stats.rejected.get("warm_up"),
        Some(&2),
        "one per variant: {:?}",
        stats.rejected
    );
    let text = stats.to_string();
    for part in [
        "op: 2000 calls",
        "variant  backend",
        "fast     simd",
        "plain    scalar",
        "trials",
        "right in hindsight",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let json = serde_json::to_value(&stats).unwrap();
    assert_eq!(json["calls"], 2_000);
    assert_eq!(json["recent"].as_array().unwrap().len(), 32);

    op.reset();
    let stats = op.stats();
    assert_eq!(
        (stats.calls, stats.trials, stats.first_tries, stats.cells),
        (0, 0, 0, 0)
    );
    assert_eq!((stats.served_ns, stats.right_share), (0.0, None));
    assert!(stats.recent.is_empty() && stats.rejected.is_empty());
    for _ in 0..300 {
        op.run(&64);
    }
    assert_eq!(op.stats().calls, 300, "and it learns again");
    assert_eq!(op.explain(Workload::new([64])).chosen, "fast");
}

#[test]
fn served_time_is_near_the_truth_however_rarely_calls_are_timed() {
    for ns in [100, 5 * MICRO, 100 * MICRO] {
        let (clock, log) = (FakeClock::new(), Log::default());
        let op = numbers(&selector(&clock), "op")
            .reference("plain", Backend::Scalar, takes(&clock, &log, "plain", ns))
            .build()
            .unwrap();
        let calls = 200_000;
        for _ in 0..calls {
            op.run(&64);
        }
        let ratio = op.stats().served_ns / (calls * ns) as f64;
        assert!(
            (0.8..1.25).contains(&ratio),
            "{ns} ns: booked {ratio:.2} of the time served"
        );
    }
}

#[test]
fn quarantines_of_an_earlier_run_are_counted_once() {
    use pointsman::store::{Entry, Fact, Knowledge, MemoryStore, Store};
    let clock = FakeClock::new();
    let store = MemoryStore::new();
    let entry = Entry {
        machine: Machine::detect().fingerprint(),
        op: "op".into(),
        variant: "fast".into(),
        revision: 0,
        cell: Workload::new([64]).cell(),
        updated: 0,
        fact: Fact::Disagreed,
    };
    let change = Knowledge {
        entries: vec![entry],
        machines: Vec::new(),
    };
    store.clone().merge(&change).unwrap();
    let selector = builder(&clock).store(store).build().unwrap();
    let log = Log::default();
    let declare = || {
        numbers(&selector, "op")
            .reference(
                "plain",
                Backend::Scalar,
                takes(&clock, &log, "plain", MICRO),
            )
            .variant("fast", Backend::Simd, takes(&clock, &log, "fast", 10))
            .build()
            .unwrap()
    };
    let handles = [declare(), declare(), declare()];
    for op in &handles {
        op.run(&64);
    }
    assert_eq!(log.count("fast"), 0);
    assert_eq!(handles[0].stats().quarantines, 1);
}

#[test]
fn a_call_is_explained_by_its_arguments_and_a_workload_by_what_is_assumed() {
    let (clock, log) = (FakeClock::new(), Log::default());
    let op = numbers(&selector(&clock), "even")
        .reference(
            "plain",
            Backend::Scalar,
            takes(&clock, &log, "plain", 40 * MICRO),
        )
        .variant(
            "even",
            Backend::Simd,
            takes(&clock, &log, "even", 10 * MICRO),
        )
        .when(|n| **n % 2 == 0)
        .build()
        .unwrap();
    for _ in 0..300 {
        op.run(&64);
    }
    let ran = log.take().len();
    // 64 and 65 share a cell: what was learned of one is known of the other.
    let (even, odd) = (op.explain_call(&&64), op.explain_call(&&65));
    assert_eq!(
        (even.chosen.as_str(), odd.chosen.as_str()),
        ("even", "plain")
    );
    assert_eq!(odd.reason, Reason::OnlyEligible);
    let why = odd.variants[1].why_not.as_deref();
    assert_eq!(why, Some("its condition says no"));
    assert!(!even.variants[1].assumed && !odd.variants[1].assumed);
    let told = op.explain(Workload::new([65]));
    let assumed: Vec<bool> = told.variants.iter().map(|v| v.assumed).collect();
    assert_eq!(
        (told.chosen.as_str(), &assumed[..]),
        ("even", &[false, true][..])
    );
    assert!(
        told.to_string().contains("if its condition holds"),
        "{told}"
    );
    assert!(!even.to_string().contains("condition"), "{even}");
    assert_eq!((ran, log.take().len()), (300, 0), "explaining runs nothing");
}
