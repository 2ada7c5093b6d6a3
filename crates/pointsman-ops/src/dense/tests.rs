//! Every variant of both passes against sums in `f64`, and who serves calls that need gradients.

use pointsman::{Checks, Machine};
use proptest::prelude::*;

use super::backward::DenseBackward;
use super::*;

type Body<T> = fn(&mut Args<'_, T>);

fn variants<T: Float>(gradient: bool) -> Vec<(&'static str, Body<T>)> {
    let mut all: Vec<(_, Body<T>)> = vec![
        ("naive", forward::naive),
        ("gemm", |args| forward::packed(args, Team::One)),
        ("threads", |args| forward::packed(args, Team::All)),
    ];
    if !gradient {
        all.push(("fused", forward::fused));
        #[cfg(not(target_arch = "aarch64"))]
        all.push(("fused without FMA", |args| {
            crate::lanes::without_fma(|| forward::fused(args))
        }));
    }
    all
}

/// Every variant of the forward pass on one shape.
fn right<T: Float>(shape: [usize; 3], activation: Activation, gradient: bool, seed: u64) {
    let sample = Sample::<T>::new(&shape, activation, gradient, seed);
    let [_, k, n] = shape;
    let (bound, bias) = sample.bound();
    let exact = |i: usize| {
        let (row, column) = (i / n, i % n);
        let product = |p: usize| sample.x[row * k + p].wide() * sample.w[p * n + column].wide();
        sample.b[column].wide() + (0..k).map(product).sum::<f64>()
    };
    for (name, forward) in variants::<T>(gradient) {
        let mut got = sample.clone();
        forward(&mut Dense::default().args(&mut got));
        for (i, y) in got.y.iter().enumerate() {
            let sum = exact(i);
            // Twice: the exact one is an f64 sum itself.
            let most = 2.0 * (bound.at(i / n, i % n) + bias[i % n]);
            let expected = match activation {
                Activation::Identity => sum,
                Activation::Relu => sum.max(0.0),
            };
            let off = (y.wide() - expected).abs();
            assert!(off <= most, "{name} of {shape:?} at {i}: {off} > {most}");
            if let Some(sums) = &got.sums {
                let off = (sums[i].wide() - sum).abs();
                assert!(off <= most, "sums of {name} of {shape:?} at {i}: {off}");
            }
        }
    }
}

/// Every variant of the backward pass on one shape, by the op's own bounds, around sums in `f64`.
fn right_backward<T: Float>(shape: [usize; 3], activation: Activation, seed: u64) {
    let op = DenseBackward::<T>::default();
    let exact = backward::Sample::<T>::new(&shape, activation, seed).with_exact_gradients();
    for (name, backward) in backward::variants::<T>() {
        let mut got = backward::Sample::new(&shape, activation, seed);
        backward(&mut op.args(&mut got));
        assert!(op.agrees((&exact, &()), (&got, &())), "{name} of {shape:?}");
    }
}

const SHAPES: [[usize; 3]; 14] = [
    [0, 3, 4],
    [3, 0, 4],
    [3, 4, 0],
    [1, 1, 1],
    [1, 7, 1],
    [2, 3, 5],
    [4, 16, 16],
    [5, 17, 19],
    [8, 1, 33],
    [33, 8, 1],
    [9, 64, 31],
    [64, 64, 64],
    [130, 70, 90],
    [3, 600, 500],
];

#[test]
fn every_variant_is_right_for_small_and_large_shapes() {
    for shape in SHAPES {
        for activation in [Activation::Identity, Activation::Relu] {
            for gradient in [false, true] {
                right::<f32>(shape, activation, gradient, 3);
                right::<f64>(shape, activation, gradient, 3);
            }
            right_backward::<f32>(shape, activation, 3);
            right_backward::<f64>(shape, activation, 3);
        }
    }
}

/// Sums of ones, whose result is known whatever is put in one place.
fn ones(shape: [usize; 3], activation: Activation) -> Sample<f32> {
    let mut sample = Sample::new(&shape, activation, false, 1);
    for ones in [&mut sample.x, &mut sample.w, &mut sample.b] {
        ones.fill(1.0);
    }
    sample
}

#[test]
fn what_is_not_finite_shows_where_it_belongs_and_nowhere_else() {
    let (m, k, n) = (9, 5, 21);
    let (nan, infinity) = (f32::NAN, f32::INFINITY);
    // What is where: in row 4 of X, in column 20 of W, in element 7 of b.
    type Spoil = (fn(&mut Sample<f32>, f32), fn(usize) -> bool);
    let spoils: [Spoil; 3] = [
        (|sample, bad| sample.x[4 * 5 + 4] = bad, |i| i / 21 == 4),
        (|sample, bad| sample.w[2 * 21 + 20] = bad, |i| i % 21 == 20),
        (|sample, bad| sample.b[7] = bad, |i| i % 21 == 7),
    ];
    for (name, forward) in variants::<f32>(false) {
        for (activation, bad, expected) in [
            (Activation::Identity, nan, nan),
            (Activation::Identity, infinity, infinity),
            (Activation::Identity, -infinity, -infinity),
            (Activation::Relu, nan, nan),
            (Activation::Relu, infinity, infinity),
            (Activation::Relu, -infinity, 0.0),
        ] {
            for (spoil, is_spoilt) in spoils {
                let mut sample = ones([m, k, n], activation);
                spoil(&mut sample, bad);
                forward(&mut Dense::default().args(&mut sample));
                for (i, y) in sample.y.iter().enumerate() {
                    let right = match is_spoilt(i) {
                        true => *y == expected || y.is_nan() && expected.is_nan(),
                        false => *y == 6.0,
                    };
                    assert!(right, "{name}, {activation:?} with {bad}: {y} at {i}");
                }
            }
        }
    }
}

#[test]
fn what_is_not_finite_behind_a_layer_shows_in_the_gradients_that_it_belongs_to() {
    let (m, k, n) = (6, 5, 7);
    for (name, backward) in backward::variants::<f32>() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut sample = backward::Sample::new(&[m, k, n], Activation::Relu, 1);
            sample.spoil(2 * n + 3, bad); // example 2, output 3
            sample.spoil(4 * n + 5, bad); // cut off: nothing of it comes through
            sample.cut(4 * n + 5);
            backward(&mut DenseBackward::default().args(&mut sample));
            let out = sample.gradients_mut();
            let shows = |of: &[f32], is_spoilt: &dyn Fn(usize) -> bool| {
                let right = |(i, g): (usize, &f32)| g.is_finite() != is_spoilt(i);
                of.iter().enumerate().all(right)
            };
            assert!(shows(out.x.elements(), &|i| i / k == 2), "{name}, {bad}");
            assert!(shows(out.w.elements(), &|i| i % n == 3), "{name}, {bad}");
            assert!(shows(&out.b, &|j| j == 3), "{name}, {bad}");
        }
    }
}

#[test]
fn infinities_that_cancel_and_zeros_that_meet_them_are_not_numbers() {
    for (name, forward) in variants::<f32>(false) {
        let mut sample = ones([3, 4, 5], Activation::Relu);
        sample.x[0] = f32::INFINITY; // row 0: ∞ − ∞
        sample.x[1] = f32::NEG_INFINITY;
        sample.x[4] = f32::INFINITY; // row 1: ∞ · 0 in column 2
        sample.w[2] = 0.0;
        forward(&mut Dense::default().args(&mut sample));
        for (i, y) in sample.y.iter().enumerate() {
            let expected = match (i / 5, i % 5) {
                (0, _) | (1, 2) => f32::NAN,
                (1, _) => f32::INFINITY,
                (_, 2) => 4.0,
                _ => 5.0,
            };
            let same = *y == expected || y.is_nan() && expected.is_nan();
            assert!(same, "{name}: {y} at {i}, not {expected}");
        }
    }
}

#[test]
fn the_gradients_are_the_slopes_of_the_forward_pass() {
    let shape = [3, 4, 5];
    let dy: Vec<f64> = floats(15, 1, 9);
    let loss = |sample: &Sample<f64>| {
        let mut sample = sample.clone();
        forward::naive(&mut Dense::default().args(&mut sample));
        let y = sample.y.iter().zip(&dy);
        (y.map(|(y, dy)| y * dy).sum::<f64>(), sample.sums)
    };
    let sample = Sample::<f64>::new(&shape, Activation::Relu, true, 1);
    let sums = loss(&sample).1.unwrap();
    let (x, w) = (View::of(3, 4, &sample.x), View::of(4, 5, &sample.w));
    let got = dense_backward(x, w, Activation::Relu, &sums, &dy).unwrap();
    // Where no sum is near 0 the loss is linear in each of them: the slope is exact but for
    // rounding, some 1e-16 / STEP.
    const STEP: f64 = 1e-6;
    assert!(sums.iter().all(|sum| sum.abs() > 10.0 * STEP));
    type Field = fn(&mut Sample<f64>) -> &mut Vec<f64>;
    let fields: [(Field, &[f64]); 3] = [
        (|sample| &mut sample.x, got.x.elements()),
        (|sample| &mut sample.w, got.w.elements()),
        (|sample| &mut sample.b, &got.b),
    ];
    for (field, gradient) in fields {
        for (i, gradient) in gradient.iter().enumerate() {
            let moved = |by: f64| {
                let mut sample = sample.clone();
                field(&mut sample)[i] += by;
                loss(&sample).0
            };
            let slope = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
            assert!((slope - gradient).abs() < 1e-8, "{slope} not {gradient}");
        }
    }
}

#[test]
fn the_fused_variant_serves_calls_without_gradients_and_never_one_with() {
    let selector = Selector::builder()
        .in_memory()
        .ignore_environment()
        .checks(Checks::Inline)
        .machine(Machine::detect())
        .force("fused")
        .build()
        .unwrap();
    let dense = declare::<f32>(&selector).unwrap();
    let fused = || {
        let stats = dense.stats().variants;
        stats.into_iter().find(|v| v.name == "fused").unwrap().calls
    };
    // Whatever was learned from the calls before.
    for (gradient, served) in [(true, 0), (false, 50), (true, 50)] {
        for _ in 0..50 {
            let mut sample = Sample::new(&[8, 16, 16], Activation::Relu, gradient, 1);
            dense.run(Dense::default().args(&mut sample));
            let written = sample.sums.iter().flatten().all(|sum| !sum.is_nan());
            assert!(written, "the backward pass would read what nobody wrote");
        }
        assert_eq!(fused(), served, "gradient: {gradient}");
    }
}

#[test]
fn the_check_sees_one_wrong_element() {
    let op = Dense::<f32>::default();
    let mut right = Sample::new(&[10, 20, 30], Activation::Relu, true, 1);
    forward::naive(&mut op.args(&mut right));
    let agrees = |got: &Sample<f32>| op.agrees((&right, &()), (got, &()));
    assert!(agrees(&right));
    let spoil: [fn(&mut Sample<f32>); 4] = [
        |got| got.y[299] += 1e-3,
        |got| got.y[0] = f32::NAN,
        |got| got.sums.as_mut().unwrap()[7] += 1e-3,
        |got| got.sums = None,
    ];
    for spoil in spoil {
        let mut got = right.clone();
        spoil(&mut got);
        assert!(!agrees(&got));
    }
}

#[test]
fn the_check_of_the_backward_pass_sees_one_wrong_element() {
    let op = DenseBackward::<f32>::default();
    let right =
        backward::Sample::<f32>::new(&[10, 20, 30], Activation::Relu, 1).with_exact_gradients();
    assert!(op.agrees((&right, &()), (&right, &())));
    let spoil: [fn(&mut backward::Gradients<f32>); 4] = [
        |got| got.x.elements_mut()[199] += 1e-3,
        |got| got.w.elements_mut()[0] += 1e-3,
        |got| got.b[29] += 1e-3,
        |got| got.b[0] = f32::NAN,
    ];
    for spoil in spoil {
        let mut got = right.clone();
        spoil(got.gradients_mut());
        assert!(!op.agrees((&right, &()), (&got, &())));
    }
}

#[test]
fn shapes_that_do_not_fit_are_an_error_that_names_both() {
    let (x, w) = (Matrix::<f32>::zeros(2, 3), Matrix::zeros(3, 4));
    let identity = Activation::Identity;
    let message = |error: Error| error.to_string();
    let error = message(dense(&x, &x, &[0.0; 3], identity).unwrap_err());
    assert!(error.starts_with("dense: shapes 2x3 and 2x3"), "{error}");
    let error = message(dense_backward(&x, &x, identity, &[0.0; 6], &[0.0; 6]).unwrap_err());
    let named = error.starts_with("dense_backward: shapes 2x3 and 2x3");
    assert!(named, "{error}");
    let error = message(dense(&x, &w, &[0.0; 5], identity).unwrap_err());
    assert!(error.contains("3x4 and 5"), "{error}");
    let mut y = [0.0; 7];
    let error = Args::new(x.view(), w.view(), &[0.0; 4], identity, &mut y).unwrap_err();
    assert!(error.to_string().contains("2x4 and 7"), "{error}");
    let error = message(dense_backward(&x, &w, identity, &[0.0; 8], &[0.0; 9]).unwrap_err());
    assert!(error.contains("2x4 and 9"), "{error}");
    let mut y = [0.0; 8];
    let args = Args::new(x.view(), w.view(), &[0.0; 4], identity, &mut y).unwrap();
    let error = args.with_gradient(&mut [0.0; 6]).unwrap_err().to_string();
    assert!(error.contains("2x4 and 6"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_variant_agrees_on_any_shape(
        m in 0_usize..40, k in 0_usize..60, n in 0_usize..50, relu: bool, gradient: bool, seed: u64,
    ) {
        let activation = if relu { Activation::Relu } else { Activation::Identity };
        right::<f32>([m, k, n], activation, gradient, seed);
        right_backward::<f32>([m, k, n], activation, seed);
    }
}
