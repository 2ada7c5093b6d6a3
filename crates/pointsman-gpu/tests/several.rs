//! Two devices at once: two of one GPU, and two GPUs of different makers.

mod common;

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use common::{alone, gpu, passed};
use pointsman::{Backend, Cap, Machine, Selector, Workload};
use pointsman_gpu::{Gpu, gpus, kernels};

fn doubled(gpu: &Gpu, x: &[f32]) -> Result<Vec<f32>, pointsman_gpu::Error> {
    let mut y = vec![0.0; x.len()];
    gpu.run(|job| {
        let held = job.upload(x)?;
        kernels::scale(job, 2.0, &held, x.len())?;
        job.download(&held, &mut y)
    })?;
    Ok(y)
}

/// Which devices have had a call of several threads' work. The first call on a device waits for one
/// on the other, so that no luck is needed for both to have work at once.
#[derive(Default)]
struct Meeting {
    begun: Mutex<Option<[bool; 2]>>,
    news: Condvar,
}

impl Meeting {
    fn begin(&self) {
        *self.begun.lock().unwrap() = Some([false; 2]);
    }

    fn enter(&self, device: usize) {
        let mut begun = self.begun.lock().unwrap();
        let Some(devices) = begun.as_mut() else {
            return;
        };
        devices[device] = true;
        self.news.notify_all();
        let patience = Duration::from_secs(20);
        let apart = |begun: &mut Option<[bool; 2]>| *begun != Some([true; 2]);
        let (_begun, late) = self
            .news
            .wait_timeout_while(begun, patience, apart)
            .unwrap();
        assert!(
            !late.timed_out(),
            "device {device} had work, the other none"
        );
    }
}

fn calls_use_both(first: Gpu, second: Gpu) {
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
    let meeting = Arc::new(Meeting::default());
    let on = |device: usize, gpu: Gpu| {
        let meeting = meeting.clone();
        move |x: &mut &Vec<f32>| {
            meeting.enter(device);
            doubled(&gpu, x)
        }
    };
    let double = selector
        .function("double", |x: &Vec<f32>| Workload::new([x.len()]))
        .reference("host", Backend::Scalar, |x| {
            std::thread::sleep(Duration::from_millis(500));
            x.iter().map(|x| 2.0 * x).collect::<Vec<f32>>()
        })
        .try_variant("gpu0", Backend::Gpu(0), on(0, first))
        .requires(Cap::Gpu(0))
        .try_variant("gpu1", Backend::Gpu(1), on(1, second))
        .requires(Cap::Gpu(1))
        .build()
        .unwrap();
    let x: Vec<f32> = (0..300_000).map(|i| i as f32).collect();
    for name in ["host", "gpu0", "gpu1"] {
        let variant = double.variant(name).unwrap();
        (0..3).for_each(|_| assert_eq!(variant.measure(&x).unwrap()[7], 14.0));
    }
    meeting.begin();
    std::thread::scope(|scope| {
        // So many that even a device ten times as slow is the first to be free in the end.
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..5 {
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

#[test]
fn calls_from_several_threads_use_both_devices_of_a_gpu() {
    let Some(first) = gpu(Duration::from_secs(30)) else {
        return;
    };
    let second = first.again(1);
    calls_use_both(first, second);
}

/// `POINTSMAN_TEST_SWIFTSHADER` says where the description of SwiftShader's driver is, which comes
/// with Chromium: beside Mesa's, a second driver that computes on the CPU.
#[test]
#[cfg(target_os = "linux")]
fn calls_from_several_threads_use_both_gpus() {
    let Ok(swiftshader) = std::env::var("POINTSMAN_TEST_SWIFTSHADER") else {
        println!("SKIPPED, no second driver: POINTSMAN_TEST_SWIFTSHADER is not set");
        return;
    };
    let mesa = std::fs::read_dir("/usr/share/vulkan/icd.d").unwrap();
    let mut mesa = mesa.map(|file| file.unwrap().path());
    let mesa = mesa
        .find(|path| path.to_string_lossy().contains("lvp_icd"))
        .unwrap();
    let both = format!("{}:{swiftshader}", mesa.display());
    let drivers = [("VK_ICD_FILENAMES", &*both), ("VK_DRIVER_FILES", &*both)];
    passed(&alone("two_gpus", &drivers));
}

#[test]
#[ignore = "run by the test above"]
fn two_gpus() {
    let [first, second] = &gpus().found[..] else {
        panic!("{:?}", gpus());
    };
    assert_ne!(first.info().driver, second.info().driver);
    calls_use_both(first.clone(), second.clone());
}
