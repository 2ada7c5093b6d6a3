//! What the tests of calls share: scripted variants on a fake clock, and a log of who ran.
#![allow(dead_code)] // each test file uses a part

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pointsman::store::MachineRecord;
use pointsman::{Calibration, FakeClock, Function, OpBuilder, Selector, SelectorBuilder, Workload};

/// A selector whose time moves only in scripted variants.
pub(crate) fn builder(clock: &FakeClock) -> SelectorBuilder {
    Selector::builder()
        .in_memory()
        .ignore_environment()
        .clock(clock.clone())
        .calibration(calibration())
        .seed(7)
}

/// Constants that are the same on every machine: what is measured must not decide a test.
fn calibration() -> Calibration {
    let record = MachineRecord {
        fingerprint: 0,
        text: "backends scalar simd threads".into(),
        numbers: vec![25.0, 5.0, 2e9, 1e10, 5.0, 1e10, 1e10, 5e3, 2e10, 2e10],
    };
    Calibration::from_record(&record).unwrap()
}

pub(crate) fn selector(clock: &FakeClock) -> Selector {
    builder(clock).build().unwrap()
}

pub(crate) const MICRO: u64 = 1_000;

pub(crate) fn spend(clock: &FakeClock, ns: u64) {
    clock.advance(Duration::from_nanos(ns));
}

/// Who ran, in order.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    pub(crate) fn note(&self, who: &'static str) {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).push(who);
    }

    /// What was noted since the last time.
    pub(crate) fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(|e| e.into_inner()))
    }

    pub(crate) fn count(&self, who: &str) -> usize {
        let log = self.0.lock().unwrap_or_else(|e| e.into_inner());
        log.iter().filter(|w| **w == who).count()
    }
}

/// What every right variant of the scripted ops returns.
pub(crate) fn truth(n: usize) -> usize {
    n.wrapping_mul(3)
}

/// An op of one number: its size.
pub(crate) type Numbers = OpBuilder<Function<usize, usize>>;

pub(crate) fn numbers(selector: &Selector, name: &str) -> Numbers {
    selector.function(name, |n: &usize| Workload::new([*n]))
}

/// A variant that takes this long and is right.
pub(crate) fn takes(
    clock: &FakeClock,
    log: &Log,
    who: &'static str,
    ns: u64,
) -> impl Fn(&mut &usize) -> usize + Send + Sync + 'static {
    let (clock, log) = (clock.clone(), log.clone());
    move |n| {
        log.note(who);
        spend(&clock, ns);
        truth(**n)
    }
}

/// Reads an environment made of pairs.
pub(crate) fn environment(
    pairs: &[(&'static str, &'static str)],
) -> impl Fn(&str) -> Option<String> + 'static {
    let pairs = pairs.to_vec();
    move |name| {
        let found = pairs.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| (*value).to_owned())
    }
}
