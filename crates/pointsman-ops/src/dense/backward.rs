//! The backward pass of a dense layer.

use std::marker::PhantomData;

use pointsman::{Backend, BuildError, Handle, Op, Selector, Verify, Workload};

use super::{Activation, fit, outputs};
use crate::catalogue::Shaped;
use crate::product::{Bound, Onto, Strided, Team, WORTH_SHARING, multiply};
use crate::sample::{bounded, floats, gamma};
use crate::scratch::{kept, part};
use crate::{Error, Float, Matrix, ShapeError, View};

/// What a loss changes by with the inputs, weights and bias of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Gradients<T> {
    /// With X.
    pub x: Matrix<T>,
    /// With W.
    pub w: Matrix<T>,
    /// With b.
    pub b: Vec<T>,
}

/// The gradients of a layer's inputs, weights and bias, from that of its outputs `dy` and the
/// `sums` that its forward pass [kept](super::Args::with_gradient).
///
/// ```
/// use pointsman_ops::{Matrix, dense::{Activation, dense_backward}};
///
/// let x = Matrix::new(1, 2, vec![1.0, 2.0])?;
/// let w = Matrix::new(2, 2, vec![3.0, 4.0, 5.0, -6.0])?;
/// let (sums, dy) = ([13.5, -7.5], [1.0, 1.0]); // the second output was cut off
/// let gradients = dense_backward(&x, &w, Activation::Relu, &sums, &dy)?;
/// assert_eq!(gradients.x.elements(), [3.0, 5.0]);
/// assert_eq!(gradients.w.elements(), [1.0, 0.0, 2.0, 0.0]);
/// assert_eq!(gradients.b, [1.0, 0.0]);
/// # Ok::<(), pointsman_ops::Error>(())
/// ```
pub fn dense_backward<'a, T: Float>(
    x: impl Into<View<'a, T>>,
    w: impl Into<View<'a, T>>,
    activation: Activation,
    sums: &'a [T],
    dy: &'a [T],
) -> Result<Gradients<T>, Error> {
    let (x, w) = (x.into(), w.into());
    let mut gradients = Gradients {
        x: Matrix::zeros(x.rows(), x.columns()),
        w: Matrix::zeros(w.rows(), w.columns()),
        b: vec![T::zero(); w.columns()],
    };
    let args = Args::new(x, w, activation, sums, dy, &mut gradients)?;
    T::ops()?.dense_backward.run(args);
    Ok(gradients)
}

/// The backward pass as an op: `dense_backward_f32`, `dense_backward_f64`.
#[derive(Clone, Copy, Debug, Default)]
pub struct DenseBackward<T>(PhantomData<T>);

/// What the forward pass had and kept, the gradient of its outputs, and room for the others.
#[derive(Debug)]
pub struct Args<'a, T> {
    x: View<'a, T>,
    w: View<'a, T>,
    activation: Activation,
    sums: &'a [T],
    dy: &'a [T],
    out: &'a mut Gradients<T>,
}

impl<'a, T: Float> Args<'a, T> {
    /// Checks the shapes; what the gradients held does not matter.
    pub fn new(
        x: View<'a, T>,
        w: View<'a, T>,
        activation: Activation,
        sums: &'a [T],
        dy: &'a [T],
        out: &'a mut Gradients<T>,
    ) -> Result<Self, ShapeError> {
        const NAME: &str = "dense_backward";
        fit(NAME, x, w)?;
        outputs(NAME, x, w, sums.len())?;
        outputs(NAME, x, w, dy.len())?;
        for (of, room) in [(x, out.x.view()), (w, out.w.view())] {
            let (one, other) = ([of.rows(), of.columns()], [room.rows(), room.columns()]);
            if one != other {
                let rule = "a gradient must have the shape of what it is of";
                return Err(ShapeError::new(NAME, &one, &other, rule));
            }
        }
        if out.b.len() != w.columns() {
            let rule = "the bias must have an element for each column of W";
            let shape = [w.rows(), w.columns()];
            return Err(ShapeError::new(NAME, &shape, &[out.b.len()], rule));
        }
        Ok(Args {
            x,
            w,
            activation,
            sums,
            dy,
            out,
        })
    }
}

impl<T: Float> Op for DenseBackward<T> {
    type Args<'a> = Args<'a, T>;
    type Output = ();

    fn name(&self) -> &str {
        T::named("dense_backward_f32", "dense_backward_f64")
    }

    #[inline]
    fn workload(&self, args: &Args<'_, T>) -> Workload {
        let shape = [args.x.rows(), args.x.columns(), args.w.columns()];
        workload::<T>(shape, args.activation)
    }
}

#[inline]
fn workload<T: Float>(shape: [usize; 3], activation: Activation) -> Workload {
    let [m, k, n] = shape.map(|n| n as f64);
    let elements = 2.0 * (m * k + k * n + m * n) + n;
    Workload::new(shape)
        .codes([activation.code()])
        .dtype(T::DTYPE)
        .flops(flops(&shape))
        .bytes(size_of::<T>() as f64 * elements)
}

/// Floating-point operations: two products and the sums of the bias.
fn flops(shape: &[usize]) -> f64 {
    let [m, k, n] = [0, 1, 2].map(|i| shape[i] as f64);
    4.0 * m * k * n + m * n
}

/// The gradient of one sum before its activation.
fn dz<T: Float>(args: &Args<'_, T>, i: usize) -> T {
    args.activation.gradient(args.dy[i], args.sums[i])
}

/// One product after the other.
fn naive<T: Float>(args: &mut Args<'_, T>) {
    let (m, n) = (args.x.rows(), args.w.columns());
    let k = args.x.columns();
    args.out.w.elements_mut().fill(T::zero());
    args.out.b.fill(T::zero());
    for i in 0..m {
        for p in 0..k {
            let (x, mut sum) = (args.x.row(i)[p], T::zero());
            for (j, w) in args.w.row(p).iter().enumerate() {
                let dz = dz(args, i * n + j);
                sum += dz * *w;
                args.out.w.elements_mut()[p * n + j] += x * dz;
            }
            args.out.x.elements_mut()[i * k + p] = sum;
        }
        for j in 0..n {
            let dz = dz(args, i * n + j);
            args.out.b[j] += dz;
        }
    }
}

/// Through `gemm`: dX = dZ Wᵀ, dW = Xᵀ dZ, db the sums of dZ's columns.
fn packed<T: Float>(args: &mut Args<'_, T>, team: Team) {
    let (m, k, n) = (args.x.rows(), args.x.columns(), args.w.columns());
    let (x, w): (Strided<'_, T>, Strided<'_, T>) = (args.x.into(), args.w.into());
    kept(|buffer: &mut Vec<T>| {
        let scratch = part(buffer, scratch(m * n, args.activation));
        for (i, slot) in scratch.iter_mut().enumerate() {
            *slot = dz(args, i);
        }
        let dz = match args.activation {
            Activation::Identity => args.dy,
            Activation::Relu => scratch,
        };
        let out = &mut *args.out;
        out.b.fill(T::zero());
        for row in dz.chunks_exact(n.max(1)) {
            out.b.iter_mut().zip(row).for_each(|(b, dz)| *b += *dz);
        }
        let dz = Strided::new(dz, m, n, n);
        multiply(
            dz,
            w.transposed(),
            out.x.elements_mut(),
            k,
            Onto::Nothing,
            team,
        );
        multiply(
            x.transposed(),
            dz,
            out.w.elements_mut(),
            n,
            Onto::Nothing,
            team,
        );
    });
}

/// Elements of scratch for so many sums: without an activation, dZ is dY.
fn scratch(sums: usize, activation: Activation) -> usize {
    match activation {
        Activation::Identity => 0,
        Activation::Relu => sums,
    }
}

/// Bytes of arguments, results and scratch.
fn need<T: Float>(workload: &Workload) -> u64 {
    let features = workload.features();
    let sums = (features[0] * features[2]) as usize;
    let activation = Activation::from_codes(workload.category_codes());
    let scratch = scratch(sums, activation) as f64 * size_of::<T>() as f64;
    (workload.byte_count() + scratch) as u64
}

impl<T: Float> Shaped for DenseBackward<T> {
    const AXES: &'static [&'static str] = &["m", "k", "n"];

    fn shaped(&self, shape: &[usize]) -> Workload {
        workload::<T>([shape[0], shape[1], shape[2]], Activation::Relu)
    }

    fn make(&self, shape: &[usize], seed: u64) -> Sample<T> {
        Sample::new(shape, Activation::Relu, seed)
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
    sums: Vec<T>,
    dy: Vec<T>,
    out: Gradients<T>,
}

impl<T: Float> Sample<T> {
    pub(super) fn new(shape: &[usize], activation: Activation, seed: u64) -> Self {
        let [m, k, n] = [shape[0], shape[1], shape[2]];
        // NaN before the call, so that an element that is not written shows.
        let unwritten = |rows, columns| {
            let mut matrix = Matrix::zeros(rows, columns);
            matrix.elements_mut().fill(T::nan());
            matrix
        };
        Sample {
            shape: [m, k, n],
            activation,
            x: floats(m * k, seed, 0),
            w: floats(k * n, seed, 1),
            sums: floats(m * n, seed, 2),
            dy: floats(m * n, seed, 3),
            out: Gradients {
                x: unwritten(m, k),
                w: unwritten(k, n),
                b: vec![T::nan(); n],
            },
        }
    }
}

impl<T: Float> Verify for DenseBackward<T> {
    type Sample = Sample<T>;

    fn sample(&self, workload: &Workload, seed: u64) -> Sample<T> {
        let activation = Activation::from_codes(workload.category_codes());
        Sample::new(&bounded(workload, flops), activation, seed)
    }

    fn args<'a>(&self, sample: &'a mut Sample<T>) -> Args<'a, T> {
        let [m, k, n] = sample.shape;
        Args {
            x: View::of(m, k, &sample.x),
            w: View::of(k, n, &sample.w),
            activation: sample.activation,
            sums: &sample.sums,
            dy: &sample.dy,
            out: &mut sample.out,
        }
    }

    fn agrees(&self, expected: (&Sample<T>, &()), got: (&Sample<T>, &())) -> bool {
        let (sample, expected, got) = (expected.0, &expected.0.out, &got.0.out);
        let [m, k, n] = sample.shape;
        // |dZ| ≤ |dY|: the activation only ever takes away.
        let dy = Strided::new(&sample.dy, m, n, n);
        let (x, w) = (
            Strided::new(&sample.x, m, k, k),
            Strided::new(&sample.w, k, n, n),
        );
        let to_x = Bound::new(dy, w.transposed(), n);
        let to_w = Bound::new(x.transposed(), dy, m);
        let to_b = |j: usize| {
            let column = (0..m).map(|i| sample.dy[i * n + j].wide().abs());
            gamma::<T>(m) * column.sum::<f64>()
        };
        let mut both = expected.b.iter().zip(&got.b).enumerate();
        let b = |(j, (e, g)): (usize, (&T, &T))| (e.wide() - g.wide()).abs() <= 2.0 * to_b(j);
        to_x.agree(expected.x.elements(), got.x.elements(), |_| 0.0)
            && to_w.agree(expected.w.elements(), got.w.elements(), |_| 0.0)
            && expected.b.len() == got.b.len()
            && both.all(b)
    }
}

/// Declares it with its variants: `naive` (the reference), `gemm` and `threads`.
pub fn declare<T: Float>(selector: &Selector) -> Result<Handle<DenseBackward<T>>, BuildError> {
    selector
        .op(DenseBackward::<T>::default())
        .reference("naive", Backend::Scalar, naive)
        .variant("gemm", Backend::Simd, |g| packed(g, Team::One))
        .memory(need::<T>)
        .variant("threads", Backend::Threads, |g| packed(g, Team::All))
        .min_size(WORTH_SHARING)
        .memory(need::<T>)
        .verified()
        .build()
}

#[cfg(test)]
type Body<T> = fn(&mut Args<'_, T>);

#[cfg(test)]
pub(super) fn variants<T: Float>() -> Vec<(&'static str, Body<T>)> {
    vec![
        ("naive", naive),
        ("gemm", |args| packed(args, Team::One)),
        ("threads", |args| packed(args, Team::All)),
    ]
}

#[cfg(test)]
impl<T: Float> Sample<T> {
    /// The same with gradients that were summed in `f64` and rounded once.
    pub(super) fn with_exact_gradients(mut self) -> Self {
        let [m, k, n] = self.shape;
        let cut = |i: usize| self.activation == Activation::Relu && self.sums[i] <= T::zero();
        let dz: Vec<f64> = (0..m * n)
            .map(|i| if cut(i) { 0.0 } else { self.dy[i].wide() })
            .collect();
        let sum = |of: &mut dyn Iterator<Item = f64>| T::of(of.sum());
        for (at, slot) in self.out.x.elements_mut().iter_mut().enumerate() {
            let (i, p) = (at / k, at % k);
            *slot = sum(&mut (0..n).map(|j| dz[i * n + j] * self.w[p * n + j].wide()));
        }
        for (at, slot) in self.out.w.elements_mut().iter_mut().enumerate() {
            let (p, j) = (at / n, at % n);
            *slot = sum(&mut (0..m).map(|i| dz[i * n + j] * self.x[i * k + p].wide()));
        }
        for (j, slot) in self.out.b.iter_mut().enumerate() {
            *slot = sum(&mut (0..m).map(|i| dz[i * n + j]));
        }
        self
    }

    /// Lets an output through, with this gradient behind it.
    pub(super) fn spoil(&mut self, i: usize, bad: T) {
        (self.sums[i], self.dy[i]) = (T::one(), bad);
    }

    /// Lets nothing through at an output.
    pub(super) fn cut(&mut self, i: usize) {
        self.sums[i] = -T::one();
    }

    pub(super) fn gradients_mut(&mut self) -> &mut Gradients<T> {
        &mut self.out
    }
}
