//! With the plans of rustfft.

use num_complex::Complex;
use rayon::prelude::*;

use crate::Float;
use crate::fourier::Engine;
use crate::team::share;

pub(super) fn scalar<T: Float>(x: &[Complex<T>], n: usize, inverse: bool, y: &mut [Complex<T>]) {
    rows(Engine::Scalar, x, n, inverse, y);
}

pub(super) fn simd<T: Float>(x: &[Complex<T>], n: usize, inverse: bool, y: &mut [Complex<T>]) {
    rows(Engine::Simd, x, n, inverse, y);
}

fn rows<T: Float>(engine: Engine, x: &[Complex<T>], n: usize, inverse: bool, y: &mut [Complex<T>]) {
    if !x.is_empty() {
        T::transform(engine, inverse, n).rows(x, y);
    }
}

/// Some of the rows on every thread.
pub(super) fn threads<T: Float>(x: &[Complex<T>], n: usize, inverse: bool, y: &mut [Complex<T>]) {
    if x.is_empty() {
        return;
    }
    let share = share(x.len() / n) * n;
    let plan = T::transform(Engine::Simd, inverse, n);
    x.par_chunks(share)
        .zip(y.par_chunks_mut(share))
        .for_each(|(x, y)| plan.rows(x, y));
}
