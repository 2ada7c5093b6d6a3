//! Measuring all variants of one op at one size.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use pointsman::{Backend, Refused};
use pointsman_ops::catalogue::{Call, Entry};

use super::record::Record;
use super::refused::Refusals;

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

/// What each variant of each op took, by size.
#[derive(Default)]
pub(super) struct Pace(HashMap<(String, String), BTreeMap<usize, Duration>>);

impl Pace {
    /// What a call of this size takes at most, going by the next smaller one that was measured;
    /// `None` if there is none.
    fn at_most(&self, op: &str, variant: &str, size: usize) -> Option<Duration> {
        let known = self.0.get(&(op.to_owned(), variant.to_owned()))?;
        let (smaller, took) = known.range(..=size).next_back()?;
        let growth = (size as f64 / *smaller as f64).powi(GROWTH);
        Some(took.mul_f64(growth.min(1e6)))
    }

    fn learn(&mut self, op: &str, variant: &str, size: usize, took: Duration) {
        let known = self.0.entry((op.to_owned(), variant.to_owned()));
        known.or_default().insert(size, took);
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
    pub(super) refusals: Refusals,
    pace: Pace,
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
        measured: &mut Measured,
        record: Option<&mut Record>,
    ) -> Result<(), String> {
        let Measured {
            measurements,
            refusals,
            pace,
        } = measured;
        let mut call = self.entry.call(&self.shape, SEED)?;
        let told = call.explain();
        let wanted = |b: Backend| self.backends.is_empty() || self.backends.contains(&b);
        let mut may = Vec::new();
        for variant in told.variants.iter().filter(|v| wanted(v.backend)) {
            match &variant.why_not {
                None => may.push(variant),
                Some(why) => refusals.refused(self.op(), &variant.name, variant.quarantined, why),
            }
        }
        let share = slice / may.len().max(1) as u32;
        let mut times: Vec<(String, Vec<Duration>)> = Vec::new();
        for variant in may {
            if stop.load(Relaxed) || Instant::now() >= deadline {
                break;
            }
            // A call that may not fit into what all of them have is too slow to matter, and nothing
            // could end it. Of one that was never measured, only what is certain counts.
            let known = pace.at_most(self.op(), &variant.name, self.size);
            let takes = known.unwrap_or_else(|| {
                let (least, _) = variant.predicted.range_ns();
                Duration::from_secs_f64((least / 1e9).min(1e6))
            });
            if takes > slice {
                continue;
            }
            match samples(&mut *call, &variant.name, share, deadline, stop) {
                Ok(taken) => {
                    *measurements += taken.len() as u64;
                    refusals.measured(self.op(), &variant.name);
                    if let Some(least) = taken.iter().min() {
                        pace.learn(self.op(), &variant.name, self.size, *least);
                    }
                    times.push((variant.name.clone(), taken));
                }
                // Its conditions hold, as was just asked: it has failed its check, or itself.
                Err(error) => {
                    let why = match error.downcast_ref::<Refused>() {
                        Some(refused) => refused.why().to_owned(),
                        None => error.to_string(),
                    };
                    refusals.refused(self.op(), &variant.name, true, &why);
                }
            }
        }
        if let Some(record) = record {
            record.add(&self.shape, &times)?;
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use pointsman::{Checks, Op, Selector, Verify, Workload};
    use pointsman_ops::catalogue::{self, Shaped};

    use super::*;

    /// Twice a number: rightly, wrongly, and not at all.
    #[derive(Default)]
    struct Twice;

    impl Op for Twice {
        type Args<'a> = u64;
        type Output = u64;

        fn name(&self) -> &str {
            "twice"
        }

        fn workload(&self, n: &u64) -> Workload {
            Workload::new([*n])
        }
    }

    impl Verify for Twice {
        type Sample = u64;

        fn sample(&self, workload: &Workload, _: u64) -> u64 {
            workload.size()
        }

        fn args(&self, n: &mut u64) -> u64 {
            *n
        }

        fn agrees(&self, expected: (&u64, &u64), got: (&u64, &u64)) -> bool {
            expected.1 == got.1
        }
    }

    impl Shaped for Twice {
        const AXES: &'static [&'static str] = &["n"];

        fn shaped(&self, shape: &[usize]) -> Workload {
            Workload::new([shape[0]])
        }

        fn make(&self, shape: &[usize], _: u64) -> u64 {
            shape[0] as u64
        }

        fn of_size(&self, size: usize) -> Vec<usize> {
            vec![size]
        }
    }

    #[test]
    fn a_variant_that_is_wrong_fails_or_is_ruled_out_is_told_with_the_reason() {
        let selector = Selector::builder()
            .in_memory()
            .ignore_environment()
            .checks(Checks::Inline)
            .build()
            .unwrap();
        let twice = selector
            .op(Twice)
            .reference("add", Backend::Scalar, |n| *n + *n)
            .variant("shift", Backend::Simd, |n| *n << 1)
            .variant("square", Backend::Simd, |n| *n * *n)
            .try_variant("broken", Backend::Simd, |_| Err::<u64, _>("out of order"))
            .variant("odd", Backend::Simd, |n| 2 * *n)
            .when(|n| n % 2 == 1)
            .verified()
            .build()
            .unwrap();
        let entry = catalogue::entry(&twice);
        let mut measured = Measured::default();
        let (hour, stop) = (Duration::from_secs(3600), AtomicBool::new(false));
        for size in [16, 32, 64] {
            let task = Task::new(&*entry, size, &[]);
            let deadline = Instant::now() + hour;
            task.measure(hour, deadline, &stop, &mut measured, None)
                .unwrap();
        }
        let told = serde_json::to_value(measured.refusals.told()).unwrap();
        let brief: Vec<_> = told.as_array().unwrap().iter().collect();
        assert_eq!(brief.len(), 3, "{told}");
        for (refusal, name, failed, why) in [
            (brief[0], "broken", true, "out of order"),
            (brief[1], "odd", false, "its condition says no"),
            (brief[2], "square", true, "quarantined: "),
        ] {
            assert_eq!(
                (&refusal["op"], &refusal["variant"]),
                (&"twice".into(), &name.into())
            );
            assert_eq!(
                (&refusal["failed"], &refusal["shapes"]),
                (&failed.into(), &3.into())
            );
            assert!(refusal["why"].as_str().unwrap().contains(why), "{told}");
        }
        assert!(
            measured.measurements >= 3 * 2 * 2,
            "the others were measured"
        );
    }

    #[test]
    fn what_a_large_call_took_says_nothing_of_a_small_one() {
        let mut pace = Pace::default();
        let ms = Duration::from_millis;
        pace.learn("sum", "simd", 100, ms(1));
        pace.learn("sum", "simd", 10_000, ms(900));
        assert_eq!(pace.at_most("sum", "simd", 10), None);
        assert_eq!(pace.at_most("sum", "simd", 100), Some(ms(1)));
        assert_eq!(pace.at_most("sum", "simd", 200), Some(ms(4)));
        assert_eq!(pace.at_most("sum", "simd", 20_000), Some(ms(3600)));
        assert_eq!(pace.at_most("sum", "scalar", 200), None);
    }
}
