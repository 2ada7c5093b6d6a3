use pointsman::*;
use std::hint::black_box;
struct Dot;
impl Op for Dot {
    type Args<'a> = (&'a [f32], &'a [f32]);
    type Output = f32;
    fn name(&self) -> &str {
        "dot"
    }
    fn workload(&self, (x, _): &(&[f32], &[f32])) -> Workload {
        Workload::new([x.len()])
            .flops(2 * x.len())
            .bytes(8 * x.len())
    }
}
#[inline(never)]
fn plain(x: &[f32], y: &[f32]) -> f32 {
    x.iter().zip(y).map(|(a, b)| a * b).sum()
}
#[inline(never)]
fn lanes(x: &[f32], y: &[f32]) -> f32 {
    let (xs, _) = x.as_chunks::<8>();
    let (ys, _) = y.as_chunks::<8>();
    let mut sums = [0.0f32; 8];
    for (a, b) in xs.iter().zip(ys) {
        for i in 0..8 {
            sums[i] += a[i] * b[i];
        }
    }
    sums.iter().sum::<f32>()
}
fn main() {
    let n = 32;
    let (x, y) = (vec![1.5f32; n], vec![0.5f32; n]);
    let selector = Selector::builder()
        .in_memory()
        .ignore_environment()
        .mode(Mode::Frozen)
        .build()
        .unwrap();
    let op = selector
        .op(Dot)
        .reference("plain", Backend::Scalar, |(x, y)| plain(x, y))
        .variant("lanes", Backend::Simd, |(x, y)| lanes(x, y))
        .build()
        .unwrap();
    let which = std::env::args().nth(1).unwrap_or_default();
    let k: u64 = std::env::args()
        .nth(2)
        .and_then(|a| a.parse().ok())
        .unwrap_or(100_000);
    let plan = op.plan(Workload::new([n]));
    let t = std::time::Instant::now();
    match which.as_str() {
        "run" => {
            for _ in 0..k {
                black_box(op.run(black_box((&x[..], &y[..]))));
            }
        }
        "plan" => {
            for _ in 0..k {
                black_box(plan.run(black_box((&x[..], &y[..]))));
            }
        }
        "workload" => {
            for _ in 0..k {
                black_box(Dot.workload(black_box(&(&x[..], &y[..]))));
            }
        }
        "name" => {
            for _ in 0..k {
                let w = Dot.workload(black_box(&(&x[..], &y[..])));
                let d = selector.decide(black_box("dot"), &w, black_box(&["plain", "lanes"]));
                black_box(&d);
                selector.record(&d, Outcome::took(std::time::Duration::from_nanos(50)));
            }
        }
        _ => {
            for _ in 0..k {
                black_box(lanes(black_box(&x[..]), black_box(&y[..])));
            }
        }
    }
    println!("{which} {:.2} ns", t.elapsed().as_nanos() as f64 / k as f64);
}
