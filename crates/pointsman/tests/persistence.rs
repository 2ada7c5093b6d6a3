//! Knowledge between runs: rows 6 to 9 of the table of faults, through the selector.

mod common;

use std::time::Duration;

use common::{Log, MICRO, builder, numbers, takes};
use pointsman::store::{Account, Entry, Fact, Knowledge, MemoryStore, Store};
use pointsman::{
    Backend, Cap, FakeClock, Function, Handle, Machine, Mode, OpBuilder, Reason, Selector, Workload,
};

const SECONDS_10: Duration = Duration::from_secs(10);

type Builder = OpBuilder<Function<usize, usize>>;

/// One run of a program: declares the op, calls it, saves.
fn run(
    store: &MemoryStore,
    machine: Machine,
    calls: usize,
    declare: impl FnOnce(Builder, &FakeClock, &Log) -> Builder,
) -> (Handle<Function<usize, usize>>, Selector, Log) {
    let (clock, log) = (FakeClock::new(), Log::default());
    let selector = builder(&clock)
        .store(store.clone())
        .machine(machine)
        .build()
        .unwrap();
    let op = declare(numbers(&selector, "op"), &clock, &log)
        .build()
        .unwrap();
    for _ in 0..calls {
        op.run(&64);
    }
    selector.flush(SECONDS_10).unwrap();
    (op, selector, log)
}

fn load(store: &MemoryStore) -> Knowledge {
    store.clone().load().unwrap()
}

fn of<'k>(knowledge: &'k Knowledge, variant: &str) -> Vec<&'k Entry> {
    knowledge
        .entries
        .iter()
        .filter(|e| &*e.variant == variant)
        .collect()
}

/// `plain` 40 µs, `a` 20 µs, `b` 10 µs.
fn all(op: Builder, clock: &FakeClock, log: &Log) -> Builder {
    op.reference(
        "plain",
        Backend::Scalar,
        takes(clock, log, "plain", 40 * MICRO),
    )
    .variant("a", Backend::Simd, takes(clock, log, "a", 20 * MICRO))
    .variant("b", Backend::Simd, takes(clock, log, "b", 10 * MICRO))
}

#[test]
fn what_was_learned_serves_the_first_call_of_the_next_run() {
    let store = MemoryStore::new();
    drop(run(&store, Machine::detect(), 300, all));
    let (op, _, log) = run(&store, Machine::detect(), 0, all);
    let told = op.run_explained(&64).explanation;
    assert_eq!(
        (told.chosen.as_str(), told.reason),
        ("b", Reason::Historical)
    );
    assert!(told.confidence > 0.9, "{told}");
    assert_eq!(log.take(), ["b"]);
}

#[test]
fn dropping_the_last_handle_saves() {
    let store = MemoryStore::new();
    let clock = FakeClock::new();
    let selector = builder(&clock).store(store.clone()).build().unwrap();
    let op = all(numbers(&selector, "op"), &clock, &Log::default())
        .build()
        .unwrap();
    for _ in 0..300 {
        op.run(&64);
    }
    drop(selector);
    assert!(op.stats().calls == 300, "a handle keeps its selector alive");
    drop(op);
    let costs = |e: &&Entry| matches!(e.fact, Fact::Costs(_));
    assert_eq!(load(&store).entries.iter().filter(costs).count(), 3);
    assert_eq!(accounts(&store).len(), 3);
}

#[test]
fn f06_knowledge_of_another_machine_is_kept_and_a_weak_prior_only() {
    let here = Machine::detect();
    let there = Machine::detect().without(Cap::Sse2).without(Cap::Neon);
    assert_ne!(here.fingerprint(), there.fingerprint());
    let store = MemoryStore::new();
    drop(run(&store, there.clone(), 300, all));
    let foreign = load(&store);

    // It informs the first guess ...
    let (op, selector, log) = run(&store, here.clone(), 0, all);
    let told = op.explain(Workload::new([64]));
    assert_eq!(told.chosen, "b", "{told}");
    let b = told.variants.iter().find(|v| v.name == "b").unwrap();
    assert_eq!(b.samples, 0, "no measurement of this machine");
    assert!(
        told.confidence < 0.9,
        "a stranger's word is not certainty: {told}"
    );
    drop((op, selector, log));

    // ... and is outweighed within a few calls where it is wrong.
    let (op, selector, log) = run(&store, here.clone(), 100, |op, clock, log| {
        op.reference(
            "plain",
            Backend::Scalar,
            takes(clock, log, "plain", 10 * MICRO),
        )
        .variant("a", Backend::Simd, takes(clock, log, "a", 20 * MICRO))
        .variant("b", Backend::Simd, takes(clock, log, "b", 40 * MICRO))
    });
    assert_eq!(op.explain(Workload::new([64])).chosen, "plain");
    assert!(log.count("b") <= 10, "{} of 100 calls", log.count("b"));
    drop((op, selector));

    let after = load(&store);
    for entry in &foreign.entries {
        assert!(after.entries.contains(entry), "kept as it was: {entry:?}");
    }
    assert!(
        after
            .entries
            .iter()
            .any(|e| e.machine == here.fingerprint())
    );
}

#[test]
fn f07_a_variant_unknown_to_this_build_is_skipped_and_kept() {
    let store = MemoryStore::new();
    drop(run(&store, Machine::detect(), 300, all));
    let before = load(&store);
    let (op, _, log) = run(&store, Machine::detect(), 300, |op, clock, log| {
        op.reference(
            "plain",
            Backend::Scalar,
            takes(clock, log, "plain", 40 * MICRO),
        )
        .variant("a", Backend::Simd, takes(clock, log, "a", 20 * MICRO))
    });
    assert!(
        log.count("a") > 280,
        "what is known of the others is used at once"
    );
    assert_eq!(op.stats().variants.len(), 2);
    assert_eq!(
        of(&load(&store), "b"),
        of(&before, "b"),
        "kept for other builds"
    );

    let (op, _, _) = run(&store, Machine::detect(), 0, all);
    assert_eq!(
        op.run_explained(&64).explanation.chosen,
        "b",
        "and used by them"
    );
}

#[test]
fn f08_variants_in_another_order_are_resolved_by_name() {
    let store = MemoryStore::new();
    drop(run(&store, Machine::detect(), 300, all));
    let (op, _, log) = run(&store, Machine::detect(), 0, |op, clock, log| {
        op.variant("b", Backend::Simd, takes(clock, log, "b", 10 * MICRO))
            .variant(
                "new",
                Backend::Threads,
                takes(clock, log, "new", 90 * MICRO),
            )
            .reference(
                "plain",
                Backend::Scalar,
                takes(clock, log, "plain", 40 * MICRO),
            )
            .variant("a", Backend::Simd, takes(clock, log, "a", 20 * MICRO))
    });
    let told = op.run_explained(&64).explanation;
    assert_eq!(told.chosen, "b");
    assert_eq!(log.take(), ["b"]);
    let near = |name: &str, us: f64| {
        let v = told.variants.iter().find(|v| v.name == name).unwrap();
        let ns = v.predicted.ns();
        assert!((0.9..1.1).contains(&(ns / (us * 1e3))), "{name}: {ns} ns");
    };
    near("plain", 40.0);
    near("a", 20.0);
    near("b", 10.0);
}

#[test]
fn f09_a_bumped_revision_drops_the_costs_of_the_old_code() {
    let store = MemoryStore::new();
    drop(run(&store, Machine::detect(), 300, all));
    let before = load(&store);
    let bumped = |op: Builder, clock: &FakeClock, log: &Log| {
        op.reference(
            "plain",
            Backend::Scalar,
            takes(clock, log, "plain", 40 * MICRO),
        )
        .variant("a", Backend::Simd, takes(clock, log, "a", 20 * MICRO))
        .variant("b", Backend::Simd, takes(clock, log, "b", 80 * MICRO))
        .revision(1)
    };
    let (op, selector, log) = run(&store, Machine::detect(), 0, bumped);
    let told = op.explain(Workload::new([64]));
    let b = told.variants.iter().find(|v| v.name == "b").unwrap();
    assert_eq!(b.samples, 0);
    assert_eq!(told.chosen, "a", "{told}");
    for _ in 0..5_000 {
        op.run(&64);
    }
    assert!(log.count("b") <= 30, "{}", log.count("b"));
    selector.flush(SECONDS_10).unwrap();
    let after = load(&store);
    let old: Vec<&Entry> = of(&after, "b")
        .into_iter()
        .filter(|e| e.revision == 0)
        .collect();
    assert_eq!(old, of(&before, "b"), "an older build still finds its own");
    assert!(of(&after, "b").iter().any(|e| e.revision == 1));
}

#[test]
fn a_variant_that_is_new_in_this_build_gets_its_first_tries() {
    // One size, steady costs, everything else known: the easiest case there is.
    for cost in 10..60 {
        let store = MemoryStore::new();
        let two = |op: Builder, clock: &FakeClock, log: &Log| {
            op.reference(
                "plain",
                Backend::Scalar,
                takes(clock, log, "plain", 90 * MICRO),
            )
            .variant("a", Backend::Simd, takes(clock, log, "a", cost * MICRO))
        };
        drop(run(&store, Machine::detect(), 300, two));
        let (_, _, log) = run(&store, Machine::detect(), 300, |op, clock, log| {
            two(op, clock, log).variant("new", Backend::Simd, takes(clock, log, "new", MICRO))
        });
        assert!(
            log.count("new") > 200,
            "{cost} µs: {} of 300 calls",
            log.count("new")
        );
    }
}

#[test]
fn f09_a_revision_bumped_in_the_same_process_starts_over_too() {
    let clock = FakeClock::new();
    let log = Log::default();
    let selector = builder(&clock).build().unwrap();
    let op = all(numbers(&selector, "op"), &clock, &log).build().unwrap();
    for _ in 0..300 {
        op.run(&64);
    }
    drop(op);
    let op = numbers(&selector, "op")
        .reference(
            "plain",
            Backend::Scalar,
            takes(&clock, &log, "plain", 40 * MICRO),
        )
        .variant("a", Backend::Simd, takes(&clock, &log, "a", 20 * MICRO))
        .variant("b", Backend::Simd, takes(&clock, &log, "b", 80 * MICRO))
        .revision(1)
        .build()
        .unwrap();
    let told = op.explain(Workload::new([64]));
    assert_eq!(
        told.variants
            .iter()
            .find(|v| v.name == "b")
            .unwrap()
            .samples,
        0
    );
    log.take();
    for _ in 0..300 {
        op.run(&64);
    }
    assert!(log.count("a") > 280, "{}", op.explain(Workload::new([64])));
}

#[test]
fn knowledge_adds_up_over_runs_and_is_saved_once() {
    let store = MemoryStore::new();
    let count = |store: &MemoryStore| -> u64 {
        let count = |e: &Entry| match &e.fact {
            Fact::Costs(costs) => costs.count,
            _ => 0,
        };
        load(store).entries.iter().map(count).sum()
    };
    let (op, selector, _) = run(&store, Machine::detect(), 8, all);
    let first = count(&store);
    assert!(
        (5..=8).contains(&first),
        "8 calls less three warm-ups: {first}"
    );
    selector.flush(SECONDS_10).unwrap();
    assert_eq!(count(&store), first, "nothing new, nothing saved");
    drop((op, selector));
    assert_eq!(count(&store), first);
    drop(run(&store, Machine::detect(), 8, all));
    assert!(count(&store) > first);
}

/// The accounts of the op `op`, by variant.
fn accounts(store: &MemoryStore) -> std::collections::BTreeMap<String, Account> {
    let known = load(store).entries;
    let account = |e: Entry| match e.fact {
        Fact::Account(account) => Some((e.variant.to_string(), *account)),
        _ => None,
    };
    known.into_iter().filter_map(account).collect()
}

#[test]
fn what_trials_cost_and_how_sure_choices_were_adds_up_over_runs() {
    let store = MemoryStore::new();
    let (op, selector, _) = run(&store, Machine::detect(), 300, all);
    let (stats, saved) = (op.stats(), accounts(&store));
    for variant in &stats.variants {
        let account = &saved[&variant.name];
        assert_eq!(account.calls, variant.calls, "{}", variant.name);
        assert_eq!(account.served_ns as f64, variant.served_ns.round());
        assert_eq!(account.trials, variant.trials);
        assert_eq!(account.trial_ns as f64, variant.trial_ns.round());
        assert_eq!(account.first_tries, variant.first_tries);
    }
    // `b` serves, the others have been measured, so that its choices can be judged.
    let judged: u64 = saved["b"].stated.iter().map(|s| s.judged).sum();
    let sure = saved["b"].stated[9];
    assert!(judged > 10 && sure.judged > 0, "{saved:?}");
    assert_eq!(sure.right, sure.judged);
    assert!(sure.sum >= 900 * sure.judged && sure.sum <= 1000 * sure.judged);
    selector.flush(SECONDS_10).unwrap();
    assert_eq!(accounts(&store), saved, "nothing new, nothing saved");
    drop((op, selector));
    let (op, _, _) = run(&store, Machine::detect(), 100, all);
    let both: u64 = accounts(&store).values().map(|a| a.calls).sum();
    assert_eq!((op.stats().calls, both), (100, 400));
}

#[test]
fn frozen_calls_are_on_nobodys_account() {
    let store = MemoryStore::new();
    drop(run(&store, Machine::detect(), 300, all));
    let before = load(&store);
    let (clock, log) = (FakeClock::new(), Log::default());
    let frozen = builder(&clock).mode(Mode::Frozen).store(store.clone());
    let selector = frozen.build().unwrap();
    let op = all(numbers(&selector, "op"), &clock, &log).build().unwrap();
    for _ in 0..100 {
        op.run(&64);
    }
    selector.flush(SECONDS_10).unwrap();
    assert_eq!(load(&store), before);
}

#[test]
fn forget_drops_one_op_here_and_in_the_store() {
    let store = MemoryStore::new();
    let (op, selector, _) = run(&store, Machine::detect(), 300, all);
    let clock = FakeClock::new();
    let other = numbers(&selector, "other")
        .reference(
            "plain",
            Backend::Scalar,
            takes(&clock, &Log::default(), "plain", MICRO),
        )
        .build()
        .unwrap();
    for _ in 0..10 {
        other.run(&64);
    }
    selector.flush(SECONDS_10).unwrap();
    selector.forget(Some("op"), SECONDS_10).unwrap();
    assert!(load(&store).entries.iter().all(|e| &*e.op == "other"));
    let told = op.explain(Workload::new([64]));
    assert!(told.variants.iter().all(|v| v.samples == 0), "{told}");
    selector.forget(None, SECONDS_10).unwrap();
    assert!(load(&store).entries.is_empty());
    drop((op, other, selector));
    assert!(
        load(&store).entries.is_empty(),
        "nothing comes back at the end"
    );
}

#[test]
fn f11_a_store_that_cannot_be_written_costs_nothing_but_the_saving() {
    struct Broken;
    impl Store for Broken {
        fn load(&mut self) -> Result<Knowledge, pointsman::store::StoreError> {
            Ok(Knowledge::default())
        }
        fn merge(&mut self, _: &Knowledge) -> Result<(), pointsman::store::StoreError> {
            panic!("a store that breaks its promise")
        }
        fn forget(&mut self, _: Option<&str>) -> Result<(), pointsman::store::StoreError> {
            Ok(())
        }
        fn describe(&self) -> String {
            "broken".into()
        }
    }
    let clock = FakeClock::new();
    let log = Log::default();
    let selector = builder(&clock).store(Broken).build().unwrap();
    let op = all(numbers(&selector, "op"), &clock, &log).build().unwrap();
    for _ in 0..300 {
        op.run(&64);
    }
    assert!(selector.flush(SECONDS_10).is_err());
    assert!(
        selector.flush(SECONDS_10).is_err(),
        "and again, without a wait"
    );
    for _ in 0..300 {
        op.run(&64);
    }
    assert!(log.count("b") > 500);
}
