use proptest::prelude::*;

use super::history::{Direct, Simd, Spectra, Threads};
use super::steps::solve;
use super::*;

type Body<T> = fn(&mut Args<'_, T>);

fn variants<T: Float>() -> [(&'static str, Body<T>); 4] {
    [
        ("direct", solve::<T, Direct>),
        ("simd", solve::<T, Simd>),
        ("threads", solve::<T, Threads>),
        ("fft", solve::<T, Spectra<T>>),
    ]
}

/// The method as its authors write it, in `f64`.
fn written(rhs: &dyn Fn(f64, f64) -> f64, a: f64, start: &[f64], h: f64, n: usize) -> Vec<f64> {
    let mut y = Vec::new();
    let mut f: Vec<f64> = Vec::new();
    for next in 0..n {
        let t = next as f64 * h;
        let begun = start[0] + start.get(1).unwrap_or(&0.0) * t;
        let mut value = begun;
        if let Some(k) = next.checked_sub(1) {
            let lag = |j: usize| (k - j) as f64;
            let b = |j| (lag(j) + 1.0).powf(a) - lag(j).powf(a);
            let c = |j| match j {
                0 => lag(0).powf(a + 1.0) - (lag(0) - a) * (lag(0) + 1.0).powf(a),
                _ => {
                    let power = |more: f64| (lag(j) + more).powf(a + 1.0);
                    power(2.0) + power(0.0) - 2.0 * power(1.0)
                }
            };
            let sum = |w: &dyn Fn(usize) -> f64| (0..=k).map(|j| w(j) * f[j]).sum::<f64>();
            let predicted = begun + h.powf(a) / tgamma(a + 1.0) * sum(&b);
            value = begun + h.powf(a) / tgamma(a + 2.0) * (sum(&c) + rhs(t, predicted));
        }
        f.push(rhs(t, value));
        y.push(value);
    }
    y
}

/// The largest error on n steps from 0 to 1.
fn error(
    solve: Body<f64>,
    rhs: &dyn Fn(f64, f64) -> f64,
    exact: &dyn Fn(f64) -> f64,
    (order, start): (f64, &[f64]),
    n: usize,
) -> f64 {
    let step = 1.0 / n as f64;
    let mut y = vec![f64::NAN; n + 1];
    solve(&mut Args::new(rhs, order, start, step, &mut y).unwrap());
    // From a quarter on: near 0 a solution that begins like t^α has a lower order.
    let off = |k: usize| (y[k] - exact(k as f64 * step)).abs();
    (n / 4..=n).map(off).fold(0.0, f64::max)
}

/// E_α(z) by its series.
fn mittag_leffler(order: f64, z: f64) -> f64 {
    let term = |k: i32| z.powi(k) / tgamma(order * f64::from(k) + 1.0);
    (0..60).map(term).sum()
}

/// Half the step divides the error by 2^p at least, to a tenth of p.
fn converges(
    rhs: &dyn Fn(f64, f64) -> f64,
    exact: &dyn Fn(f64) -> f64,
    problem: (f64, &[f64]),
    p: f64,
) {
    for (name, solve) in variants() {
        let [coarse, fine] = [600, 1200].map(|n| error(solve, rhs, exact, problem, n));
        let found = (coarse / fine).log2();
        assert!(found > 0.9 * p, "{name}, {problem:?}: order {found}");
        assert!(fine < 5e-3, "{name}, {problem:?}: {fine}");
    }
}

#[test]
fn relaxation_follows_the_mittag_leffler_function() {
    for (order, start) in [
        (0.5, &[1.0][..]),
        (0.8, &[1.0]),
        (1.0, &[1.0]),
        (1.5, &[1.0, 0.0]),
    ] {
        let exact = |t: f64| mittag_leffler(order, -t.powf(order));
        converges(&|_, y| -y, &exact, (order, start), (1.0 + order).min(2.0));
    }
}

#[test]
fn a_polynomial_solution_is_found_with_the_methods_order() {
    for (order, start) in [(0.4, &[0.0][..]), (0.9, &[0.0]), (1.3, &[0.0, 0.0])] {
        // y = t⁴ + t⁵, whose derivative is known, and smooth.
        let derivative = move |t: f64| {
            24.0 / tgamma(5.0 - order) * t.powf(4.0 - order)
                + 120.0 / tgamma(6.0 - order) * t.powf(5.0 - order)
        };
        let exact = |t: f64| t.powi(4) + t.powi(5);
        let rhs = move |t: f64, y: f64| derivative(t) + exact(t) - y;
        converges(&rhs, &exact, (order, start), (1.0 + order).min(2.0));
    }
}

#[test]
fn a_slope_at_the_start_counts_above_order_one() {
    // D^1.5 y = 0: a straight line.
    for (name, solve) in variants() {
        let mut y = [f64::NAN; 50];
        solve(&mut Args::new(&|_, _| 0.0, 1.5, &[1.0, 2.0], 0.5, &mut y).unwrap());
        assert!((0..50).all(|k| y[k] == 1.0 + k as f64), "{name}: {y:?}");
    }
}

fn right<T: Float>(order: f64, n: usize) {
    let order = T::of(order);
    let step = T::of(1.0 / n.max(1) as f64);
    let slope: &[T] = if order > T::one() {
        &[T::one(), T::zero()]
    } else {
        &[T::one()]
    };
    let wide: Vec<f64> = slope.iter().map(|s| s.wide()).collect();
    let exact = written(&relax, order.wide(), &wide, step.wide(), n);
    // The exact one has the cancellation in its weights that ours do not have: n² u of an f64.
    let bound = error_bound::<T>(n) + (n * n) as f64 * f64::EPSILON;
    for (name, solve) in variants::<T>() {
        let mut y = vec![T::nan(); n];
        solve(&mut Args::new(&relax::<T>, order, slope, step, &mut y).unwrap());
        for (k, (y, exact)) in y.iter().zip(&exact).enumerate() {
            let off = (y.wide() - exact).abs();
            assert!(off <= bound, "{name}, {k} of {n}: {off} > {bound}");
        }
    }
}

#[test]
fn every_variant_is_right_at_every_length() {
    for n in (0..=70).chain([127, 128, 129, 300]) {
        right::<f32>(0.6, n);
        right::<f64>(0.6, n);
        right::<f64>(1.6, n);
    }
}

#[test]
fn long_solutions_of_every_variant_agree_with_the_reference() {
    let op = Fode::<f64>::default();
    for n in [1025, 3000, 4096] {
        let mut expected = op.make(&[n], 1);
        solve::<f64, Direct>(&mut op.args(&mut expected));
        for (name, solve) in variants() {
            // Twice: the second time with what the first has kept.
            for _ in 0..2 {
                let mut got = op.make(&[n], 1);
                solve(&mut op.args(&mut got));
                assert!(op.agrees((&expected, &()), (&got, &())), "{name} of {n}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_order_and_length_is_right(n in 0_usize..200, order in 0.3..1.99) {
        right::<f32>(order, n);
        right::<f64>(order, n);
    }
}

#[test]
fn what_is_not_finite_does_not_reach_back() {
    for (name, solve) in variants::<f32>() {
        let rhs = |t: f32, y: f32| if t > 0.7 { f32::NAN } else { -y };
        let mut y = vec![0.0; 3000];
        solve(&mut Args::new(&rhs, 0.5, &[1.0], 1.0 / 3000.0, &mut y).unwrap());
        let first = y.iter().position(|y| y.is_nan());
        assert_eq!(first, Some(2101), "{name}");
        assert!(y[2999].is_nan(), "{name}");
    }
}

#[test]
fn the_check_sees_one_wrong_point() {
    let op = Fode::<f32>::default();
    let mut right = op.make(&[1000], 1);
    solve::<f32, Direct>(&mut op.args(&mut right));
    assert!(op.agrees((&right, &()), (&right, &())));
    for wrong in [0.0, f32::NAN] {
        let mut got = right.clone();
        got.1[999] = wrong;
        assert!(!op.agrees((&right, &()), (&got, &())), "{wrong}");
    }
}

#[test]
fn what_makes_no_sense_is_an_error_that_names_it() {
    let told = |order: f64, start: &[f64], step| {
        let error = Args::new(&relax, order, start, step, &mut []).unwrap_err();
        error.to_string()
    };
    assert_eq!(
        told(2.0, &[0.0], 0.1),
        "fode: order 2: must be above 0 and below 2"
    );
    assert!(told(0.5, &[0.0], -1.0).contains("step -1"));
    assert!(told(1.5, &[0.0], 0.1).contains("shapes 1 and 2"));
    assert!(told(0.5, &[0.0; 2], 0.1).contains("shapes 2 and 1"));
}
