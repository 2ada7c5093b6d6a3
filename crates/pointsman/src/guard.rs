//! Step 5 of a call: a variant that fails is kept from harm, and from serving, for a while.

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, TryLockError};

use crate::decision::human_ns;
use crate::error::{BoxError, Failure, OutOfMemory};

/// First quarantine; each further one is twice as long.
const FIRST_NS: u64 = 1_000_000_000;

/// Longest quarantine: a device that comes back is found within the hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// For how long a size is too large after the memory did not suffice for it: as long as a reading of
/// free memory is used. Each further time is twice as long.
const FULL_NS: u64 = 60_000_000_000;

/// Errors in a row that quarantine a variant. One may be this call's fault; a panic never is.
const ERRORS_IN_A_ROW: u32 = 2;

/// Runs a variant and turns whatever goes wrong into a value.
#[inline]
pub(crate) fn attempt<T>(run: impl FnOnce() -> Result<T, BoxError>) -> Result<T, Caught> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Caught::Error(error)),
        Err(payload) => Err(Caught::Panic(payload)),
    }
}

/// The same for a variant that returns no error.
#[inline]
pub(crate) fn attempt_sure<T>(run: impl FnOnce() -> T) -> Result<T, Caught> {
    catch_unwind(AssertUnwindSafe(run)).map_err(Caught::Panic)
}

/// What was caught.
pub(crate) enum Caught {
    Error(BoxError),
    Panic(Box<dyn Any + Send>),
}

impl Caught {
    pub(crate) fn is_panic(&self) -> bool {
        matches!(self, Caught::Panic(_))
    }

    /// Whether it was for want of memory, for whatever reason that was wrapped in.
    pub(crate) fn out_of_memory(&self) -> Option<OutOfMemory> {
        let Caught::Error(error) = self else {
            return None;
        };
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error.as_ref());
        while let Some(error) = cause {
            if let Some(found) = error.downcast_ref() {
                return Some(*found);
            }
            cause = error.source();
        }
        None
    }

    pub(crate) fn into_failure(self) -> Failure {
        match self {
            Caught::Error(error) => Failure::Error(error),
            Caught::Panic(payload) => Failure::Panic(panic_message(payload.as_ref())),
        }
    }
}

/// The text a panic was raised with.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a message".to_owned()
    }
}

/// Who is in quarantine, and why.
#[derive(Default)]
pub(crate) struct Quarantine {
    /// One bit per variant in quarantine: all that the hot path reads.
    mask: AtomicU64,
    /// One bit per variant whose failures are remembered, so that success needs no lock.
    suspects: AtomicU64,
    /// One bit per variant that ran out of memory lately.
    full: AtomicU64,
    cases: Mutex<HashMap<u8, Case>>,
}

#[derive(Clone, Debug, Default)]
struct Case {
    in_a_row: u32,
    /// Quarantines so far without a success in between.
    times: u32,
    until_ns: Option<u64>,
    /// The smallest size that memory did not suffice for, until when, and how often that was.
    full: Option<(u64, u64, u32)>,
    /// Gave a wrong result: no time heals that.
    wrong: bool,
    why: String,
    /// Quarantines so far, for the statistics.
    total: u64,
}

impl Quarantine {
    #[inline]
    pub(crate) fn mask(&self) -> u64 {
        self.mask.load(Relaxed)
    }

    fn cases(&self) -> MutexGuard<'_, HashMap<u8, Case>> {
        self.cases.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Whether nobody holds its lock.
    pub(crate) fn is_free(&self) -> bool {
        !matches!(self.cases.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Notes a failure; true if the variant is quarantined for it.
    pub(crate) fn failed(&self, variant: u8, panicked: bool, why: String, now_ns: u64) -> bool {
        let mut cases = self.cases();
        self.suspects.fetch_or(1 << variant, Relaxed);
        let case = cases.entry(variant).or_default();
        case.in_a_row += 1;
        case.why = why;
        if !panicked && case.in_a_row < ERRORS_IN_A_ROW {
            return false;
        }
        if case.until_ns.is_some_and(|until| until > now_ns) {
            return false; // calls that were under way when it was quarantined: one incident
        }
        let length = FIRST_NS
            .saturating_mul(1 << case.times.min(20))
            .min(LONGEST_NS);
        case.until_ns = Some(now_ns.saturating_add(length));
        case.times += 1;
        case.total += 1;
        self.mask.fetch_or(1 << variant, Relaxed);
        true
    }

    /// Notes that a variant had no memory for a call of this size.
    pub(crate) fn ran_out(&self, variant: u8, size: u64, why: String, now_ns: u64) {
        let mut cases = self.cases();
        let case = cases.entry(variant).or_default();
        let (smallest, times) = match case.full {
            Some((smallest, until, times)) if until > now_ns => (smallest.min(size), times),
            Some((_, _, times)) => (size, times),
            None => (size, 0),
        };
        let length = FULL_NS.saturating_mul(1 << times.min(10)).min(LONGEST_NS);
        case.full = Some((smallest, now_ns.saturating_add(length), times + 1));
        case.why = why;
        self.full.fetch_or(1 << variant, Relaxed);
    }

    /// Variants that ran out of memory lately.
    #[inline]
    pub(crate) fn full(&self) -> u64 {
        self.full.load(Relaxed)
    }

    /// From which size on a variant has no memory, and until when.
    pub(crate) fn full_from(&self, variant: u8) -> Option<(u64, u64)> {
        let (size, until, _) = self.cases().get(&variant)?.full?;
        Some((size, until))
    }

    /// Notes that a variant gave a wrong result.
    pub(crate) fn wrong(&self, variant: u8, why: String) {
        let mut cases = self.cases();
        let case = cases.entry(variant).or_default();
        // Told again by every handle that is built: counted once.
        case.total += u64::from(!case.wrong);
        case.wrong = true;
        case.why = why;
        self.mask.fetch_or(1 << variant, Relaxed);
    }

    /// Variants that gave a wrong result.
    pub(crate) fn wrong_mask(&self) -> u64 {
        let cases = self.cases();
        let wrong = cases.iter().filter(|(_, case)| case.wrong);
        wrong.fold(0, |mask, (variant, _)| mask | 1 << variant)
    }

    /// Notes that a variant served: earlier failures no longer count against it.
    pub(crate) fn served(&self, variant: u8) {
        if self.suspects.load(Relaxed) & 1 << variant == 0 {
            return;
        }
        let mut cases = self.cases();
        self.suspects.fetch_and(!(1 << variant), Relaxed);
        if let Some(case) = cases.get_mut(&variant) {
            case.in_a_row = 0;
            case.times = 0;
        }
    }

    /// Releases whose time is over; true if anybody was.
    pub(crate) fn release(&self, now_ns: u64) -> bool {
        if self.mask() | self.full() == 0 {
            return false;
        }
        // Held until the mask is changed: who is put in meanwhile must stay in.
        let mut cases = self.cases();
        let (mut released, mut emptied) = (0, false);
        for (variant, case) in cases.iter_mut() {
            if !case.wrong && case.until_ns.is_some_and(|until| until <= now_ns) {
                case.until_ns = None;
                // One more error, not two, sends it back.
                case.in_a_row = ERRORS_IN_A_ROW - 1;
                released |= 1 << variant;
            }
            let over = |(_, until, _): (u64, u64, u32)| until <= now_ns;
            if self.full() & 1 << variant != 0 && case.full.is_some_and(over) {
                // How often it happened stays known.
                self.full.fetch_and(!(1 << variant), Relaxed);
                emptied = true;
            }
        }
        self.mask.fetch_and(!released, Relaxed);
        released != 0 || emptied
    }

    /// Why and for how long a variant is in quarantine.
    pub(crate) fn why(&self, variant: u8, now_ns: u64) -> Option<String> {
        let cases = self.cases();
        let case = cases.get(&variant)?;
        if case.wrong {
            return Some(format!("quarantined: {}", case.why));
        }
        let left = case.until_ns?.saturating_sub(now_ns);
        Some(format!(
            "quarantined for {}: {}",
            human_ns(left as f64),
            case.why
        ))
    }

    /// Whether anybody is in quarantine for a time.
    pub(crate) fn will_end(&self) -> bool {
        self.full() != 0
            || self.mask() != 0
                && self
                    .cases()
                    .values()
                    .any(|c| !c.wrong && c.until_ns.is_some())
    }

    /// A variant's code has changed: what the old code did no longer counts.
    pub(crate) fn forget(&self, variant: u8) {
        let mut cases = self.cases();
        if let Some(case) = cases.get_mut(&variant) {
            *case = Case {
                total: case.total, // it happened, whatever the code is now
                ..Case::default()
            };
        }
        self.mask.fetch_and(!(1 << variant), Relaxed);
        self.full.fetch_and(!(1 << variant), Relaxed);
    }

    /// How often a variant was put in quarantine.
    pub(crate) fn times(&self, variant: u8) -> u64 {
        self.cases().get(&variant).map_or(0, |case| case.total)
    }

    /// Forgets failures and counts; wrong results stay.
    pub(crate) fn reset(&self) {
        let mut cases = self.cases();
        cases.retain(|_, case| case.wrong);
        for case in cases.values_mut() {
            *case = Case {
                wrong: true,
                why: std::mem::take(&mut case.why),
                ..Case::default()
            };
        }
        let kept = cases.keys().fold(0, |mask, variant| mask | 1 << variant);
        self.mask.store(kept, Relaxed);
        self.full.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quarantine_backs_off_and_ends() {
        let quarantine = Quarantine::default();
        let mut now = 0;
        for seconds in [1, 2, 4, 8] {
            assert!(quarantine.failed(3, true, "boom".into(), now));
            assert_eq!(quarantine.mask(), 0b1000);
            let why = quarantine.why(3, now).unwrap();
            assert!(
                why.contains("boom") && why.contains(&format!("{seconds}.00 s")),
                "{why}"
            );
            now += seconds * 1_000_000_000 - 1;
            assert!(!quarantine.release(now));
            now += 1;
            assert!(quarantine.release(now));
            assert_eq!((quarantine.mask(), quarantine.why(3, now)), (0, None));
        }
        for _ in 0..40 {
            quarantine.failed(3, true, String::new(), now);
        }
        assert!(quarantine.release(now + LONGEST_NS), "never for good");
        quarantine.served(3);
        quarantine.failed(3, true, String::new(), now);
        assert!(quarantine.release(now + FIRST_NS), "a success starts over");
    }

    #[test]
    fn one_error_is_forgiven_two_in_a_row_are_not() {
        let quarantine = Quarantine::default();
        assert!(!quarantine.failed(0, false, "e".into(), 0));
        quarantine.served(0);
        assert!(!quarantine.failed(0, false, "e".into(), 0));
        assert!(quarantine.failed(0, false, "e".into(), 0));
    }

    #[test]
    fn f32_no_memory_rules_out_a_size_for_a_while_and_longer_each_time() {
        let quarantine = Quarantine::default();
        quarantine.ran_out(2, 1000, "full".into(), 0);
        quarantine.ran_out(2, 800, "full".into(), 1);
        assert_eq!((quarantine.mask(), quarantine.full()), (0, 0b100));
        let (from, until) = quarantine.full_from(2).unwrap();
        assert_eq!((from, until), (800, 1 + 2 * FULL_NS));
        assert!(!quarantine.release(until - 1) && quarantine.will_end());
        assert!(quarantine.release(until));
        assert_eq!(quarantine.full(), 0);
        quarantine.ran_out(2, 5000, "full".into(), until);
        assert_eq!(quarantine.full_from(2), Some((5000, until + 4 * FULL_NS)));
    }

    #[test]
    fn a_wrong_result_is_never_released() {
        let quarantine = Quarantine::default();
        quarantine.wrong(1, "differs".into());
        assert!(!quarantine.release(u64::MAX));
        quarantine.reset();
        assert_eq!(quarantine.mask(), 0b10);
    }
}
