//! Whatever the shape, all variants agree with the reference within the bounds of the checks.

use pointsman::{Handle, Selector};
use pointsman_ops::catalogue::Shaped;
use pointsman_ops::{Float, Ops};
use proptest::prelude::*;

/// Runs every variant that is eligible on the sample of this shape.
fn agree<O: Shaped>(handle: &Handle<O>, shape: &[usize], seed: u64) {
    let op = O::default();
    let sample = || op.sample(&op.shaped(shape), seed);
    let run = |name: &str| {
        let mut sample = sample();
        let variant = handle.variant(name).unwrap();
        let output = variant.run(op.args(&mut sample)).ok()?;
        Some((sample, output))
    };
    let expected = run("scalar").expect("the reference serves everything");
    for name in handle.variants().collect::<Vec<_>>() {
        if let Some(got) = run(name) {
            let agrees = op.agrees((&expected.0, &expected.1), (&got.0, &got.1));
            assert!(agrees, "{name} of {} {shape:?}", op.name());
        }
    }
}

fn ops<T: Float>() -> Ops<T> {
    let selector = Selector::builder().in_memory().ignore_environment();
    Ops::new(&selector.build().unwrap()).unwrap()
}

fn element_wise<T: Float>(ops: &Ops<T>, n: usize, seed: u64) {
    agree(&ops.add, &[n], seed);
    agree(&ops.axpy, &[n], seed);
    agree(&ops.exp, &[n], seed);
    agree(&ops.relu, &[n], seed);
    agree(&ops.scale, &[n], seed);
}

fn reductions<T: Float>(ops: &Ops<T>, n: usize, seed: u64) {
    agree(&ops.dot, &[n], seed);
    agree(&ops.norm, &[n], seed);
    agree(&ops.sum, &[n], seed);
}

fn products<T: Float>(ops: &Ops<T>, shape: [usize; 2], seed: u64) {
    agree(&ops.matvec, &shape, seed);
    agree(&ops.spmv, &shape, seed);
}

/// Small lengths, and some that are shared out to threads.
fn length() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0..300_usize, 1 => 4_000..20_000_usize]
}

#[test]
fn element_wise_variants_agree_at_any_length() {
    let (single, double) = (ops::<f32>(), ops::<f64>());
    proptest!(ProptestConfig::with_cases(64), |(n in length(), seed: u64)| {
        element_wise(&single, n, seed);
        element_wise(&double, n, seed);
    });
}

#[test]
fn reductions_agree_at_any_length() {
    let (single, double) = (ops::<f32>(), ops::<f64>());
    proptest!(ProptestConfig::with_cases(64), |(n in length(), seed: u64)| {
        reductions(&single, n, seed);
        reductions(&double, n, seed);
    });
}

#[test]
fn products_with_matrices_agree_at_any_shape() {
    let (single, double) = (ops::<f32>(), ops::<f64>());
    let shape = (0..200_usize, 0..100_usize);
    proptest!(ProptestConfig::with_cases(64), |((rows, columns) in shape, seed: u64)| {
        products(&single, [rows, columns], seed);
        products(&double, [rows, columns], seed);
    });
}
