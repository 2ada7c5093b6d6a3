//! An op of your own with three variants: declare it, call it, look at what was learned.
//!
//! `cargo run --release -p pointsman --example own_op`
#![allow(clippy::print_stdout)]

use pointsman::{Backend, Op, Selector, Workload};

struct Dot;

impl Op for Dot {
    type Args<'a> = (&'a [f32], &'a [f32]);
    type Output = f32;

    fn name(&self) -> &str {
        "example_dot_f32"
    }

    fn workload(&self, (x, _): &(&[f32], &[f32])) -> Workload {
        Workload::new([x.len()])
            .flops(2 * x.len())
            .bytes(8 * x.len())
    }
}

fn plain(x: &[f32], y: &[f32]) -> f32 {
    x.iter().zip(y).map(|(a, b)| a * b).sum()
}

fn lanes(x: &[f32], y: &[f32]) -> f32 {
    let mut sums = [0.0f32; 16];
    let (xs, ys) = (x.chunks_exact(16), y.chunks_exact(16));
    let rest = plain(xs.remainder(), ys.remainder());
    for (a, b) in xs.zip(ys) {
        (0..16).for_each(|i| sums[i] += a[i] * b[i]);
    }
    sums.iter().sum::<f32>() + rest
}

fn halves(x: &[f32], y: &[f32]) -> f32 {
    let (x, y) = (x.split_at(x.len() / 2), y.split_at(y.len() / 2));
    std::thread::scope(|scope| {
        let other = scope.spawn(|| lanes(x.1, y.1));
        let sum = lanes(x.0, y.0);
        sum + other.join().unwrap_or(f32::NAN)
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let selector = Selector::new();
    let dot = selector
        .op(Dot)
        .reference("plain", Backend::Scalar, |(x, y)| plain(x, y))
        .variant("lanes", Backend::Simd, |(x, y)| lanes(x, y))
        .variant("halves", Backend::Threads, |(x, y)| halves(x, y))
        .build()?;

    for round in 0..200 {
        for power in 4..22 {
            let n = (1usize << power) + round;
            let x = vec![0.5f32; n];
            assert_eq!(dot.run((&x, &x)), n as f32 / 4.0);
        }
    }
    for n in [64, 4_096, 1 << 21] {
        let workload = Workload::new([n]).flops(2 * n).bytes(8 * n);
        println!("{}", dot.explain(workload));
    }
    println!("{}", dot.stats());
    Ok(())
}
