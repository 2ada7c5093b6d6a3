//! Convolutions and transforms.

use std::f64::consts::TAU;

use pointsman_gpu::kernels::{self, Sizes};

use crate::compare::*;

/// One position of one filter, as the definition has it: padding contributes nothing.
fn position(sizes: &Sizes, x: &[f32], filters: &[f32], at: [usize; 4]) -> (f64, f64) {
    let Sizes { c, h, w, r, s, .. } = *sizes;
    let [image, filter, row, column] = at;
    let taps = (0..c * r * s).filter_map(|tap| {
        let (channel, i, j) = (tap / (r * s), tap / s % r, tap % s);
        let down = (row * sizes.stride + i).checked_sub(sizes.padding);
        let right = (column * sizes.stride + j).checked_sub(sizes.padding);
        let (down, right) = (down.filter(|d| *d < h)?, right.filter(|r| *r < w)?);
        let x = x[((image * c + channel) * h + down) * w + right];
        Some(wide(x) * wide(filters[filter * c * r * s + tap]))
    });
    sum(taps, c * r * s)
}

fn convolved(sizes: &Sizes, x: &[f32], filters: &[f32], outputs: usize) -> Vec<f32> {
    made(&[x, filters], &nothing(outputs), |job, held, y| {
        kernels::conv2d(job, &held[0], &held[1], y, sizes)
    })
}

fn positions(sizes: &Sizes) -> [usize; 2] {
    [(sizes.h, sizes.r), (sizes.w, sizes.s)].map(|(image, filter)| {
        let free = (image + 2 * sizes.padding).checked_sub(filter);
        free.map_or(0, |free| free / sizes.stride + 1)
    })
}

#[test]
fn convolutions_are_right_at_every_shape() {
    let Some(_) = gpu() else { return };
    // n, c, h, w, k, r, s, stride, padding
    for [n, c, h, w, k, r, s, stride, padding] in [
        [1, 1, 1, 1, 1, 1, 1, 1, 0],
        [0, 2, 3, 3, 2, 2, 2, 1, 0],
        [1, 0, 3, 3, 2, 2, 2, 1, 0],
        [1, 2, 3, 3, 0, 2, 2, 1, 0],
        [1, 2, 3, 3, 2, 0, 2, 1, 0],
        [1, 2, 0, 3, 2, 2, 2, 1, 1],
        [1, 1, 2, 2, 1, 3, 3, 1, 0],
        [1, 1, 2, 3, 1, 2, 2, 1, 0],
        [2, 3, 9, 7, 5, 3, 3, 1, 1],
        [1, 3, 8, 8, 4, 3, 3, 2, 1],
        [3, 2, 11, 6, 3, 2, 5, 3, 2],
        [1, 1, 5, 5, 2, 1, 1, 1, 4],
        [1, 2, 4, 4, 6, 3, 2, 9, 0],
        [1, 4, 16, 16, 8, 3, 3, 1, 1],
        [1, 2, 17, 16, 9, 3, 3, 1, 1],
        [2, 1, 40, 33, 7, 5, 5, 2, 2],
    ] {
        let sizes = Sizes {
            n,
            c,
            h,
            w,
            k,
            r,
            s,
            stride,
            padding,
        };
        let [rows, columns] = positions(&sizes);
        for seed in SEEDS {
            let (x, filters) = (
                floats(n * c * h * w, seed),
                floats(k * c * r * s, seed + 10),
            );
            let y = convolved(&sizes, &x, &filters, n * k * rows * columns);
            for (at, y) in y.iter().enumerate() {
                let (image, row, column) =
                    (at / (rows * columns), at / columns % rows, at % columns);
                let place = [image / k, image % k, row, column];
                let exact = position(&sizes, &x, &filters, place);
                near(&format!("{place:?} of {sizes:?}"), *y, exact);
            }
        }
    }
}

#[test]
fn what_is_not_finite_reaches_only_the_positions_over_it() {
    let Some(_) = gpu() else { return };
    let [n, c, k, stride] = [1; 4];
    let (h, w, r, s, padding) = (6, 6, 3, 3, 1);
    let sizes = Sizes {
        n,
        c,
        h,
        w,
        k,
        r,
        s,
        stride,
        padding,
    };
    let (mut x, mut filters) = (vec![1.0f32; 36], vec![1.0f32; 9]);
    x[2 * 6 + 3] = f32::NAN;
    for (at, y) in convolved(&sizes, &x, &filters, 36).iter().enumerate() {
        let over = (1..=3).contains(&(at / 6)) && (2..=4).contains(&(at % 6));
        assert_eq!(y.is_nan(), over, "{at}: {y}");
    }
    x.fill(1.0);
    filters[0] = f32::INFINITY; // which meets nothing where its place is in the padding
    for (at, y) in convolved(&sizes, &x, &filters, 36).iter().enumerate() {
        let inside = at / 6 > 0 && at % 6 > 0;
        assert_eq!(*y == f32::INFINITY, inside, "{at}: {y}");
        assert!(!y.is_nan(), "{at}");
    }
}

fn transformed(x: &[f32], shape: [usize; 2], inverse: bool) -> Vec<f32> {
    let roots = kernels::roots(shape[1]);
    made(&[x, &roots], &nothing(x.len()), |job, held, y| {
        kernels::fft(job, &held[0], &held[1], y, shape, inverse)
    })
}

/// How far a transform may be from exact, relative to it in the Euclidean norm: each of lg n levels
/// adds η = μ + γ₄ (√2 + μ), where μ = u is the error of a root (Higham, §24.1). Levels joined by
/// fours round no more often than by twos.
fn transform_bound(n: usize) -> f64 {
    let u = f64::from(f32::EPSILON) / 2.0;
    let eta = u + gamma(4) * (std::f64::consts::SQRT_2 + u);
    let all = f64::from(n.trailing_zeros()) * eta;
    all / (1.0 - all)
}

#[test]
fn transforms_are_right_both_ways() {
    let Some(_) = gpu() else { return };
    let lengths = [1, 2, 4, 8, 16, 32, 64, 128, 256, 1024];
    for n in lengths {
        let roots: Vec<(f64, f64)> = (0..n)
            .map(|k| (TAU * k as f64 / n as f64).sin_cos())
            .collect();
        for (rows, inverse) in [(1, false), (3, true), (3, false)] {
            let x = floats(2 * rows * n, 7 + n as u64);
            let y = transformed(&x, [rows, n], inverse);
            for row in 0..rows {
                let (x, y) = (&x[2 * row * n..][..2 * n], &y[2 * row * n..][..2 * n]);
                let (mut off, mut norm) = (0.0, 0.0);
                for k in 0..n {
                    let (mut re, mut im) = (0.0, 0.0);
                    for j in 0..n {
                        let (sin, cos) = roots[j * k % n];
                        let sin = if inverse { sin } else { -sin };
                        let (a, b) = (wide(x[2 * j]), wide(x[2 * j + 1]));
                        re += a * cos - b * sin;
                        im += a * sin + b * cos;
                    }
                    off += (wide(y[2 * k]) - re).powi(2) + (wide(y[2 * k + 1]) - im).powi(2);
                    norm += re * re + im * im;
                }
                let (off, bound) = (off.sqrt(), transform_bound(n) * norm.sqrt());
                assert!(off <= bound, "row {row} of {rows}x{n}: {off} > {bound}");
            }
        }
    }
    assert!(transformed(&[], [0, 8], false).is_empty());
    assert!(transformed(&[], [3, 0], false).is_empty());
}

#[test]
fn a_long_transform_finds_a_tone_and_comes_back() {
    let Some(_) = gpu() else { return };
    for n in [1 << 15, 1 << 16] {
        let tone = 12_345;
        let x: Vec<f32> = (0..n)
            .flat_map(|j| {
                let (sin, cos) = (TAU * (tone * j % n) as f64 / n as f64).sin_cos();
                [cos as f32, sin as f32]
            })
            .collect();
        let y = transformed(&x, [1, n], false);
        let back = transformed(&y, [1, n], true);
        // The tone itself is rounded, too: by u in the Euclidean norm, of which both have n.
        let bound = transform_bound(n) + f64::from(f32::EPSILON);
        let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|v| v * v).sum::<f64>().sqrt();
        let off = norm(
            &mut y
                .iter()
                .enumerate()
                .map(|(at, y)| wide(*y) - if at == 2 * tone { n as f64 } else { 0.0 }),
        );
        assert!(off <= bound * n as f64, "{n}: {off}");
        let pairs = &mut x.iter().zip(&back);
        let off = norm(&mut pairs.map(|(x, z)| wide(*x) - wide(*z) / n as f64));
        assert!(off <= 2.1 * bound * (n as f64).sqrt(), "{n}: {off}");
    }
}

#[test]
fn causal_sums_are_right_at_every_length() {
    let Some(_) = gpu() else { return };
    for n in LENGTHS.into_iter().filter(|n| *n < 4096) {
        for seed in SEEDS {
            let (w, x) = (floats(n, seed), floats(n, seed + 10));
            let y = made(&[&w, &x], &nothing(n), |job, held, y| {
                kernels::causal(job, &held[0], &held[1], y, n)
            });
            for (i, y) in y.iter().enumerate() {
                let terms = (0..=i).map(|j| wide(w[j]) * wide(x[i - j]));
                near(&format!("{i} of {n}"), *y, sum(terms, i + 1));
            }
        }
    }
}

#[test]
fn what_is_not_finite_does_not_reach_back() {
    let Some(_) = gpu() else { return };
    for at in [0, 1, 62, 63, 100, 199] {
        for bad in [f32::NAN, f32::INFINITY] {
            let (mut one, other) = (vec![1.0f32; 200], vec![0.0f32; 200]);
            one[at] = bad;
            for [w, x] in [[&one, &other], [&other, &one]] {
                let y = made(&[w, x], &nothing(200), |job, held, y| {
                    kernels::causal(job, &held[0], &held[1], y, 200)
                });
                for (i, y) in y.iter().enumerate() {
                    assert_eq!(y.is_nan(), i >= at, "{bad} at {at}: {i} is {y}");
                }
            }
        }
    }
}
