//! Ops that write in place, and ops that must not be run twice.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use common::{Log, MICRO, builder, spend};
use pointsman::{Backend, Checks, FakeClock, Op, Selector, Verify, Workload};

/// `y += a·x`, in place.
struct Axpy {
    again: bool,
}

type AxpyArgs<'a> = (f64, &'a [f64], &'a mut [f64]);

impl Op for Axpy {
    type Args<'a> = AxpyArgs<'a>;
    type Output = ();
    fn name(&self) -> &str {
        "axpy"
    }
    fn workload(&self, (_, x, _): &AxpyArgs<'_>) -> Workload {
        Workload::new([x.len()])
    }
    fn may_run_again(&self) -> bool {
        self.again
    }
}

impl Verify for Axpy {
    type Sample = (Vec<f64>, Vec<f64>);
    fn sample(&self, workload: &Workload, seed: u64) -> Self::Sample {
        let n = workload.size();
        let values = |k: u64| (0..n).map(|i| ((i * k + seed) % 17) as f64).collect();
        (values(3), values(5))
    }
    fn args<'a>(&self, (x, y): &'a mut Self::Sample) -> AxpyArgs<'a> {
        (2.0, x, y)
    }
    fn agrees(&self, expected: (&Self::Sample, &()), got: (&Self::Sample, &())) -> bool {
        expected.0.1 == got.0.1
    }
}

fn axpy((a, x, y): &mut AxpyArgs<'_>) {
    for (y, x) in y.iter_mut().zip(*x) {
        *y += *a * x;
    }
}

fn scripted(
    clock: &FakeClock,
    log: &Log,
    who: &'static str,
    ns: u64,
) -> impl Fn(&mut AxpyArgs<'_>) + Send + Sync + 'static {
    let (clock, log) = (clock.clone(), log.clone());
    move |args| {
        log.note(who);
        spend(&clock, ns);
        axpy(args);
    }
}

fn called(run: impl FnOnce(AxpyArgs<'_>)) -> Vec<f64> {
    let x = [1.0, 2.0, 3.0];
    let mut y = [10.0, 20.0, 30.0];
    run((2.0, &x, &mut y));
    y.to_vec()
}

const RIGHT: [f64; 3] = [12.0, 24.0, 36.0];

fn learning(clock: &FakeClock) -> Selector {
    builder(clock).build().unwrap()
}

#[test]
fn each_call_writes_exactly_once() {
    let clock = FakeClock::new();
    let log = Log::default();
    let op = learning(&clock)
        .op(Axpy { again: true })
        .reference(
            "plain",
            Backend::Scalar,
            scripted(&clock, &log, "plain", 40 * MICRO),
        )
        .variant(
            "fast",
            Backend::Simd,
            scripted(&clock, &log, "fast", 10 * MICRO),
        )
        .build()
        .unwrap();
    let workload = Workload::new([3]);
    let plan = op.plan(workload);
    for _ in 0..2_000 {
        assert_eq!(called(|args| op.run(args)), RIGHT);
        assert_eq!(called(|args| plan.run(args)), RIGHT);
        assert_eq!(called(|args| op.run_explained(args).output), RIGHT);
    }
    assert_eq!(log.take().len(), 6_000);
    assert_eq!(
        called(|args| op.variant("fast").unwrap().run(args).unwrap()),
        RIGHT
    );
}

#[test]
fn f27_a_wrong_in_place_kernel_is_caught_on_samples_of_its_own() {
    for checks in [Checks::Inline, Checks::Background] {
        let clock = FakeClock::new();
        let log = Log::default();
        let op = builder(&clock)
            .checks(checks)
            .build()
            .unwrap()
            .op(Axpy { again: false })
            .reference(
                "plain",
                Backend::Scalar,
                scripted(&clock, &log, "plain", 40 * MICRO),
            )
            .variant("forgets the tail", Backend::Simd, |(a, x, y)| {
                for (y, x) in y.chunks_exact_mut(2).zip(x.chunks_exact(2)) {
                    (0..2).for_each(|i| y[i] += *a * x[i]);
                }
            })
            .verified()
            .build()
            .unwrap();
        for _ in 0..2_000 {
            assert_eq!(called(|args| op.run(args)), RIGHT);
        }
    }
}

#[derive(Debug, PartialEq)]
struct Payload(u32);

#[test]
fn an_op_that_must_not_run_again_runs_one_variant_and_its_panic_reaches_the_caller() {
    let clock = FakeClock::new();
    let log = Log::default();
    let panics = Arc::new(AtomicUsize::new(0));
    let (body, switch) = (scripted(&clock, &log, "fast", 10 * MICRO), panics.clone());
    let op = learning(&clock)
        .op(Axpy { again: false })
        .reference(
            "plain",
            Backend::Scalar,
            scripted(&clock, &log, "plain", 40 * MICRO),
        )
        .variant("fast", Backend::Simd, move |args| {
            body(args);
            if switch.load(SeqCst) > 0 {
                std::panic::panic_any(Payload(7));
            }
        })
        .build()
        .unwrap();
    for round in 0..2 {
        // Once through the learner, once on the fast way.
        for _ in 0..(300 + 5_000 * round) {
            assert_eq!(called(|args| op.run(args)), RIGHT);
        }
        log.take();
        panics.store(1, SeqCst);
        let payload = loop {
            match catch_unwind(AssertUnwindSafe(|| called(|args| op.run(args)))) {
                Ok(y) => assert_eq!(y, RIGHT), // a trial of the reference
                Err(payload) => break payload,
            }
        };
        assert_eq!(payload.downcast_ref(), Some(&Payload(7)));
        assert_eq!(log.take().last(), Some(&"fast"), "nobody ran after it");
        for _ in 0..100 {
            assert_eq!(called(|args| op.run(args)), RIGHT);
        }
        assert_eq!(log.count("plain"), 100, "it is in quarantine");
        panics.store(0, SeqCst);
        clock.advance(Duration::from_secs(10_000));
    }
}

#[test]
fn an_op_that_must_not_run_again_goes_on_after_an_error_that_touched_nothing() {
    let clock = FakeClock::new();
    let log = Log::default();
    let fails = Arc::new(AtomicUsize::new(0));
    let (body, switch) = (scripted(&clock, &log, "fast", 10 * MICRO), fails.clone());
    let op = learning(&clock)
        .op(Axpy { again: false })
        .reference(
            "plain",
            Backend::Scalar,
            scripted(&clock, &log, "plain", 40 * MICRO),
        )
        .try_variant("fast", Backend::Simd, move |args| {
            if switch.load(SeqCst) > 0 {
                return Err("no memory on the device");
            }
            body(args);
            Ok(())
        })
        .untouched_on_error()
        .build()
        .unwrap();
    for _ in 0..300 {
        called(|args| op.run(args));
    }
    fails.store(1, SeqCst);
    log.take();
    for _ in 0..100 {
        assert_eq!(called(|args| op.run(args)), RIGHT);
    }
    assert_eq!(log.take(), ["plain"; 100]);
    assert_eq!(op.stats().failures, 2);
}

#[test]
fn a_failed_attempt_that_wrote_is_run_again_only_where_the_op_allows_it() {
    // With `may_run_again` the op's variants overwrite: a half-done attempt leaves no trace.
    struct Fill;
    impl Op for Fill {
        type Args<'a> = &'a mut [u32];
        type Output = ();
        fn name(&self) -> &str {
            "fill"
        }
        fn workload(&self, out: &&mut [u32]) -> Workload {
            Workload::new([out.len()])
        }
    }
    let clock = FakeClock::new();
    let time = clock.clone();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let op = learning(&clock)
        .op(Fill)
        .reference("plain", Backend::Scalar, move |out| {
            spend(&time, 40 * MICRO);
            out.fill(7);
        })
        .try_variant("half", Backend::Simd, move |out| {
            count.fetch_add(1, SeqCst);
            let half = out.len() / 2;
            out[..half].fill(9);
            Err::<(), _>("gave up halfway")
        })
        .build()
        .unwrap();
    for _ in 0..1_000 {
        let mut out = [0; 10];
        op.run(&mut out);
        assert_eq!(out, [7; 10]);
        clock.advance(Duration::from_secs(100));
    }
    assert!(calls.load(SeqCst) > 0, "it was tried");
}
