//! Where the data of several calls should live.

use crate::backend::Backend;
use crate::op::{Kind, Op};
use crate::run::Handle;
use crate::selector::Selector;
use crate::workload::{Workload, place_of};

/// A chain of calls on the same data: is it worth bringing the data to a GPU first and back
/// afterwards?
///
/// One call is sent where it is fastest from where its data lies; it cannot know that nine more will
/// follow. A chain can: it adds up, for each place, the way there, what each step is expected to
/// take with its data there, and the way back. The ways are priced with what was measured of the
/// backend, the steps with what was learned.
///
/// ```
/// use pointsman::{Backend, Chain, Selector, Workload};
///
/// # let selector = Selector::builder().in_memory().build()?;
/// let square = selector
///     .function("square", |x: &f64| Workload::new([1000]).bytes(8000))
///     .reference("plain", Backend::Scalar, |x| **x * **x)
///     .build()?;
/// let workload = Workload::new([1000]).bytes(8000);
/// let chain = Chain::new(&selector, 8000, 8000).step(&square, workload).step(&square, workload);
/// assert_eq!(chain.best().0, Backend::Scalar); // there is no other place
/// # Ok::<(), pointsman::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Chain {
    /// Each place with its nanoseconds so far; the host's memory first.
    places: Vec<(Backend, f64)>,
}

impl Chain {
    /// A chain that begins with this many bytes in the host's memory and ends with as many there.
    /// Places to be are the host and each GPU that the selector's machine has and that was
    /// calibrated.
    pub fn new(selector: &Selector, bytes_in: u64, bytes_out: u64) -> Self {
        let way = |n: usize| {
            let gpu = Backend::Gpu(u8::try_from(n).ok()?);
            let cost = selector.calibration().backend(gpu)?;
            let ns = |bytes: u64| cost.predict_ns(0.0, 0.0, bytes as f64);
            Some((gpu, ns(bytes_in) + ns(bytes_out)))
        };
        let gpus = selector.machine().gpus.len();
        let host = (Backend::Scalar, 0.0);
        Chain {
            places: std::iter::once(host)
                .chain((0..gpus).filter_map(way))
                .collect(),
        }
    }

    /// Adds a step: a call of this op with this workload, wherever its data lies then.
    pub fn step<O: Op, K: Kind<O>>(mut self, op: &Handle<O, K>, workload: Workload) -> Self {
        for (place, ns) in &mut self.places {
            let told = op.explain(workload.located(*place));
            let chosen = told.variants.iter().find(|v| v.name == told.chosen);
            *ns += chosen.map_or(f64::INFINITY, |v| v.predicted.ns());
        }
        self
    }

    /// The place with the lowest sum, and the nanoseconds; the host's memory if equal.
    pub fn best(&self) -> (Backend, f64) {
        let mut best = self.places[0];
        for place in &self.places[1..] {
            if place.1 < best.1 {
                best = *place;
            }
        }
        best
    }

    /// The nanoseconds expected with the data in this place; `None` if it is none of the chain's.
    pub fn expected_ns(&self, place: Backend) -> Option<f64> {
        let is_there = |(known, _): &&(Backend, f64)| *known == place_of(place);
        self.places.iter().find(is_there).map(|(_, ns)| *ns)
    }
}
