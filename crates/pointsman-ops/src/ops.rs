//! All ops for one element type.

use pointsman::{BuildError, Handle, Selector};

use crate::catalogue::{Entry, entry};
use crate::derivative::{self, CaputoL1, Derivative, GrunwaldLetnikov};
use crate::{Float, axpy, dot, fft, fode, sort};

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
    /// Caputo's fractional derivative.
    pub caputo_l1: Handle<Derivative<T, CaputoL1>>,
    /// Σ xᵢ yᵢ.
    pub dot: Handle<dot::Dot<T>>,
    /// Discrete Fourier transforms of rows.
    pub fft: Handle<fft::Fft<T>>,
    /// Initial value problems with a fractional derivative.
    pub fode: Handle<fode::Fode<T>>,
    /// Grünwald and Letnikov's fractional derivative.
    pub grunwald_letnikov: Handle<Derivative<T, GrunwaldLetnikov>>,
    /// Ascending order.
    pub sort: Handle<sort::Sort<T>>,
}

impl<T: Float> Ops<T> {
    /// Declares all of them.
    pub fn new(selector: &Selector) -> Result<Self, BuildError> {
        Ok(Ops {
            axpy: axpy::declare(selector)?,
            caputo_l1: derivative::declare(selector)?,
            dot: dot::declare(selector)?,
            fft: fft::declare(selector)?,
            fode: fode::declare(selector)?,
            grunwald_letnikov: derivative::declare(selector)?,
            sort: sort::declare(selector)?,
        })
    }

    /// The same as entries of a catalogue.
    pub fn entries(&self) -> Vec<Box<dyn Entry>> {
        vec![
            entry(&self.axpy),
            entry(&self.caputo_l1),
            entry(&self.dot),
            entry(&self.fft),
            entry(&self.fode),
            entry(&self.grunwald_letnikov),
            entry(&self.sort),
        ]
    }
}
