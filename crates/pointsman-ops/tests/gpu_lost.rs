//! A GPU that goes away: in a process of its own, because all tests of a process share it.

#![cfg(feature = "gpu")]

mod common;

use std::time::{Duration, Instant};

use common::{builder, ready};
use pointsman_ops::gpu::devices::gpus;
use pointsman_ops::{Matrix, Ops, View, matmul};

#[test]
fn f33_a_device_lost_in_the_middle_costs_no_call() {
    if !ready() {
        return;
    }
    // Forced, so that it would serve every call.
    let selector = builder().force("gpu:0").build().unwrap();
    let ops = Ops::<f32>::new(&selector).unwrap();
    let n = 64;
    let a: Vec<f32> = (0..n * n).map(|i| (i % 7) as f32).collect();
    let multiply = || {
        let mut c = Matrix::zeros(n, n);
        let (a, b) = (View::new(n, n, &a).unwrap(), View::new(n, n, &a).unwrap());
        ops.matmul
            .run(matmul::Args::new(a, b, c.elements_mut()).unwrap());
        c.elements()[n + 1]
    };
    let expected: f32 = (0..n).map(|k| a[n + k] * a[k * n + 1]).sum();
    for _ in 0..20 {
        assert_eq!(multiply(), expected);
    }
    let served = || {
        let stats = ops.matmul.stats();
        let on_gpu = stats.variants.iter().filter(|v| v.name.starts_with("gpu0"));
        on_gpu.map(|v| v.calls).sum::<u64>()
    };
    assert!(served() > 0);
    gpus().found[0].lose();
    for _ in 0..20 {
        assert_eq!(multiply(), expected, "the reference serves instead");
    }
    // It comes back: quarantined for a second, compiled again in the background.
    let before = served();
    let deadline = Instant::now() + Duration::from_secs(60);
    while served() == before {
        assert!(Instant::now() < deadline, "it never came back");
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(multiply(), expected);
    }
}
