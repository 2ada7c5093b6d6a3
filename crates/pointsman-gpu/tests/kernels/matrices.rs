//! Products of matrices.

use pointsman_gpu::kernels::{self, Product};

use crate::compare::*;

/// m, k, n: nothing, one, odd ones, around quads, blocks and tiles.
const SHAPES: [[usize; 3]; 22] = [
    [0, 3, 4],
    [3, 0, 5],
    [4, 3, 0],
    [1, 1, 1],
    [1, 9, 1],
    [5, 3, 2],
    [3, 4, 4],
    [8, 8, 8],
    [15, 16, 17],
    [16, 16, 16],
    [17, 15, 33],
    [31, 33, 32],
    [63, 64, 65],
    [64, 63, 64],
    [65, 65, 63],
    [64, 64, 64],
    [128, 5, 3],
    [3, 5, 260],
    [2, 300, 2],
    [100, 1, 100],
    [129, 130, 131],
    [257, 20, 255],
];

/// Row i of X times column j of W, beginning with a bias.
fn product(x: &[f32], w: &[f32], b: f32, [k, n]: [usize; 2], [i, j]: [usize; 2]) -> (f64, f64) {
    let terms = (0..k).map(|p| wide(x[i * k + p]) * wide(w[p * n + j]));
    sum(terms.chain([wide(b)]), k + 1)
}

#[test]
fn products_of_matrices_are_right_at_every_shape() {
    let Some(_) = gpu() else { return };
    for [m, k, n] in SHAPES {
        for seed in SEEDS {
            let (a, b) = (floats(m * k, seed), floats(k * n, seed + 10));
            for how in [Product::Registers, Product::Tiles] {
                let c = made(&[&a, &b], &nothing(m * n), |job, held, c| {
                    kernels::matmul(job, how, &held[0], &held[1], c, [m, k, n])
                });
                for (at, c) in c.iter().enumerate() {
                    let exact = product(&a, &b, 0.0, [k, n], [at / n, at % n]);
                    near(&format!("{how:?}, {at} of {m}x{k}x{n}"), *c, exact);
                }
            }
        }
    }
}

#[test]
fn what_is_not_finite_stays_in_its_row_and_column() {
    let Some(_) = gpu() else { return };
    for [m, k, n] in [[5, 7, 6], [70, 66, 68]] {
        let (mut a, mut b) = (vec![1.0f32; m * k], vec![1.0f32; k * n]);
        a[2 * k + k - 1] = f32::INFINITY;
        b[4] = f32::NAN;
        for how in [Product::Registers, Product::Tiles] {
            let c = made(&[&a, &b], &nothing(m * n), |job, held, c| {
                kernels::matmul(job, how, &held[0], &held[1], c, [m, k, n])
            });
            for (at, c) in c.iter().enumerate() {
                let right = match (at / n, at % n) {
                    (_, 4) => c.is_nan(),
                    (2, _) => *c == f32::INFINITY,
                    _ => *c == k as f32,
                };
                assert!(right, "{how:?}, {at} of {m}x{k}x{n}: {c}");
            }
        }
    }
}

#[test]
fn matrices_may_have_more_rows_than_a_grid_has() {
    let Some(gpu) = gpu() else { return };
    let m = gpu.info().max_groups as usize * 16 + 1; // by 16 rows: tiles would take half a minute
    if (4 * m) as u64 > gpu.info().max_binding_bytes {
        return;
    }
    let a: Vec<f32> = (0..m).map(|i| (i % 1001) as f32).collect();
    let c = made(&[&a, &[3.0]], &nothing(m), |job, held, c| {
        kernels::matmul(job, Product::Registers, &held[0], &held[1], c, [m, 1, 1])
    });
    let wrong = (0..m).find(|i| c[*i] != 3.0 * a[*i]);
    assert_eq!(wrong, None);
}

#[test]
fn products_with_vectors_are_right_at_every_shape() {
    let Some(_) = gpu() else { return };
    for [m, k, _] in SHAPES
        .into_iter()
        .chain([[3, 1000, 0], [1000, 4, 0], [2, 4099, 0]])
    {
        for seed in SEEDS {
            let (a, x) = (floats(m * k, seed), floats(k, seed + 10));
            let y = made(&[&a, &x], &nothing(m), |job, held, y| {
                kernels::matvec(job, &held[0], &held[1], y, [m, k])
            });
            for (i, y) in y.iter().enumerate() {
                near(
                    &format!("{i} of {m}x{k}"),
                    *y,
                    product(&a, &x, 0.0, [k, 1], [i, 0]),
                );
            }
        }
    }
}

#[test]
fn layers_are_right_at_every_shape() {
    let Some(_) = gpu() else { return };
    for [m, k, n] in SHAPES {
        let (x, w) = (floats(m * k, 1), floats(k * n, 2));
        let mut b = floats(n, 3);
        if let Some(last) = b.last_mut() {
            *last = f32::NAN;
        }
        for (how, relu) in [(Product::Registers, true), (Product::Tiles, false)] {
            let y = made(&[&x, &w, &b], &nothing(m * n), |job, held, y| {
                let [x, w, b] = [&held[0], &held[1], &held[2]];
                kernels::dense(job, how, x, w, b, y, [m, k, n], relu)
            });
            for (at, y) in y.iter().enumerate() {
                let (i, j) = (at / n, at % n);
                if j == n - 1 {
                    assert!(y.is_nan(), "NaN stays, with relu = {relu}");
                    continue;
                }
                // To cut off moves no two numbers further apart.
                let (exact, bound) = product(&x, &w, b[j], [k, n], [i, j]);
                let exact = if relu { exact.max(0.0) } else { exact };
                near(&format!("{at} of {m}x{k}x{n}"), *y, (exact, bound));
            }
        }
    }
}
