//! Measuring all variants of one op at one size.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use pointsman::{Backend, Refused};
use pointsman_ops::catalogue::{Call, Entry};

use super::record::Record;

/// Measurements of a variant: as many as the learner takes the median of.
const ENOUGH: u32 = 9;

/// Calls shorter than this are run a few times untimed first: their code and data are cold after
/// another variant ran.
const SHORT: Duration = Duration::from_micros(50);
const WARM_UPS: u32 = 3;

/// Seed of the arguments.
const SEED: u64 = 1;

/// How the time of a call grows with its size at most: the slowest ops are quadratic.
const GROWTH: i32 = 2;

/// What each variant took at the largest size it was measured at so far.
#[derive(Default)]
pub(super) struct Pace(HashMap<(String, String), (usize, Duration)>);

impl Pace {
    /// What a call of this size takes at most, as far as anybody knows.
    fn at_most(&self, op: &str, variant: &str, size: usize) -> Option<Duration> {
        let (known, took) = self.0.get(&(op.to_owned(), variant.to_owned()))?;
        let growth = (size as f64 / *known as f64).max(1.0).powi(GROWTH);
        Some(took.mul_f64(growth.min(1e6)))
    }

    fn learn(&mut self, op: &str, variant: &str, size: usize, took: Duration) {
        let key = (op.to_owned(), variant.to_owned());
        let known = self.0.entry(key).or_insert((size, took));
        if size >= known.0 {
            *known = (size, took);
        }
    }
}

/// One op at one size.
pub(super) struct Task<'e> {
    entry: &'e dyn Entry,
    size: usize,
    shape: Vec<usize>,
    backends: Vec<Backend>,
}

/// What measuring yielded.
#[derive(Default)]
pub(super) struct Measured {
    pub(super) measurements: u64,
    pub(super) failures: Vec<String>,
}

impl Measured {
    pub(super) fn add(&mut self, more: Measured) {
        self.measurements += more.measurements;
        for why in more.failures {
            if !self.failures.contains(&why) {
                self.failures.push(why);
            }
        }
    }
}

impl<'e> Task<'e> {
    pub(super) fn new(entry: &'e dyn Entry, size: usize, backends: &[Backend]) -> Self {
        Task {
            entry,
            size,
            shape: entry.of_size(size),
            backends: backends.to_vec(),
        }
    }

    pub(super) fn is_same(&self, other: &Task<'_>) -> bool {
        self.entry.name() == other.entry.name() && self.shape == other.shape
    }

    pub(super) fn op(&self) -> &str {
        self.entry.name()
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Measures every variant, in about this time.
    pub(super) fn measure(
        &self,
        slice: Duration,
        deadline: Instant,
        stop: &AtomicBool,
        pace: &mut Pace,
        record: Option<&mut Record>,
    ) -> Result<Measured, String> {
        let told = self.entry.explain(&self.shape)?;
        let wanted = |b: Backend| self.backends.is_empty() || self.backends.contains(&b);
        let may: Vec<_> = told
            .variants
            .iter()
            .filter(|v| v.eligible() && wanted(v.backend))
            .collect();
        let mut call = self.entry.call(&self.shape, SEED)?;
        let share = slice / may.len().max(1) as u32;
        let mut measured = Measured::default();
        let mut times: Vec<(String, Vec<Duration>)> = Vec::new();
        for variant in may {
            if stop.load(Relaxed) || Instant::now() >= deadline {
                break;
            }
            // A call that may not fit into what all of them have is too slow to matter, and nothing
            // could end it.
            let takes = pace.at_most(self.op(), &variant.name, self.size);
            if takes.is_some_and(|takes| takes > slice) {
                continue;
            }
            match samples(&mut *call, &variant.name, share, deadline, stop) {
                Ok(taken) => {
                    measured.measurements += taken.len() as u64;
                    if let Some(least) = taken.iter().min() {
                        pace.learn(self.op(), &variant.name, self.size, *least);
                    }
                    times.push((variant.name.clone(), taken));
                }
                // A condition on the arguments does not hold for this shape: nothing is wrong.
                Err(error) if error.is::<Refused>() => {}
                Err(error) => {
                    let op = self.op();
                    measured.failures.push(format!("{op}: {error}"));
                }
            }
        }
        if let Some(record) = record {
            record.add(&self.shape, &times)?;
        }
        Ok(measured)
    }
}

/// Times of one variant: enough of them, or what fits into its share, and at least two, of which
/// the first is a process's warm-up.
fn samples(
    call: &mut dyn Call,
    variant: &str,
    share: Duration,
    deadline: Instant,
    stop: &AtomicBool,
) -> Result<Vec<Duration>, pointsman::BoxError> {
    let mut times = Vec::new();
    // The first one includes the check against the reference: not a time to go by.
    call.measure(variant)?;
    let begin = Instant::now();
    for taken in 0..ENOUGH {
        if taken == 1 && times[0] < SHORT {
            for _ in 0..WARM_UPS {
                call.run_variant(variant)?;
            }
        }
        let start = Instant::now();
        call.measure(variant)?;
        times.push(start.elapsed());
        if begin.elapsed() >= share || Instant::now() >= deadline || stop.load(Relaxed) {
            break;
        }
    }
    Ok(times)
}
