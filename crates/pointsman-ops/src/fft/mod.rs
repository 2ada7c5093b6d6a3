//! Discrete Fourier transforms of rows of complex numbers.

#[cfg(feature = "gpu")]
mod gpu;
mod plain;
mod planned;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;

use num_complex::Complex;
use pointsman::{Backend, BuildError, Handle, Op, Selector, Verify, Workload};

use crate::catalogue::Shaped;
use crate::lanes::needs_vectors;
use crate::sample::{bounded, floats};
use crate::team::WORTH_SHARING;
use crate::{Error, Float, ShapeError};

/// yₖ ← Σ xⱼ e^(−2πi jk/n), for each row of n numbers.
///
/// ```
/// use pointsman_ops::{Complex, fft, ifft};
///
/// let x = [1.0, 2.0, 3.0, 4.0].map(Complex::from);
/// let (mut y, mut z) = ([Complex::default(); 4], [Complex::default(); 4]);
/// fft(&x, 4, &mut y)?;
/// assert_eq!(y[0].re, 10.0);
/// ifft(&y, 4, &mut z)?;
/// assert_eq!(z[1].re / 4.0, 2.0); // there and back is n times as large
/// # Ok::<(), pointsman_ops::Error>(())
/// ```
pub fn fft<T: Float>(x: &[Complex<T>], n: usize, y: &mut [Complex<T>]) -> Result<(), Error> {
    let args = Args::new(Direction::Forward, x, n, y)?;
    T::ops()?.fft.run(args);
    Ok(())
}

/// yₖ ← Σ xⱼ e^(+2πi jk/n), for each row of n numbers. The factor 1/n is the caller's to apply.
pub fn ifft<T: Float>(x: &[Complex<T>], n: usize, y: &mut [Complex<T>]) -> Result<(), Error> {
    let args = Args::new(Direction::Inverse, x, n, y)?;
    T::ops()?.fft.run(args);
    Ok(())
}

/// Both as an op: `fft_f32`, `fft_f64`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fft<T>(PhantomData<T>);

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the spectrum.
    Forward,
    /// Back.
    Inverse,
}

/// Rows of n complex numbers, and as many for their transforms.
#[derive(Debug)]
pub struct Args<'a, T> {
    inverse: bool,
    x: &'a [Complex<T>],
    n: usize,
    y: &'a mut [Complex<T>],
}

impl<'a, T: Float> Args<'a, T> {
    /// Checks the lengths.
    pub fn new(
        direction: Direction,
        x: &'a [Complex<T>],
        n: usize,
        y: &'a mut [Complex<T>],
    ) -> Result<Self, ShapeError> {
        let wrong = |other, rule| Err(ShapeError::new("fft", &[x.len()], &[other], rule));
        if !x.len().is_multiple_of(n) {
            return wrong(n, "the first must be whole rows of the second");
        }
        if x.len() != y.len() {
            return wrong(y.len(), "both vectors must be of one length");
        }
        let inverse = direction == Direction::Inverse;
        Ok(Args { inverse, x, n, y })
    }

    fn rows(&self) -> usize {
        self.x.len() / self.n.max(1)
    }
}

impl<T: Float> Op for Fft<T> {
    type Args<'a> = Args<'a, T>;
    type Output = ();

    fn name(&self) -> &str {
        T::named("fft_f32", "fft_f64")
    }

    #[inline]
    fn workload(&self, args: &Args<'_, T>) -> Workload {
        // A code, although both directions cost the same: a variant may be wrong in one of them.
        self.shaped(&[args.rows(), args.n])
            .codes([args.inverse.into()])
    }
}

impl<T: Float> Shaped for Fft<T> {
    const AXES: &'static [&'static str] = &["rows", "n"];

    #[inline]
    fn shaped(&self, shape: &[usize]) -> Workload {
        let (rows, n) = (shape[0], shape[1]);
        let elements = rows as f64 * n as f64;
        Workload::new([rows, n])
            .codes([0])
            .dtype(T::DTYPE)
            // What is counted by custom, whatever the algorithm.
            .flops(5.0 * elements * (n.max(1) as f64).log2())
            .bytes(2.0 * size_of::<Complex<T>>() as f64 * elements)
    }

    fn make(&self, shape: &[usize], seed: u64) -> Self::Sample {
        Sample::new(shape[0], shape[1], false, seed)
    }

    fn of_size(&self, size: usize) -> Vec<usize> {
        match size {
            ..64 => vec![1, size.max(1)],
            _ => vec![8, size / 8],
        }
    }
}

/// Rows to transform.
#[derive(Clone, Debug)]
pub struct Sample<T> {
    inverse: bool,
    n: usize,
    x: Vec<Complex<T>>,
    y: Vec<Complex<T>>,
}

impl<T: Float> Sample<T> {
    fn new(rows: usize, n: usize, inverse: bool, seed: u64) -> Self {
        let parts: [Vec<T>; 2] = [0, 1].map(|stream| floats(rows * n, seed, stream));
        let [re, im] = parts.map(Vec::into_iter);
        Sample {
            inverse,
            n,
            x: re.zip(im).map(|(re, im)| Complex::new(re, im)).collect(),
            y: vec![Complex::default(); rows * n],
        }
    }
}

impl<T: Float> Verify for Fft<T> {
    type Sample = Sample<T>;

    fn sample(&self, workload: &Workload, seed: u64) -> Self::Sample {
        let inverse = workload.category_codes().first() == Some(&1);
        let work = |shape: &[usize]| self.shaped(shape).flop_count();
        match bounded(workload, work)[..] {
            [rows, n] => Sample::new(rows, n, inverse, seed),
            _ => Sample::new(0, 1, inverse, seed),
        }
    }

    fn args<'a>(&self, sample: &'a mut Self::Sample) -> Args<'a, T> {
        let Sample { inverse, n, x, y } = sample;
        let (inverse, n) = (*inverse, *n);
        Args { inverse, x, n, y }
    }

    fn agrees(&self, expected: (&Self::Sample, &()), got: (&Self::Sample, &())) -> bool {
        let (n, expected, got) = (expected.0.n.max(1), &expected.0.y, &got.0.y);
        let near = |(e, g): (&[Complex<T>], &[Complex<T>])| {
            let off: f64 = e.iter().zip(g).map(|(e, g)| norm_sqr(*g - *e)).sum();
            let all: f64 = e.iter().map(|e| norm_sqr(*e)).sum();
            off.sqrt() <= 2.0 * error_bound::<T>(n) * all.sqrt()
        };
        expected.len() == got.len() && expected.chunks(n).zip(got.chunks(n)).all(near)
    }
}

fn norm_sqr<T: Float>(z: Complex<T>) -> f64 {
    z.re.wide().powi(2) + z.im.wide().powi(2)
}

/// The error of a row of n in the Euclidean norm, relative to its length: η u lg n with
/// η = 1 + 4 √2 < 7 for a power of two (Higham, §24.1). A length with large prime factors is a
/// convolution of up to 4n: three such transforms, through values up to 1.4 times as large (the
/// spectrum of a chirp overshoots at its ends).
fn error_bound<T: Float>(n: usize) -> f64 {
    let passes = if n.is_power_of_two() {
        (n as f64).log2().max(1.0)
    } else {
        3.0 * 1.4 * (4.0 * n as f64).log2()
    };
    7.0 * T::ROUNDOFF * passes
}

/// Declares it with its variants: `plain` (the reference), `scalar` and `simd` (rustfft's plans
/// without and with vectors) and `threads`.
pub fn declare<T: Float>(selector: &Selector) -> Result<Handle<Fft<T>>, BuildError> {
    let builder = selector
        .op(Fft::<T>::default())
        .reference("plain", Backend::Scalar, |a| {
            plain::fft(a.x, a.n, a.inverse, a.y)
        })
        .variant("scalar", Backend::Scalar, |a| {
            planned::scalar(a.x, a.n, a.inverse, a.y)
        })
        .variant("simd", Backend::Simd, |a| {
            planned::simd(a.x, a.n, a.inverse, a.y)
        });
    let builder = needs_vectors(builder)
        .variant("threads", Backend::Threads, |a| {
            planned::threads(a.x, a.n, a.inverse, a.y)
        })
        .min_size(WORTH_SHARING)
        .when(|a| a.rows() > 1)
        .verified();
    #[cfg(feature = "gpu")]
    let builder = gpu::variants(selector, builder);
    builder.build()
}
