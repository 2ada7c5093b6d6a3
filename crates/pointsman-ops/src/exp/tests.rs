//! Against f64 for f32, against twice the digits for f64.

use super::*;
use crate::lanes::WIDE;
use crate::variants::{Body, bodies};

fn variants<T: Float>() -> Vec<(&'static str, Body<Exp<T>>)> {
    bodies::<Exp<T>>(scalar::exp)
}

fn results<T: Float>(exp: Body<Exp<T>>, x: &[T]) -> Vec<T> {
    let mut y = vec![T::zero(); x.len()];
    exp(&mut Args::new(x, &mut y).unwrap());
    y
}

/// The largest error in ULP, and where.
fn worst<T: Float>(x: &[T], y: &[T], exact: &[f64]) -> (f64, T) {
    let least = T::min_positive_value().wide();
    let ulp = |e: f64| {
        let binade = e.max(least).log2().floor().exp2();
        2.0 * T::ROUNDOFF * binade
    };
    let mut worst = (0.0, T::zero());
    for ((x, y), exact) in x.iter().zip(y).zip(exact) {
        let off = (y.wide() - exact).abs() / ulp(*exact);
        if off > worst.0 || off.is_nan() {
            worst = (off, *x);
        }
    }
    worst
}

/// From where the result is the least denormal to where it is the largest number.
fn sweep<T: Float>(len: usize) -> Vec<T> {
    let least = (T::min_positive_value() * T::epsilon()).wide().ln();
    let most = T::max_value().wide().ln() * (1.0 - T::ROUNDOFF);
    let at = |i: usize| T::of(least + (most - least) * i as f64 / (len - 1) as f64);
    (0..len).map(at).collect()
}

#[test]
fn every_f32_result_is_within_2_ulp() {
    let x = sweep::<f32>(400_001);
    let exact: Vec<f64> = x.iter().map(|x| x.wide().exp()).collect();
    for (name, exp) in variants() {
        let (off, at) = worst(&x, &results(exp, &x), &exact);
        assert!(off <= 2.0, "{name}: {off} ULP at {at}");
    }
}

#[test]
fn every_f64_result_is_within_2_ulp() {
    let x = sweep::<f64>(100_001);
    let exact: Vec<f64> = x.iter().map(|x| twofold::exp(*x)).collect();
    for (name, exp) in variants() {
        let (off, at) = worst(&x, &results(exp, &x), &exact);
        // The exact one is rounded itself.
        assert!(off <= 2.0 + 0.5, "{name}: {off} ULP at {at}");
    }
}

fn special<T: Float>() {
    let (inf, zero, one) = (T::infinity(), T::zero(), T::one());
    let least = T::min_positive_value() * T::epsilon();
    let cases = [
        (inf, inf),
        (T::neg_infinity(), zero),
        (T::max_value(), inf),
        (T::min_value(), zero),
        (T::HIGHEST, inf),
        (T::LOWEST, zero),
        (least, one),
        (-least, one),
        (zero, one),
        (T::neg_zero(), one),
        (least.ln(), least),
    ];
    for (name, exp) in variants() {
        for (x, expected) in cases {
            for n in [1, 8, 32] {
                assert_eq!(
                    results(exp, &vec![x; n]),
                    vec![expected; n],
                    "{name}, {x:?}"
                );
            }
        }
        let mut x = vec![one; 100];
        x[70] = T::nan();
        let y = results(exp, &x);
        assert!(
            y[70].is_nan() && y.iter().filter(|y| y.is_nan()).count() == 1,
            "{name}"
        );
    }
}

#[test]
fn overflow_underflow_and_nan_are_what_they_are_in_the_standard_library() {
    special::<f32>();
    special::<f64>();
}

#[test]
fn every_variant_agrees_with_the_reference_at_every_length() {
    let op = Exp::<f32>::default();
    for n in (0..=4 * WIDE).chain([1000, 4097, 70_003]) {
        let mut expected = op.sample(&op.shaped(&[n]), 3);
        let sample = expected.clone();
        scalar::exp(&mut op.args(&mut expected));
        for (name, exp) in variants() {
            let mut got = sample.clone();
            exp(&mut op.args(&mut got));
            assert!(op.agrees((&expected, &()), (&got, &())), "{name} of {n}");
        }
    }
}

#[test]
fn the_check_sees_one_wrong_element() {
    let op = Exp::<f32>::default();
    let mut right = op.sample(&op.shaped(&[100]), 1);
    scalar::exp(&mut op.args(&mut right));
    assert!(op.agrees((&right, &()), (&right, &())));
    for wrong in [f32::NAN, f32::INFINITY, right.1[99] * 1.000_001] {
        let mut got = right.clone();
        got.1[99] = wrong;
        assert!(!op.agrees((&right, &()), (&got, &())), "{wrong}");
    }
}

#[test]
fn lengths_that_differ_are_an_error_that_names_both() {
    let error = Args::new(&[1.0_f32; 3], &mut [1.0; 4]).unwrap_err();
    assert!(error.to_string().contains("shapes 3 and 4"), "{error}");
}

/// Numbers of twice the digits: a sum of two of which the second is below half an ULP of the first.
mod twofold {
    type Twofold = (f64, f64);

    fn sum(a: f64, b: f64) -> Twofold {
        let s = a + b;
        let part = s - a;
        (s, (a - (s - part)) + (b - part))
    }

    fn product(a: Twofold, b: Twofold) -> Twofold {
        let p = a.0 * b.0;
        let rest = a.0.mul_add(b.0, -p) + (a.0 * b.1 + a.1 * b.0);
        sum(p, rest)
    }

    fn quotient(a: Twofold, b: f64) -> Twofold {
        let q = a.0 / b;
        sum(q, ((-q).mul_add(b, a.0) + a.1) / b)
    }

    /// eˣ, rounded: the Taylor series of x / 4096, squared twelve times. The exponent is kept apart,
    /// so that nothing is lost before the end.
    pub(super) fn exp(x: f64) -> f64 {
        let x = x / 4096.0;
        let mut power = (1.0, 0.0);
        for k in (1..=24).rev() {
            let (term, rest) = quotient(product(power, (x, 0.0)), f64::from(k));
            let (s, lost) = sum(1.0, term);
            power = sum(s, lost + rest);
        }
        let mut exponent = 0;
        for _ in 0..12 {
            power = product(power, power);
            exponent *= 2;
            let shift = power.0.log2().floor() as i32;
            power = (power.0 * 2f64.powi(-shift), power.1 * 2f64.powi(-shift));
            exponent += shift;
        }
        let half = exponent / 2;
        power.0 * 2f64.powi(half) * 2f64.powi(exponent - half)
    }
}
