//! Thresholds on the size, by class of complexity.

use super::{Call, Choice, Chooser, Policy, within};
use crate::backend::Backend;
use crate::error::BuildError;
use crate::outcome::Cost;
use crate::workload::Workload;

/// How much work an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Memory bound: copies, sums, element-wise additions.
    Low,
    /// Some arithmetic for each element: transcendental functions, convolutions with few taps.
    Medium,
    /// Compute bound: products of matrices.
    High,
}

/// What counts as the number of elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Size {
    /// [`Workload::size`]: the product of the features, or what `sized` says.
    #[default]
    Product,
    /// The largest feature: for ops whose product of features counts operations rather than
    /// elements, such as m, n and k of a product of matrices.
    Largest,
}

/// From how many elements on a kind of backend is used; `None` means never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Vector instructions.
    pub simd: Option<u64>,
    /// Several cores.
    pub threads: Option<u64>,
    /// A GPU.
    pub gpu: Option<u64>,
}

impl Thresholds {
    /// The rank of the backend for so many elements.
    fn rank(&self, elements: u64) -> usize {
        let steps = [self.simd, self.threads, self.gpu];
        let reached = |step: &Option<u64>| step.is_some_and(|from| elements >= from);
        steps.iter().rposition(reached).map_or(0, |i| i + 1)
    }

    fn check(&self) -> Result<(), BuildError> {
        let steps = [self.simd, self.threads, self.gpu];
        let given: Vec<u64> = steps.into_iter().flatten().collect();
        if given.is_sorted() {
            return Ok(());
        }
        Err(BuildError::Setting {
            name: "thresholds",
            value: format!("{given:?}"),
            valid: "in ascending order: simd, threads, gpu",
        })
    }
}

/// Serves small calls from plain code, larger ones from vector instructions, then from several
/// cores, then from a GPU, with thresholds that depend on how much work an element is.
///
/// The class is given ([`class`](Self::class)), or follows from flops per element: below 2 low, from
/// 32 on high; medium if the op gives no flops. The number of elements is [`Size::Product`] or
/// [`Size::Largest`]. Where no variant of the wanted kind is eligible, the next smaller kind
/// serves, then the next larger one; of several variants of a kind the first declared; if all are
/// of custom backends, the reference.
///
/// | from so many elements | simd | threads | gpu |
/// |---|---|---|---|
/// | low | 64 | 1,000,000 | never |
/// | medium | 32 | 100,000 | 10,000,000 |
/// | high | 16 | 10,000 | 100,000 |
///
/// **Use it** for decisions that must be plain to see and never change. **It fails** on machines
/// that the thresholds were not made for: these are round numbers, measured nowhere.
///
/// ```
/// use pointsman::{Selector, Workload, policy::Rules};
///
/// let selector = Selector::builder().in_memory().policy(Rules::default()).build()?;
/// let serve = |n: usize| selector.decide("exp", &Workload::new([n]), &["scalar", "simd"]).variant();
/// assert_eq!((serve(31), serve(32)), ("scalar", "simd"));
/// # Ok::<(), pointsman::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    class: Option<Class>,
    medium_from: f64,
    high_from: f64,
    size: Size,
    low: Thresholds,
    medium: Thresholds,
    high: Thresholds,
}

impl Default for Rules {
    fn default() -> Self {
        let thresholds = |simd, threads, gpu| Thresholds {
            simd: Some(simd),
            threads: Some(threads),
            gpu,
        };
        Rules {
            class: None,
            medium_from: 2.0,
            high_from: 32.0,
            size: Size::Product,
            low: thresholds(64, 1_000_000, None),
            medium: thresholds(32, 100_000, Some(10_000_000)),
            high: thresholds(16, 10_000, Some(100_000)),
        }
    }
}

impl Rules {
    /// All ops are of this class.
    pub fn class(mut self, class: Class) -> Self {
        self.class = Some(class);
        self
    }

    /// Flops per element from which an op is of the medium and of the high class: 0 or more, in
    /// ascending order.
    pub fn flops_per_element(mut self, medium_from: f64, high_from: f64) -> Self {
        (self.medium_from, self.high_from) = (medium_from, high_from);
        self
    }

    /// What counts as the number of elements.
    pub fn size(mut self, size: Size) -> Self {
        self.size = size;
        self
    }

    /// The thresholds of a class, in ascending order.
    pub fn thresholds(mut self, class: Class, thresholds: Thresholds) -> Self {
        *match class {
            Class::Low => &mut self.low,
            Class::Medium => &mut self.medium,
            Class::High => &mut self.high,
        } = thresholds;
        self
    }

    fn elements(&self, workload: &Workload) -> u64 {
        match self.size {
            Size::Product => workload.size(),
            Size::Largest => workload.features().iter().copied().fold(0.0, f64::max) as u64,
        }
    }

    fn class_of(&self, flops: f64, elements: f64) -> Class {
        let per_element = flops / elements.max(1.0);
        match self.class {
            Some(class) => class,
            None if flops == 0.0 => Class::Medium,
            None if per_element >= self.high_from => Class::High,
            None if per_element >= self.medium_from => Class::Medium,
            None => Class::Low,
        }
    }

    fn rank(&self, flops: f64, elements: u64) -> usize {
        let thresholds = match self.class_of(flops, elements as f64) {
            Class::Low => &self.low,
            Class::Medium => &self.medium,
            Class::High => &self.high,
        };
        thresholds.rank(elements)
    }
}

impl Policy for Rules {
    fn name(&self) -> &str {
        "rules"
    }

    fn check(&self) -> Result<(), BuildError> {
        let valid = "0 or more, and no more than high_from";
        let (medium, high) = (self.medium_from, self.high_from);
        within("medium_from", medium, 0.0..=high, valid)?;
        within("high_from", high, 0.0..f64::INFINITY, "finite")?;
        [self.low, self.medium, self.high]
            .iter()
            .try_for_each(Thresholds::check)
    }

    fn chooser(&self, _seed: u64) -> Option<Box<dyn Chooser>> {
        Some(Box::new(*self))
    }

    fn is_constant(&self) -> bool {
        true
    }
}

fn rank_of(backend: Backend) -> Option<usize> {
    match backend {
        Backend::Scalar => Some(0),
        Backend::Simd => Some(1),
        Backend::Threads => Some(2),
        Backend::Gpu(_) => Some(3),
        Backend::Custom(_) => None,
    }
}

impl Chooser for Rules {
    fn choose(&mut self, call: &Call<'_>) -> Choice {
        let workload = call.workload();
        let (flops, elements) = (workload.flop_count(), self.elements(workload));
        let wanted = self.rank(flops, elements);
        let chosen = call.lowest(|candidate| {
            let rank = rank_of(candidate.backend())?;
            // Smaller kinds first, the nearest of them; then larger ones.
            let distance = wanted.checked_sub(rank).unwrap_or(rank + 4);
            Some(distance as f64)
        });
        let chosen = chosen.unwrap_or_else(|| call.reference().variant());
        // Other calls of the cell may lie beyond a threshold that this one does not reach.
        let spread = cell_spread(workload);
        let same = |more: f64, larger: f64| {
            self.rank(flops * more, (elements as f64 * larger) as u64) == wanted
        };
        let factors = [1.0 / spread, 1.0, spread];
        let steady = factors
            .iter()
            .all(|larger| factors.iter().all(|more| same(*more, *larger)));
        Choice::serve(chosen).good_for(if steady { u32::MAX } else { 0 })
    }

    fn learn(&mut self, _call: &Call<'_>, _variant: usize, _cost: Cost) {}
}

/// By what factor the amount of work may differ from that of another workload in the same cell: each
/// feature by an eighth, and work grows with the third power of a feature at most.
pub(super) fn cell_spread(workload: &Workload) -> f64 {
    1.125f64.powi(3 * workload.features().len().max(1) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_follows_from_flops_per_element_or_is_given() {
        let rules = Rules::default();
        assert_eq!(rules.class_of(0.0, 10.0), Class::Medium);
        assert_eq!(rules.class_of(19.9, 10.0), Class::Low);
        assert_eq!(rules.class_of(20.0, 10.0), Class::Medium);
        assert_eq!(rules.class_of(320.0, 10.0), Class::High);
        let given = rules.class(Class::Low);
        assert_eq!(given.class_of(320.0, 10.0), Class::Low);
        let other = rules.flops_per_element(0.5, 1.0);
        assert_eq!(other.class_of(10.0, 10.0), Class::High);
    }
}
