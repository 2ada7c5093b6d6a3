//! Which calls are traced, and that it makes no difference to anything else.

use std::time::Duration;

use pointsman::{Backend, BuildError, FakeClock, Outcome, Selector, SelectorBuilder, Workload};

use super::common::{Log, MICRO, builder, numbers, spend, takes};
use super::recorder::{Recorder, alone};
use super::with;

/// Ways to call an op.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Run,
    Plan,
    ByName,
}

const WAYS: [Way; 3] = [Way::Run, Way::Plan, Way::ByName];

/// An op of two variants that is called in one of the ways, and what it did.
struct Driven {
    clock: FakeClock,
    log: Log,
    selector: Selector,
    recorder: Recorder,
    call: Box<dyn Fn()>,
}

impl Driven {
    fn new(way: Way, ns: u64, set: impl FnOnce(SelectorBuilder) -> SelectorBuilder) -> Self {
        let (clock, log) = (FakeClock::new(), Log::default());
        let selector = with(&clock, set);
        let op = numbers(&selector, "op")
            .reference(
                "plain",
                Backend::Scalar,
                takes(&clock, &log, "plain", 4 * ns),
            )
            .variant("fast", Backend::Simd, takes(&clock, &log, "fast", ns))
            .build()
            .unwrap();
        let call: Box<dyn Fn()> = match way {
            Way::Run => Box::new(move || _ = op.run(&64)),
            Way::Plan => {
                let plan = op.plan(Workload::new([64]));
                Box::new(move || _ = plan.run(&64))
            }
            Way::ByName => {
                let (selector, clock, log) = (selector.clone(), clock.clone(), log.clone());
                Box::new(move || {
                    let names = ["plain", "fast"];
                    let decision = selector.decide("op", &Workload::new([64]), &names);
                    let ns = if decision.index() == 0 { 4 * ns } else { ns };
                    log.note(names[decision.index()]);
                    spend(&clock, ns);
                    selector.record(&decision, Outcome::took(Duration::from_nanos(ns)));
                })
            }
        };
        Driven {
            recorder: Recorder::new(&clock),
            clock,
            log,
            selector,
            call,
        }
    }

    /// Calls, with a pause after each; the numbers of those that were traced.
    fn calls(&self, calls: usize, pause_ns: u64) -> Vec<usize> {
        let mut traced = Vec::new();
        self.recorder.listen(|| {
            for i in 0..calls {
                (self.call)();
                spend(&self.clock, pause_ns);
                let spans = self.recorder.spans();
                let selections = spans.iter().filter(|s| s.name == "backend_selection");
                traced.extend(selections.map(|_| i));
            }
        });
        traced
    }

    /// The same without anybody who listens.
    fn unheard(&self, calls: usize, pause_ns: u64) {
        for _ in 0..calls {
            (self.call)();
            spend(&self.clock, pause_ns);
        }
    }

    /// All that was learned, as text.
    fn learned(&self) -> String {
        let names = ["plain", "fast"];
        let mut told = self
            .selector
            .explain("op", &Workload::new([64]), &names)
            .unwrap();
        told.hot = false; // which is not learned
        format!("{:?}\n{told:?}", self.selector.stats())
    }
}

/// So that no op is hot, which is another test.
const APART: u64 = 200 * MICRO;

#[test]
fn the_share_of_fast_calls_that_is_traced_is_the_one_that_was_set() {
    let _alone = alone();
    for way in WAYS {
        for share in [0.0, 0.01, 0.25, 1.0] {
            let driven = Driven::new(way, MICRO, |b| b.trace_share(share));
            let traced = driven.calls(20_000, APART).len() as f64;
            let due = 20_000.0 * share;
            // Three sequences, each exact to one or two: through the learner, and a variant's each.
            assert!((traced - due).abs() <= 6.0, "{way:?}: {traced} for {due}");
            assert!(share > 0.0 || traced == 0.0);
            assert!(share < 1.0 || traced == 20_000.0, "{way:?}: {traced}");
        }
    }
}

#[test]
fn the_default_is_one_call_in_a_hundred() {
    let _alone = alone();
    let traced = Driven::new(Way::Run, 99 * MICRO, |b| b)
        .calls(10_000, APART)
        .len();
    assert!((94..=106).contains(&traced), "{traced}");
}

#[test]
fn a_seed_draws_the_same_calls_every_time_and_another_seed_others() {
    let _alone = alone();
    for way in WAYS {
        let drawn = |seed| Driven::new(way, MICRO, |b| b.seed(seed)).calls(5_000, APART);
        let first = drawn(1);
        assert_eq!(first, drawn(1), "{way:?}");
        assert_ne!(first, drawn(2), "{way:?}");
    }
}

#[test]
fn calls_from_the_threshold_on_are_all_traced() {
    let _alone = alone();
    for way in WAYS {
        let count = |ns: u64, slow: Option<u64>| {
            let driven = Driven::new(way, ns, |b| match slow {
                Some(us) => b.trace_slower_than(Duration::from_micros(us)),
                None => b,
            });
            driven.unheard(500, APART);
            driven.calls(1_000, APART).len()
        };
        let fast = count(98 * MICRO, None);
        assert!(fast < 20, "{way:?}: {fast} of 1,000 below the threshold");
        assert_eq!(count(102 * MICRO, None), 1_000, "{way:?}");
        assert_eq!(count(98 * MICRO, Some(50)), 1_000, "{way:?}");
        let fast = count(102 * MICRO, Some(1_000));
        assert!(
            fast < 20,
            "{way:?}: {fast} of 1,000 below its own threshold"
        );
    }
}

/// Pauses for 20,000 and for 2,000 calls a second of 10 µs.
const OFTEN: u64 = 40 * MICRO;
const SELDOM: u64 = 490 * MICRO;

#[test]
fn a_hot_op_is_not_traced_until_it_cools_and_goes_on_learning() {
    let _alone = alone();
    for way in WAYS {
        for share in [0.01, 1.0] {
            let heard = Driven::new(way, 10 * MICRO, |b| b.trace_share(share));
            let twin = Driven::new(way, 10 * MICRO, |b| b.trace_share(share));
            let names = ["plain", "fast"];
            let explain = || {
                heard
                    .selector
                    .explain("op", &Workload::new([64]), &names)
                    .unwrap()
            };
            let due = |calls: f64| (share * calls) as usize;

            let cool = heard.calls(4_000, SELDOM).len();
            twin.unheard(4_000, SELDOM);
            assert!(cool.abs_diff(due(4_000.0)) <= 6, "{way:?} {share}: {cool}");
            assert!(!explain().hot);
            assert_eq!(heard.learned(), twin.learned(), "{way:?} {share}");

            let warming = heard.calls(20_000, OFTEN);
            twin.unheard(20_000, OFTEN);
            // 10,000 calls of the last second are there after half a second.
            assert!(!warming.is_empty(), "{way:?} {share}");
            let last = *warming.last().unwrap();
            assert!(
                (5_000..11_000).contains(&last),
                "{way:?} {share}: until {last}"
            );
            let hot = heard.calls(40_000, OFTEN);
            twin.unheard(40_000, OFTEN);
            assert_eq!(hot, [0usize; 0], "{way:?} {share}");
            assert!(explain().hot);
            let shown = explain().to_string();
            assert!(
                shown.contains("hot: called too often to be traced"),
                "{shown}"
            );
            assert_eq!(heard.learned(), twin.learned(), "{way:?} {share}");

            let cooling = heard.calls(6_000, SELDOM);
            twin.unheard(6_000, SELDOM);
            // Within a second, 2,000 calls.
            let first = cooling.first().copied().unwrap_or(usize::MAX);
            assert!(first < 2_200, "{way:?} {share}: from {first} on");
            let again = heard.calls(4_000, SELDOM).len();
            twin.unheard(4_000, SELDOM);
            assert!(
                again.abs_diff(due(4_000.0)) <= 6,
                "{way:?} {share}: {again}"
            );
            assert!(!explain().hot);
            assert_eq!(heard.learned(), twin.learned(), "{way:?} {share}");
            assert_eq!(heard.log.take(), twin.log.take(), "{way:?} {share}");
        }
    }
}

#[test]
fn the_limit_of_a_hot_op_can_be_set() {
    let _alone = alone();
    let traced = |limit: f64| {
        let set = |b: SelectorBuilder| b.trace_share(1.0).trace_hot_above(limit);
        let driven = Driven::new(Way::Run, 10 * MICRO, set);
        driven.unheard(20_000, OFTEN);
        driven.calls(2_000, OFTEN).len()
    };
    assert_eq!(traced(f64::INFINITY), 2_000);
    assert_eq!(traced(30_000.0), 2_000);
    assert!(traced(15_000.0) < 2_000);
    assert_eq!(traced(0.0), 0);
}

#[test]
fn what_is_learned_is_the_same_whether_or_not_anybody_listens() {
    let _alone = alone();
    for way in WAYS {
        for ns in [300, 20 * MICRO, 150 * MICRO] {
            for share in [0.0, 0.01, 0.5, 1.0] {
                let set = |b: SelectorBuilder| b.trace_share(share).trace_hot_above(f64::INFINITY);
                let heard = Driven::new(way, ns, set);
                let twin = Driven::new(way, ns, |b| b.trace_share(0.0));
                heard.calls(6_000, 0);
                twin.unheard(6_000, 0);
                assert_eq!(heard.log.take(), twin.log.take(), "{way:?} {ns} {share}");
                assert_eq!(heard.learned(), twin.learned(), "{way:?} {ns} {share}");
            }
        }
    }
}

#[test]
fn settings_that_make_no_sense_are_errors_that_name_value_and_range() {
    let _alone = alone();
    let clock = FakeClock::new();
    for (share, shown) in [
        (-0.1, "-0.1"),
        (1.5, "1.5"),
        (f64::NAN, "NaN"),
        (f64::INFINITY, "inf"),
    ] {
        let error = builder(&clock).trace_share(share).build().err().unwrap();
        assert!(
            matches!(
                error,
                BuildError::Setting {
                    name: "trace_share",
                    ..
                }
            ),
            "{error}"
        );
        let text = error.to_string();
        assert!(
            text.contains(shown) && text.contains("from 0 to 1"),
            "{text}"
        );
    }
    for (rate, shown) in [(-1.0, "-1"), (f64::NAN, "NaN")] {
        let error = builder(&clock).trace_hot_above(rate).build().err().unwrap();
        let text = error.to_string();
        assert!(text.contains(shown) && text.contains("0 or more"), "{text}");
    }
}
