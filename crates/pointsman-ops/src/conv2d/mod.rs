//! Convolution of images with filters.

mod direct;
mod fft;
#[cfg(feature = "gpu")]
mod gpu;
mod im2col;
mod shape;
mod sliding;
#[cfg(test)]
mod tests;
mod threads;
mod winograd;

use std::marker::PhantomData;

use pointsman::{Backend, BuildError, Handle, Op, Selector, Verify, Workload};

pub use shape::Shape;

use crate::catalogue::Shaped;
use crate::lanes::needs_vectors;
use crate::sample::{floats, gamma, shrunk};
use crate::{Error, Float, ShapeError};

/// Slides every filter over every image: a cross-correlation, which is what networks call
/// convolution. Images, filters and result are row-major in the order of [`Shape`]'s `input`,
/// `filters` and `output`.
///
/// ```
/// use pointsman_ops::conv2d::{Shape, conv2d};
///
/// let shape = Shape { n: 1, c: 1, h: 2, w: 3, k: 1, r: 2, s: 2, stride: 1, padding: 0 };
/// let y = conv2d(&shape, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[1.0, 0.0, 0.0, 10.0])?;
/// assert_eq!(y, [51.0, 62.0]);
/// # Ok::<(), pointsman_ops::Error>(())
/// ```
pub fn conv2d<T: Float>(shape: &Shape, x: &[T], filters: &[T]) -> Result<Vec<T>, Error> {
    let len = shape::product(&shape.output()).unwrap_or(usize::MAX);
    shape.check(x.len(), filters.len(), len)?;
    let mut y = vec![T::zero(); len];
    T::ops()?.conv2d.run(Args::new(*shape, x, filters, &mut y)?);
    Ok(y)
}

/// The same as an op: `conv2d_f32`, `conv2d_f64`.
///
/// Winograd's variant takes differences of neighbouring elements: where one is infinite or NaN,
/// results next to those that it belongs to can be NaN too. The variant `fft` gives all results of a
/// tile errors of one size: those that are small beside the others have few right digits. Calls with
/// what is not finite, or so large that its sums would overflow, it computes like `im2col`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conv2d<T>(PhantomData<T>);

/// Images, filters and room for the result.
#[derive(Debug)]
pub struct Args<'a, T> {
    shape: Shape,
    x: &'a [T],
    filters: &'a [T],
    y: &'a mut [T],
}

impl<'a, T: Float> Args<'a, T> {
    /// Checks the sizes; what `y` held does not matter.
    pub fn new(
        shape: Shape,
        x: &'a [T],
        filters: &'a [T],
        y: &'a mut [T],
    ) -> Result<Self, ShapeError> {
        shape.check(x.len(), filters.len(), y.len())?;
        Ok(Args {
            shape,
            x,
            filters,
            y,
        })
    }
}

impl<T: Float> Op for Conv2d<T> {
    type Args<'a> = Args<'a, T>;
    type Output = ();

    fn name(&self) -> &str {
        T::named("conv2d_f32", "conv2d_f64")
    }

    #[inline]
    fn workload(&self, args: &Args<'_, T>) -> Workload {
        workload::<T>(&args.shape)
    }
}

#[inline]
fn workload<T: Float>(shape: &Shape) -> Workload {
    let count = |shape: [usize; 4]| shape.iter().fold(1.0, |all, n| all * *n as f64);
    let elements = count(shape.input()) + count(shape.filters()) + count(shape.output());
    Workload::new(shape.features())
        .sized((shape.flops() / 2.0) as usize)
        .dtype(T::DTYPE)
        .flops(shape.flops())
        .bytes(size_of::<T>() as f64 * elements)
}

impl<T: Float> Shaped for Conv2d<T> {
    const AXES: &'static [&'static str] = &["n", "c", "h", "w", "k", "r"];

    fn shaped(&self, shape: &[usize]) -> Workload {
        workload::<T>(&square(shape))
    }

    fn make(&self, shape: &[usize], seed: u64) -> Sample<T> {
        Sample::new(square(shape), seed)
    }

    /// One image with 16 channels and as many filters of 3×3.
    fn of_size(&self, size: usize) -> Vec<usize> {
        let side = (size / 16).isqrt().max(1);
        vec![1, 16, side, side, 16, 3]
    }
}

/// Square filters that move by one, on images padded so that the result is about as large.
fn square(shape: &[usize]) -> Shape {
    let [n, c, h, w, k, r] = std::array::from_fn(|i| shape[i]);
    Shape::from_features([n, c, h, w, k, r, r, 1, r / 2])
}

/// Arguments that own their elements.
#[derive(Clone, Debug)]
pub struct Sample<T> {
    shape: Shape,
    x: Vec<T>,
    filters: Vec<T>,
    /// NaN before the call, so that an element that is not written shows.
    y: Vec<T>,
}

impl<T: Float> Sample<T> {
    fn new(shape: Shape, seed: u64) -> Self {
        let count = |shape: [usize; 4]| shape.iter().product();
        Sample {
            shape,
            x: floats(count(shape.input()), seed, 0),
            filters: floats(count(shape.filters()), seed, 1),
            y: vec![T::nan(); count(shape.output())],
        }
    }

    /// How far from the exact result each filter's may be: γ max|x| Σ|g| for a plain sum of any
    /// order; where Winograd's variant may serve, its roundings on sums that grow meanwhile; and
    /// where spectra may, theirs.
    fn bounds(&self) -> Vec<f64> {
        let largest = self
            .x
            .iter()
            .fold(0.0, |most: f64, x| most.max(x.wide().abs()));
        let Shape { c, k, .. } = self.shape;
        let depth = self.shape.depth();
        let plain = gamma::<T>(depth);
        let relative = match self.shape.is_three_by_three() {
            true => plain.max(winograd::GROWTH * gamma::<T>(winograd::roundings(c))),
            false => plain,
        };
        let norm = self.norm();
        let bound = |filter: usize| {
            let filter = &self.filters[filter * depth..][..depth];
            let weight: f64 = filter.iter().map(|g| g.wide().abs()).sum();
            let sums = relative * largest * weight;
            match self.shape.suits_spectra() {
                true => sums.max(fft::error_bound(&self.shape, filter, norm)),
                false => sums,
            }
        };
        (0..k).map(bound).collect()
    }

    /// The largest Euclidean norm of a channel of an image.
    fn norm(&self) -> f64 {
        let channels = self.x.chunks((self.shape.h * self.shape.w).max(1));
        let squares = channels.map(|x| x.iter().map(|x| x.wide().powi(2)).sum::<f64>());
        squares.fold(0.0, f64::max).sqrt()
    }
}

impl<T: Float> Verify for Conv2d<T> {
    type Sample = Sample<T>;

    fn sample(&self, workload: &Workload, seed: u64) -> Sample<T> {
        let Shape {
            r,
            s,
            stride,
            padding,
            ..
        } = Shape::of(workload);
        let with = |sizes: &[usize]| {
            let [n, c, h, w, k] = std::array::from_fn(|i| sizes[i]);
            // A filter that does not fit would leave nothing to compare.
            let least = |filter: usize| filter.saturating_sub(2 * padding);
            let (h, w) = (h.max(least(r)), w.max(least(s)));
            Shape::from_features([n, c, h, w, k, r, s, stride.max(1), padding])
        };
        let sizes = &Shape::of(workload).features()[..5];
        let sizes = shrunk(sizes, 8, |sizes| with(sizes).flops());
        Sample::new(with(&sizes), seed)
    }

    fn args<'a>(&self, sample: &'a mut Sample<T>) -> Args<'a, T> {
        let Sample {
            shape,
            x,
            filters,
            y,
        } = sample;
        Args {
            shape: *shape,
            x,
            filters,
            y,
        }
    }

    fn agrees(&self, expected: (&Sample<T>, &()), got: (&Sample<T>, &())) -> bool {
        let (expected, got) = (expected.0, got.0);
        let (bounds, plane) = (expected.bounds(), expected.shape.plane());
        let near = |(i, (e, g)): (usize, (&T, &T))| {
            let bound = bounds[i / plane % bounds.len()];
            (e.wide() - g.wide()).abs() <= 2.0 * bound
        };
        let both = expected.y.iter().zip(&got.y);
        expected.y.len() == got.y.len() && both.enumerate().all(near)
    }
}

/// Multiply-adds below which nothing is shared out: one thread does them in some 6 µs, the time to
/// hand work over.
const WORTH_SHARING: usize = 1 << 18;

/// Declares it with its variants: `direct` (the reference), `im2col`, `sliding` (for filters that
/// move by one), `winograd` (for those of 3×3 among them), `fft` (for large ones among them) and
/// `threads`.
pub fn declare<T: Float>(selector: &Selector) -> Result<Handle<Conv2d<T>>, BuildError> {
    let builder = selector
        .op(Conv2d::<T>::default())
        .reference("direct", Backend::Scalar, |g| {
            direct::convolve(&g.shape, g.x, g.filters, g.y)
        })
        .variant("im2col", Backend::Simd, |g| {
            im2col::convolve(&g.shape, g.x, g.filters, g.y)
        })
        .memory(|w| need::<T>(w, im2col::scratch))
        .variant("sliding", Backend::Simd, |g| {
            sliding::convolve(&g.shape, g.x, g.filters, g.y)
        })
        .when(|g| g.shape.stride == 1)
        .memory(|w| need::<T>(w, sliding::scratch));
    let builder = needs_vectors(builder)
        .variant("winograd", Backend::Simd, |g| {
            winograd::convolve(&g.shape, g.x, g.filters, g.y)
        })
        .when(|g| g.shape.is_three_by_three())
        .memory(|w| need::<T>(w, winograd::scratch));
    let builder = needs_vectors(builder)
        .variant("fft", Backend::Simd, |g| {
            fft::convolve(&g.shape, g.x, g.filters, g.y)
        })
        .when(|g| g.shape.suits_spectra())
        .memory(|w| need::<T>(w, fft::scratch))
        .variant("threads", Backend::Threads, |g| {
            threads::convolve(&g.shape, g.x, g.filters, g.y)
        })
        .min_size(WORTH_SHARING)
        .memory(|w| need::<T>(w, threads::scratch))
        .verified();
    #[cfg(feature = "gpu")]
    let builder = gpu::variants(selector, builder);
    builder.build()
}

/// Bytes of arguments, result and scratch.
fn need<T: Float>(workload: &Workload, scratch: impl Fn(&Shape) -> usize) -> u64 {
    let scratch = scratch(&Shape::of(workload)) as f64 * size_of::<T>() as f64;
    (workload.byte_count() + scratch) as u64
}
