use std::f64::consts::PI;

use num_complex::Complex64;
use proptest::prelude::*;

use super::*;

type Body<T> = fn(&[Complex<T>], usize, bool, &mut [Complex<T>]);

fn variants<T: Float>() -> [(&'static str, Body<T>); 4] {
    [
        ("plain", plain::fft),
        ("scalar", planned::scalar),
        ("simd", planned::simd),
        ("threads", planned::threads),
    ]
}

fn wide<T: Float>(z: Complex<T>) -> Complex64 {
    Complex::new(z.re.wide(), z.im.wide())
}

/// The definition.
fn exact<T: Float>(sample: &Sample<T>) -> Vec<Complex64> {
    let n = sample.n;
    let sign = if sample.inverse { 1.0 } else { -1.0 };
    let roots: Vec<Complex64> = (0..n)
        .map(|k| Complex::from_polar(1.0, sign * 2.0 * PI * k as f64 / n as f64))
        .collect();
    let row = |x: &[Complex<T>]| -> Vec<Complex64> {
        let term = |j: usize, k: usize| wide(x[j]) * roots[j * k % n];
        (0..n).map(|k| (0..n).map(|j| term(j, k)).sum()).collect()
    };
    sample.x.chunks(n.max(1)).flat_map(row).collect()
}

/// Error in the Euclidean norm, relative to the length of the row, at most.
fn off<T: Float>(exact: &[Complex64], got: &[Complex<T>], n: usize) -> f64 {
    let row = |(e, g): (&[Complex64], &[Complex<T>])| {
        let off: f64 = e
            .iter()
            .zip(g)
            .map(|(e, g)| (*e - wide(*g)).norm_sqr())
            .sum();
        let all: f64 = e.iter().map(Complex64::norm_sqr).sum();
        (off / all).sqrt()
    };
    exact
        .chunks(n)
        .zip(got.chunks(n))
        .map(row)
        .fold(0.0, f64::max)
}

fn right<T: Float>(sample: &mut Sample<T>) {
    let n = sample.n;
    let exact = exact(sample);
    for (name, fft) in variants() {
        sample.y.fill(Complex::new(T::nan(), T::nan()));
        fft(&sample.x, n, sample.inverse, &mut sample.y);
        let off = off(&exact, &sample.y, n.max(1));
        // The definition as computed has an error of its own: its n terms are added one by one.
        let bound = error_bound::<T>(n.max(1)) + f64::EPSILON * n as f64;
        assert!(off <= bound, "{name} of {n}: {off} > {bound}");
    }
}

#[test]
fn every_variant_is_right_at_every_length() {
    for n in (0..=130).chain([251, 256, 509, 1000, 1024]) {
        for inverse in [false, true] {
            right(&mut Sample::<f32>::new(2, n, inverse, 3));
            right(&mut Sample::<f64>::new(3, n, inverse, 4));
        }
    }
}

#[test]
fn long_transforms_of_every_variant_agree_with_the_reference() {
    let op = Fft::<f32>::default();
    for n in [1 << 15, 32_749, 30_030] {
        let mut expected = op.make(&[2, n], 1);
        plain::fft(&expected.x.clone(), n, false, &mut expected.y);
        for (name, fft) in variants() {
            let mut got = op.make(&[2, n], 1);
            fft(&got.x, n, false, &mut got.y);
            assert!(op.agrees((&expected, &()), (&got, &())), "{name} of {n}");
        }
    }
}

#[test]
fn what_is_not_finite_spoils_its_own_row_only() {
    for (name, fft) in variants::<f32>() {
        for bad in [f32::NAN, f32::INFINITY] {
            let mut sample = Sample::new(3, 16, false, 1);
            sample.x[20].im = bad;
            fft(&sample.x, 16, false, &mut sample.y);
            let finite: Vec<bool> = sample.y.iter().map(|y| y.is_finite()).collect();
            assert!(finite[..16].iter().all(|f| *f), "{name}");
            assert!(finite[16..32].iter().all(|f| !*f), "{name}");
            assert!(finite[32..].iter().all(|f| *f), "{name}");
        }
        // Sums of the smallest numbers are exact.
        let (tiny, mut y) = (
            [Complex::new(f32::from_bits(1), 0.0); 8],
            [Complex::default(); 8],
        );
        fft(&tiny, 8, false, &mut y);
        assert_eq!(y[0].re, f32::from_bits(8), "{name}");
    }
}

#[test]
fn the_check_sees_one_wrong_element() {
    let op = Fft::<f32>::default();
    for n in [5, 1 << 12] {
        let mut right = op.make(&[2, n], 1);
        plain::fft(&right.x.clone(), n, false, &mut right.y);
        assert!(op.agrees((&right, &()), (&right, &())));
        for wrong in [Complex::default(), Complex::new(f32::NAN, 0.0), right.y[0]] {
            let mut got = right.clone();
            got.y[2 * n - 1] = wrong;
            assert!(!op.agrees((&right, &()), (&got, &())), "{wrong} of {n}");
        }
    }
}

#[test]
fn checks_go_both_ways() {
    let op = Fft::<f32>::default();
    for inverse in [false, true] {
        let mut call = Sample::new(2, 8, inverse, 1);
        let workload = op.workload(&op.args(&mut call));
        assert_eq!(op.sample(&workload, 1).inverse, inverse);
    }
}

#[test]
fn lengths_that_do_not_fit_are_an_error_that_names_both() {
    let x = [Complex::new(1.0_f32, 0.0); 12];
    let told = |n, out: usize| {
        let mut y = [Complex::default(); 12];
        let error = Args::new(Direction::Forward, &x, n, &mut y[..out]);
        error.unwrap_err().to_string()
    };
    assert!(told(5, 12).contains("shapes 12 and 5"));
    assert!(told(0, 12).contains("shapes 12 and 0"));
    assert!(told(4, 8).contains("shapes 12 and 8"));
    assert!(Args::<f32>::new(Direction::Forward, &[], 0, &mut []).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_shape_is_right(rows in 0_usize..5, n in 0_usize..300, inverse: bool, seed: u64) {
        right(&mut Sample::<f32>::new(rows, n, inverse, seed));
        right(&mut Sample::<f64>::new(rows, n, inverse, seed));
    }
}
