//! A dense layer of a network, forward and backward.

pub mod backward;
mod forward;
#[cfg(feature = "gpu")]
mod gpu;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;

use pointsman::{Backend, BuildError, Handle, Op, Selector, Verify, Workload};

use crate::catalogue::Shaped;
use crate::lanes::needs_vectors;
use crate::product::{Bound, Team, WORTH_SHARING};
use crate::sample::{bounded, floats, gamma};
use crate::{Error, Float, Matrix, ShapeError, View};

pub use backward::dense_backward;

/// What is done to each sum of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activation {
    /// Nothing.
    #[default]
    Identity,
    /// What is negative becomes 0; NaN stays.
    Relu,
}

impl Activation {
    #[inline(always)]
    fn of<T: Float>(self, sum: T) -> T {
        match self {
            Activation::Relu if sum < T::zero() => T::zero(),
            _ => sum,
        }
    }

    /// The gradient before the activation, from that behind it and the sum.
    #[inline]
    fn gradient<T: Float>(self, after: T, sum: T) -> T {
        match self {
            Activation::Relu if sum <= T::zero() => T::zero(),
            _ => after,
        }
    }

    fn code(self) -> u32 {
        match self {
            Activation::Identity => 0,
            Activation::Relu => 1,
        }
    }

    fn from_codes(codes: &[u32]) -> Self {
        match codes {
            [1, ..] => Activation::Relu,
            _ => Activation::Identity,
        }
    }
}

/// f(X W + b): a row of X for each example, a column of W and an element of b for each output.
///
/// ```
/// use pointsman_ops::{Matrix, dense::{Activation, dense}};
///
/// let x = Matrix::new(1, 2, vec![1.0, 2.0])?;
/// let w = Matrix::new(2, 2, vec![3.0, 4.0, 5.0, -6.0])?;
/// let y = dense(&x, &w, &[0.5, 0.5], Activation::Relu)?;
/// assert_eq!(y.elements(), [13.5, 0.0]);
/// # Ok::<(), pointsman_ops::Error>(())
/// ```
pub fn dense<'a, T: Float>(
    x: impl Into<View<'a, T>>,
    w: impl Into<View<'a, T>>,
    b: &'a [T],
    activation: Activation,
) -> Result<Matrix<T>, Error> {
    let (x, w) = (x.into(), w.into());
    fit("dense", x, w)?;
    let mut y = Matrix::zeros(x.rows(), w.columns());
    let args = Args::new(x, w, b, activation, y.elements_mut())?;
    T::ops()?.dense.run(args);
    Ok(y)
}

/// The forward pass as an op: `dense_f32`, `dense_f64`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dense<T>(PhantomData<T>);

/// Inputs, weights, bias and activation of a layer, and room for its outputs.
#[derive(Debug)]
pub struct Args<'a, T> {
    x: View<'a, T>,
    w: View<'a, T>,
    b: &'a [T],
    activation: Activation,
    y: &'a mut [T],
    sums: Option<&'a mut [T]>,
}

impl<'a, T: Float> Args<'a, T> {
    /// Checks the shapes; what `y` held does not matter.
    pub fn new(
        x: View<'a, T>,
        w: View<'a, T>,
        b: &'a [T],
        activation: Activation,
        y: &'a mut [T],
    ) -> Result<Self, ShapeError> {
        fit("dense", x, w)?;
        if b.len() != w.columns() {
            let rule = "the bias must have an element for each column of W";
            let shape = [w.rows(), w.columns()];
            return Err(ShapeError::new("dense", &shape, &[b.len()], rule));
        }
        outputs("dense", x, w, y.len())?;
        Ok(Args {
            x,
            w,
            b,
            activation,
            y,
            sums: None,
        })
    }

    /// Asks for what the backward pass needs: the sums before the activation, written here. Only
    /// variants that keep them serve such a call.
    pub fn with_gradient(mut self, sums: &'a mut [T]) -> Result<Self, ShapeError> {
        outputs("dense", self.x, self.w, sums.len())?;
        self.sums = Some(sums);
        Ok(self)
    }
}

/// Whether X W exists.
fn fit<T: Float>(op: &'static str, x: View<'_, T>, w: View<'_, T>) -> Result<(), ShapeError> {
    if x.columns() == w.rows() {
        return Ok(());
    }
    let (one, other) = ([x.rows(), x.columns()], [w.rows(), w.columns()]);
    let rule = "X must have as many columns as W has rows";
    Err(ShapeError::new(op, &one, &other, rule))
}

/// Whether so many elements are one for each example and output.
fn outputs<T: Float>(
    op: &'static str,
    x: View<'_, T>,
    w: View<'_, T>,
    len: usize,
) -> Result<(), ShapeError> {
    let (m, n) = (x.rows(), w.columns());
    if m.checked_mul(n) == Some(len) {
        return Ok(());
    }
    let rule = "there must be an output for each row of X and column of W";
    Err(ShapeError::new(op, &[m, n], &[len], rule))
}

impl<T: Float> Op for Dense<T> {
    type Args<'a> = Args<'a, T>;
    type Output = ();

    fn name(&self) -> &str {
        T::named("dense_f32", "dense_f64")
    }

    #[inline]
    fn workload(&self, args: &Args<'_, T>) -> Workload {
        let shape = [args.x.rows(), args.x.columns(), args.w.columns()];
        workload::<T>(shape, args.activation, args.sums.is_some())
    }
}

#[inline]
fn workload<T: Float>(shape: [usize; 3], activation: Activation, gradient: bool) -> Workload {
    let [m, k, n] = shape.map(|n| n as f64);
    let written = if gradient { 2.0 * m * n } else { m * n };
    Workload::new(shape)
        .codes([activation.code()])
        .gradient(gradient)
        .dtype(T::DTYPE)
        .flops(flops(&shape))
        .bytes(size_of::<T>() as f64 * (m * k + k * n + n + written))
}

/// Floating-point operations: a multiply-add for each product, the bias being where sums begin.
fn flops(shape: &[usize]) -> f64 {
    shape.iter().fold(2.0, |product, n| product * *n as f64)
}

impl<T: Float> Shaped for Dense<T> {
    const AXES: &'static [&'static str] = &["m", "k", "n"];

    fn shaped(&self, shape: &[usize]) -> Workload {
        workload::<T>([shape[0], shape[1], shape[2]], Activation::Relu, false)
    }

    fn make(&self, shape: &[usize], seed: u64) -> Sample<T> {
        Sample::new(shape, Activation::Relu, false, seed)
    }

    fn of_size(&self, size: usize) -> Vec<usize> {
        vec![size.isqrt().max(1); 3]
    }
}

/// Arguments that own their elements.
#[derive(Clone, Debug)]
pub struct Sample<T> {
    shape: [usize; 3],
    activation: Activation,
    x: Vec<T>,
    w: Vec<T>,
    b: Vec<T>,
    /// NaN before the call, as are the sums, so that an element that is not written shows.
    y: Vec<T>,
    sums: Option<Vec<T>>,
}

impl<T: Float> Sample<T> {
    fn new(shape: &[usize], activation: Activation, gradient: bool, seed: u64) -> Self {
        let [m, k, n] = [shape[0], shape[1], shape[2]];
        Sample {
            shape: [m, k, n],
            activation,
            x: floats(m * k, seed, 0),
            w: floats(k * n, seed, 1),
            b: floats(n, seed, 2),
            y: vec![T::nan(); m * n],
            sums: gradient.then(|| vec![T::nan(); m * n]),
        }
    }

    /// How far from the exact sum each may be; the activation moves no two further apart.
    fn bound(&self) -> (Bound, Vec<f64>) {
        let [m, k, n] = self.shape;
        let (x, w) = (View::of(m, k, &self.x), View::of(k, n, &self.w));
        let bias = self.b.iter().map(|b| gamma::<T>(k + 1) * b.wide().abs());
        (Bound::new(x.into(), w.into(), k + 1), bias.collect())
    }
}

impl<T: Float> Verify for Dense<T> {
    type Sample = Sample<T>;

    fn sample(&self, workload: &Workload, seed: u64) -> Sample<T> {
        let activation = Activation::from_codes(workload.category_codes());
        let shape = bounded(workload, flops);
        Sample::new(&shape, activation, workload.needs_gradient(), seed)
    }

    fn args<'a>(&self, sample: &'a mut Sample<T>) -> Args<'a, T> {
        let [m, k, n] = sample.shape;
        Args {
            x: View::of(m, k, &sample.x),
            w: View::of(k, n, &sample.w),
            b: &sample.b,
            activation: sample.activation,
            y: &mut sample.y,
            sums: sample.sums.as_deref_mut(),
        }
    }

    fn agrees(&self, expected: (&Sample<T>, &()), got: (&Sample<T>, &())) -> bool {
        let (expected, got) = (expected.0, got.0);
        let (bound, bias) = expected.bound();
        let agree = |e: &[T], g: &[T]| bound.agree(e, g, |column| bias[column]);
        let sums = match (&expected.sums, &got.sums) {
            (Some(expected), Some(got)) => agree(expected, got),
            (expected, got) => expected.is_none() && got.is_none(),
        };
        sums && agree(&expected.y, &got.y)
    }
}

/// Declares it with its variants: `naive` (the reference), `gemm`, `fused`, which keeps nothing for
/// the backward pass, and `threads`.
pub fn declare<T: Float>(selector: &Selector) -> Result<Handle<Dense<T>>, BuildError> {
    let builder = selector
        .op(Dense::<T>::default())
        .reference("naive", Backend::Scalar, forward::naive)
        .variant("gemm", Backend::Simd, |g| forward::packed(g, Team::One))
        .variant("fused", Backend::Simd, forward::fused)
        .without_gradient();
    let builder = needs_vectors(builder)
        .variant("threads", Backend::Threads, |g| {
            forward::packed(g, Team::All)
        })
        .min_size(WORTH_SHARING)
        .verified();
    #[cfg(feature = "gpu")]
    let builder = gpu::variants(selector, builder);
    builder.build()
}
