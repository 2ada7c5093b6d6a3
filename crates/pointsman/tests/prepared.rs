//! Prepared ops: what bindings of other languages are built on.

use std::time::Duration;

use pointsman::store::{Fact, MemoryStore, Store};
use pointsman::{
    Backend, Candidate, Chosen, Clock, Cost, FakeClock, Mode, Prepared, Reason, Selector,
    SelectorBuilder, Verdict, Workload, fork,
};

fn builder(clock: &FakeClock) -> SelectorBuilder {
    Selector::builder()
        .ignore_environment()
        .in_memory()
        .clock(clock.clone())
        .machine(pointsman::Machine::detect())
}

fn candidates() -> [Candidate; 3] {
    [
        Candidate::new("plain", Backend::Scalar),
        Candidate::new("quick", Backend::Simd),
        Candidate::new("slow", Backend::Threads),
    ]
}

/// Microseconds of each candidate.
const TOOK: [u64; 3] = [90, 10, 400];

/// Runs who was chosen and reports it; who that was.
fn report(op: &Prepared, clock: &FakeClock, workload: &Workload, chosen: &Chosen) -> usize {
    let run = || clock.advance(Duration::from_micros(TOOK[chosen.index()]));
    if chosen.is_timed() {
        let ((), cost) = op.clocked(chosen, run);
        op.served(chosen, workload, cost);
    } else {
        op.inside(run);
    }
    chosen.index()
}

/// Serves one call and reports it; who served.
fn call(op: &Prepared, clock: &FakeClock, workload: &Workload, eligible: u64) -> usize {
    let chosen = op.choose(workload, eligible).expect("somebody may serve");
    report(op, clock, workload, &chosen)
}

#[test]
fn the_fastest_is_found_and_served_without_being_timed() {
    let clock = FakeClock::new();
    let selector = builder(&clock).build().unwrap();
    let op = selector.prepare("op", &candidates()).unwrap();
    let workload = Workload::new([1000]);
    let served: Vec<usize> = (0..400)
        .map(|_| call(&op, &clock, &workload, 0b111))
        .collect();
    assert!(served[300..].iter().filter(|i| **i == 1).count() > 95);
    assert_eq!(op.stats().calls, 400, "every call is counted once");
    assert_eq!(op.peek(&workload, 0b111), Some(1));
    let known = op.known(&workload, 0b101).unwrap();
    assert_eq!((known.index(), known.is_timed()), (0, false));
    assert_eq!(op.stats().calls, 400, "nobody reports how it went");
    assert!((0..64).any(|_| !op.choose(&workload, 0b111).unwrap().is_timed()));
    let told = op.explain(&workload, |_| None);
    assert_eq!(
        (told.chosen.as_str(), told.reason),
        ("quick", Reason::Historical)
    );
}

/// What was measured in one cell may say nothing of another.
#[test]
fn who_was_measured_elsewhere_only_serves_few_calls_before_it_is_found_out() {
    const TOOK: [u64; 4] = [2_000, 3_000, 2_500, 1_000_000];
    let names = ["reference", "b", "c", "slow"];
    let candidates = names.map(|name| Candidate::new(name, Backend::Scalar));
    for seed in 0..40 {
        let clock = FakeClock::new();
        let selector = builder(&clock).seed(seed).build().unwrap();
        let op = selector.prepare("op", &candidates).unwrap().verified();
        let mut rng = seed.wrapping_mul(2).wrapping_add(1);
        let mut slow = 0;
        for _ in 0..600 {
            rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let n = if rng >> 63 == 0 { 16 } else { 1024 };
            let workload = Workload::new([n]).bytes(8 * n);
            let place = op.again(like(&workload)).unwrap_or_else(|| {
                let chosen = op
                    .choose_like(like(&workload), &workload, 0b1111, 0b1111)
                    .unwrap();
                let run = || clock.advance(Duration::from_nanos(TOOK[chosen.index()]));
                if chosen.is_timed() {
                    let ((), cost) = op.clocked(&chosen, run);
                    op.served(&chosen, &workload, cost);
                }
                if let Some(place) = chosen.to_check() {
                    op.judge(&workload, place, &Verdict::Agrees, 0);
                }
                chosen.index()
            });
            slow += u32::from(place == 3);
        }
        assert!(
            slow <= 12,
            "seed {seed}: {slow} calls of 1 ms instead of 2 µs"
        );
    }
}

#[test]
fn without_a_reference_the_first_is_kept_away_like_any_other() {
    let clock = FakeClock::new();
    let selector = builder(&clock).build().unwrap();
    let op = selector
        .prepare("op", &candidates())
        .unwrap()
        .without_reference();
    let workload = Workload::new([1000]);
    for _ in 0..2 {
        let chosen = op.known(&workload, 0b001).unwrap();
        op.failed(&chosen, &workload, "no driver");
    }
    assert_eq!(op.stats().calls, 0, "what failed was no call");
    assert_ne!(op.peek(&workload, 0b111), Some(0));
    assert_eq!(op.peek(&workload, 0b001), Some(0), "there is nobody else");
    assert!(!op.explain(&workload, |_| None).variants[0].reference);
    clock.advance(Duration::from_secs(2));
    assert_eq!(op.known(&workload, 0b111).unwrap().index(), 0, "and back");

    let large = Workload::new([5000]);
    let chosen = op.known(&large, 0b001).unwrap();
    op.ran_out(&chosen, &large, "no memory");
    assert_ne!(op.peek(&large, 0b111), Some(0));
    assert_eq!(op.peek(&workload, 0b111), Some(0), "smaller ones fit");
}

/// A hash of all there is to know of a workload.
fn like(workload: &Workload) -> u64 {
    let bits = workload.features()[0].to_bits();
    let product = u128::from(bits ^ 0x9E37_79B9_7F4A_7C15) * 0xD6E8_FEB8_6659_FD93;
    (product >> 64) as u64 ^ product as u64
}

/// The same, by way of what was said of calls like it.
fn call_like(op: &Prepared, clock: &FakeClock, workload: &Workload, steady: u64) -> usize {
    let like = like(workload);
    if let Some(index) = op.again(like) {
        op.inside(|| clock.advance(Duration::from_micros(TOOK[index])));
        return index;
    }
    let chosen = op
        .choose_like(like, workload, 0b111, steady)
        .expect("somebody may serve");
    report(op, clock, workload, &chosen)
}

#[test]
fn calls_like_the_last_ones_are_served_again_and_counted() {
    let clock = FakeClock::new();
    let selector = builder(&clock).build().unwrap();
    let op = selector.prepare("op", &candidates()).unwrap();
    let sizes = [1000, 2000, 4000, 8000, 16_000].map(|n| Workload::new([n]));
    let served: Vec<usize> = (0..4000)
        .map(|i| call_like(&op, &clock, &sizes[i % sizes.len()], 0b111))
        .collect();
    let right = served[2000..].iter().filter(|i| **i == 1).count();
    assert!(right > 1950, "{right} of 2000");
    assert_eq!(op.stats().calls, 4000, "every call is counted once");
    let like = like(&sizes[0]);
    let again = (0..1000).filter(|_| {
        let again = op.again(like).is_some();
        if !again {
            call_like(&op, &clock, &sizes[0], 0b111);
        }
        again
    });
    assert!(again.count() > 700, "hardly any call was like the last");
    assert_eq!(op.stats().calls, 5000);
    drop(op);
    let op = selector.prepare("op", &candidates()).unwrap();
    assert_eq!(
        op.stats().calls,
        5000,
        "nothing is lost with what is dropped"
    );
    op.reset();
    assert_eq!(op.stats().calls, 0);
}

#[test]
fn who_fails_does_not_serve_again_nor_who_is_not_steady() {
    let clock = FakeClock::new();
    let selector = builder(&clock).build().unwrap();
    let op = selector.prepare("op", &candidates()).unwrap();
    let workload = Workload::new([1000]);
    let like_it = like(&workload);
    for _ in 0..500 {
        call_like(&op, &clock, &workload, 0b111);
    }
    while op.again(like_it).is_none() {
        call_like(&op, &clock, &workload, 0b111);
    }
    assert_eq!(op.again(like_it), Some(1));
    op.failed(&op.chosen_again(1, &workload), &workload, "broken");
    assert_eq!(op.again(like_it), None, "a failure is news at once");
    op.failed(&op.chosen_again(1, &workload), &workload, "broken");
    assert_ne!(call_like(&op, &clock, &workload, 0b111), 1, "in quarantine");
    let other = Workload::new([2000]);
    for _ in 0..500 {
        call_like(&op, &clock, &other, 0);
        assert_eq!(op.again(like(&other)), None, "nobody is steady");
    }
}

#[test]
fn more_kinds_of_calls_than_there_is_room_for_are_served_and_counted() {
    let clock = FakeClock::new();
    let selector = builder(&clock).build().unwrap();
    let op = selector.prepare("op", &candidates()).unwrap();
    for i in 0..20_000u32 {
        call_like(&op, &clock, &Workload::new([1 + i % 2000]), 0b111);
    }
    assert_eq!(op.stats().calls, 20_000);
}

#[test]
fn time_served_is_told_right_however_calls_repeat() {
    // Calls that are the same, of many sizes in few cells, and of variants that are not steady.
    let alike = |_: u32| 1000;
    let many = |i: u32| 1_000_000 + i * 7919 % 50_000;
    for (steady, size) in [(0b111, alike as fn(u32) -> u32), (0b111, many), (0, alike)] {
        let clock = FakeClock::new();
        let selector = builder(&clock).build().unwrap();
        let op = selector.prepare("op", &candidates()).unwrap();
        for i in 0..20_000 {
            call_like(&op, &clock, &Workload::new([size(i)]), steady);
        }
        let stats = op.stats();
        let told = stats.served_ns / clock.now_ns() as f64;
        assert!((0.8..1.25).contains(&told), "{told}: {stats}");
        let samples: u64 = stats.variants.iter().map(|v| v.samples).sum();
        assert!(samples < 4_000, "timing is sampled: {samples} of 20000");
    }
}

#[test]
fn calls_are_counted_once_in_the_store_whoever_is_dropped_first() {
    let (clock, mut store) = (FakeClock::new(), MemoryStore::new());
    let selector = builder(&clock).store(store.clone()).build().unwrap();
    let op = selector.prepare("op", &candidates()).unwrap();
    drop(selector);
    for _ in 0..1_000 {
        call_like(&op, &clock, &Workload::new([1000]), 0b111);
    }
    drop(op);
    let known = store.load().unwrap().entries;
    let calls = known.iter().map(|e| match &e.fact {
        Fact::Account(account) => account.calls,
        _ => 0,
    });
    assert_eq!(calls.sum::<u64>(), 1_000);
}

#[test]
fn only_those_of_the_mask_serve_whatever_was_learned() {
    let clock = FakeClock::new();
    let selector = builder(&clock).build().unwrap();
    let op = selector.prepare("op", &candidates()).unwrap();
    let workload = Workload::new([1000]);
    for _ in 0..300 {
        call(&op, &clock, &workload, 0b111);
    }
    assert!((0..100).all(|_| call(&op, &clock, &workload, 0b100) == 2));
    assert!((0..100).all(|_| call(&op, &clock, &workload, 0b101) != 1));
    let disabled = builder(&clock).disable("slow").build().unwrap();
    let op = disabled.prepare("op", &candidates()).unwrap();
    assert!(
        op.choose(&workload, 0b100).is_none(),
        "nobody is not the reference"
    );
    assert_eq!(op.peek(&workload, 0b100), None);
}

#[test]
fn candidates_in_another_order_keep_what_was_learned_of_them() {
    let clock = FakeClock::new();
    let selector = builder(&clock).build().unwrap();
    let op = selector.prepare("op", &candidates()).unwrap();
    let workload = Workload::new([1000]);
    for _ in 0..300 {
        call(&op, &clock, &workload, 0b111);
    }
    let [plain, quick, slow] = candidates();
    let turned = selector.prepare("op", &[slow, plain, quick]).unwrap();
    assert_eq!(turned.peek(&workload, 0b111), Some(2));
    assert_eq!(turned.peek(&workload, 0b011), Some(1));
}

#[test]
fn failures_fall_back_and_quarantine_all_but_the_reference() {
    let clock = FakeClock::new();
    let selector = builder(&clock).build().unwrap();
    let op = selector.prepare("op", &candidates()).unwrap();
    let workload = Workload::new([1000]);
    for _ in 0..2 {
        let chosen = op.choose(&workload, 0b010).unwrap();
        op.failed(&chosen, &workload, "no device");
        let next = op.fallback(&workload, 0b101).unwrap();
        assert_eq!(next.reason(), Reason::Fallback);
        op.served(&next, &workload, Cost::from_ns(1000));
    }
    let told = op.explain(&workload, |_| None);
    assert!(told.variants[1].quarantined, "{told}");
    assert!((0..50).all(|_| call(&op, &clock, &workload, 0b011) == 0));
    // Only it can do what this call needs: better a failure than a wrong answer.
    assert_eq!(op.choose(&workload, 0b010).unwrap().index(), 1);
    for _ in 0..5 {
        let chosen = op.choose(&workload, 0b001).unwrap();
        op.failed(&chosen, &workload, "bad argument");
    }
    assert_eq!(op.choose(&workload, 0b001).unwrap().index(), 0);
}

#[test]
fn a_call_that_was_stopped_counts_for_nothing() {
    let clock = FakeClock::new();
    let selector = builder(&clock).build().unwrap();
    let op = selector.prepare("op", &candidates()).unwrap();
    let workload = Workload::new([1000]);
    for _ in 0..100 {
        let chosen = op.choose(&workload, 0b111).unwrap();
        op.cancelled(&chosen);
    }
    let stats = op.stats();
    assert_eq!(
        (stats.calls, stats.failures, stats.samples),
        (0, 0, 0),
        "{stats}"
    );
}

#[test]
fn no_memory_rules_out_the_size_and_not_the_candidate() {
    let clock = FakeClock::new();
    let selector = builder(&clock).build().unwrap();
    let op = selector.prepare("op", &candidates()).unwrap();
    let (small, large) = (Workload::new([1000]), Workload::new([1_000_000]));
    let chosen = op.choose(&large, 0b010).unwrap();
    op.ran_out(&chosen, &large, "full");
    assert_ne!(op.choose(&large, 0b011).unwrap().index(), 1);
    assert_eq!(op.choose(&small, 0b010).unwrap().index(), 1);
}

#[test]
fn f27_what_has_to_be_checked_does_not_serve_before() {
    let clock = FakeClock::new();
    let selector = builder(&clock).build().unwrap();
    let op = selector.prepare("op", &candidates()).unwrap().verified();
    let workload = Workload::new([1000]);
    for _ in 0..300 {
        let chosen = op.choose(&workload, 0b111).unwrap();
        let agreed = op.explain(&workload, |_| None).variants[chosen.index()].checked;
        assert_eq!(agreed, Some(true), "{} serves unchecked", chosen.index());
        if let Some(place) = chosen.to_check() {
            let verdict = match place {
                1 => Verdict::Disagrees("off by one".to_owned()),
                _ => Verdict::Agrees,
            };
            op.judge(&workload, place, &verdict, 5);
        }
        let took = TOOK[chosen.index()];
        if chosen.is_timed() {
            op.served(&chosen, &workload, Cost::from_ns(1000 * took));
        }
        assert_ne!(chosen.index(), 1, "it gave a wrong result");
    }
    assert_eq!(op.stats().checks, 2);
    assert!(
        op.choose(&workload, 0b010).is_none(),
        "no call is better than a wrong one"
    );
}

#[test]
fn measurements_of_the_callers_own_count() {
    let clock = FakeClock::new();
    let selector = builder(&clock).build().unwrap();
    let op = selector.prepare("op", &candidates()).unwrap();
    let workload = Workload::new([1000]);
    for _ in 0..10 {
        for (place, took) in TOOK.into_iter().enumerate() {
            op.observe(&workload, place, Cost::from_ns(took));
        }
        op.observe(&workload, 99, Cost::from_ns(1));
    }
    assert_eq!(op.peek(&workload, 0b111), Some(1));
    assert_eq!(op.stats().calls, 30);
}

#[test]
fn what_cannot_be_prepared_is_an_error_that_says_why() {
    let clock = FakeClock::new();
    let selector = builder(&clock).build().unwrap();
    let [plain, quick, _] = candidates();
    let error = |op: &str, candidates: &[Candidate]| {
        selector.prepare(op, candidates).unwrap_err().to_string()
    };
    assert!(error("op", &[]).contains("0 references"));
    assert!(error("", std::slice::from_ref(&plain)).contains("op name"));
    assert!(error("op", &[plain.clone(), quick, plain.clone()]).contains("\"plain\""));
    let many: Vec<Candidate> = (0..65)
        .map(|i| Candidate::new(&i.to_string(), Backend::Scalar))
        .collect();
    assert!(error("op", &many).contains("64"));
    let forced = builder(&clock).force("op=nobody").build().unwrap();
    let error = forced.prepare("op", &candidates()).unwrap_err().to_string();
    assert!(error.contains("plain, quick, slow"), "{error}");
    let both = builder(&clock)
        .force("quick")
        .disable("quick")
        .build()
        .unwrap();
    let error = both.prepare("op", &candidates()).unwrap_err().to_string();
    assert!(error.contains("disabled"), "{error}");
}

#[test]
fn force_preference_and_reference_mode_are_obeyed() {
    let clock = FakeClock::new();
    let workload = Workload::new([1000]);
    let forced = builder(&clock).force("slow").build().unwrap();
    let op = forced.prepare("op", &candidates()).unwrap();
    assert!((0..50).all(|_| call(&op, &clock, &workload, 0b111) == 2));
    assert_eq!(op.explain(&workload, |_| None).reason, Reason::Forced);
    assert_ne!(
        call(&op, &clock, &workload, 0b011),
        2,
        "not where it may not serve"
    );
    let reference = builder(&clock).mode(Mode::Reference).build().unwrap();
    let op = reference.prepare("op", &candidates()).unwrap();
    assert!((0..50).all(|_| call(&op, &clock, &workload, 0b111) == 0));
    let selector = builder(&clock).build().unwrap();
    let op = selector.prepare("op", &candidates()).unwrap();
    let preferring = workload.prefer(Backend::Threads);
    assert!((0..50).all(|_| call(&op, &clock, &preferring, 0b111) == 2));
}

#[test]
fn reset_forgets_one_op_or_all() {
    let clock = FakeClock::new();
    let selector = builder(&clock).build().unwrap();
    let workload = Workload::new([1000]);
    let ops = ["a", "b"].map(|name| selector.prepare(name, &candidates()).unwrap());
    let calls = || ops.each_ref().map(|op| op.stats().calls);
    ops.iter()
        .for_each(|op| _ = call(op, &clock, &workload, 0b111));
    selector.reset(Some("a"));
    assert_eq!(calls(), [0, 1]);
    selector.reset(None);
    assert_eq!(calls(), [0, 0]);
}

/// A fork is played here by calling what a child calls; the real one is in the tests of the Python
/// package.
#[test]
fn f36_a_child_saves_what_it_learned_itself_and_nothing_twice() {
    let (clock, store) = (FakeClock::new(), MemoryStore::new());
    let wait = Duration::from_secs(5);
    let selector = builder(&clock)
        .store(store.clone())
        .save_every(Duration::from_secs(3600))
        .build()
        .unwrap();
    let op = selector.prepare("op", &candidates()).unwrap();
    let observe = |n: usize| {
        (0..n).for_each(|_| op.observe(&Workload::new([1000]), 0, Cost::from_ns(1000)));
    };
    observe(11);
    selector.flush(wait).unwrap();
    // Measurements, and calls.
    let saved = || {
        let mut store = store.clone();
        let known = pointsman::store::Store::load(&mut store).unwrap();
        let mut sums = (0, 0);
        for entry in &known.entries {
            match &entry.fact {
                pointsman::store::Fact::Costs(costs) => sums.0 += costs.count,
                pointsman::store::Fact::Account(account) => sums.1 += account.calls,
                _ => {}
            }
        }
        sums
    };
    assert_eq!(saved(), (10, 11), "the first is warm-up");
    observe(5);
    fork::before();
    fork::in_child();
    selector.flush(wait).unwrap();
    assert_eq!(
        saved(),
        (10, 11),
        "what came before the fork is the parent's to save"
    );
    observe(3);
    selector.flush(wait).unwrap();
    assert_eq!(saved(), (13, 14));
    assert_eq!(op.stats().calls, 19, "what was known goes on to be known");
    fork::before();
    fork::in_parent();
    observe(1);
    Selector::flush_all(wait).unwrap();
    assert_eq!(saved(), (14, 15));
}
