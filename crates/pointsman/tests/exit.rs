//! The end of a process: saving is bounded in time and never panics. Row 38 of the table of faults.
//!
//! The process that ends is real: this file's binary runs itself with one test.

mod common;

use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use common::{Log, numbers};
use pointsman::store::{Knowledge, Store, StoreError};
use pointsman::{Backend, Checks, Op, Selector, Verify, Workload};

const CHILD: &str = "POINTSMAN_TEST_CHILD";

/// A store on a disk that never answers.
struct Stuck;

fn for_ever() {
    let (lock, never) = (Mutex::new(()), Condvar::new());
    let mut guard = lock.lock().unwrap();
    loop {
        guard = never.wait(guard).unwrap();
    }
}

impl Store for Stuck {
    fn load(&mut self) -> Result<Knowledge, StoreError> {
        Ok(Knowledge::default())
    }
    fn merge(&mut self, _: &Knowledge) -> Result<(), StoreError> {
        for_ever();
        Ok(())
    }
    fn forget(&mut self, _: Option<&str>) -> Result<(), StoreError> {
        Ok(())
    }
    fn describe(&self) -> String {
        "stuck".into()
    }
}

/// A store that panics, against its promise.
struct Panics;

impl Store for Panics {
    fn load(&mut self) -> Result<Knowledge, StoreError> {
        Ok(Knowledge::default())
    }
    fn merge(&mut self, _: &Knowledge) -> Result<(), StoreError> {
        panic!("the store panics")
    }
    fn forget(&mut self, _: Option<&str>) -> Result<(), StoreError> {
        Ok(())
    }
    fn describe(&self) -> String {
        "panics".into()
    }
}

fn use_it(store: impl Store + 'static) -> Selector {
    let selector = Selector::builder()
        .store(store)
        .ignore_environment()
        .save_every(Duration::from_millis(10))
        .build()
        .unwrap();
    let log = Log::default();
    let clock = pointsman::FakeClock::new();
    let op = numbers(&selector, "op")
        .reference(
            "plain",
            Backend::Scalar,
            common::takes(&clock, &log, "plain", 1),
        )
        .variant(
            "fast",
            Backend::Simd,
            common::takes(&clock, &log, "fast", 1),
        )
        .build()
        .unwrap();
    for n in 0..200usize {
        op.run(&n);
    }
    selector
}

/// Runs this file's child with this errand; how it ended and how long it took.
fn child(errand: &str, kill_after: Duration) -> (Option<i32>, Duration, String) {
    let start = Instant::now();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "child_that_ends",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(CHILD, errand)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if start.elapsed() > kill_after {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let took = start.elapsed();
    let mut stderr = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut stderr).unwrap();
    (status.map(|s| s.code().unwrap_or(-1)), took, stderr)
}

/// Not a test of its own: what the child does.
#[test]
fn child_that_ends() {
    let Some(errand) = std::env::var_os(CHILD) else {
        return;
    };
    match errand.to_str().unwrap() {
        "drop" => drop(use_it(Stuck)),
        "exit" => {
            let _kept = use_it(Stuck);
            std::process::exit(0);
        }
        "leak" => std::mem::forget(use_it(Stuck)),
        "static" => {
            static KEPT: std::sync::OnceLock<Selector> = std::sync::OnceLock::new();
            assert!(KEPT.set(use_it(Stuck)).is_ok());
        }
        "panicking store" => drop(use_it(Panics)),
        "drop while panicking" => {
            let result = std::panic::catch_unwind(|| {
                let _selector = use_it(Panics);
                panic!("on the way out");
            });
            assert!(result.is_err(), "a second panic would have aborted");
        }
        "stuck check" => stuck_check(),
        other => panic!("no errand {other}"),
    }
}

struct Slow;

impl Op for Slow {
    type Args<'a> = (usize, bool);
    type Output = usize;
    fn name(&self) -> &str {
        "slow"
    }
    fn workload(&self, (n, _): &(usize, bool)) -> Workload {
        Workload::new([*n])
    }
}

impl Verify for Slow {
    type Sample = (usize, bool);
    fn sample(&self, workload: &Workload, _: u64) -> (usize, bool) {
        (workload.size() as usize, false)
    }
    fn args(&self, sample: &mut (usize, bool)) -> (usize, bool) {
        *sample
    }
    fn agrees(&self, _: (&(usize, bool), &usize), _: (&(usize, bool), &usize)) -> bool {
        true
    }
}

/// A variant that hangs in its check: calls go on, and so does the end of the process.
fn stuck_check() {
    let selector = Selector::builder()
        .in_memory()
        .ignore_environment()
        .checks(Checks::Background)
        .build()
        .unwrap();
    let op = selector
        .op(Slow)
        .reference("plain", Backend::Scalar, |(n, _)| {
            std::thread::sleep(Duration::from_micros(20));
            *n
        })
        .variant("hangs", Backend::Simd, |(n, user)| {
            if !*user {
                for_ever();
            }
            *n
        })
        .verified()
        .build()
        .unwrap();
    for _ in 0..2_000 {
        assert_eq!(op.run((64, true)), 64);
    }
}

/// A second for the last save, and as much again for a busy machine to start a process in; what is
/// tested is that it is seconds and not for ever.
const BOUND: Duration = Duration::from_secs(20);

#[test]
fn f38_a_store_that_never_answers_does_not_keep_the_process() {
    for errand in ["drop", "exit", "leak", "static"] {
        let (code, took, stderr) = child(errand, BOUND);
        assert_eq!(code, Some(0), "{errand}: {took:?}: {stderr}");
    }
}

#[test]
fn f38_dropping_never_panics() {
    for errand in ["panicking store", "drop while panicking"] {
        let (code, took, stderr) = child(errand, BOUND);
        assert_eq!(code, Some(0), "{errand}: {took:?}: {stderr}");
    }
}

#[test]
fn f38_a_check_that_hangs_does_not_keep_the_process() {
    let (code, took, stderr) = child("stuck check", BOUND);
    assert_eq!(code, Some(0), "{took:?}: {stderr}");
}

#[test]
fn f38_dropping_waits_for_about_a_second_and_no_longer() {
    let selector = use_it(Stuck);
    let start = Instant::now();
    drop(selector);
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn f38_flushing_a_store_that_never_answers_ends_at_its_deadline() {
    let selector = use_it(Stuck);
    for _ in 0..40 {
        // More requests than may wait.
        assert!(selector.flush(Duration::from_millis(5)).is_err());
    }
}
