//! All ops for one element type.

use pointsman::{BuildError, Handle, Selector};

use crate::catalogue::{Entry, entry};
use crate::{Float, axpy, conv2d, dense, dot, matmul};

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
    /// Filters slid over images.
    pub conv2d: Handle<conv2d::Conv2d<T>>,
    /// Y ← f(X W + b).
    pub dense: Handle<dense::Dense<T>>,
    /// The gradients of the same.
    pub dense_backward: Handle<dense::backward::DenseBackward<T>>,
    /// Σ xᵢ yᵢ.
    pub dot: Handle<dot::Dot<T>>,
    /// C ← A B.
    pub matmul: Handle<matmul::Matmul<T>>,
}

impl<T: Float> Ops<T> {
    /// Declares all of them.
    pub fn new(selector: &Selector) -> Result<Self, BuildError> {
        Ok(Ops {
            axpy: axpy::declare(selector)?,
            conv2d: conv2d::declare(selector)?,
            dense: dense::declare(selector)?,
            dense_backward: dense::backward::declare(selector)?,
            dot: dot::declare(selector)?,
            matmul: matmul::declare(selector)?,
        })
    }

    /// The same as entries of a catalogue.
    pub fn entries(&self) -> Vec<Box<dyn Entry>> {
        vec![
            entry(&self.axpy),
            entry(&self.conv2d),
            entry(&self.dense),
            entry(&self.dense_backward),
            entry(&self.dot),
            entry(&self.matmul),
        ]
    }
}
