//! All ops for one element type.

use pointsman::{BuildError, Handle, Selector};

use crate::catalogue::{Entry, entry};
use crate::derivative::{self, CaputoL1, Derivative, GrunwaldLetnikov};
use crate::{
    Float, add, axpy, conv2d, dense, dot, exp, fft, fode, matmul, matvec, norm, relu, scale, sort,
    spmv, sum,
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
    /// Caputo's fractional derivative.
    pub caputo_l1: Handle<Derivative<T, CaputoL1>>,
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
    /// Discrete Fourier transforms of rows.
    pub fft: Handle<fft::Fft<T>>,
    /// Initial value problems with a fractional derivative.
    pub fode: Handle<fode::Fode<T>>,
    /// Grünwald and Letnikov's fractional derivative.
    pub grunwald_letnikov: Handle<Derivative<T, GrunwaldLetnikov>>,
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
    /// Ascending order.
    pub sort: Handle<sort::Sort<T>>,
    /// y ← A x with a sparse matrix.
    pub spmv: Handle<spmv::SpMv<T>>,
    /// Σ xᵢ.
    pub sum: Handle<sum::Sum<T>>,
}

impl<T: Float> Ops<T> {
    /// Declares all of them.
    pub fn new(selector: &Selector) -> Result<Self, BuildError> {
        T::declared(selector)
    }

    /// The same as entries of a catalogue.
    pub fn entries(&self) -> Vec<Box<dyn Entry>> {
        T::listed(self)
    }

    pub(crate) fn declare(selector: &Selector) -> Result<Self, BuildError> {
        Ok(Ops {
            add: add::declare(selector)?,
            axpy: axpy::declare(selector)?,
            caputo_l1: derivative::declare(selector)?,
            conv2d: conv2d::declare(selector)?,
            dense: dense::declare(selector)?,
            dense_backward: dense::backward::declare(selector)?,
            dot: dot::declare(selector)?,
            exp: exp::declare(selector)?,
            fft: fft::declare(selector)?,
            fode: fode::declare(selector)?,
            grunwald_letnikov: derivative::declare(selector)?,
            matmul: matmul::declare(selector)?,
            matvec: matvec::declare(selector)?,
            norm: norm::declare(selector)?,
            relu: relu::declare(selector)?,
            scale: scale::declare(selector)?,
            sort: sort::declare(selector)?,
            spmv: spmv::declare(selector)?,
            sum: sum::declare(selector)?,
        })
    }

    pub(crate) fn list(&self) -> Vec<Box<dyn Entry>> {
        vec![
            entry(&self.add),
            entry(&self.axpy),
            entry(&self.caputo_l1),
            entry(&self.conv2d),
            entry(&self.dense),
            entry(&self.dense_backward),
            entry(&self.dot),
            entry(&self.exp),
            entry(&self.fft),
            entry(&self.fode),
            entry(&self.grunwald_letnikov),
            entry(&self.matmul),
            entry(&self.matvec),
            entry(&self.norm),
            entry(&self.relu),
            entry(&self.scale),
            entry(&self.sort),
            entry(&self.spmv),
            entry(&self.sum),
        ]
    }
}
