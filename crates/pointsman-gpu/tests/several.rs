//! Two devices at once: the second one is another device of the same GPU, if there is only one.

mod common;

use std::time::Duration;

use common::gpu;
use pointsman::{Backend, Cap, Machine, Selector, Workload};
use pointsman_gpu::{Gpu, kernels};

fn doubled(gpu: &Gpu, x: &[f32]) -> Result<Vec<f32>, pointsman_gpu::Error> {
    let mut y = vec![0.0; x.len()];
    gpu.run(|job| {
        let held = job.upload(x)?;
        kernels::scale(job, 2.0, &held, x.len())?;
        job.download(&held, &mut y)
    })?;
    Ok(y)
}

#[test]
fn calls_from_two_threads_use_both_devices() {
    let Some(first) = gpu(Duration::from_secs(30)) else {
        return;
    };
    let second = first.again(1);
    for gpu in [&first, &second] {
        gpu.prepared(&kernels::SCALE).prepare().unwrap();
    }
    let machine = Machine::detect()
        .with_gpu("one", "1")
        .with_gpu("another", "1");
    let selector = Selector::builder()
        .in_memory()
        .ignore_environment()
        .machine(machine)
        .build()
        .unwrap();
    let double = selector
        .function("double", |x: &Vec<f32>| Workload::new([x.len()]))
        .reference("host", Backend::Scalar, |x| {
            std::thread::sleep(Duration::from_millis(300));
            x.iter().map(|x| 2.0 * x).collect::<Vec<f32>>()
        })
        .try_variant("gpu0", Backend::Gpu(0), move |x| doubled(&first, x))
        .requires(Cap::Gpu(0))
        .try_variant("gpu1", Backend::Gpu(1), move |x| doubled(&second, x))
        .requires(Cap::Gpu(1))
        .build()
        .unwrap();
    let x: Vec<f32> = (0..300_000).map(|i| i as f32).collect();
    for name in ["host", "gpu0", "gpu1"] {
        let variant = double.variant(name).unwrap();
        (0..3).for_each(|_| assert_eq!(variant.measure(&x).unwrap()[7], 14.0));
    }
    let begin = std::sync::Barrier::new(3);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                begin.wait();
                for _ in 0..30 {
                    let y = double.run(&x);
                    assert!(y.iter().zip(&x).all(|(y, x)| *y == 2.0 * x));
                }
            });
        }
    });
    let stats = double.stats();
    let calls = |name: &str| {
        let found = stats.variants.iter().find(|v| v.name == name);
        found.map_or(0, |v| v.calls)
    };
    assert!(calls("gpu0") > 0 && calls("gpu1") > 0, "{stats}");
    assert!(stats.variants.iter().all(|v| v.failures == 0), "{stats}");
}
