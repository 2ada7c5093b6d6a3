//! Step 7 of a call: what happened, as an accepted cost or a reasoned rejection.

use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

use serde::Serialize;

/// What a caller reports about a call it ran itself.
///
/// ```
/// use std::time::Duration;
/// use pointsman::Outcome;
///
/// let ok = Outcome::took(Duration::from_micros(12));
/// let bad = Outcome::failed();
/// assert_ne!(ok, bad);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It ran and took this long.
    Took(Duration),
    /// It ran but its time says nothing: first use, compilation, an interrupted clock.
    WarmUp,
    /// It failed.
    Failed,
    /// It never ran.
    Cancelled,
}

impl Outcome {
    /// It ran and took this long.
    pub fn took(elapsed: Duration) -> Self {
        Outcome::Took(elapsed)
    }

    /// It failed. Two failures in a row quarantine the candidate, as errors of a
    /// [`try_variant`](crate::OpBuilder::try_variant) do.
    pub fn failed() -> Self {
        Outcome::Failed
    }

    /// It ran, but its time says nothing about the next call: compilation, caches being filled.
    pub fn warm_up() -> Self {
        Outcome::WarmUp
    }

    /// It never ran.
    pub fn cancelled() -> Self {
        Outcome::Cancelled
    }
}

/// An accepted measurement: a positive whole number of nanoseconds, at most a day.
///
/// There is no cost that is zero, negative, infinite or not a number, so nothing that a clock, a
/// file or a caller says can make a variant look infinitely fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Cost(NonZeroU64);

/// Longest cost that is believed: longer ones are a suspended machine or a clock that jumped.
const MAX_NS: u64 = 24 * 3600 * 1_000_000_000;

impl Cost {
    /// A cost of this many nanoseconds, or why it cannot be one.
    pub fn from_ns(ns: u64) -> Result<Self, Rejection> {
        match NonZeroU64::new(ns) {
            None => Err(Rejection::Zero),
            Some(_) if ns > MAX_NS => Err(Rejection::TooLong),
            Some(ns) => Ok(Cost(ns)),
        }
    }

    /// Nanoseconds.
    pub fn ns(self) -> u64 {
        self.0.get()
    }

    /// Natural logarithm of the nanoseconds: the space costs are compared in.
    pub(crate) fn ln(self) -> f64 {
        (self.ns() as f64).ln()
    }

    /// The cost whose logarithm is nearest to this.
    pub(crate) fn from_ln(ln: f64) -> Self {
        let ns = ln.exp().clamp(1.0, MAX_NS as f64).round() as u64;
        Cost(NonZeroU64::new(ns).unwrap_or(NonZeroU64::MIN))
    }
}

/// Why a measurement was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Rejection {
    /// No time passed: below what the clock can tell.
    Zero,
    /// More than a day passed: a suspended machine or a clock that jumped.
    TooLong,
    /// The clock went back.
    ClockWentBack,
    /// First use of the variant in this process.
    WarmUp,
    /// Another call inside this one was a trial, or one by which its op found out who should serve.
    NestedTrial,
    /// It waited for other calls on the same GPU.
    Queued,
}

impl Rejection {
    /// Its name in statistics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Rejection::Zero => "zero",
            Rejection::TooLong => "too_long",
            Rejection::ClockWentBack => "clock_went_back",
            Rejection::WarmUp => "warm_up",
            Rejection::NestedTrial => "nested_trial",
            Rejection::Queued => "queued",
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rejection::Zero => "no time passed",
            Rejection::TooLong => "more than a day passed",
            Rejection::ClockWentBack => "the clock went back",
            Rejection::WarmUp => "first use in this process",
            Rejection::NestedTrial => "an op inside it was finding out",
            Rejection::Queued => "it waited for other calls",
        })
    }
}

/// The time between two readings of a clock, less what reading the clock itself takes.
pub(crate) fn measured(start_ns: u64, end_ns: u64, clock_cost_ns: u64) -> Result<Cost, Rejection> {
    let raw = end_ns
        .checked_sub(start_ns)
        .ok_or(Rejection::ClockWentBack)?;
    if raw == 0 {
        return Err(Rejection::Zero);
    }
    // At least a quarter stays: an over-estimated clock cost must not make short calls look free.
    Cost::from_ns(raw.saturating_sub(clock_cost_ns).max(raw.div_ceil(4)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn f16_f17_zero_backward_and_absurd_times_are_rejected() {
        assert_eq!(measured(5, 5, 0), Err(Rejection::Zero));
        assert_eq!(measured(6, 5, 0), Err(Rejection::ClockWentBack));
        assert_eq!(measured(0, u64::MAX, 0), Err(Rejection::TooLong));
        assert_eq!(measured(0, 100, 30).unwrap().ns(), 70);
        assert_eq!(measured(0, 40, 60).unwrap().ns(), 10);
    }

    proptest! {
        #[test]
        fn f18_a_cost_is_always_a_positive_finite_number(ns: u64, ln: f64) {
            if let Ok(cost) = Cost::from_ns(ns) {
                prop_assert!(cost.ns() > 0 && cost.ln().is_finite());
            }
            prop_assert!(Cost::from_ln(ln).ln().is_finite());
        }
    }
}
