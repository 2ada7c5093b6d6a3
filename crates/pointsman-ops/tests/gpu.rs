//! The ops on a real GPU, be it a software one.

#![cfg(feature = "gpu")]

mod common;

use common::{builder, ready};
use pointsman::{Backend, Cap, Chain, Machine, Mode, Refused};
use pointsman_ops::catalogue::Entry;
use pointsman_ops::gpu::devices::gpus;
use pointsman_ops::gpu::{DeviceArray, Resident, ResidentError};
use pointsman_ops::{Ops, dot};

fn on_gpu(entry: &dyn Entry) -> Vec<String> {
    let gpu = |(name, backend): (String, Backend)| (backend == Backend::Gpu(0)).then_some(name);
    entry.variants().into_iter().filter_map(gpu).collect()
}

#[test]
fn every_variant_on_a_gpu_agrees_with_its_reference() {
    if !ready() {
        return;
    }
    let selector = builder().build().unwrap();
    let mut with_gpu = Vec::new();
    for entry in Ops::<f32>::new(&selector).unwrap().entries() {
        for variant in on_gpu(entry.as_ref()) {
            let mut agreed = 0;
            for size in [1100, 5000, 40_000] {
                // Powers of two, which FFTs need, and others.
                for shape in [entry.of_size(size), entry.of_size(size.next_power_of_two())] {
                    let mut call = entry.call(&shape, 3).unwrap();
                    match call.measure(&variant) {
                        Ok(()) => agreed += 1,
                        Err(error) => {
                            let refused = error.downcast_ref::<Refused>();
                            let why = refused.map(|r| r.why().to_owned()).unwrap_or_default();
                            let allowed = why.contains("condition") || why.contains("below");
                            assert!(allowed, "{} {variant} {shape:?}: {error}", entry.name());
                        }
                    }
                }
            }
            assert!(agreed >= 3, "{} {variant}: {agreed}", entry.name());
            with_gpu.push(entry.name().to_owned());
        }
    }
    with_gpu.dedup();
    let expected = [
        "add_f32",
        "axpy_f32",
        "caputo_l1_f32",
        "conv2d_f32",
        "dense_f32",
        "dot_f32",
        "fft_f32",
        "grunwald_letnikov_f32",
        "matmul_f32",
        "matvec_f32",
        "relu_f32",
        "scale_f32",
        "sum_f32",
    ];
    assert_eq!(with_gpu, expected);
    let doubles = Ops::<f64>::new(&selector).unwrap().entries();
    assert!(doubles.iter().all(|e| on_gpu(e.as_ref()).is_empty()));
}

#[test]
fn f31_without_gpus_the_variant_says_why() {
    let machine = Machine::detect().no_more_gpus("no Vulkan driver found");
    let selector = builder().machine(machine).build().unwrap();
    let ops = Ops::<f32>::new(&selector).unwrap();
    let x = vec![1.0; 5000];
    assert_eq!(ops.dot.run(dot::Args::new(&x, &x).unwrap()), 5000.0);
    let told = ops.dot.explain_call(&dot::Args::new(&x, &x).unwrap());
    let line = told.variants.iter().find(|v| v.name == "gpu0").unwrap();
    let why = line.why_not.as_deref().unwrap();
    assert!(
        why.contains("gpu:0") && why.contains("no Vulkan driver"),
        "{why}"
    );
}

#[test]
fn f32_what_does_not_fit_is_not_eligible() {
    if !ready() {
        return;
    }
    let selector = builder().build().unwrap();
    let entries = Ops::<f32>::new(&selector).unwrap().entries();
    let most = gpus().found[0].info().max_binding_bytes;
    let add = entries.iter().find(|e| e.name() == "add_f32").unwrap();
    let told = |n: usize| {
        let told = add.explain(&[n]).unwrap();
        told.variants
            .into_iter()
            .find(|v| v.name == "gpu0")
            .unwrap()
    };
    assert!(told(100_000).eligible());
    let large = told(most as usize);
    assert!(large.why_not.unwrap().contains("bytes"));
}

#[test]
fn chains_stay_on_the_gpu_and_give_the_same_results() {
    if !ready() {
        return;
    }
    let selector = builder().build().unwrap();
    let ops = Ops::new(&selector).unwrap();
    let resident = Resident::new(&selector, &ops).unwrap();
    let gpu = &gpus().found[0];
    let n = 48;
    let host: Vec<f32> = (0..n * n).map(|i| (i % 5) as f32 - 2.0).collect();
    let x = DeviceArray::upload(gpu, &host).unwrap();
    for _ in 0..10 {
        let y = resident.scale(0.5, &resident.add(&x, &x).unwrap()).unwrap();
        assert_eq!(y.to_vec().unwrap(), host);
        let z = resident.relu(&resident.matmul(&x, &x, [n, n, n]).unwrap());
        let z = z.unwrap().to_vec().unwrap();
        let exact: f32 = (0..n).map(|k| host[k] * host[k * n]).sum();
        assert_eq!(z[0], exact.max(0.0));
    }
    for handle in resident.handles() {
        let calls: u64 = handle.stats().variants.iter().map(|v| v.calls).sum();
        assert!(calls >= 10);
    }
    let short = DeviceArray::upload(gpu, &[1.0]).unwrap();
    let error = resident.add(&x, &short).unwrap_err().to_string();
    assert!(error.contains("2304 and 1"), "{error}");
    assert!(resident.matmul(&x, &x, [n, n, 1]).is_err());
    let elsewhere = DeviceArray::upload(&gpu.again(1), &host).unwrap();
    let error = resident.add(&x, &elsewhere).unwrap_err();
    assert!(matches!(error, ResidentError::Apart(..)), "{error}");
    // Where such data should live is a question for a chain.
    let workload = pointsman::Workload::new([n * n]).bytes(12 * n * n);
    let chain = Chain::new(&selector, 1 << 10, 1 << 10).step(&ops.add, workload);
    assert!(chain.expected_ns(Backend::Gpu(0)).is_some());
}

#[test]
fn calibration_is_kept_with_the_driver() {
    if !ready() {
        return;
    }
    let selector = builder().build().unwrap();
    assert!(selector.machine().has(Cap::Gpu(0)));
    let cost = selector.calibration().backend(Backend::Gpu(0)).unwrap();
    assert!(cost.launch_ns > 100.0 && cost.transfer_bytes_per_s.is_some());
    let driver = &gpus().found[0].info().driver;
    assert!(selector.machine().gpus[0].contains(driver.as_str()));
    // Frozen decisions do not depend on what is measured.
    let frozen = builder().mode(Mode::Frozen).build().unwrap();
    assert_eq!(frozen.calibration().backend(Backend::Gpu(0)), None);
}
