//! The wrong-result guard: a variant is compared with the reference before it serves.
//!
//! The check runs on samples made for the purpose, never on the caller's data, once per block of
//! cells (the features between the same powers of two): its smallest and its largest sizes, odd
//! sizes, and the size of the call that asked.

use std::collections::HashMap;

use crate::cell::Cell;
use crate::op::Op;
use crate::store::Fact;
use crate::workload::{MAX_FEATURES, Workload};

/// Most blocks remembered per op.
const MAX_BLOCKS: usize = 8192;

/// How long a check that could not tell is not repeated: what kept it from telling, a device that was
/// gone for one, may have passed. Doubles each time, as quarantines do.
const AGAIN_NS: u64 = 1_000_000_000;
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Characters that are kept of why a check could not tell: enough to find the cause, and bounded.
const LONGEST_WHY: usize = 200;

/// How to check the variants of an op against its reference.
///
/// Used by ops that are built with [`verified`](crate::OpBuilder::verified). A variant is checked
/// once per *block*: the workloads whose numeric features lie between the same powers of two, with
/// the same codes, dtype, flags and location. Each numeric feature of the samples takes five values,
/// equal ones once:
///
/// 1. the smallest whole number of the block, a power of two;
/// 2. one more than that;
/// 3. an odd number in the middle;
/// 4. that of the call which asked;
/// 5. the largest whole number of the block.
///
/// For a call of size 700 that is 512, 513, 767, 700 and 1023. So a sample may be **up to twice as
/// large as the call in every numeric feature**, up to eight times with three of them, and two
/// samples exist at a time: one for the reference, one for the variant.
///
/// A variant that disagrees on one sample serves no call any more, in any block, until its
/// [`revision`](crate::OpBuilder::revision) changes; a store remembers it. Samples that the variant
/// may not serve, or fails on, do not count against it; if none is left, it does not serve in this
/// block until another check, a minute later or more, finds one.
///
/// ```
/// use pointsman::{Op, Verify, Workload};
///
/// struct Sum;
/// impl Op for Sum {
///     type Args<'a> = &'a [f64];
///     type Output = f64;
///     fn name(&self) -> &str {
///         "sum"
///     }
///     fn workload(&self, x: &&[f64]) -> Workload {
///         Workload::new([x.len()])
///     }
/// }
///
/// impl Verify for Sum {
///     type Sample = Vec<f64>;
///     fn sample(&self, workload: &Workload, seed: u64) -> Vec<f64> {
///         (0..workload.size()).map(|i| ((i * 37 + seed) % 100) as f64).collect()
///     }
///     fn args<'a>(&self, sample: &'a mut Vec<f64>) -> &'a [f64] {
///         sample
///     }
///     fn agrees(&self, expected: (&Vec<f64>, &f64), got: (&Vec<f64>, &f64)) -> bool {
///         // n additions of numbers up to 100, in any order.
///         let n = expected.0.len() as f64;
///         (expected.1 - got.1).abs() <= n * n * 100.0 * f64::EPSILON
///     }
/// }
/// ```
pub trait Verify: Op {
    /// Arguments that own their data.
    type Sample: 'static;

    /// Arguments for a call of this workload; the same for the same seed.
    ///
    /// Go by its numeric [features](Workload::features), codes and dtype. Its
    /// [size](Workload::size) is the product of the features, also where the op says otherwise with
    /// [`sized`](Workload::sized); flops and bytes are those of the call that asked; an alignment
    /// is not given. Who may serve the sample is decided by what [`Op::workload`] says of it.
    fn sample(&self, workload: &Workload, seed: u64) -> Self::Sample;

    /// Lends them to a call.
    fn args<'a>(&self, sample: &'a mut Self::Sample) -> Self::Args<'a>;

    /// Whether two results are the same within rounding: the arguments after the call (which hold
    /// the result of an op that works in place) and what it returned.
    fn agrees(
        &self,
        expected: (&Self::Sample, &Self::Output),
        got: (&Self::Sample, &Self::Output),
    ) -> bool;
}

/// When variants are checked. In frozen and reference mode none is: then variants serve where the
/// store knows them to agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Checks {
    /// On a thread of their own, one check at a time; others serve meanwhile, if none has been
    /// checked the reference.
    #[default]
    Background,
    /// Within the call that wants the variant: slower, and the same every time.
    Inline,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The same result as the reference, within rounding.
    Agrees,
    /// Another result, and on what: it serves no more.
    Disagrees(String),
    /// There was nothing to compare, and why: the variant is kept from serving here, without blame.
    CannotTell(String),
}

/// A verdict about one revision of a variant in a block.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) variant: u8,
    pub(crate) revision: u32,
    pub(crate) block: Cell,
    pub(crate) fact: Fact,
}

/// A check that could not tell.
struct Untold {
    why: String,
    times: u32,
    until_ns: u64,
}

/// The blocks in which variants have been checked.
#[derive(Default)]
pub(crate) struct Checked {
    agreed: HashMap<u64, u64>,
    /// By block and variant.
    cannot_tell: HashMap<(u64, u8), Untold>,
    unsaved: Vec<Found>,
    pub(crate) checks: u64,
    pub(crate) spent_ns: u64,
}

impl Checked {
    /// Variants that may serve in the block of this workload.
    pub(crate) fn agreed(&self, workload: &Workload) -> u64 {
        let block = workload.cell().block().key();
        self.agreed.get(&block).copied().unwrap_or(0)
    }

    /// Whether a check of this variant here is worth while.
    pub(crate) fn is_open(&self, workload: &Workload, variant: u8, now_ns: u64) -> bool {
        let block = workload.cell().block().key();
        let untold = self.cannot_tell.get(&(block, variant));
        untold.is_none_or(|untold| untold.until_ns <= now_ns)
    }

    /// Why a check of this variant here could not tell whether it agrees.
    pub(crate) fn why_open(&self, workload: &Workload, variant: u8) -> Option<&str> {
        let block = workload.cell().block().key();
        let untold = self.cannot_tell.get(&(block, variant));
        untold.map(|untold| &*untold.why)
    }

    pub(crate) fn note(
        &mut self,
        workload: &Workload,
        variant: u8,
        revision: u32,
        verdict: &Verdict,
        now_ns: u64,
    ) {
        let block = workload.cell().block();
        let fact = match verdict {
            Verdict::Agrees => {
                self.load(variant, &block);
                self.cannot_tell.remove(&(block.key(), variant));
                Fact::Agreed
            }
            Verdict::Disagrees(_) => Fact::Disagreed,
            Verdict::CannotTell(why) => {
                if self.cannot_tell.len() >= MAX_BLOCKS {
                    self.cannot_tell.clear(); // they are tried again: bounded and correct
                }
                let before = self.cannot_tell.get(&(block.key(), variant));
                let times = before.map_or(0, |untold| untold.times);
                let rest_ns = (AGAIN_NS << times.min(12)).min(LONGEST_NS);
                let untold = Untold {
                    why: why.chars().take(LONGEST_WHY).collect(),
                    times: times + 1,
                    until_ns: now_ns.saturating_add(rest_ns),
                };
                self.cannot_tell.insert((block.key(), variant), untold);
                return;
            }
        };
        if self.unsaved.len() < MAX_BLOCKS {
            self.unsaved.push(Found {
                variant,
                revision,
                block,
                fact,
            });
        }
    }

    pub(crate) fn load(&mut self, variant: u8, block: &Cell) {
        if self.agreed.len() >= MAX_BLOCKS {
            self.agreed.clear(); // they are checked again: dear, but bounded and correct
            self.cannot_tell.clear();
        }
        *self.agreed.entry(block.key()).or_default() |= 1 << variant;
    }

    pub(crate) fn take_unsaved(&mut self) -> Vec<Found> {
        std::mem::take(&mut self.unsaved)
    }

    /// Starts counting anew; what was found stays known.
    pub(crate) fn reset_counts(&mut self) {
        (self.checks, self.spent_ns) = (0, 0);
    }

    /// A variant's code has changed: what was checked no longer holds.
    pub(crate) fn forget(&mut self, variant: u8) {
        self.agreed
            .values_mut()
            .for_each(|mask| *mask &= !(1 << variant));
        self.cannot_tell.retain(|(_, v), _| *v != variant);
    }
}

/// The workloads on which a variant is checked for the block of this one.
pub(crate) fn samples(workload: &Workload) -> Vec<Workload> {
    let count = workload.features().len();
    let (low, high) = workload.cell().block_bounds();
    let (low, high) = (&low[..count], &high[..count]);
    let mut odd = [0.0; MAX_FEATURES];
    let mut middle = [0.0; MAX_FEATURES];
    for i in 0..count {
        // Odd, and one past a multiple of every vector width; odd again, in the middle.
        odd[i] = if high[i] > low[i] {
            low[i] + 1.0
        } else {
            low[i]
        };
        middle[i] = ((low[i] + high[i]) / 2.0).floor();
        if middle[i] % 2.0 == 0.0 && middle[i] < high[i] {
            middle[i] += 1.0;
        }
    }
    let mut out = Vec::with_capacity(5);
    for features in [
        low,
        &odd[..count],
        &middle[..count],
        workload.features(),
        high,
    ] {
        let sample = workload.with_features(features);
        if !out.contains(&sample) {
            out.push(sample);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_cover_both_ends_odd_sizes_and_the_call_itself() {
        let sizes = |n: usize| -> Vec<u64> {
            samples(&Workload::new([n]))
                .iter()
                .map(Workload::size)
                .collect()
        };
        assert_eq!(sizes(700), [512, 513, 767, 700, 1023]);
        assert_eq!(sizes(1), [1]);
        assert_eq!(sizes(0), [0]);
        assert_eq!(sizes(2), [2, 3]);
        let square = samples(&Workload::new([64, 100]));
        assert!(square.contains(&Workload::new([64, 64])));
        assert!(square.contains(&Workload::new([127, 127])));
    }
}
