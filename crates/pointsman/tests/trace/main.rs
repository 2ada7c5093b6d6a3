//! Spans: who watches a program sees which calls were sent where and why, as long as they took, and
//! nothing of it changes what is learned.

#[path = "../common/mod.rs"]
mod common;
mod recorder;
mod sampling;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use common::{Log, MICRO, Numbers, builder, numbers, selector, takes, truth};
use pointsman::{
    Backend, Candidate, FakeClock, Machine, Mode, Outcome, Selector, SelectorBuilder, Workload,
    policy,
};
use recorder::{Recorder, alone};

/// An op with a slow reference and a variant of 200 µs, which is slow enough to be traced.
fn slow(selector: &Selector, clock: &FakeClock, log: &Log) -> Numbers {
    numbers(selector, "op")
        .reference(
            "plain",
            Backend::Scalar,
            takes(clock, log, "plain", 900 * MICRO),
        )
        .variant(
            "fast",
            Backend::Simd,
            takes(clock, log, "fast", 200 * MICRO),
        )
}

/// Whether a number is what was measured, but for what the model adds.
fn is_near(told: &str, ns: u64) -> bool {
    let told: f64 = told.parse().unwrap();
    (told / ns as f64 - 1.0).abs() < 0.01
}

fn with(clock: &FakeClock, set: impl FnOnce(SelectorBuilder) -> SelectorBuilder) -> Selector {
    set(builder(clock)).build().unwrap()
}

#[test]
fn a_settled_call_has_two_spans_one_after_the_other_in_the_callers() {
    let _alone = alone();
    let (clock, log) = (FakeClock::new(), Log::default());
    let op = slow(&selector(&clock), &clock, &log).build().unwrap();
    for _ in 0..300 {
        op.run(&64);
    }
    // Whether or not this very call is one that is learned from.
    let recorder = Recorder::new(&clock);
    recorder.listen(|| {
        for _ in 0..32 {
            let _request = tracing::info_span!("request").entered();
            assert_eq!(op.run(&64), truth(64));
        }
    });
    let spans = recorder.spans();
    assert_eq!(spans.len(), 64, "every slow call is traced");
    for pair in spans.chunks(2) {
        let [selection, execution] = pair else {
            panic!("{pair:?}")
        };
        assert_eq!(
            (selection.name, execution.name),
            ("backend_selection", "compute_block")
        );
        for span in pair {
            assert_eq!(span.parent, Some("request"));
            assert_eq!(span.fields["operation"], "op");
            assert_eq!(span.fields["input_size"], "64");
            assert_eq!(span.fields["selected_variant"], "fast");
            assert_eq!(span.fields["selected_backend"], "simd");
        }
        assert_eq!(selection.fields["otel.name"], "backend_selection: op");
        assert_eq!(execution.fields["otel.name"], "compute_block: op");
        assert_eq!(selection.fields["workload"], "64");
        assert_eq!(selection.fields["has_history"], "true");
        assert_eq!(selection.fields["decision_type"], "historical");
        assert_eq!(selection.fields["reason"], "historical");
        assert!(is_near(&selection.fields["predicted_ns"], 200 * MICRO));
        let confidence: f64 = selection.fields["confidence"].parse().unwrap();
        assert!((0.9..=1.0).contains(&confidence), "{confidence}");
        assert!(!execution.fields.contains_key("error"));
        // One after the other, and the second as long as the variant ran.
        assert!(selection.closed < execution.opened, "{pair:?}");
        let took = execution.closed_ns.unwrap() - execution.opened_ns;
        assert_eq!(took, 200 * MICRO);
    }
    let timed = spans.iter().filter_map(|s| s.fields.get("took_ns"));
    let timed: Vec<_> = timed.collect();
    assert!(
        !timed.is_empty() && timed.iter().all(|ns| **ns == "200000"),
        "{timed:?}"
    );
}

#[test]
fn the_first_calls_tell_what_was_guessed_and_what_was_tried() {
    let _alone = alone();
    let (clock, log) = (FakeClock::new(), Log::default());
    let selector = with(&clock, |b| b.trace_share(1.0));
    let op = slow(&selector, &clock, &log).build().unwrap();
    let recorder = Recorder::new(&clock);
    recorder.listen(|| (0..100).for_each(|_| _ = op.run(&64)));
    let spans = recorder.spans();
    assert_eq!(spans.len(), 200);
    let selections: Vec<_> = spans.iter().step_by(2).collect();
    assert_eq!(selections[0].fields["has_history"], "false");
    assert!(selections[0].fields.contains_key("choice_ns"));
    let of = |kind: &str| {
        selections
            .iter()
            .filter(|s| s.fields["decision_type"] == kind)
            .count()
    };
    assert!(of("trial") > 0);
    assert!(of("historical") > 60);
    let told: u64 = op.stats().trials + op.stats().first_tries;
    assert_eq!(of("trial") as u64, told, "as many as the statistics say");
    // What they say is who ran.
    let ran: Vec<_> = log.take();
    let said = selections
        .iter()
        .map(|s| s.fields["selected_variant"].as_str());
    assert_eq!(ran, said.collect::<Vec<_>>());
}

/// The kind of decision of a call that comes after some others.
fn kind_after(calls: usize, set: impl FnOnce(SelectorBuilder) -> SelectorBuilder) -> [String; 2] {
    let (clock, log) = (FakeClock::new(), Log::default());
    let op = slow(&with(&clock, set), &clock, &log).build().unwrap();
    (0..calls).for_each(|_| _ = op.run(&64));
    let recorder = Recorder::new(&clock);
    // Twice: the first through the learner, the second by what is published, where it is.
    recorder.listen(|| (0..2).for_each(|_| _ = op.run(&64)));
    let spans = recorder.spans();
    assert_eq!(spans.len(), 4, "{spans:?}");
    let kinds = |at: usize| {
        (
            spans[at].fields["decision_type"].clone(),
            spans[at].fields["reason"].clone(),
        )
    };
    assert_eq!(kinds(0), kinds(2));
    kinds(0).into()
}

#[test]
fn decisions_are_told_apart() {
    let _alone = alone();
    let all = |b: SelectorBuilder| b.trace_slower_than(Duration::ZERO);
    assert_eq!(kind_after(300, all), ["historical", "historical"]);
    assert_eq!(
        kind_after(300, |b| all(b).force("plain")),
        ["forced", "forced"]
    );
    assert_eq!(
        kind_after(5, |b| all(b).mode(Mode::Reference)),
        ["forced", "reference"]
    );
    assert_eq!(
        kind_after(5, |b| all(b).mode(Mode::Frozen)),
        ["frozen", "frozen"]
    );
    let fixed = || policy::parse("fixed(plain)").unwrap();
    assert_eq!(
        kind_after(40, |b| all(b).policy(fixed())),
        ["historical", "policy"]
    );
    assert_eq!(
        kind_after(40, |b| all(b).disable("fast")),
        ["forced", "only_eligible"]
    );
}

#[test]
fn an_execution_on_a_gpu_is_a_gpu_kernel() {
    let _alone = alone();
    let (clock, log) = (FakeClock::new(), Log::default());
    let machine = Machine::detect().with_gpu("scripted", "1");
    let op = numbers(&with(&clock, |b| b.machine(machine)), "op")
        .reference(
            "plain",
            Backend::Scalar,
            takes(&clock, &log, "plain", 900 * MICRO),
        )
        .variant(
            "wgsl",
            Backend::Gpu(0),
            takes(&clock, &log, "wgsl", 200 * MICRO),
        )
        .build()
        .unwrap();
    (0..300).for_each(|_| _ = op.run(&64));
    let recorder = Recorder::new(&clock);
    let plan = op.plan(Workload::new([64]));
    recorder.listen(|| {
        (0..20).for_each(|_| _ = op.run(&64));
        (0..20).for_each(|_| _ = plan.run(&64));
    });
    let spans = recorder.spans();
    assert_eq!(spans.len(), 80);
    let kernels: Vec<_> = spans.iter().filter(|s| s.name == "gpu_kernel").collect();
    assert!(kernels.len() >= 38, "{} of 40", kernels.len());
    assert_eq!(kernels[0].fields["otel.name"], "gpu_kernel: op");
    assert_eq!(kernels[0].fields["selected_backend"], "gpu:0");
}

#[derive(Debug)]
struct Broken;

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the pipe is broken")
    }
}

impl std::error::Error for Broken {}

/// An op whose fast variant fails when told to.
fn failing(selector: &Selector, clock: &FakeClock, ns: u64) -> (Numbers, Arc<AtomicBool>) {
    let log = Log::default();
    let fails = Arc::new(AtomicBool::new(false));
    let (body, switch) = (takes(clock, &log, "fast", ns), fails.clone());
    let op = numbers(selector, "op")
        .reference(
            "plain",
            Backend::Scalar,
            takes(clock, &log, "plain", 4 * ns),
        )
        .try_variant("fast", Backend::Simd, move |n| match body(n) {
            _ if switch.load(SeqCst) => Err(Broken),
            value => Ok(value),
        });
    (op, fails)
}

#[test]
fn a_failure_and_the_fallback_are_told_where_they_happened() {
    let _alone = alone();
    let clock = FakeClock::new();
    let (op, fails) = failing(&selector(&clock), &clock, 200 * MICRO);
    let op = op.build().unwrap();
    (0..300).for_each(|_| _ = op.run(&64));
    fails.store(true, SeqCst);
    let recorder = Recorder::new(&clock);
    recorder.listen(|| {
        let _request = tracing::info_span!("request").entered();
        assert_eq!(op.run(&64), truth(64));
    });
    let spans = recorder.spans();
    let names: Vec<_> = spans.iter().map(|s| s.name).collect();
    assert_eq!(
        names,
        [
            "backend_selection",
            "compute_block",
            "backend_selection",
            "compute_block"
        ]
    );
    assert!(spans.iter().all(|s| s.parent == Some("request")));
    assert!(spans.is_sorted_by(|a, b| a.closed < b.opened), "{spans:?}");
    assert_eq!(spans[1].fields["error"], "the pipe is broken");
    assert_eq!(spans[1].fields["otel.status_code"], "ERROR");
    assert_eq!(spans[2].fields["decision_type"], "fallback");
    assert_eq!(spans[3].fields["selected_variant"], "plain");
    assert!(!spans[3].fields.contains_key("error"));
    let events = recorder.events();
    let [failed, fell_back] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(failed.parent, Some("compute_block"));
    assert_eq!(failed.fields["message"], "variant failed");
    assert_eq!(failed.fields["error"], "the pipe is broken");
    assert_eq!(fell_back.parent, Some("backend_selection"));
    assert_eq!(fell_back.fields["message"], "fell back");
    assert_eq!(fell_back.fields["failed_variant"], "fast");
    assert_eq!(fell_back.fields["selected_variant"], "plain");
    assert_eq!(fell_back.fields["error"], "the pipe is broken");
}

#[test]
fn a_failure_is_told_also_of_a_call_that_is_not_traced() {
    let _alone = alone();
    let clock = FakeClock::new();
    let selector = with(&clock, |b| b.trace_share(0.0));
    let (op, fails) = failing(&selector, &clock, MICRO);
    let op = op.build().unwrap();
    (0..300).for_each(|_| _ = op.run(&64));
    fails.store(true, SeqCst);
    let recorder = Recorder::new(&clock);
    recorder.listen(|| {
        let _request = tracing::info_span!("request").entered();
        op.run(&64)
    });
    assert!(recorder.spans().is_empty());
    let events = recorder.events();
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(events.iter().all(|e| e.parent == Some("request")));
    assert!(
        events
            .iter()
            .all(|e| e.fields["error"] == "the pipe is broken")
    );
}

#[test]
fn f28_the_error_and_the_panic_of_a_reference_are_told() {
    let _alone = alone();
    let clock = FakeClock::new();
    let selector = with(&clock, |b| b.trace_share(1.0));
    let erring = selector
        .function("erring", |n: &usize| Workload::new([*n]))
        .try_reference("plain", Backend::Scalar, |_| Err::<usize, _>(Broken))
        .build()
        .unwrap();
    let panicking = numbers(&selector, "panicking")
        .reference("plain", Backend::Scalar, |_| panic!("boom"))
        .build()
        .unwrap();
    let recorder = Recorder::new(&clock);
    recorder.listen(|| {
        assert!(erring.run(&64).is_err());
        let run = std::panic::AssertUnwindSafe(|| panicking.run(&64));
        assert!(std::panic::catch_unwind(run).is_err());
    });
    let errors: Vec<_> = recorder
        .spans()
        .iter()
        .filter_map(|s| s.fields.get("error").cloned())
        .collect();
    assert_eq!(errors, ["the pipe is broken", "panicked: boom"]);
    assert_eq!(recorder.events().len(), 2);
}

#[test]
fn calls_inside_a_variant_are_inside_its_span() {
    let _alone = alone();
    let (clock, log) = (FakeClock::new(), Log::default());
    let selector = with(&clock, |b| b.trace_share(1.0));
    let inner = numbers(&selector, "inner")
        .reference(
            "plain",
            Backend::Scalar,
            takes(&clock, &log, "inner", MICRO),
        )
        .build()
        .unwrap();
    let outer = numbers(&selector, "outer")
        .reference("plain", Backend::Scalar, move |n| inner.run(n))
        .build()
        .unwrap();
    let recorder = Recorder::new(&clock);
    recorder.listen(|| outer.run(&64));
    let spans = recorder.spans();
    let told: Vec<_> = spans
        .iter()
        .map(|s| (s.fields["otel.name"].as_str(), s.parent))
        .collect();
    assert_eq!(
        told,
        [
            ("backend_selection: outer", None),
            ("compute_block: outer", None),
            ("backend_selection: inner", Some("compute_block")),
            ("compute_block: inner", Some("compute_block")),
        ]
    );
}

#[test]
fn a_caller_who_runs_the_work_has_a_span_for_it() {
    let _alone = alone();
    let clock = FakeClock::new();
    let selector = selector(&clock);
    let call = || {
        let decision = selector.decide("sort", &Workload::new([64]), &["scalar", "gpu:0"]);
        let ns = if decision.variant() == "scalar" {
            900
        } else {
            200
        } * MICRO;
        selector
            .span(&decision)
            .in_scope(|| common::spend(&clock, ns));
        selector.record(&decision, Outcome::took(Duration::from_nanos(ns)));
    };
    (0..300).for_each(|_| call());
    let recorder = Recorder::new(&clock);
    recorder.listen(|| {
        for _ in 0..32 {
            let _request = tracing::info_span!("request").entered();
            call();
        }
    });
    let spans = recorder.spans();
    assert_eq!(spans.len(), 64);
    for pair in spans.chunks(2) {
        assert_eq!(
            (pair[0].name, pair[1].name),
            ("backend_selection", "gpu_kernel")
        );
        assert!(pair.iter().all(|s| s.parent == Some("request")));
        assert_eq!(pair[0].fields["selected_variant"], "gpu:0");
        assert_eq!(pair[0].fields["decision_type"], "historical");
        assert!(is_near(&pair[0].fields["predicted_ns"], 200 * MICRO));
        assert_eq!(pair[1].closed_ns.unwrap() - pair[1].opened_ns, 200 * MICRO);
    }
    let events = recorder.events();
    assert_eq!(events.len(), 32);
    assert_eq!(events[0].fields["message"], "recorded");
    assert_eq!(events[0].fields["outcome"], "took");
    assert_eq!(events[0].fields["took_ns"], "200000");

    let decision = selector.decide("sort", &Workload::new([64]), &["scalar", "gpu:0"]);
    assert!(selector.span(&decision).is_none(), "nobody listens");
    recorder.listen(|| selector.record(&decision, Outcome::failed()));
    assert_eq!(recorder.events()[0].fields["message"], "variant failed");
}

#[test]
fn measuring_ahead_of_calls_is_traced_too() {
    let _alone = alone();
    let (clock, log) = (FakeClock::new(), Log::default());
    let op = slow(&selector(&clock), &clock, &log).build().unwrap();
    let fast = op.variant("fast").unwrap();
    (0..10).for_each(|_| _ = fast.measure(&64));
    let recorder = Recorder::new(&clock);
    recorder.listen(|| fast.measure(&64)).unwrap();
    let spans = recorder.spans();
    assert_eq!(spans.len(), 2);
    assert_eq!(spans[0].fields["decision_type"], "forced");
    assert_eq!(spans[1].fields["took_ns"], "200000");
}

#[test]
fn who_wants_warnings_only_hears_of_no_call() {
    let _alone = alone();
    use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
    let (clock, log) = (FakeClock::new(), Log::default());
    let op = slow(&selector(&clock), &clock, &log).build().unwrap();
    let recorder = Recorder::new(&clock);
    let filter: tracing_subscriber::filter::Targets = "info,pointsman::trace=warn".parse().unwrap();
    let layer = recorder.clone().with_filter(filter);
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::with_default(subscriber, || (0..300).for_each(|_| _ = op.run(&64)));
    assert!(recorder.spans().is_empty() && recorder.events().is_empty());
}

#[test]
fn prepared_ops_are_traced_too() {
    let _alone = alone();
    let clock = FakeClock::new();
    let selector = selector(&clock);
    let candidates = [
        Candidate::new("plain", Backend::Scalar),
        Candidate::new("fast", Backend::Gpu(0)),
    ];
    let op = selector.prepare("prepared", &candidates).unwrap();
    let workload = Workload::new([64]);
    let call = || {
        let chosen = op.choose(&workload, 0b11).unwrap();
        let run = || clock.advance(Duration::from_micros([900, 200][chosen.index()]));
        op.span(&chosen, &workload).in_scope(|| {
            let ((), cost) = op.clocked(&chosen, run);
            if chosen.is_timed() {
                op.served(&chosen, &workload, cost);
            }
        });
    };
    (0..300).for_each(|_| call());
    let recorder = Recorder::new(&clock);
    recorder.listen(|| (0..32).for_each(|_| call()));
    let spans = recorder.spans();
    assert_eq!(spans.len(), 64, "every slow call is traced");
    for pair in spans.chunks(2) {
        let [selection, execution] = pair else {
            panic!("{pair:?}")
        };
        assert_eq!(selection.fields["otel.name"], "backend_selection: prepared");
        assert_eq!(selection.fields["decision_type"], "historical");
        assert!(is_near(&selection.fields["predicted_ns"], 200 * MICRO));
        assert_eq!(execution.fields["otel.name"], "gpu_kernel: prepared");
        assert_eq!(execution.fields["selected_variant"], "fast");
        let took = execution.closed_ns.unwrap() - execution.opened_ns;
        assert_eq!(took, 200 * MICRO);
    }
}
