//! Every variant against sums in `f64`.

use pointsman::{Checks, Machine};
use proptest::prelude::*;

use super::*;
#[cfg(not(target_arch = "aarch64"))]
use crate::lanes::without_fma;
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
        #[cfg(not(target_arch = "aarch64"))]
        all.push(("sliding without FMA", |shape, x, filters, y| {
            without_fma(|| sliding::convolve(shape, x, filters, y))
        }));
    }
    if shape.is_three_by_three() {
        all.push(("winograd", winograd::convolve));
        #[cfg(not(target_arch = "aarch64"))]
        all.push(("winograd without FMA", |shape, x, filters, y| {
            without_fma(|| winograd::convolve(shape, x, filters, y))
        }));
    }
    if shape.suits_spectra() {
        all.push(("fft", fft::convolve));
        #[cfg(not(target_arch = "aarch64"))]
        all.push(("fft without FMA", |shape, x, filters, y| {
            without_fma(|| fft::convolve(shape, x, filters, y))
        }));
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
fn every_variant_is_right_for_large_filters() {
    for features in [
        [2, 3, 40, 70, 5, 11, 11, 1, 5], // several tiles, odd pairs of filters
        [1, 2, 31, 9, 3, 31, 9, 1, 0],   // one position
        [1, 1, 20, 20, 1, 31, 31, 1, 15],
        [3, 1, 100, 12, 2, 17, 3, 1, 1],
        [1, 4, 17, 150, 2, 1, 55, 1, 27],
        [1, 2, 5, 5, 2, 7, 7, 1, 30],   // tiles of nothing but padding
        [4, 1, 60, 60, 40, 7, 7, 1, 3], // more tiles than are held at a time
        [2, 9, 20, 33, 7, 7, 7, 1, 3],
    ] {
        right::<f32>(features, 7);
        right::<f64>(features, 7);
    }
}

/// Every variant with one wrong element of an image or a filter: what depends on it shows that, and
/// what lies further than `spread` from it does not.
fn shows(features: [usize; 9], bad: f32) {
    let shape = Shape::from_features(features);
    let [_, k, rows, columns] = shape.output();
    let (r, s, padding) = (shape.r, shape.s, shape.padding);
    let at = (shape.h / 2, shape.w / 2);
    for (name, convolve) in variants::<f32>(&shape) {
        let spread = usize::from(name.starts_with("winograd"));
        let mut sample = Sample::<f32>::new(shape, 1);
        sample.x[at.0 * shape.w + at.1] = bad; // in channel 0
        let mut y = sample.y.clone();
        convolve(&shape, &sample.x, &sample.filters, &mut y);
        for (i, y) in y.iter().enumerate() {
            let (row, column) = (
                i / columns % rows * shape.stride,
                i % columns * shape.stride,
            );
            let near = |position: usize, at: usize, filter: usize, by: usize| {
                let at = at + padding;
                position <= at + by && at < position + filter + by
            };
            if near(row, at.0, r, 0) && near(column, at.1, s, 0) {
                assert!(!y.is_finite(), "{name} of {features:?} hides {bad} at {i}");
                assert!(!bad.is_nan() || y.is_nan(), "{name}: {y} at {i}");
            }
            if !(near(row, at.0, r, spread) && near(column, at.1, s, spread)) {
                assert!(y.is_finite(), "{name} of {features:?} spreads {bad} to {i}");
            }
        }
        let mut sample = Sample::<f32>::new(shape, 1);
        sample.filters[(k - 1) * shape.depth() + 1] = bad;
        let mut y = sample.y.clone();
        convolve(&shape, &sample.x, &sample.filters, &mut y);
        let (good, spoilt) = y.split_at((k - 1) * shape.plane());
        let others = good.iter().all(|y| y.is_finite());
        assert!(
            others,
            "{name} of {features:?} spreads {bad} to other filters"
        );
        let middle = spoilt[rows / 2 * columns + columns / 2];
        assert!(!middle.is_finite(), "{name} of {features:?} hides {bad}");
    }
}

#[test]
fn what_is_not_finite_shows_where_it_belongs() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        shows([1, 2, 9, 9, 3, 3, 3, 1, 1], bad);
        shows([1, 2, 40, 25, 3, 7, 9, 1, 2], bad);
        shows([1, 1, 12, 13, 2, 4, 4, 2, 0], bad);
    }
}

#[test]
fn no_variant_overflows_where_the_result_does_not() {
    let shape = Shape::from_features([1, 2, 30, 30, 2, 9, 9, 1, 4]);
    for (name, convolve) in variants::<f32>(&shape) {
        let mut sample = Sample::<f32>::new(shape, 1);
        sample.x.fill(1e36);
        sample.filters.fill(0.5);
        let mut y = sample.y.clone();
        convolve(&shape, &sample.x, &sample.filters, &mut y);
        let middle = y[15 * 30 + 15];
        assert!((middle / 8.1e37 - 1.0).abs() < 1e-4, "{name}: {middle}");
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
fn winograd_and_fft_serve_the_filters_that_they_are_made_for_and_nothing_else() {
    let selector = Selector::builder()
        .in_memory()
        .ignore_environment()
        .checks(Checks::Inline)
        .machine(Machine::detect())
        .build()
        .unwrap();
    let conv2d = declare::<f32>(&selector).unwrap();
    let op = Conv2d::<f32>::default();
    for (features, winograd, fft) in [
        ([1, 2, 8, 8, 2, 3, 3, 1, 1], true, false),
        ([1, 2, 8, 8, 2, 3, 3, 2, 1], false, false),
        ([1, 2, 8, 8, 2, 3, 2, 1, 1], false, false),
        ([1, 2, 8, 8, 2, 6, 8, 1, 1], false, false),
        ([1, 2, 8, 8, 2, 7, 7, 1, 1], false, true),
        ([1, 2, 8, 8, 2, 7, 7, 2, 1], false, false),
        ([1, 2, 8, 8, 2, 9, 9, 1, 0], false, false), // nowhere to put them
    ] {
        for (name, served) in [("winograd", winograd), ("fft", fft)] {
            let mut sample = Sample::new(Shape::from_features(features), 1);
            let variant = conv2d.variant(name).unwrap();
            let ran = variant.run(op.args(&mut sample)).is_ok();
            assert_eq!(ran, served, "{name} of {features:?}");
        }
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
    let three = Shape::from_features([2, 64, 56, 56, 64, 3, 3, 1, 1]);
    let eleven = Shape {
        r: 11,
        s: 11,
        ..three
    };
    let beside = |shape: &Shape, scratch: fn(&Shape) -> usize| {
        let workload = workload::<f32>(shape);
        need::<f32>(&workload, scratch) - workload.byte_count() as u64
    };
    let row = 4 * 576 * 56; // one row of results
    assert!(beside(&three, im2col::scratch) >= row);
    let filters = 4 * 16 * 64 * 64; // transformed to tiles of 4×4
    assert!(beside(&three, winograd::scratch) >= filters);
    let spectra = 4 * 16 * 16 * 64 * 64; // of tiles of at least 16×16
    assert!(beside(&eleven, fft::scratch) >= spectra);
    assert_eq!(beside(&three, fft::scratch), 0, "it does not serve these");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_variant_agrees_on_any_shape(
        n in 0_usize..3, c in 0_usize..5, h in 0_usize..20, w in 0_usize..20, k in 0_usize..6,
        (r, s) in prop_oneof![Just((3, 3)), (0_usize..6, 0_usize..6), (4_usize..20, 4_usize..20)],
        stride in 1_usize..3, padding in 0_usize..4, seed: u64,
    ) {
        right::<f32>([n, c, h, w, k, r, s, stride, padding], seed);
        right::<f64>([n, c, h, w, k, r, s, stride, padding], seed);
    }
}
