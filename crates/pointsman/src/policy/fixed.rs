//! One variant wherever it is eligible.

use super::{Call, Choice, Chooser, Policy};
use crate::error::BuildError;
use crate::outcome::Cost;

/// Serves every call from one variant where it is eligible, and from the reference where it is not.
///
/// **Use it** to measure what choosing gains, or where one variant is known to be the best. **It
/// fails** wherever that is not true. A name that an op does not have is not an error, because a
/// policy is for all ops of a selector; `POINTSMAN_FORCE` is stricter.
///
/// ```
/// use pointsman::{Selector, Workload, policy::Fixed};
///
/// let selector = Selector::builder().in_memory().policy(Fixed::new("avx2")).build()?;
/// let decision = selector.decide("dot", &Workload::new([64]), &["plain", "avx2"]);
/// assert_eq!(decision.variant(), "avx2");
/// # Ok::<(), pointsman::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Fixed {
    variant: String,
}

impl Fixed {
    /// The variant with this name.
    pub fn new(variant: impl Into<String>) -> Self {
        Fixed {
            variant: variant.into(),
        }
    }
}

impl Policy for Fixed {
    fn name(&self) -> &str {
        "fixed"
    }

    fn check(&self) -> Result<(), BuildError> {
        crate::op::valid_name("variant", &self.variant)
    }

    fn chooser(&self, _seed: u64) -> Option<Box<dyn Chooser>> {
        Some(Box::new(self.clone()))
    }

    fn is_constant(&self) -> bool {
        true
    }
}

impl Chooser for Fixed {
    fn choose(&mut self, call: &Call<'_>) -> Choice {
        let named = call.candidates().iter().find(|c| c.name() == self.variant);
        let chosen = named.unwrap_or(call.reference());
        Choice::serve(chosen.variant()).good_for(u32::MAX)
    }

    fn learn(&mut self, _call: &Call<'_>, _variant: usize, _cost: Cost) {}
}
