//! What holds whatever the policy is and does, also a user's own.

mod policy_common;
mod store_common;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pointsman::policy::{Call, Choice, Chooser, Policy};
use pointsman::{
    Backend, Checks, Cost, FakeClock, Function, Handle, Mode, Op, Outcome, Reason, Selector,
    Verify, Workload, policy,
};
use policy_common::{COSTS, FOUR, Script, World, builder};
use store_common::warnings;

/// A policy made of closures.
struct Own<C>(C);

struct OwnChooser<C>(C);

impl<C> Policy for Own<C>
where
    C: Fn(&Call<'_>) -> Choice + Clone + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        "own"
    }

    fn chooser(&self, _seed: u64) -> Option<Box<dyn Chooser>> {
        Some(Box::new(OwnChooser(self.0.clone())))
    }
}

impl<C: Fn(&Call<'_>) -> Choice + Send> Chooser for OwnChooser<C> {
    fn choose(&mut self, call: &Call<'_>) -> Choice {
        self.0(call)
    }

    fn learn(&mut self, call: &Call<'_>, _: usize, _: Cost) {
        if call.workload().size() == 13 {
            panic!("learning from 13");
        }
    }
}

fn op_of(selector: &Selector) -> Handle<Function<usize, &'static str>> {
    selector
        .function("op", |n: &usize| Workload::new([*n]))
        .variant("other", Backend::Simd, |_| "other")
        .reference("plain", Backend::Scalar, |_| "plain")
        .variant("large", Backend::Threads, |_| "large")
        .min_size(100)
        .build()
        .unwrap()
}

#[test]
fn a_policy_that_panics_fails_no_call_and_is_warned_of_once() {
    let own = Own(|call: &Call<'_>| {
        if call.workload().size() > 50 {
            panic!("more than 50");
        }
        Choice::serve(0)
    });
    let ((), lines) = warnings(|| {
        let selector = builder(&FakeClock::new(), 1).policy(own).build().unwrap();
        let op = op_of(&selector);
        for _ in 0..50 {
            assert_eq!((op.run(&7), op.run(&70)), ("other", "plain"));
            assert_eq!(op.run(&13), "other", "a panic while learning");
        }
        assert_eq!(op.stats().calls, 150);
        op.reset();
        assert_eq!(op.run_explained(&7).output, "other");
        assert_eq!(op.run_explained(&70).output, "plain");
    });
    let told: Vec<&String> = lines.iter().filter(|l| l.contains("panicked")).collect();
    assert_eq!(told.len(), 1, "{lines:?}");
    assert!(
        told[0].contains("own") && told[0].contains("more than 50"),
        "{told:?}"
    );
}

/// Alternates, and notes what it is told.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Policy for Notes {
    fn name(&self) -> &str {
        "notes"
    }

    fn chooser(&self, _seed: u64) -> Option<Box<dyn Chooser>> {
        Some(Box::new(self.clone()))
    }
}

impl Chooser for Notes {
    fn choose(&mut self, call: &Call<'_>) -> Choice {
        let mut notes = self.0.lock().unwrap();
        let seen = call.candidates().iter().map(|c| {
            let star = if c.is_reference() { "*" } else { "" };
            let level = c.level_ns().map_or(0.0, f64::round);
            format!("{star}{} {} {}x{level}", c.name(), c.backend(), c.samples())
        });
        let seen: Vec<String> = seen.collect();
        notes.push(format!("{}: {}", call.workload(), seen.join(", ")));
        Choice::serve(notes.len() % 2)
    }

    fn learn(&mut self, call: &Call<'_>, variant: usize, cost: Cost) {
        let names: Vec<&str> = call.candidates().iter().map(|c| c.name()).collect();
        let note = format!("{} {variant} took {}", names.join(" "), cost.ns());
        self.0.lock().unwrap().push(note);
    }
}

#[test]
fn a_chooser_sees_the_candidates_and_hears_of_accepted_costs_after_the_warm_up() {
    let notes = Notes::default();
    let clock = FakeClock::new();
    let selector = builder(&clock, 1).policy(notes.clone()).build().unwrap();
    for ns in [100_000, 200_000, 300_000, 0, 500_000] {
        let names = ["simd", "own"];
        let decision = selector.decide("op", &Workload::new([64]), &names);
        selector.record(&decision, Outcome::took(Duration::from_nanos(ns)));
    }
    let told = notes.0.lock().unwrap().clone();
    let call = |simd: &str, own: &str| format!("64: *simd simd {simd}, own unknown {own}");
    let wanted = [
        call("0x0", "0x0"), // own: warm-up
        call("0x0", "0x0"), // simd: warm-up
        call("0x0", "0x0"),
        "own 1 took 300000".to_owned(),
        call("0x0", "1x300000"), // no time passed, which is no cost
        call("0x0", "1x300000"),
        "simd 0 took 500000".to_owned(),
    ];
    assert_eq!(told, wanted);
}

#[test]
fn p5_an_answer_that_is_not_eligible_is_ignored() {
    for answer in [2, 3, 63, 64, 255, 256, usize::MAX] {
        let own = Own(move |_: &Call<'_>| Choice::trial(answer).good_for(9).confidence(f64::NAN));
        let selector = builder(&FakeClock::new(), 1).policy(own).build().unwrap();
        let op = op_of(&selector);
        for _ in 0..100 {
            assert_eq!(op.run(&99), "plain", "{answer}");
            let large = if answer == 2 { "large" } else { "plain" };
            assert_eq!(op.run(&100), large, "{answer}");
        }
        assert_eq!(op.stats().trials, if answer == 2 { 100 } else { 0 });
    }
}

#[test]
fn a_choice_that_is_good_for_more_calls_is_not_asked_for_again_and_others_are_on_every_call() {
    for (good_for, low, high) in [(0, 10_000, 10_000), (7, 1_200, 2_000), (u32::MAX, 32, 600)] {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let own = Own(move |_: &Call<'_>| {
            count.fetch_add(1, Relaxed);
            Choice::serve(1).good_for(good_for)
        });
        let mut world = World::new(own, 1);
        // Long enough to be timed, short enough that timing every call would show.
        let counts = world.served(10_000, &["a", "b"], &[2_000.0; 2]);
        assert_eq!(counts, [0, 10_000]);
        let asked = asked.load(Relaxed);
        assert!(
            (low..=high).contains(&asked),
            "{good_for}: asked {asked} times"
        );
    }
}

#[test]
fn p6_frozen_mode_neither_tries_nor_learns_and_constant_policies_decide_as_always() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("k.sqlite");
    let clock = FakeClock::new();
    let learned = |policy: &str, mode: Mode| {
        let selector = builder(&clock, 1).store_file(&path).mode(mode);
        let selector = selector.policy(policy::parse(policy).unwrap());
        World {
            selector: selector.build().unwrap(),
            clock: clock.clone(),
            script: Script(1),
        }
    };
    learned("history", Mode::Learn).served(100, &FOUR, &COSTS);
    for (policy, wanted) in [("ucb1", 2), ("epsilon-greedy(1)", 2), ("fixed(d)", 3)] {
        let mut world = learned(policy, Mode::Frozen);
        let mut counts = [0; 4];
        counts[wanted] = 200;
        assert_eq!(world.served(200, &FOUR, &COSTS), counts, "{policy}");
        assert_eq!(world.selector.stats()[0].trials, 0);
    }
    // What the store knows is where a policy begins.
    let mut world = learned("history", Mode::Learn);
    assert_eq!(world.served(100, &FOUR, &COSTS), [0, 0, 100, 0]);
}

#[test]
fn the_policy_of_the_environment_wins_and_a_wrong_one_is_refused() {
    let built = |value: &'static str| {
        let selector = builder(&FakeClock::new(), 1).policy(policy::Ucb1::default());
        let get = move |name: &str| (name == "POINTSMAN_POLICY").then(|| value.to_owned());
        selector.environment(get).build()
    };
    assert_eq!(built("").unwrap().policy(), "ucb1");
    assert_eq!(built("adaptive").unwrap().policy(), "adaptive");
    let selector = built("fixed(b)").unwrap();
    let decision = selector.decide("op", &Workload::new([1]), &["a", "b"]);
    assert_eq!(
        (decision.variant(), decision.reason()),
        ("b", Reason::Policy)
    );
    for (value, part) in [("best", "lin-ucb"), ("ucb1(200)", "exploration")] {
        let error = built(value).unwrap_err().to_string();
        assert!(
            error.contains("POINTSMAN_POLICY") && error.contains(value),
            "{error}"
        );
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_failed_variant_is_replaced_within_the_call_whatever_the_policy() {
    for name in policy::names() {
        let text = if *name == "fixed" {
            "fixed(fails)"
        } else {
            name
        };
        let policy = policy::parse(text).unwrap();
        let selector = builder(&FakeClock::new(), 1)
            .policy(policy)
            .build()
            .unwrap();
        let op = selector
            .function("op", |n: &usize| Workload::new([*n]))
            .try_variant("fails", Backend::Simd, |_| Err("no"))
            .reference("plain", Backend::Scalar, |n| **n)
            .variant("other", Backend::Threads, |n| **n)
            .build()
            .unwrap();
        for n in 0..300 {
            assert_eq!(op.run(&n), n, "{name}");
        }
        assert_eq!(op.stats().calls, 300, "{name}");
    }
}

struct Triple;

impl Op for Triple {
    type Args<'a> = &'a usize;
    type Output = usize;

    fn name(&self) -> &str {
        "triple"
    }

    fn workload(&self, n: &&usize) -> Workload {
        Workload::new([**n])
    }
}

impl Verify for Triple {
    type Sample = usize;

    fn sample(&self, workload: &Workload, _seed: u64) -> usize {
        workload.size() as usize
    }

    fn args<'a>(&self, sample: &'a mut usize) -> &'a usize {
        sample
    }

    fn agrees(&self, expected: (&usize, &usize), got: (&usize, &usize)) -> bool {
        expected.1 == got.1
    }
}

#[test]
fn p8_a_wrong_variant_never_serves_whatever_the_policy() {
    for name in policy::names() {
        let text = if *name == "fixed" {
            "fixed(wrong)"
        } else {
            name
        };
        let selector = builder(&FakeClock::new(), 1)
            .checks(Checks::Inline)
            .policy(policy::parse(text).unwrap())
            .build()
            .unwrap();
        let op = selector
            .op(Triple)
            .reference("plain", Backend::Scalar, |n| 3 * **n)
            .variant("wrong", Backend::Simd, |n| 3 * **n + 1)
            .variant("right", Backend::Threads, |n| **n + 2 * **n)
            .verified()
            .build()
            .unwrap();
        for n in 1..300 {
            assert_eq!(op.run(&n), 3 * n, "{name}");
        }
    }
}

#[test]
fn threads_share_a_policy_and_no_call_is_lost() {
    for name in policy::names() {
        let text = if *name == "fixed" {
            "fixed(other)"
        } else {
            name
        };
        let selector = Selector::builder().in_memory().ignore_environment();
        let selector = selector.policy(policy::parse(text).unwrap());
        let op = op_of(&selector.build().unwrap());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..500 {
                        let served = op.run(&(n % 120));
                        assert!(n % 120 >= 100 || served != "large", "{name}");
                    }
                });
            }
        });
        assert_eq!(op.stats().calls, 2000, "{name}");
    }
}
