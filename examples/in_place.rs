//! An op that writes into its arguments, must not be run twice on them, and is checked against
//! its reference before a variant may serve.
//!
//! `cargo run --release -p pointsman --example in_place`
#![allow(clippy::print_stdout)]

use pointsman::{Backend, Checks, Op, Selector, Verify, Workload};

/// `y += a * x`
struct Axpy;

impl Op for Axpy {
    type Args<'a> = (f64, &'a [f64], &'a mut [f64]);
    type Output = ();

    fn name(&self) -> &str {
        "example_axpy_f64"
    }

    fn workload(&self, (_, x, _): &Self::Args<'_>) -> Workload {
        Workload::new([x.len()])
            .flops(2 * x.len())
            .bytes(24 * x.len())
    }

    /// A second run would add `a * x` once more.
    fn may_run_again(&self) -> bool {
        false
    }
}

impl Verify for Axpy {
    type Sample = (f64, Vec<f64>, Vec<f64>);

    fn sample(&self, workload: &Workload, seed: u64) -> Self::Sample {
        let numbers = |k: u64| {
            (0..workload.size())
                .map(|i| ((i * k + seed) % 101) as f64)
                .collect()
        };
        (0.5, numbers(3), numbers(7))
    }

    fn args<'a>(&self, (a, x, y): &'a mut Self::Sample) -> Self::Args<'a> {
        (*a, x, y)
    }

    /// One multiplication and one addition, exact for these samples: the results are equal.
    fn agrees(&self, expected: (&Self::Sample, &()), got: (&Self::Sample, &())) -> bool {
        expected.0.2 == got.0.2
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let selector = Selector::builder()
        .in_memory()
        .checks(Checks::Inline)
        .build()?;
    let axpy = selector
        .op(Axpy)
        .reference("plain", Backend::Scalar, |(a, x, y)| {
            y.iter_mut().zip(x.iter()).for_each(|(y, x)| *y += *a * x);
        })
        .variant("blocks", Backend::Simd, |(a, x, y)| {
            for (y, x) in y.chunks_mut(8).zip(x.chunks(8)) {
                y.iter_mut().zip(x).for_each(|(y, x)| *y += *a * x);
            }
        })
        // Forgets the last element of an odd length: the check finds out before any caller does.
        .variant("pairs", Backend::Simd, |(a, x, y)| {
            for (y, x) in y.chunks_exact_mut(2).zip(x.chunks_exact(2)) {
                y[0] += *a * x[0];
                y[1] += *a * x[1];
            }
        })
        .verified()
        .build()?;

    let x = vec![2.0; 1001];
    for _ in 0..1_000 {
        let mut y = vec![1.0; 1001];
        axpy.run((0.5, &x, &mut y));
        assert!(y.iter().all(|y| *y == 2.0));
    }
    println!("{}", axpy.explain(Workload::new([1001])));
    Ok(())
}
