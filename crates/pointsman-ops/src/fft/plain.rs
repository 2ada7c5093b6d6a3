//! By halves, in `f64` whatever the element type, with every root of unity computed afresh. Lengths
//! that are no power of two become a convolution of one (Bluestein), so that no length takes n²
//! steps.

use std::f64::consts::PI;

use num_complex::{Complex, Complex64};

use crate::Float;
use crate::scratch::{kept, part};

#[derive(Default)]
struct Scratch {
    row: Vec<Complex64>,
    chirped: Vec<Complex64>,
    chirp: Vec<Complex64>,
}

pub(super) fn fft<T: Float>(x: &[Complex<T>], n: usize, inverse: bool, y: &mut [Complex<T>]) {
    kept(|scratch: &mut Scratch| {
        for (x, y) in x.chunks(n.max(1)).zip(y.chunks_mut(n.max(1))) {
            let row = part(&mut scratch.row, n);
            for (x, row) in x.iter().zip(&mut *row) {
                *row = Complex::new(x.re.wide(), x.im.wide());
            }
            if n.is_power_of_two() {
                halves(row, inverse);
            } else {
                chirp(row, inverse, &mut scratch.chirped, &mut scratch.chirp);
            }
            for (y, row) in y.iter_mut().zip(&*row) {
                *y = Complex::new(T::of(row.re), T::of(row.im));
            }
        }
    });
}

/// e^(∓2πi k/n).
fn root(k: usize, n: usize, inverse: bool) -> Complex64 {
    let angle = 2.0 * PI * k as f64 / n as f64;
    Complex::from_polar(1.0, if inverse { angle } else { -angle })
}

/// A transform of a power of two: even and odd elements apart, then joined.
fn halves(x: &mut [Complex64], inverse: bool) {
    let n = x.len();
    for i in 1..n {
        let j = i.reverse_bits() >> (n.leading_zeros() + 1);
        if i < j {
            x.swap(i, j);
        }
    }
    let mut length = 2;
    while length <= n {
        for k in 0..length / 2 {
            let root = root(k, length, inverse);
            for even in (k..n).step_by(length) {
                let odd = even + length / 2;
                let (a, b) = (x[even], x[odd] * root);
                (x[even], x[odd]) = (a + b, a - b);
            }
        }
        length *= 2;
    }
}

/// Any length: jk = (j² + k² − (k − j)²) / 2 makes the sum a convolution with roots of 2n.
fn chirp(
    x: &mut [Complex64],
    inverse: bool,
    chirped: &mut Vec<Complex64>,
    chirp: &mut Vec<Complex64>,
) {
    let n = x.len();
    let m = (2 * n - 1).next_power_of_two();
    let (a, b) = (part(chirped, m), part(chirp, m));
    a.fill(Complex::default());
    b.fill(Complex::default());
    // Squares modulo 2n: as large ones, their angles would be lost to rounding.
    let square = |k: usize| (k as u128 * k as u128 % (2 * n as u128)) as usize;
    for k in 0..n {
        let root = root(square(k), 2 * n, inverse);
        a[k] = x[k] * root;
        b[k] = root.conj();
        b[(m - k) % m] = root.conj();
    }
    halves(a, false);
    halves(b, false);
    for (a, b) in a.iter_mut().zip(&*b) {
        *a *= *b;
    }
    halves(a, true);
    for (k, (x, a)) in x.iter_mut().zip(&*a).enumerate() {
        *x = *a * root(square(k), 2 * n, inverse) / m as f64;
    }
}
