//! What needs a process of its own: no driver, and no memory.

#![cfg(target_os = "linux")]

mod common;

use std::time::Duration;

use common::{alone, gpu, passed};
use pointsman_gpu::{Error, gpus};

#[test]
fn f31_without_a_driver_there_is_no_gpu_and_a_reason() {
    let nowhere = ("VK_ICD_FILENAMES", "/nonexistent.json");
    let newer = ("VK_DRIVER_FILES", "/nonexistent.json");
    passed(&alone("no_driver", &[nowhere, newer]));
}

#[test]
#[ignore = "run by the test above"]
fn no_driver() {
    let gpus = gpus();
    assert!(gpus.found.is_empty(), "{gpus:?}");
    assert!(gpus.missing[0].contains("Vulkan driver"), "{gpus:?}");
}

#[test]
fn f31_disabled_drivers_are_not_loaded() {
    passed(&alone("disabled", &[("POINTSMAN_DISABLE", "gpu")]));
}

#[test]
#[ignore = "run by the test above"]
fn disabled() {
    let gpus = gpus();
    assert!(gpus.found.is_empty(), "{gpus:?}");
    assert!(gpus.missing[0].contains("POINTSMAN_DISABLE"), "{gpus:?}");
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert!(!maps.contains("libvulkan"));
}

#[test]
fn f32_no_memory_is_an_error_and_the_device_lives_on() {
    passed(&alone("no_memory", &[]));
}

#[test]
#[ignore = "run by the test above"]
fn no_memory() {
    let Some(gpu) = gpu(Duration::from_secs(30)) else {
        return;
    };
    let fill = |n: usize| {
        gpu.run(|job| {
            let mut held = Vec::new();
            for _ in 0..n {
                held.push(job.room::<u8>(64 << 20)?);
            }
            Ok(held.len())
        })
    };
    assert_eq!(fill(1).unwrap(), 1);
    // From here on, only 256 MiB more: a software driver takes the host's memory.
    let now = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = now.split(' ').next().unwrap().parse().unwrap();
    let limit = pages * 4096 + (256 << 20);
    let resource = rustix::process::Resource::As;
    let limits = rustix::process::Rlimit {
        current: Some(limit),
        maximum: Some(limit),
    };
    rustix::process::setrlimit(resource, limits).unwrap();
    let error = fill(64).unwrap_err();
    assert!(
        matches!(error, Error::OutOfMemory { bytes } if bytes >= 64 << 20),
        "{error}"
    );
    assert_eq!(fill(1).unwrap(), 1, "the device lives on");
}
