//! The calibrated cost model alone.

use super::rules::cell_spread;
use super::{Call, Candidate, Choice, Chooser, Policy, within};
use crate::error::BuildError;
use crate::outcome::Cost;

/// Serves the variant with the lowest cost by the calibrated model,
/// launch + max(flops / F, bytes / B) + transfer, and learns nothing.
///
/// With [`transfer_factor`](Self::transfer_factor), a variant that the data must be brought to serves
/// only if, on top of that, the work takes more than so many times the transfer: the classic rule "to
/// the GPU if compute > 5 × transfer". The work is timed here on the best variant that needs no
/// transfer. The rule is often written with the time on the GPU instead, and then a faster GPU is
/// used less.
///
/// **Use it** where the first call must be sensible and nothing may be tried. **It fails** where a
/// variant is not as good as its backend could be, and it cannot tell variants of one backend
/// apart: the first declared serves. Without flops and bytes only the launch counts. A backend that
/// nobody has calibrated, a GPU above all, counts as plain code:
/// see [`Calibration::set`](crate::Calibration::set).
///
/// ```
/// use pointsman::{Calibration, Selector, Workload, policy::CostModel};
///
/// let selector = Selector::builder()
///     .in_memory()
///     .calibration(Calibration::nominal())
///     .policy(CostModel::default())
///     .build()?;
/// let serve = |n: usize| {
///     let workload = Workload::new([n]).flops(8 * n);
///     selector.decide("op", &workload, &["scalar", "simd", "threads"]).variant()
/// };
/// assert_eq!((serve(1000), serve(1_000_000)), ("simd", "threads"));
/// # Ok::<(), pointsman::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct CostModel {
    transfer_factor: f64,
}

impl CostModel {
    /// How many times the transfer the work must take to be worth it: 0, the default, to 1000.
    pub fn transfer_factor(factor: f64) -> Self {
        CostModel {
            transfer_factor: factor,
        }
    }

    fn lowest(&self, call: &Call<'_>, flops: f64, bytes: f64) -> Option<usize> {
        let is_near = |candidate: &Candidate<'_>| candidate.transfer_ns(bytes) == 0.0;
        let near = call.candidates().iter().filter(|c| is_near(c));
        let near_ns = near
            .filter_map(|c| c.estimate_ns(flops, bytes))
            .reduce(f64::min);
        call.lowest(|candidate| {
            let worth = self.transfer_factor * candidate.transfer_ns(bytes);
            let allowed = is_near(candidate) || near_ns.is_none_or(|ns| ns > worth);
            candidate.estimate_ns(flops, bytes).filter(|_| allowed)
        })
    }
}

impl Policy for CostModel {
    fn name(&self) -> &str {
        "cost"
    }

    fn check(&self) -> Result<(), BuildError> {
        let valid = "a number from 0 to 1000";
        within("transfer_factor", self.transfer_factor, 0.0..=1000.0, valid)
    }

    fn chooser(&self, _seed: u64) -> Option<Box<dyn Chooser>> {
        Some(Box::new(*self))
    }

    fn is_constant(&self) -> bool {
        true
    }
}

impl Chooser for CostModel {
    fn choose(&mut self, call: &Call<'_>) -> Choice {
        let workload = call.workload();
        let (flops, bytes) = (workload.flop_count(), workload.byte_count());
        let Some(chosen) = self.lowest(call, flops, bytes) else {
            return Choice::serve(call.reference().variant()).good_for(u32::MAX);
        };
        // Other calls of the cell may be a little more or less work.
        let spread = cell_spread(workload);
        let corners = [1.0 / spread, spread];
        let same = |f: f64, b: f64| self.lowest(call, flops * f, bytes * b) == Some(chosen);
        let steady = corners.iter().all(|f| corners.iter().all(|b| same(*f, *b)));
        Choice::serve(chosen).good_for(if steady { u32::MAX } else { 0 })
    }

    fn learn(&mut self, _call: &Call<'_>, _variant: usize, _cost: Cost) {}
}
