//! Kernels on a real device, and what happens when it goes away.

mod common;

use std::time::{Duration, Instant};

use common::gpu;
use pointsman_gpu::{Error, Gpu, Kernel};

static DOUBLE: Kernel = Kernel::new(
    "double",
    "struct Params { n: u32 }
     @group(0) @binding(0) var<uniform> p: Params;
     @group(0) @binding(1) var<storage, read_write> x: array<u32>;
     @compute @workgroup_size(64)
     fn main(@builtin(global_invocation_id) id: vec3<u32>) {
         if (id.x < p.n) { x[id.x] = 2u * x[id.x]; }
     }",
    1,
);

/// So many rounds of multiplications that nobody waits for them.
static SLOW: Kernel = Kernel::new(
    "slow",
    "struct Params { n: u32, rounds: u32 }
     @group(0) @binding(0) var<uniform> p: Params;
     @group(0) @binding(1) var<storage, read_write> x: array<u32>;
     @compute @workgroup_size(64)
     fn main(@builtin(global_invocation_id) id: vec3<u32>) {
         if (id.x >= p.n) { return; }
         var v = x[id.x];
         for (var i = 0u; i < p.rounds; i++) { v = v * 1664525u + x[(v ^ i) % p.n]; }
         x[id.x] = v;
     }",
    1,
);

const PATIENCE: Duration = Duration::from_secs(30);

fn double(gpu: &Gpu, n: u32) -> Result<Vec<u32>, Error> {
    let mut x: Vec<u32> = (0..n).collect();
    gpu.run(|job| {
        let held = job.upload(&x)?;
        job.dispatch(&DOUBLE, &[&held], &[n], [n.div_ceil(64), 1, 1])?;
        job.download(&held, &mut x)
    })?;
    Ok(x)
}

fn doubled(n: u32) -> Vec<u32> {
    (0..n).map(|i| 2 * i).collect()
}

#[test]
fn kernels_compute_what_they_say_from_many_threads() {
    let Some(gpu) = gpu(PATIENCE) else { return };
    for n in [0, 1, 63, 64, 65, 1000, 100_000] {
        assert_eq!(double(&gpu, n).unwrap(), doubled(n), "{n}");
    }
    std::thread::scope(|scope| {
        for t in 1..5 {
            let gpu = &gpu;
            scope.spawn(move || {
                for i in 0..20 {
                    let n = t * 100 + i;
                    assert_eq!(double(gpu, n).unwrap(), doubled(n));
                }
            });
        }
    });
}

#[test]
fn threads_that_share_a_device_all_get_their_results() {
    let Some(gpu) = gpu(PATIENCE) else { return };
    // Whichever thread waits may find another's work done: none may take that for a loss.
    std::thread::scope(|scope| {
        for t in 0..8u32 {
            let gpu = &gpu;
            scope.spawn(move || {
                for i in 0..500 {
                    let mut x = [0; 16];
                    let went = gpu.run(|job| {
                        let held = job.upload(&[t * 500 + i; 16])?;
                        job.download(&held, &mut x)
                    });
                    assert_eq!((went, x), (Ok(()), [t * 500 + i; 16]));
                }
            });
        }
    });
}

#[test]
fn several_kernels_of_one_call_see_each_others_results() {
    let Some(gpu) = gpu(PATIENCE) else { return };
    let x = vec![1u32; 100];
    let mut y = vec![0u32; 100];
    gpu.run(|job| {
        let held = job.upload(&x)?;
        for _ in 0..10 {
            job.dispatch(&DOUBLE, &[&held], &[100], [2, 1, 1])?;
        }
        job.download(&held, &mut y)
    })
    .unwrap();
    assert_eq!(y, vec![1024; 100]);
}

#[test]
fn odd_numbers_of_bytes_come_back_as_they_were() {
    let Some(gpu) = gpu(PATIENCE) else { return };
    for n in [1, 2, 3, 5, 255, 257] {
        let x: Vec<u8> = (0..n).map(|i| i as u8).collect();
        let mut y = vec![0u8; n];
        gpu.run(|job| {
            let held = job.upload(&x)?;
            job.download(&held, &mut y)
        })
        .unwrap();
        assert_eq!(x, y);
    }
}

#[test]
fn f33_a_lost_device_is_an_error_then_another_one_serves_then_it_rests() {
    let Some(gpu) = gpu(PATIENCE) else { return };
    double(&gpu, 10).unwrap();
    gpu.lose();
    assert!(matches!(double(&gpu, 10), Err(Error::Lost(_))));
    assert_eq!(double(&gpu, 10).unwrap(), doubled(10), "one is made anew");
    // Twice without a success in between is not an accident.
    for _ in 0..2 {
        let _ = gpu.prepared(&DOUBLE).prepare(); // makes a device, serves nobody
        gpu.lose();
        assert!(matches!(double(&gpu, 10), Err(Error::Lost(_))));
    }
    let rests = double(&gpu, 10).unwrap_err();
    assert!(matches!(rests, Error::Resting { .. }), "{rests}");
    assert!(gpu.rests().is_some() && !gpu.prepared(&DOUBLE).is_ready());
    let why = gpu.prepared(&DOUBLE).why_not().unwrap();
    assert!(why.contains("lost"), "{why}");
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(double(&gpu, 10).unwrap(), doubled(10), "not for good");
}

#[test]
fn f33_data_on_a_lost_device_is_lost_with_it() {
    let Some(gpu) = gpu(PATIENCE) else { return };
    let held = gpu.run(|job| job.upload(&[1u32; 64])).unwrap();
    gpu.lose();
    let _ = double(&gpu, 1);
    assert_eq!(double(&gpu, 1).unwrap(), [0]);
    let used = gpu.run(|job| job.dispatch(&DOUBLE, &[&held], &[64], [1, 1, 1]));
    assert!(matches!(used, Err(Error::Lost(_))), "{used:?}");
}

#[test]
fn f33_a_kernel_that_does_not_end_is_not_waited_for() {
    let patience = Duration::from_millis(300);
    let Some(gpu) = gpu(patience) else { return };
    gpu.prepared(&SLOW).prepare().unwrap();
    let mut x = vec![1u32; 4096];
    // Machines differ: more and more of it, until it takes longer than anybody waits.
    let mut rounds = (0..8).map(|i| 20_000 << (2 * i));
    let mut start = Instant::now();
    let failed = rounds.find_map(|rounds| {
        start = Instant::now();
        let run = gpu.run(|job| {
            let held = job.upload(&x)?;
            job.dispatch(&SLOW, &[&held], &[4096, rounds], [64, 1, 1])?;
            job.download(&held, &mut x)
        });
        run.err()
    });
    let waited = start.elapsed();
    assert_eq!(failed, Some(Error::TimedOut(patience)));
    assert!(waited < Duration::from_secs(20), "{waited:?}");
}

#[test]
fn kernels_are_compiled_in_the_background() {
    static TRIPLE: Kernel = Kernel::new(
        "triple",
        "struct Params { n: u32 }
         @group(0) @binding(0) var<uniform> p: Params;
         @group(0) @binding(1) var<storage, read_write> x: array<u32>;
         @compute @workgroup_size(64)
         fn main(@builtin(global_invocation_id) id: vec3<u32>) {
             if (id.x < p.n) { x[id.x] = 3u * x[id.x]; }
         }",
        1,
    );
    let Some(gpu) = gpu(PATIENCE) else { return };
    let prepared = gpu.prepared(&TRIPLE);
    assert!(!prepared.is_ready(), "not at the first call");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !prepared.is_ready() {
        assert!(Instant::now() < deadline, "never ready");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(prepared.why_not(), None);
    // On another device it must be compiled again.
    gpu.lose();
    let _ = double(&gpu, 1);
    assert!(!prepared.is_ready());
}

#[test]
fn a_kernel_that_does_not_compile_is_an_error_with_its_name() {
    static WRONG: Kernel = Kernel::new("wrong", "fn main() { let x: f32 = 1u; }", 0);
    let Some(gpu) = gpu(PATIENCE) else { return };
    let error = gpu.prepared(&WRONG).prepare().unwrap_err();
    assert!(
        matches!(&error, Error::Refused(why) if why.contains("wrong")),
        "{error}"
    );
    assert!(!gpu.prepared(&WRONG).is_ready());
    assert_eq!(gpu.prepared(&WRONG).why_not(), Some(error.to_string()));
    assert_eq!(double(&gpu, 3).unwrap(), [0, 2, 4], "others still run");
}

#[test]
fn work_that_is_not_valid_is_refused_and_costs_no_device() {
    static COPY: Kernel = Kernel::new(
        "copy",
        "struct Params { n: u32 }
         @group(0) @binding(0) var<uniform> p: Params;
         @group(0) @binding(1) var<storage, read> x: array<u32>;
         @group(0) @binding(2) var<storage, read_write> y: array<u32>;
         @compute @workgroup_size(64)
         fn main(@builtin(global_invocation_id) id: vec3<u32>) {
             if (id.x < p.n) { y[id.x] = x[id.x]; }
         }",
        2,
    );
    let Some(gpu) = gpu(PATIENCE) else { return };
    let kept = gpu.run(|job| job.upload(&[5u32; 64])).unwrap();
    let mut x = [0u32; 64];
    for _ in 0..3 {
        let both = gpu.run(|job| {
            let held = job.upload(&[1u32; 64])?;
            job.dispatch(&COPY, &[&held, &held], &[64], [1, 1, 1])?;
            job.download(&held, &mut x)
        });
        let said = matches!(&both, Err(Error::Refused(why)) if why.contains("usage"));
        assert!(said, "{both:?}");
    }
    gpu.run(|job| job.download(&kept, &mut x)).unwrap();
    assert_eq!(x, [5; 64], "what was on it is still there");
}

#[test]
fn f32_what_is_beyond_a_limit_is_refused_before_it_is_tried() {
    let Some(gpu) = gpu(PATIENCE) else { return };
    let room = |bytes: u64| gpu.run(|job| job.room::<u8>(bytes as usize).map(|_| ()));
    for bytes in [gpu.info().max_buffer_bytes + 1, u64::MAX] {
        let error = room(bytes).unwrap_err();
        assert!(
            matches!(&error, Error::Refused(why) if why.contains(&bytes.to_string())),
            "{error}"
        );
    }
    let wide = gpu.run(|job| {
        let held = job.room::<u32>(1)?;
        job.dispatch(&DOUBLE, &[&held], &[1], [u32::MAX, 1, 1])
    });
    assert!(matches!(wide, Err(Error::Refused(_))));
    let short = gpu.run(|job| {
        let held = job.upload(&[1u32])?;
        job.download(&held, &mut [0u32; 2])
    });
    assert!(matches!(short, Err(Error::Refused(_))));
    assert_eq!(double(&gpu, 2).unwrap(), [0, 2]);
}

#[test]
fn calibration_measures_everything() {
    let Some(gpu) = gpu(PATIENCE) else { return };
    let measured = gpu.calibrate().unwrap();
    println!("{measured:#?}");
    let all = [
        measured.launch_ns,
        measured.flops_per_s,
        measured.bytes_per_s,
        measured.upload_bytes_per_s,
        measured.download_bytes_per_s,
    ];
    assert!(all.iter().all(|x| x.is_finite() && *x > 1.0), "{all:?}");
    let free = gpu.free();
    assert!(free.bytes > 1 << 20, "{free:?}");
}
