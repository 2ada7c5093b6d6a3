//! Discrete Fourier transforms of rows.

use std::f64::consts::TAU;

use super::{count, counts, holds, kernel, launch};
use crate::error::Error;
use crate::job::Job;
use crate::kernel::Kernel;
use crate::pool::Held;

/// The kernel of [`fft()`].
pub static FFT: Kernel = kernel!("fft_f32", 3, "fft.wgsl");

/// Invocations of a workgroup.
const PER_GROUP: u32 = 64;

/// e^(−2πi k/n) for every k below n, real and imaginary parts in turn: what [`fft()`] of rows of n
/// numbers wants, either way. They are computed here, as sines on a GPU have few right digits.
pub fn roots(n: usize) -> Vec<f32> {
    let root = |k: usize| {
        let (sin, cos) = (TAU * k as f64 / n as f64).sin_cos();
        [cos as f32, -sin as f32]
    };
    (0..n).flat_map(root).collect()
}

/// yₖ ← Σ xⱼ e^(−2πi jk/n), or with the other sign for the `inverse`, for each of so many rows of n
/// complex numbers, real and imaginary parts in turn. There and back is n times as large. `n` must be
/// a power of two, and `roots` hold what [`roots`] says.
pub fn fft(
    job: &mut Job<'_>,
    x: &Held,
    roots: &Held,
    y: &Held,
    [rows, n]: [usize; 2],
    inverse: bool,
) -> Result<(), Error> {
    let floats = counts("fft_f32", &[2, rows, n])?;
    if floats == 0 {
        return Ok(());
    }
    if !n.is_power_of_two() {
        return Err(Error::Refused(format!(
            "fft_f32 of rows of {n} numbers; it must be a power of two"
        )));
    }
    holds(&FFT, "x", x, floats)?;
    holds(&FFT, "y", y, floats)?;
    let length = count("a row of fft_f32", 2 * n)? / 2;
    holds(&FFT, "roots", roots, 2 * length)?;
    let stages = radices(length);
    let scratch = match stages.len() {
        1 => y.clone(),
        _ => job.room::<f32>(floats as usize)?,
    };
    let (mut from, mut done) = (x, 1);
    for (i, radix) in stages.iter().enumerate() {
        // In turn, so that the last stage writes the result.
        let to = if (stages.len() - i) % 2 == 1 {
            y
        } else {
            &scratch
        };
        let total = floats / 2 / radix;
        let params = [total, length, done, *radix, inverse.into()];
        let groups = total.div_ceil(PER_GROUP);
        launch(job, &FFT, &[from, roots, to], &params, groups)?;
        (from, done) = (to, done * radix);
    }
    Ok(())
}

/// As few stages as can be: by fours, after a two if need be. One for a row of one number, too,
/// which copies it.
fn radices(n: u32) -> Vec<u32> {
    let doublings = n.trailing_zeros();
    let fours = std::iter::repeat_n(4, (doublings / 2) as usize);
    match doublings {
        0 => vec![1],
        _ if doublings % 2 == 1 => std::iter::once(2).chain(fours).collect(),
        _ => fours.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_join_whole_rows() {
        for doublings in 0..20 {
            let stages = radices(1 << doublings);
            assert_eq!(stages.iter().product::<u32>(), 1 << doublings);
            assert!(!stages.is_empty() && stages.len() <= doublings / 2 + 1);
        }
    }

    #[test]
    fn roots_are_rounded_once() {
        let roots = roots(8);
        assert_eq!(roots[..2], [1.0, -0.0]);
        let half = std::f32::consts::FRAC_1_SQRT_2;
        assert_eq!(roots[2..4], [half, -half]);
        assert_eq!(roots.len(), 16);
    }
}
