//! All ops for one element type.

use pointsman::{BuildError, Handle, Selector};

use crate::catalogue::{Entry, entry};
use crate::{
    Float, add, axpy, conv2d, dense, dot, exp, matmul, matvec, norm, relu, scale, spmv, sum,
};

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
    /// z ← x + y.
    pub add: Handle<add::Add<T>>,
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
    /// y ← eˣ, element by element.
    pub exp: Handle<exp::Exp<T>>,
    /// C ← A B.
    pub matmul: Handle<matmul::Matmul<T>>,
    /// y ← A x.
    pub matvec: Handle<matvec::MatVec<T>>,
    /// √ Σ xᵢ².
    pub norm: Handle<norm::Norm<T>>,
    /// y ← max(x, 0), element by element.
    pub relu: Handle<relu::Relu<T>>,
    /// x ← a x.
    pub scale: Handle<scale::Scale<T>>,
    /// y ← A x with a sparse matrix.
    pub spmv: Handle<spmv::SpMv<T>>,
    /// Σ xᵢ.
    pub sum: Handle<sum::Sum<T>>,
}

impl<T: Float> Ops<T> {
    /// Declares all of them.
    pub fn new(selector: &Selector) -> Result<Self, BuildError> {
        Ok(Ops {
            add: add::declare(selector)?,
            axpy: axpy::declare(selector)?,
            conv2d: conv2d::declare(selector)?,
            dense: dense::declare(selector)?,
            dense_backward: dense::backward::declare(selector)?,
            dot: dot::declare(selector)?,
            exp: exp::declare(selector)?,
            matmul: matmul::declare(selector)?,
            matvec: matvec::declare(selector)?,
            norm: norm::declare(selector)?,
            relu: relu::declare(selector)?,
            scale: scale::declare(selector)?,
            spmv: spmv::declare(selector)?,
            sum: sum::declare(selector)?,
        })
    }

    /// The same as entries of a catalogue.
    pub fn entries(&self) -> Vec<Box<dyn Entry>> {
        vec![
            entry(&self.add),
            entry(&self.axpy),
            entry(&self.conv2d),
            entry(&self.dense),
            entry(&self.dense_backward),
            entry(&self.dot),
            entry(&self.exp),
            entry(&self.matmul),
            entry(&self.matvec),
            entry(&self.norm),
            entry(&self.relu),
            entry(&self.scale),
            entry(&self.spmv),
            entry(&self.sum),
        ]
    }
}
