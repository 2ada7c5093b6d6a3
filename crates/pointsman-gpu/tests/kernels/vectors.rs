//! Element by element, and sums.

use pointsman_gpu::kernels;

use crate::compare::*;

#[test]
fn elements_are_added_scaled_and_cut_off() {
    let Some(_) = gpu() else { return };
    for n in LENGTHS {
        for seed in SEEDS {
            let (x, y, a) = (floats(n, seed), floats(n, seed + 10), 1.7);
            let z = made(&[&x, &y], &nothing(n), |job, held, z| {
                kernels::add(job, &held[0], &held[1], z, n)
            });
            let scaled = made(&[], &x, |job, _, x| kernels::scale(job, a, x, n));
            let joined = made(&[&x], &y, |job, held, y| {
                kernels::axpy(job, a, &held[0], y, n)
            });
            let cut = made(&[&x], &nothing(n), |job, held, y| {
                kernels::relu(job, &held[0], y, n)
            });
            for i in 0..n {
                let at = format!("{i} of {n}");
                let (x, y, a) = (wide(x[i]), wide(y[i]), wide(a));
                // One rounding of the exact result, but two of a x + y.
                near(&at, z[i], sum([x + y].into_iter(), 1));
                near(&at, scaled[i], sum([a * x].into_iter(), 1));
                near(&at, joined[i], sum([a * x, y].into_iter(), 2));
                assert_eq!(wide(cut[i]), x.max(0.0), "{at}");
            }
        }
    }
}

#[test]
fn relu_keeps_nan_and_every_positive_number() {
    let Some(_) = gpu() else { return };
    let least = f32::from_bits(1);
    let edge = f32::MIN_POSITIVE;
    let positive = [0.0, least, edge - least, edge, 1.0, f32::MAX, f32::INFINITY];
    let x: Vec<f32> = positive.iter().flat_map(|x| [*x, -*x]).collect();
    let x = [&x[..], &[f32::NAN, -f32::NAN]].concat();
    let y = made(&[&x], &nothing(x.len()), |job, held, y| {
        kernels::relu(job, &held[0], y, x.len())
    });
    for (x, y) in x.iter().zip(y) {
        let right = if *x < 0.0 { y == 0.0 } else { y == *x };
        assert!(right || (x.is_nan() && y.is_nan()), "{x:e} gave {y:e}");
    }
}

#[test]
fn what_is_not_finite_stays_so() {
    let Some(_) = gpu() else { return };
    let inf = f32::INFINITY;
    let (x, y) = ([inf, -inf, inf, f32::NAN, 1.0], [1.0, 1.0, -inf, 1.0, inf]);
    let z = made(&[&x, &y], &nothing(5), |job, held, z| {
        kernels::add(job, &held[0], &held[1], z, 5)
    });
    assert_eq!((z[0], z[1], z[4]), (inf, -inf, inf));
    assert!(z[2].is_nan() && z[3].is_nan(), "{z:?}");
    let total = |x: &[f32]| {
        made(&[x], &nothing(1), |job, held, out| {
            kernels::sum(job, &held[0], out, x.len())
        })[0]
    };
    assert_eq!((total(&[1.0, inf]), total(&[-inf, 1.0])), (inf, -inf));
    assert!(total(&[inf, -inf]).is_nan() && total(&[f32::NAN]).is_nan());
}

#[test]
fn grids_beyond_one_dimension_reach_every_element_once() {
    let Some(gpu) = gpu() else { return };
    let n = gpu.info().max_groups as usize * 256 + 1001;
    if (4 * n) as u64 > gpu.info().max_binding_bytes {
        return; // one dimension reaches as far as buffers do
    }
    let mut x: Vec<f32> = (0..n).map(|i| (i % 1000) as f32).collect();
    let mut total = [0.0f32];
    gpu.run(|job| {
        let (y, out) = (job.upload(&x)?, job.room::<f32>(1)?);
        let ones = job.upload(&vec![1.0f32; n])?;
        kernels::axpy(job, 2.0, &ones, &y, n)?;
        kernels::sum(job, &ones, &out, n)?;
        job.download(&out, &mut total)?;
        job.download(&y, &mut x)
    })
    .unwrap();
    let wrong = (0..n).find(|i| x[*i] != (i % 1000) as f32 + 2.0);
    assert_eq!(wrong, None);
    near("a sum of ones", total[0], sum((0..n).map(|_| 1.0), 40));
}

#[test]
fn sums_and_dot_products_are_right_at_every_length() {
    let Some(_) = gpu() else { return };
    for n in LENGTHS.into_iter().chain([4096, 8193, 262_144, 1_000_003]) {
        for seed in SEEDS {
            let (x, y) = (floats(n, seed), floats(n, seed + 10));
            let total = made(&[&x], &nothing(1), |job, held, out| {
                kernels::sum(job, &held[0], out, n)
            });
            let dot = made(&[&x, &y], &nothing(1), |job, held, out| {
                kernels::dot(job, &held[0], &held[1], out, n)
            });
            // A workgroup adds 16 quads, 4 elements and 6 levels; there are at most two passes.
            let depth = 1 + 2 * (16 + 2 + 6);
            let exact = sum(x.iter().map(|x| wide(*x)), depth);
            near(&format!("sum of {n}"), total[0], exact);
            let terms = x.iter().zip(&y).map(|(x, y)| wide(*x) * wide(*y));
            near(&format!("dot of {n}"), dot[0], sum(terms, depth + 1));
        }
    }
}
