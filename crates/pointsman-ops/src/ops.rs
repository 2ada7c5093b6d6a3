//! All ops for one element type.

use pointsman::{BuildError, Handle, Selector};

use crate::catalogue::{Entry, entry};
use crate::{Float, axpy, dot, fft, sort};

/// The ops of one element type on one selector, each a [`Handle`].
///
/// ```
/// use pointsman::Selector;
/// use pointsman_ops::{Ops, dot};
///
/// # let selector = Selector::builder().in_memory().build()?;
/// let ops = Ops::<f32>::new(&selector)?;
/// let (x, y) = (vec![1.0; 1000], vec![2.0; 1000]);
/// assert_eq!(ops.dot.run(dot::Args::new(&x, &y)?), 2000.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Ops<T: Float> {
    /// y ← a x + y.
    pub axpy: Handle<axpy::Axpy<T>>,
    /// Σ xᵢ yᵢ.
    pub dot: Handle<dot::Dot<T>>,
    /// Discrete Fourier transforms of rows.
    pub fft: Handle<fft::Fft<T>>,
    /// Ascending order.
    pub sort: Handle<sort::Sort<T>>,
}

impl<T: Float> Ops<T> {
    /// Declares all of them.
    pub fn new(selector: &Selector) -> Result<Self, BuildError> {
        Ok(Ops {
            axpy: axpy::declare(selector)?,
            dot: dot::declare(selector)?,
            fft: fft::declare(selector)?,
            sort: sort::declare(selector)?,
        })
    }

    /// The same as entries of a catalogue.
    pub fn entries(&self) -> Vec<Box<dyn Entry>> {
        vec![entry(&self.axpy), entry(&self.dot), entry(&self.fft)]
    }
}
