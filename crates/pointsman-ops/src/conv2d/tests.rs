//! Every variant against sums in `f64`.

use pointsman::{Checks, Machine};
use proptest::prelude::*;

use super::*;
use crate::sample::MOST_WORK;

type Body<T> = fn(&Shape, &[T], &[T], &mut [T]);

fn variants<T: Float>(shape: &Shape) -> Vec<(&'static str, Body<T>)> {
    let mut all: Vec<(_, Body<T>)> = vec![
        ("direct", direct::convolve),
        ("im2col", im2col::convolve),
        ("threads", threads::convolve),
    ];
    if shape.stride == 1 {
        all.push(("sliding", sliding::convolve));
    }
    if shape.is_three_by_three() {
        all.push(("winograd", winograd::convolve));
    }
    all
}

/// From the image's side: each of its elements goes to every result that it belongs to.
fn exact<T: Float>(sample: &Sample<T>) -> Vec<f64> {
    let Shape {
        n,
        c,
        h,
        w,
        k,
        r,
        s,
        stride,
        padding,
    } = sample.shape;
    let [_, _, rows, columns] = sample.shape.output();
    let mut y = vec![0.0; sample.y.len()];
    for at in 0..n * c * h * w {
        let (image, channel) = (at / (c * h * w), at / (h * w) % c);
        let (down, right) = (at / w % h + padding, at % w + padding);
        for filter in 0..k {
            for (i, j) in (0..r).flat_map(|i| (0..s).map(move |j| (i, j))) {
                if down < i || right < j || (down - i) % stride + (right - j) % stride > 0 {
                    continue;
                }
                let (row, column) = ((down - i) / stride, (right - j) / stride);
                if row < rows && column < columns {
                    let g = sample.filters[((filter * c + channel) * r + i) * s + j];
                    y[((image * k + filter) * rows + row) * columns + column] +=
                        sample.x[at].wide() * g.wide();
                }
            }
        }
    }
    y
}

fn right<T: Float>(features: [usize; 9], seed: u64) {
    let sample = Sample::<T>::new(Shape::from_features(features), seed);
    let (exact, bounds) = (exact(&sample), sample.bounds());
    for (name, convolve) in variants::<T>(&sample.shape) {
        let mut y = sample.y.clone();
        convolve(&sample.shape, &sample.x, &sample.filters, &mut y);
        for (i, (y, exact)) in y.iter().zip(&exact).enumerate() {
            // Twice: the exact one is an f64 sum itself.
            let bound = 2.0 * bounds[i / sample.shape.plane() % bounds.len()];
            let off = (y.wide() - exact).abs();
            assert!(
                off <= bound,
                "{name} of {features:?} at {i}: {off} > {bound}"
            );
        }
    }
}

#[test]
fn every_variant_is_right_for_small_shapes_in_all_combinations() {
    for (h, w) in [7, 4, 3, 2, 1, 0]
        .into_iter()
        .flat_map(|h| [1, 5, 8].map(|w| (h, w)))
    {
        for (r, s) in [(0, 1), (1, 1), (2, 3), (3, 3), (5, 2)] {
            for (stride, padding) in [(1, 0), (1, 1), (1, 4), (2, 0), (2, 1), (3, 2)] {
                for (n, c, k) in [(0, 1, 1), (1, 0, 2), (1, 1, 0), (1, 1, 1), (3, 2, 5)] {
                    right::<f32>([n, c, h, w, k, r, s, stride, padding], 3);
                }
            }
        }
    }
}

#[test]
fn every_variant_is_right_beyond_its_blocks_and_on_threads() {
    for features in [
        [1, 40, 60, 50, 9, 3, 3, 1, 1],
        [3, 8, 33, 35, 17, 3, 3, 1, 0],
        [2, 16, 40, 41, 6, 5, 7, 2, 3],
        [1, 20, 31, 29, 33, 1, 1, 1, 0],
    ] {
        right::<f32>(features, 5);
        right::<f64>(features, 5);
    }
}

#[test]
fn what_is_not_finite_shows_where_it_belongs() {
    let shape = Shape::from_features([1, 2, 9, 9, 3, 3, 3, 1, 1]);
    let mut sample = Sample::<f32>::new(shape, 1);
    sample.x[40] = f32::NAN; // row and column 4 of channel 0
    for (name, convolve) in variants::<f32>(&shape) {
        let mut y = sample.y.clone();
        convolve(&shape, &sample.x, &sample.filters, &mut y);
        for (i, y) in y.iter().enumerate() {
            let (row, column) = (i / 9 % 9, i % 9);
            let near = |at: usize, by: usize| at.abs_diff(4) <= by;
            if near(row, 1) && near(column, 1) {
                assert!(y.is_nan(), "{name} hides it at {i}");
            }
            let spread = if name == "winograd" { 2 } else { 1 };
            if !(near(row, spread) && near(column, spread)) {
                assert!(y.is_finite(), "{name} spreads it to {i}");
            }
        }
    }
}

#[test]
fn the_check_sees_one_wrong_element() {
    let op = Conv2d::<f32>::default();
    let mut right = op.make(&[1, 4, 10, 12, 5, 3], 1);
    let args = op.args(&mut right);
    direct::convolve(&args.shape, args.x, args.filters, args.y);
    let agrees = |got: &Sample<f32>| op.agrees((&right, &()), (got, &()));
    assert!(agrees(&right));
    for wrong in [0.0, f32::NAN, right.y[599] + 0.01] {
        let mut got = right.clone();
        got.y[599] = wrong;
        assert!(!agrees(&got), "{wrong}");
    }
}

#[test]
fn sizes_that_do_not_fit_are_an_error_that_names_both() {
    let shape = Shape::from_features([1, 2, 4, 4, 3, 3, 3, 1, 0]);
    let message = |shape, x, filters| {
        let (x, filters) = (vec![0.0_f32; x], vec![0.0; filters]);
        conv2d(&shape, &x, &filters).unwrap_err().to_string()
    };
    assert!(message(shape, 31, 54).contains("1x2x4x4 and 31"));
    assert!(message(shape, 32, 53).contains("3x2x3x3 and 53"));
    let wrong = Args::new(shape, &[0.0_f32; 32], &[0.0; 54], &mut [0.0; 11]).unwrap_err();
    assert!(wrong.to_string().contains("1x3x2x2 and 11"), "{wrong}");
    assert!(message(Shape { stride: 0, ..shape }, 32, 54).contains("stride"));
    let padding = usize::MAX / 4;
    assert!(message(Shape { padding, ..shape }, 32, 54).contains("do not fit"));
}

#[test]
fn winograd_serves_filters_of_three_by_three_that_move_by_one_and_nothing_else() {
    let selector = Selector::builder()
        .in_memory()
        .ignore_environment()
        .checks(Checks::Inline)
        .machine(Machine::detect())
        .build()
        .unwrap();
    let conv2d = declare::<f32>(&selector).unwrap();
    let winograd = conv2d.variant("winograd").unwrap();
    let op = Conv2d::<f32>::default();
    for (features, served) in [
        ([1, 2, 8, 8, 2, 3, 3, 1, 1], true),
        ([1, 2, 8, 8, 2, 3, 3, 2, 1], false),
        ([1, 2, 8, 8, 2, 3, 2, 1, 1], false),
        ([1, 2, 8, 8, 2, 5, 5, 1, 1], false),
    ] {
        let mut sample = Sample::new(Shape::from_features(features), 1);
        assert_eq!(
            winograd.run(op.args(&mut sample)).is_ok(),
            served,
            "{features:?}"
        );
    }
}

#[test]
fn a_check_of_a_huge_convolution_stays_small_and_compares_something() {
    let op = Conv2d::<f32>::default();
    for features in [
        [64, 128, 56, 56, 256, 3, 3, 1, 1],
        [8, 3, 1000, 1000, 64, 7, 7, 2, 3],
        [1, 1, 2, 2, 1, 5, 5, 1, 0],
    ] {
        let sample = op.sample(&workload::<f32>(&Shape::from_features(features)), 1);
        assert!(sample.shape.flops() <= MOST_WORK, "{:?}", sample.shape);
        assert!(!sample.y.is_empty(), "{:?}", sample.shape);
    }
}

#[test]
fn memory_that_a_variant_declares_covers_its_scratch() {
    let shape = Shape::from_features([2, 64, 56, 56, 64, 3, 3, 1, 1]);
    let bytes = workload::<f32>(&shape).byte_count() as u64;
    let need = |scratch: fn(&Shape) -> usize| need::<f32>(&workload::<f32>(&shape), scratch);
    assert!(
        need(im2col::scratch) >= bytes + 4 * 576 * 56,
        "at least one row of results"
    );
    assert!(
        need(winograd::scratch) >= bytes + 4 * 16 * 64 * 64,
        "at least the filters"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_variant_agrees_on_any_shape(
        n in 0_usize..3, c in 0_usize..5, h in 0_usize..20, w in 0_usize..20, k in 0_usize..6,
        (r, s) in prop_oneof![Just((3, 3)), (0_usize..6, 0_usize..6)],
        stride in 1_usize..3, padding in 0_usize..4, seed: u64,
    ) {
        right::<f32>([n, c, h, w, k, r, s, stride, padding], seed);
        right::<f64>([n, c, h, w, k, r, s, stride, padding], seed);
    }
}
