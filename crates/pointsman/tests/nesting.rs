//! Variants that call ops themselves: row 41 of the table of faults.

mod common;

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use common::{Log, MICRO, builder, numbers, selector, spend, takes, truth};
use pointsman::{Backend, Checks, Clock, FakeClock, Function, Handle, Outcome, Verify, Workload};

type Op = Handle<Function<usize, usize>>;

#[test]
fn f41_a_variant_that_calls_its_own_op_works_and_its_time_counts_once() {
    // Divide and conquer: each call of size n > 64 makes two of half the size.
    let clock = FakeClock::new();
    let me: Arc<OnceLock<Op>> = Arc::default();
    let (inner, time) = (me.clone(), clock.clone());
    let op = numbers(&selector(&clock), "op")
        .reference("halves", Backend::Scalar, move |n| {
            spend(&time, 10 * MICRO);
            if **n <= 64 {
                return truth(**n);
            }
            let op = inner.get().unwrap();
            op.run(&(**n / 2)) + op.run(&(**n - **n / 2))
        })
        .build()
        .unwrap();
    assert!(me.set(op.clone()).is_ok());
    // Few enough that every call of every cell is timed: then the sum is exact.
    for _ in 0..3 {
        assert_eq!(op.run(&512), truth(512));
    }
    assert_eq!(op.stats().calls, 3 * 15);
    assert_eq!(op.stats().served_ns, clock.now_ns() as f64);
    for _ in 0..1_000 {
        assert_eq!(op.run(&512), truth(512));
    }
    let ratio = op.stats().served_ns / clock.now_ns() as f64;
    assert!((0.5..1.5).contains(&ratio), "booked {ratio} of the time");
}

#[test]
fn f41_recursion_with_several_variants_is_right_and_time_is_not_booked_twice() {
    let clock = FakeClock::new();
    let me: Arc<OnceLock<Op>> = Arc::default();
    let log = Log::default();
    let recursive = |who: &'static str, ns: u64| {
        let (inner, time, log) = (me.clone(), clock.clone(), log.clone());
        move |n: &mut &usize| {
            log.note(who);
            spend(&time, ns);
            if **n <= 64 {
                return truth(**n);
            }
            let op = inner.get().unwrap();
            op.run(&(**n / 2)) + op.run(&(**n - **n / 2))
        }
    };
    let op = numbers(&selector(&clock), "op")
        .reference("plain", Backend::Scalar, recursive("plain", 40 * MICRO))
        .variant("fast", Backend::Simd, recursive("fast", 10 * MICRO))
        .variant("slow", Backend::Threads, recursive("slow", 160 * MICRO))
        .build()
        .unwrap();
    assert!(me.set(op.clone()).is_ok());
    for _ in 0..500 {
        assert_eq!(op.run(&1024), truth(1024));
    }
    let stats = op.stats();
    let booked = stats.served_ns + stats.trial_ns;
    let ratio = booked / clock.now_ns() as f64;
    assert!(
        ratio < 1.5,
        "booked {ratio} of the time that passed: {stats}"
    );
    let ran = log.take();
    let last = &ran[ran.len() - 5_000..];
    let fast = last.iter().filter(|who| **who == "fast").count();
    assert!(
        fast > 4_500,
        "{fast} of the last 5,000: {}",
        op.explain(Workload::new([1024]))
    );
}

#[test]
fn f41_an_inner_op_inside_a_trial_does_not_spoil_the_outer_budget() {
    // Outer trials whose time holds an inner trial are not measured; they must not be free.
    let clock = FakeClock::new();
    let log = Log::default();
    let selector = selector(&clock);
    let inner = numbers(&selector, "inner")
        .reference("one", Backend::Scalar, takes(&clock, &log, "one", MICRO))
        .variant("two", Backend::Simd, takes(&clock, &log, "two", MICRO + 10))
        .build()
        .unwrap();
    let outer = |who: &'static str, ns: u64| {
        let (inner, time, log) = (inner.clone(), clock.clone(), log.clone());
        move |n: &mut &usize| {
            log.note(who);
            spend(&time, ns);
            inner.run(n)
        }
    };
    let op = numbers(&selector, "outer")
        .reference("plain", Backend::Scalar, outer("plain", 10 * MICRO))
        .variant("bad", Backend::Simd, outer("bad", 500 * MICRO))
        .build()
        .unwrap();
    for n in 0..5_000usize {
        op.run(&(n * 7_919 % 1_000_000));
    }
    let wasted = log.count("bad") as u64 * 490 * MICRO;
    let allowed = clock.now_ns() / 100 + 5 * 490 * MICRO; // the budget, three first tries, one bad trial
    assert!(
        wasted <= allowed,
        "trials wasted {wasted} ns, {allowed} were allowed"
    );
}

#[test]
fn f41_deciding_by_name_inside_a_variant_works() {
    let clock = FakeClock::new();
    let selector = builder(&clock).build().unwrap();
    let (within, time) = (selector.clone(), clock.clone());
    let op = numbers(&selector, "op")
        .reference("plain", Backend::Scalar, move |n| {
            let decision = within.decide("part", &Workload::new([**n]), &["a", "b"]);
            spend(&time, 5 * MICRO);
            within.record(&decision, Outcome::took(Duration::from_micros(5)));
            truth(**n)
        })
        .build()
        .unwrap();
    // As many as are all timed.
    for _ in 0..8 {
        assert_eq!(op.run(&64), truth(64));
    }
    let stats = selector.stats();
    let served = |name: &str| stats.iter().find(|s| s.op == name).unwrap().served_ns;
    assert_eq!(served("op"), clock.now_ns() as f64);
    assert_eq!(
        served("part"),
        0.0,
        "it ran inside a call whose time counts"
    );
}

#[test]
fn f41_a_panic_deep_inside_leaves_the_outer_call_whole() {
    let clock = FakeClock::new();
    let log = Log::default();
    let selector = selector(&clock);
    let inner = numbers(&selector, "inner")
        .reference("plain", Backend::Scalar, |n| {
            assert!(**n % 10 != 3, "inner reference fails at {n}");
            truth(**n)
        })
        .build()
        .unwrap();
    let within = inner.clone();
    let time = clock.clone();
    let op = numbers(&selector, "outer")
        .reference(
            "plain",
            Backend::Scalar,
            takes(&clock, &log, "plain", 40 * MICRO),
        )
        .variant("nested", Backend::Simd, move |n| {
            spend(&time, 10 * MICRO);
            within.run(n)
        })
        .build()
        .unwrap();
    for n in 0..2_000usize {
        assert_eq!(op.run(&n), truth(n));
        clock.advance(Duration::from_secs(1));
    }
    // The thread no longer believes to be inside a call: what follows is booked.
    let before = op.stats().served_ns;
    op.run(&100_000);
    assert!(op.stats().served_ns > before);
}

struct Inner;

impl pointsman::Op for Inner {
    type Args<'a> = usize;
    type Output = usize;

    fn name(&self) -> &str {
        "inner"
    }
    fn workload(&self, n: &usize) -> Workload {
        Workload::new([*n])
    }
}

impl Verify for Inner {
    type Sample = usize;
    fn sample(&self, workload: &Workload, _: u64) -> usize {
        workload.size() as usize
    }
    fn args(&self, sample: &mut usize) -> usize {
        *sample
    }
    fn agrees(&self, expected: (&usize, &usize), got: (&usize, &usize)) -> bool {
        expected == got
    }
}

#[test]
fn f41_a_call_inside_which_a_check_is_awaited_says_nothing_about_the_outer_variant() {
    let clock = FakeClock::new();
    let selector = builder(&clock).checks(Checks::Background).build().unwrap();
    let caller = thread::current().id();
    let released = Arc::new(AtomicBool::new(true));
    // Takes its time for the caller, and for the check as long as it is held.
    let body = |ns: u64| {
        let (time, released) = (clock.clone(), released.clone());
        move |n: &mut usize| {
            if thread::current().id() == caller {
                spend(&time, ns);
            } else {
                while !released.load(SeqCst) {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            truth(*n)
        }
    };
    let inner = selector
        .op(Inner)
        .reference("slow", Backend::Scalar, body(900 * MICRO))
        .variant("fast", Backend::Simd, body(10 * MICRO))
        .verified()
        .build()
        .unwrap();
    let within = inner.clone();
    let op = numbers(&selector, "outer")
        .reference(
            "plain",
            Backend::Scalar,
            takes(&clock, &Log::default(), "plain", 100 * MICRO),
        )
        .variant("nested", Backend::Simd, move |n| within.run(**n))
        .build()
        .unwrap();
    let judged = |checks: u64| {
        let begin = Instant::now();
        while inner.stats().checks < checks {
            assert!(begin.elapsed() < Duration::from_secs(30));
            inner.run(64);
            thread::sleep(Duration::from_millis(1));
        }
    };
    // It is known that the fast one is fast, but not whether it is right with sizes like the next.
    judged(1);
    (0..100).for_each(|_| _ = inner.run(64));
    assert_eq!(inner.explain(Workload::new([64])).chosen, "fast");
    released.store(false, SeqCst);
    let run = |calls: usize| {
        for _ in 0..calls {
            assert_eq!(op.run(&5_000), truth(5_000));
        }
        op.explain(Workload::new([5_000]))
    };
    let before = inner.stats().calls;
    let told = run(300);
    assert!(inner.stats().calls > before, "it was tried");
    assert_eq!(told.variants[1].samples, 0, "{told}");
    released.store(true, SeqCst);
    judged(2);
    let told = run(1_000);
    assert_eq!(told.chosen, "nested", "{told}");
}
