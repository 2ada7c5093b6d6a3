//! Every variant against sums in `f64`.

use proptest::prelude::*;

use super::*;
use crate::sample::MOST_WORK;

type Body<T> = fn(View<'_, T>, View<'_, T>, &mut [T]);

fn variants<T: Float>() -> Vec<(&'static str, Body<T>)> {
    vec![
        ("naive", naive::multiply),
        ("blocked", blocked::multiply),
        ("register", register::multiply),
        ("gemm", |a, b, c| packed::multiply(a, b, c, Team::One)),
        ("threads", |a, b, c| packed::multiply(a, b, c, Team::All)),
        #[cfg(not(target_arch = "aarch64"))]
        ("register without FMA", |a, b, c| {
            crate::lanes::without_fma(|| register::multiply(a, b, c))
        }),
    ]
}

/// Every variant on one shape.
fn right<T: Float>(shape: [usize; 3], seed: u64) {
    let sample = Matmul::<T>::default().make(&shape, seed);
    let [m, k, n] = shape;
    let ([a, b], bound) = (sample.views(), sample.bound());
    let exact = |i: usize, j: usize| -> f64 {
        let product = |p: usize| a.row(i)[p].wide() * b.row(p)[j].wide();
        (0..k).map(product).sum()
    };
    let exact: Vec<f64> = (0..m * n).map(|i| exact(i / n, i % n)).collect();
    for (name, multiply) in variants::<T>() {
        let mut c = sample.c.clone();
        multiply(a, b, &mut c);
        for (i, (c, exact)) in c.iter().zip(&exact).enumerate() {
            // Twice: the exact one is an f64 sum itself.
            let (off, bound) = ((c.wide() - exact).abs(), 2.0 * bound.at(i / n, i % n));
            assert!(off <= bound, "{name} of {shape:?} at {i}: {off} > {bound}");
        }
    }
}

#[test]
fn every_variant_is_right_for_small_shapes_in_all_combinations() {
    let sizes = [0, 1, 2, 3, 4, 5, 8, 15, 16, 17, 33];
    for (m, k) in sizes.iter().flat_map(|m| sizes.map(|k| (*m, k))) {
        for n in sizes {
            right::<f32>([m, k, n], 7);
            right::<f64>([m, k, n], 7);
        }
    }
}

#[test]
fn every_variant_is_right_beyond_its_blocks_and_on_threads() {
    for shape in [
        [70, 130, 259],
        [1, 300, 517],
        [300, 517, 1],
        [129, 65, 128],
        [257, 100, 90],
    ] {
        right::<f32>(shape, 3);
        right::<f64>(shape, 3);
    }
}

fn right_at_every_alignment<T: Float>() {
    let elements: Vec<T> = floats(400, 5, 0);
    for (name, multiply) in variants::<T>() {
        for (from_a, from_b) in (0..8).flat_map(|a| (0..8).map(move |b| (a, b))) {
            let a = View::of(9, 7, &elements[from_a..][..63]);
            let b = View::of(7, 21, &elements[100 + from_b..][..147]);
            let (mut c, mut expected) = (vec![T::one(); 200], vec![T::zero(); 189]);
            naive::multiply(a, b, &mut expected);
            multiply(a, b, &mut c[from_b..][..189]);
            let bound = Bound::new(a.into(), b.into(), 7);
            assert!(
                bound.agree(&expected, &c[from_b..][..189], |_| 0.0),
                "{name}, {from_a} and {from_b} off"
            );
            let around = c[..from_b].iter().chain(&c[from_b + 189..]);
            assert!(around.into_iter().all(|c| *c == T::one()), "{name}");
        }
    }
}

#[test]
fn every_variant_is_right_at_every_alignment_and_writes_nothing_around() {
    right_at_every_alignment::<f32>();
    right_at_every_alignment::<f64>();
}

#[test]
fn what_is_not_finite_shows_in_its_row_and_nowhere_else() {
    let (m, k, n) = (9, 11, 37);
    let b = vec![1.0_f32; k * n];
    for (name, multiply) in variants::<f32>() {
        for (wrong, row) in [(f32::INFINITY, 0), (f32::NAN, 4), (f32::NEG_INFINITY, 8)] {
            let mut a = vec![1.0_f32; m * k];
            a[row * k + 5] = wrong;
            let mut c = vec![f32::NAN; m * n];
            multiply(View::of(m, k, &a), View::of(k, n, &b), &mut c);
            for (i, c) in c.iter().enumerate() {
                let expected = if i / n == row { wrong } else { k as f32 };
                let same = *c == expected || c.is_nan() && expected.is_nan();
                assert!(same, "{name}: {c} at {i}, not {expected}");
            }
        }
        let tiny = vec![f32::from_bits(1); m * k];
        let mut c = vec![0.0; m * n];
        multiply(View::of(m, k, &tiny), View::of(k, n, &b), &mut c);
        let denormal = f32::from_bits(k as u32);
        assert!(c.iter().all(|c| *c == denormal), "{name} loses denormals");
    }
}

#[test]
fn the_check_sees_one_wrong_element() {
    let op = Matmul::<f32>::default();
    let mut right = op.make(&[20, 30, 40], 1);
    let args = op.args(&mut right);
    naive::multiply(args.a, args.b, args.c);
    let agrees = |got: &Sample<f32>| op.agrees((&right, &()), (got, &()));
    assert!(agrees(&right));
    for wrong in [0.0, f32::NAN, right.c[799] + 1e-3] {
        let mut got = right.clone();
        got.c[799] = wrong;
        assert!(!agrees(&got), "{wrong}");
    }
    let untouched = op.make(&[20, 30, 40], 1);
    assert!(!agrees(&untouched), "nothing was written");
}

#[test]
fn shapes_that_do_not_fit_are_an_error_that_names_both() {
    let (a, b) = (Matrix::<f32>::zeros(2, 3), Matrix::zeros(4, 5));
    let error = matmul(&a, &b).unwrap_err().to_string();
    assert!(error.contains("2x3 and 4x5"), "{error}");
    let (b, mut c) = (Matrix::zeros(3, 5), [0.0; 9]);
    let error = Args::new(a.view(), b.view(), &mut c).unwrap_err();
    assert!(error.to_string().contains("2x5 and 9"), "{error}");
}

#[test]
fn a_check_of_a_huge_product_stays_small() {
    let op = Matmul::<f32>::default();
    let sample = op.sample(&op.shaped(&[8191, 4097, 6000]), 1);
    assert!(flops(&sample.shape) <= MOST_WORK, "{:?}", sample.shape);
    assert_eq!(op.make(&[300, 10, 10], 1).shape, [300, 10, 10]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_variant_agrees_on_any_shape(m in 0_usize..70, k in 0_usize..90, n in 0_usize..70, seed: u64) {
        right::<f32>([m, k, n], seed);
        right::<f64>([m, k, n], seed);
    }
}
