//! The wrong-result guard: no caller is ever served a wrong result by a variant whose op has a
//! check. Row 27 of the table of faults.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use common::{Log, builder, spend, truth};
use pointsman::store::MemoryStore;
use pointsman::{
    Backend, Checks, FakeClock, Handle, Op, OpBuilder, Selector, SelectorBuilder, Verify, Workload,
};

/// An op whose calls cost nothing to make, however large: a size, who asks, and where it lies.
struct Triple;

#[derive(Clone, Copy, Debug)]
struct Ask {
    n: usize,
    user: bool,
    address: usize,
}

fn ask(n: usize) -> Ask {
    Ask {
        n,
        user: true,
        address: 4096,
    }
}

impl Op for Triple {
    type Args<'a> = Ask;
    type Output = usize;
    fn name(&self) -> &str {
        "triple"
    }
    fn workload(&self, ask: &Ask) -> Workload {
        Workload::new([ask.n]).aligned(ask.address)
    }
}

impl Verify for Triple {
    type Sample = Ask;
    fn sample(&self, workload: &Workload, _: u64) -> Ask {
        Ask {
            n: workload.size() as usize,
            user: false,
            address: 4096,
        }
    }
    fn args(&self, sample: &mut Ask) -> Ask {
        *sample
    }
    fn agrees(&self, expected: (&Ask, &usize), got: (&Ask, &usize)) -> bool {
        expected.1 == got.1
    }
}

/// Runs of the suspect: for the user and for the guard.
#[derive(Clone, Default)]
struct Runs {
    user: Log,
    checked: Arc<AtomicUsize>,
}

fn kernel(
    clock: &FakeClock,
    runs: &Runs,
    who: &'static str,
    ns: u64,
    wrong: impl Fn(usize) -> bool + Send + Sync + 'static,
) -> impl Fn(&mut Ask) -> usize + Send + Sync + 'static {
    let (clock, runs) = (clock.clone(), runs.clone());
    move |ask| {
        if ask.user {
            runs.user.note(who);
            spend(&clock, ns);
        } else if who != "plain" {
            runs.checked.fetch_add(1, SeqCst);
        }
        truth(ask.n) + usize::from(wrong(ask.n))
    }
}

fn declare(
    selector: &Selector,
    clock: &FakeClock,
    runs: &Runs,
    revision: u32,
    wrong: impl Fn(usize) -> bool + Send + Sync + 'static,
) -> OpBuilder<Triple> {
    selector
        .op(Triple)
        .reference(
            "plain",
            Backend::Scalar,
            kernel(clock, runs, "plain", 40_000, |_| false),
        )
        .variant(
            "honest",
            Backend::Threads,
            kernel(clock, runs, "honest", 20_000, |_| false),
        )
        .variant(
            "suspect",
            Backend::Simd,
            kernel(clock, runs, "suspect", 5_000, wrong),
        )
        .revision(revision)
        .verified()
}

/// Runs these sizes and checks every result; in background mode lets the checks catch up.
fn serve(op: &Handle<Triple>, checks: Checks, sizes: impl Iterator<Item = usize>) {
    for n in sizes {
        let before = op.stats().checks;
        assert_eq!(
            op.run(ask(n)),
            truth(n),
            "a wrong result for size {n} was served"
        );
        if checks == Checks::Background && op.stats().checks == before {
            std::thread::yield_now();
        }
    }
}

/// Calls one size until the suspect has been judged there: however long the thread takes.
fn until_judged(op: &Handle<Triple>, n: usize) {
    for _ in 0..60_000 {
        assert_eq!(op.run(ask(n)), truth(n));
        let told = op.explain(Workload::new([n]).aligned(4096));
        let suspect = told.variants.iter().find(|v| v.name == "suspect").unwrap();
        if suspect.checked == Some(true) || suspect.why_not.is_some() {
            return;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    panic!("not judged in 30 s: {}", op.explain(Workload::new([n])));
}

fn both_ways(test: impl Fn(Checks, SelectorBuilder, &FakeClock)) {
    for checks in [Checks::Inline, Checks::Background] {
        let clock = FakeClock::new();
        test(checks, builder(&clock).checks(checks), &clock);
    }
}

fn sizes(range: std::ops::Range<usize>, calls: usize) -> impl Iterator<Item = usize> {
    let span = range.end - range.start;
    (0..calls).map(move |i| range.start + i.wrapping_mul(7_919) % span)
}

#[test]
fn f27_a_kernel_that_is_right_serves_after_its_check() {
    both_ways(|checks, builder, clock| {
        let runs = Runs::default();
        let op = declare(&builder.build().unwrap(), clock, &runs, 0, |_| false)
            .build()
            .unwrap();
        until_judged(&op, 600);
        serve(&op, checks, sizes(512..1024, 3_000));
        let served = runs.user.take();
        let last = &served[served.len() - 1_000..];
        let by_suspect = last.iter().filter(|who| **who == "suspect").count();
        assert!(by_suspect > 900, "{by_suspect} of the last 1,000");
        assert!(runs.checked.load(SeqCst) > 0);
    });
}

#[test]
fn f27_a_kernel_wrong_at_odd_sizes_never_serves() {
    both_ways(|checks, builder, clock| {
        let runs = Runs::default();
        let op = declare(&builder.build().unwrap(), clock, &runs, 0, |n| n % 2 == 1)
            .build()
            .unwrap();
        // Only even sizes until the check is done: the guard must look at odd ones by itself.
        until_judged(&op, 600);
        serve(&op, checks, sizes(1..100_000, 3_000));
        assert_eq!(runs.user.count("suspect"), 0);
        assert!(op.stats().quarantines >= 1);
        let told = op.explain(Workload::new([600]));
        let why = told.variants[2].why_not.as_deref().unwrap();
        assert!(
            why.contains("quarantined") && why.contains("result"),
            "{why}"
        );
        assert!(runs.user.count("honest") > 2_000, "the next best serves");
    });
}

#[test]
fn f27_a_kernel_wrong_at_the_largest_size_of_a_block_never_serves() {
    both_ways(|checks, builder, clock| {
        let runs = Runs::default();
        let op = declare(&builder.build().unwrap(), clock, &runs, 0, |n| n == 1023)
            .build()
            .unwrap();
        until_judged(&op, 600);
        serve(
            &op,
            checks,
            (0..2_000).map(|i| if i % 3 == 0 { 1023 } else { 512 + i % 512 }),
        );
        assert_eq!(runs.user.count("suspect"), 0);
    });
}

#[test]
fn f27_a_kernel_wrong_above_a_size_serves_below_and_never_above() {
    for edge in [10_000, 16_382] {
        both_ways(|checks, builder, clock| {
            let runs = Runs::default();
            let op = declare(&builder.build().unwrap(), clock, &runs, 0, move |n| {
                n > edge
            })
            .build()
            .unwrap();
            until_judged(&op, 1_500);
            serve(&op, checks, sizes(1_024..2_048, 1_000));
            assert!(
                runs.user.count("suspect") > 500,
                "right below {edge}: it may serve there"
            );
            serve(&op, checks, sizes(8_192..32_768, 2_000));
            runs.user.take();
            serve(&op, checks, sizes(8_192..32_768, 500));
            until_judged(&op, 12_000);
            serve(&op, checks, sizes(1_000..32_768, 500));
        });
    }
}

#[test]
fn f27_a_kernel_wrong_at_odd_sizes_above_16_million_never_serves() {
    // Features are kept as f32, which has no odd numbers from 2^24 on.
    both_ways(|checks, builder, clock| {
        let runs = Runs::default();
        let wrong = |n: usize| n > 1 << 24 && n % 2 == 1;
        let op = declare(&builder.build().unwrap(), clock, &runs, 0, wrong)
            .build()
            .unwrap();
        let large = (1 << 24) + 600;
        until_judged(&op, large);
        serve(&op, checks, (0..500).map(|i| large + 2 * i));
        serve(&op, checks, (0..500).map(|i| large + i));
    });
}

#[test]
fn f27_a_measured_variant_is_checked_once_and_refused_if_it_is_wrong() {
    both_ways(|_, builder, clock| {
        let runs = Runs::default();
        let wrong = |n: usize| n > 1_000;
        let op = declare(&builder.build().unwrap(), clock, &runs, 0, wrong)
            .build()
            .unwrap();
        let suspect = op.variant("suspect").unwrap();
        assert_eq!(suspect.measure(ask(300)).unwrap(), truth(300));
        let checks = runs.checked.load(SeqCst);
        assert!(checks > 0);
        for _ in 0..10 {
            assert_eq!(suspect.measure(ask(300)).unwrap(), truth(300));
        }
        assert_eq!(runs.checked.load(SeqCst), checks, "checked again");
        let told = op.explain(Workload::new([300]).aligned(4096));
        assert_eq!(told.variants[2].samples, 10, "all but the warm-up");
        let refused = suspect.measure(ask(5_000)).unwrap_err();
        let refused = refused.downcast_ref::<pointsman::Refused>().unwrap();
        assert!(refused.why().starts_with("quarantined: "), "{refused}");
    });
}

#[test]
fn f27_plans_are_guarded_too() {
    both_ways(|_, builder, clock| {
        let runs = Runs::default();
        let op = declare(&builder.build().unwrap(), clock, &runs, 0, |n| n % 2 == 1)
            .build()
            .unwrap();
        let plan = op.plan(Workload::new([601]));
        for _ in 0..3_000 {
            assert_eq!(plan.run(ask(601)), truth(601));
        }
    });
}

#[test]
fn f27_a_verdict_survives_a_restart_and_ends_with_the_revision() {
    both_ways(|checks, builder, clock| {
        let _ = builder;
        let store = MemoryStore::new();
        let again = || {
            common::builder(clock)
                .checks(checks)
                .store(store.clone())
                .build()
                .unwrap()
        };
        let first = Runs::default();
        let selector = again();
        let op = declare(&selector, clock, &first, 4, |n| n % 2 == 1)
            .build()
            .unwrap();
        until_judged(&op, 600);
        selector.flush(Duration::from_secs(10)).unwrap();
        drop((op, selector));

        let second = Runs::default();
        let selector = again();
        let op = declare(&selector, clock, &second, 4, |n| n % 2 == 1)
            .build()
            .unwrap();
        serve(&op, checks, sizes(512..1024, 1_000));
        assert_eq!(second.user.count("suspect"), 0);
        let told = op.explain(Workload::new([600]));
        assert!(
            told.variants[2]
                .why_not
                .as_deref()
                .unwrap()
                .contains("earlier run"),
            "{told}"
        );
        drop((op, selector));

        let third = Runs::default();
        let selector = again();
        let op = declare(&selector, clock, &third, 5, |_| false)
            .build()
            .unwrap();
        until_judged(&op, 600);
        serve(&op, checks, sizes(512..1024, 2_000));
        assert!(
            third.user.count("suspect") > 1_000,
            "new code gets a new chance"
        );
    });
}

#[test]
fn f27_a_new_revision_declared_in_the_same_process_gets_its_own_verdict() {
    // As a plugin or a notebook does that declares the op again after a fix.
    let clock = FakeClock::new();
    let store = MemoryStore::new();
    let again = || {
        builder(&clock)
            .checks(Checks::Inline)
            .store(store.clone())
            .build()
            .unwrap()
    };
    let runs = Runs::default();
    let selector = again();
    let op = declare(&selector, &clock, &runs, 1, |n| n % 2 == 1)
        .build()
        .unwrap();
    until_judged(&op, 600);
    drop(op);
    let op = declare(&selector, &clock, &runs, 2, |_| false)
        .build()
        .unwrap();
    serve(&op, Checks::Inline, sizes(512..1024, 2_000));
    assert!(
        runs.user.count("suspect") > 1_000,
        "{}",
        op.explain(Workload::new([600]))
    );
}

#[test]
fn f27_a_verdict_about_the_old_code_is_not_saved_for_the_new() {
    let clock = FakeClock::new();
    let store = MemoryStore::new();
    let again = || {
        builder(&clock)
            .checks(Checks::Inline)
            .store(store.clone())
            .build()
            .unwrap()
    };
    let runs = Runs::default();
    let selector = again();
    let op = declare(&selector, &clock, &runs, 1, |n| n % 2 == 1)
        .build()
        .unwrap();
    until_judged(&op, 600); // not saved yet
    let renewed = declare(&selector, &clock, &runs, 2, |_| false)
        .build()
        .unwrap();
    selector.flush(Duration::from_secs(10)).unwrap();
    drop((op, renewed, selector));

    let later = Runs::default();
    let op = declare(&again(), &clock, &later, 2, |_| false)
        .build()
        .unwrap();
    serve(&op, Checks::Inline, sizes(512..1024, 2_000));
    assert!(
        later.user.count("suspect") > 1_000,
        "{}",
        op.explain(Workload::new([600]))
    );
}

#[test]
fn f27_reset_keeps_the_verdict() {
    let clock = FakeClock::new();
    let runs = Runs::default();
    let selector = builder(&clock).checks(Checks::Inline).build().unwrap();
    let op = declare(&selector, &clock, &runs, 0, |n| n % 2 == 1)
        .build()
        .unwrap();
    until_judged(&op, 600);
    op.reset();
    let stats = op.stats();
    assert_eq!(
        (stats.quarantines, stats.checks, stats.check_ns),
        (0, 0, 0),
        "counts start anew"
    );
    let suspect = stats.variants.iter().find(|v| v.name == "suspect").unwrap();
    assert!(suspect.in_quarantine, "what was found stays known");
    serve(&op, Checks::Inline, sizes(1..100_000, 2_000));
    assert_eq!(runs.user.count("suspect"), 0);
}

#[test]
fn f27_a_verified_variant_with_an_alignment_limit_can_serve() {
    let clock = FakeClock::new();
    let runs = Runs::default();
    let selector = builder(&clock).checks(Checks::Inline).build().unwrap();
    let op = declare(&selector, &clock, &runs, 0, |_| false)
        .alignment(64)
        .build()
        .unwrap();
    serve(&op, Checks::Inline, sizes(512..1024, 2_000));
    let served = runs.user.count("suspect");
    assert!(
        served > 1_000,
        "{served}: {}",
        op.explain(Workload::new([600]).aligned(4096))
    );
}

/// The same op with a size of its own: bytes, not elements.
struct InBytes;

impl Op for InBytes {
    type Args<'a> = Ask;
    type Output = usize;
    fn name(&self) -> &str {
        "in_bytes"
    }
    fn workload(&self, ask: &Ask) -> Workload {
        Workload::new([ask.n]).sized(8 * ask.n)
    }
}

impl Verify for InBytes {
    type Sample = Ask;
    fn sample(&self, workload: &Workload, _: u64) -> Ask {
        Ask {
            n: workload.features()[0] as usize,
            user: false,
            address: 4096,
        }
    }
    fn args(&self, sample: &mut Ask) -> Ask {
        *sample
    }
    fn agrees(&self, expected: (&Ask, &usize), got: (&Ask, &usize)) -> bool {
        expected.1 == got.1
    }
}

#[test]
fn f27_a_size_of_the_callers_own_counts_in_checks_too() {
    let clock = FakeClock::new();
    let runs = Runs::default();
    let selector = builder(&clock).checks(Checks::Inline).build().unwrap();
    let op = selector
        .op(InBytes)
        .reference(
            "plain",
            Backend::Scalar,
            kernel(&clock, &runs, "plain", 40_000, |_| false),
        )
        .variant(
            "suspect",
            Backend::Simd,
            kernel(&clock, &runs, "suspect", 5_000, |_| false),
        )
        .min_size(4_096) // 512 elements
        .verified()
        .build()
        .unwrap();
    for n in sizes(512..1024, 1_000) {
        assert_eq!(op.run(ask(n)), truth(n));
    }
    let served = runs.user.count("suspect");
    assert!(
        served > 500,
        "{served}: {}",
        op.explain(Workload::new([600]).sized(4_800))
    );
}

#[test]
fn f27_a_check_declared_before_a_fallible_reference_is_not_lost() {
    let clock = FakeClock::new();
    let runs = Runs::default();
    let selector = builder(&clock).checks(Checks::Inline).build().unwrap();
    let plain = kernel(&clock, &runs, "plain", 40_000, |_| false);
    let built = selector
        .op(Triple)
        .verified()
        .try_reference("plain", Backend::Scalar, move |ask| {
            Ok::<usize, std::fmt::Error>(plain(ask))
        })
        .variant(
            "suspect",
            Backend::Simd,
            kernel(&clock, &runs, "suspect", 5_000, |_| true),
        )
        .build();
    // A build error would be as good; a guard that is silently off is not.
    if let Ok(op) = built {
        for n in sizes(512..1024, 500) {
            assert_eq!(op.run(ask(n)).unwrap(), truth(n), "served unchecked");
        }
    }
}

/// An op that cannot always be checked.
struct Fickle {
    is_checkable: Arc<AtomicBool>,
}

impl Op for Fickle {
    type Args<'a> = Ask;
    type Output = usize;
    fn name(&self) -> &str {
        "fickle"
    }
    fn workload(&self, ask: &Ask) -> Workload {
        Workload::new([ask.n])
    }
}

impl Verify for Fickle {
    type Sample = Ask;
    fn sample(&self, workload: &Workload, seed: u64) -> Ask {
        assert!(self.is_checkable.load(SeqCst), "no sample now");
        Triple.sample(workload, seed)
    }
    fn args(&self, sample: &mut Ask) -> Ask {
        *sample
    }
    fn agrees(&self, expected: (&Ask, &usize), got: (&Ask, &usize)) -> bool {
        expected.1 == got.1
    }
}

fn fickle(
    selector: &Selector,
    clock: &FakeClock,
    runs: &Runs,
) -> (Handle<Fickle>, Arc<AtomicBool>) {
    let is_checkable = Arc::new(AtomicBool::new(false));
    let op = selector
        .op(Fickle {
            is_checkable: is_checkable.clone(),
        })
        .reference(
            "plain",
            Backend::Scalar,
            kernel(clock, runs, "plain", 40_000, |_| false),
        )
        .variant(
            "suspect",
            Backend::Simd,
            kernel(clock, runs, "suspect", 5_000, |_| false),
        )
        .verified()
        .build()
        .unwrap();
    (op, is_checkable)
}

#[test]
fn f27_a_check_that_panics_keeps_the_variant_out_without_blame() {
    both_ways(|_, builder, clock| {
        let runs = Runs::default();
        let (op, _) = fickle(&builder.build().unwrap(), clock, &runs);
        for n in sizes(512..1024, 1_000) {
            assert_eq!(op.run(ask(n)), truth(n));
        }
        assert_eq!(op.stats().quarantines, 0);
        assert_eq!(runs.user.count("suspect"), 0);
    });
}

#[test]
fn f27_a_check_that_could_not_tell_is_repeated_later() {
    let clock = FakeClock::new();
    let runs = Runs::default();
    let selector = builder(&clock).checks(Checks::Inline).build().unwrap();
    let (op, is_checkable) = fickle(&selector, &clock, &runs);
    let serve = || (0..1_000).for_each(|_| assert_eq!(op.run(ask(700)), truth(700)));
    serve();
    is_checkable.store(true, SeqCst);
    serve();
    assert_eq!(runs.user.count("suspect"), 0, "not yet");
    clock.advance(Duration::from_secs(61));
    serve();
    assert!(runs.user.count("suspect") > 900);
}
