//! Everything at once on eight threads: no deadlock, no panic, no wrong result. No model: what is
//! tested is that it ends. A watchdog ends the process if it does not.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use common::{numbers, truth};
use pointsman::store::MemoryStore;
use pointsman::{Backend, Checks, Op, Outcome, Selector, Verify, Workload};

/// Ends the process unless it is told in time that all is well.
fn watchdog(seconds: u64) -> Arc<AtomicBool> {
    let done = Arc::new(AtomicBool::new(false));
    let seen = done.clone();
    std::thread::spawn(move || {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(seconds) {
            if seen.load(SeqCst) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        #[allow(clippy::print_stderr)]
        {
            eprintln!("deadlock: nothing moved for {seconds} s");
        }
        std::process::abort();
    });
    done
}

struct Checked;

impl Op for Checked {
    type Args<'a> = usize;
    type Output = usize;
    fn name(&self) -> &str {
        "checked"
    }
    fn workload(&self, n: &usize) -> Workload {
        Workload::new([*n])
    }
}

impl Verify for Checked {
    type Sample = usize;
    fn sample(&self, workload: &Workload, _: u64) -> usize {
        workload.size() as usize
    }
    fn args(&self, sample: &mut usize) -> usize {
        *sample
    }
    fn agrees(&self, expected: (&usize, &usize), got: (&usize, &usize)) -> bool {
        expected.1 == got.1
    }
}

#[test]
fn eight_threads_of_everything_for_a_second() {
    let done = watchdog(120);
    for checks in [Checks::Inline, Checks::Background] {
        let selector = Selector::builder()
            .store(MemoryStore::new())
            .ignore_environment()
            .checks(checks)
            .save_every(Duration::from_millis(5))
            .build()
            .unwrap();
        let turn = AtomicU64::new(0);
        let plain = numbers(&selector, "plain")
            .reference("one", Backend::Scalar, |n| truth(**n))
            .variant("two", Backend::Simd, |n| truth(**n))
            .try_variant("fails", Backend::Threads, move |n| {
                if turn.fetch_add(1, SeqCst).is_multiple_of(7) {
                    return Err("now and then");
                }
                Ok(truth(**n))
            })
            .variant("panics", Backend::Gpu(0), |n| {
                // Quietly: the hook would fill the log.
                if **n % 11 == 0 {
                    std::panic::resume_unwind(Box::new("quiet"));
                }
                truth(**n)
            })
            .when(|n| **n % 3 == 0)
            .build()
            .unwrap();
        let checked = selector
            .op(Checked)
            .reference("right", Backend::Scalar, |n| truth(*n))
            .variant("also right", Backend::Simd, |n| truth(*n))
            .variant("wrong", Backend::Threads, |n| {
                truth(*n) + usize::from(*n % 2 == 1)
            })
            .verified()
            .build()
            .unwrap();
        let inner = plain.clone();
        let outer = numbers(&selector, "outer")
            .reference("nested", Backend::Scalar, move |n| inner.run(n))
            .variant("flat", Backend::Simd, |n| truth(**n))
            .build()
            .unwrap();
        let shared_plan = plain.plan(Workload::new([300]));
        let end = Instant::now() + Duration::from_millis(500);
        std::thread::scope(|scope| {
            for thread in 0..8u64 {
                let (selector, plain, checked) = (&selector, &plain, &checked);
                let (outer, shared_plan) = (&outer, &shared_plan);
                scope.spawn(move || {
                    let plan = checked.plan(Workload::new([700]));
                    let mut state = thread;
                    while Instant::now() < end {
                        state = state
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1);
                        let n = (state >> 33) as usize % 5_000;
                        match (state >> 60) as u32 {
                            0..=3 => assert_eq!(plain.run(&n), truth(n)),
                            4..=6 => assert_eq!(checked.run(n), truth(n)),
                            7 => assert_eq!(outer.run(&n), truth(n)),
                            8 => assert_eq!(shared_plan.run(&300), truth(300)),
                            9 => assert_eq!(plan.run(700), truth(700)),
                            10 | 11 => {
                                let workload = Workload::new([n]);
                                let decision = selector.decide("named", &workload, &["a", "b"]);
                                let outcome = match n % 5 {
                                    0 => Outcome::failed(),
                                    _ => Outcome::took(Duration::from_nanos(n as u64)),
                                };
                                selector.record(&decision, outcome);
                            }
                            12 => assert_eq!(plain.run_explained(&n).output, truth(n)),
                            13 => {
                                let told = checked.explain(Workload::new([n])).to_string();
                                assert!(told.contains("right"));
                            }
                            14 if n.is_multiple_of(20) => plain.reset(),
                            14 if n % 20 == 1 => {
                                selector.flush(Duration::from_secs(60)).unwrap();
                            }
                            14 if n % 20 == 2 => {
                                selector
                                    .forget(Some("named"), Duration::from_secs(60))
                                    .unwrap();
                            }
                            14 if n % 20 == 3 => {
                                let again = numbers(selector, "outer")
                                    .reference("nested", Backend::Scalar, |n| truth(**n))
                                    .revision((n % 2) as u32)
                                    .build()
                                    .unwrap();
                                assert_eq!(again.run(&n), truth(n));
                            }
                            _ => assert!(selector.stats().len() >= 3),
                        }
                    }
                });
            }
        });
        assert!(plain.stats().calls > 0);
        assert!(selector.flush(Duration::from_secs(60)).is_ok());
    }
    done.store(true, SeqCst);
}
