//! How fast the ready kernels are on each GPU of this machine, data on it already, launches and
//! waits included.
//!
//! `cargo run --release -p pointsman-gpu --example kernels`

#![expect(clippy::print_stdout, reason = "it prints a table")]

use std::time::{Duration, Instant};

use pointsman_gpu::kernels::{self, Product, Sizes};
use pointsman_gpu::{Error, Gpu, Job, open};

/// No run is begun after this, except the first two.
const ENOUGH: Duration = Duration::from_millis(500);

/// Runs of a kernel at most.
const RUNS: usize = 50;

fn main() -> Result<(), Error> {
    let gpus = open(Duration::from_secs(120));
    gpus.missing.iter().for_each(|why| println!("{why}"));
    for gpu in &gpus.found {
        println!("{gpu:?}");
        compile(gpu)?;
        products(gpu)?;
        vectors(gpu)?;
        others(gpu)?;
    }
    Ok(())
}

fn compile(gpu: &Gpu) -> Result<(), Error> {
    gpu.run(|_| Ok(()))?; // makes the device
    print!("  compiled in ms:");
    for kernel in kernels::all() {
        let start = Instant::now();
        gpu.prepared(kernel).prepare()?;
        print!(" {} {}", kernel.name(), start.elapsed().as_millis());
    }
    println!();
    Ok(())
}

/// The shortest of several runs, in seconds, after one that does not count.
fn best(
    job: &mut Job<'_>,
    mut work: impl FnMut(&mut Job<'_>) -> Result<(), Error>,
) -> Result<f64, Error> {
    let start = Instant::now();
    let mut best = f64::INFINITY;
    for run in 0..=RUNS {
        if run > 1 && start.elapsed() > ENOUGH {
            break;
        }
        let start = Instant::now();
        work(job)?;
        job.finish()?;
        if run > 0 {
            best = best.min(start.elapsed().as_secs_f64());
        }
    }
    Ok(best)
}

/// Numbers that no kernel is faster with than with others.
fn floats(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i % 1013) as f32 / 506.0 - 1.0).collect()
}

fn products(gpu: &Gpu) -> Result<(), Error> {
    println!("  matmul, GFLOP/s    registers      tiles");
    for n in [64, 100, 128, 256, 257, 384, 512, 768, 1024] {
        let took = gpu.run(|job| {
            let (a, b) = (job.upload(&floats(n * n))?, job.upload(&floats(n * n))?);
            let c = job.room::<f32>(n * n)?;
            let mut one = |how| best(job, |job| kernels::matmul(job, how, &a, &b, &c, [n; 3]));
            Ok([one(Product::Registers)?, one(Product::Tiles)?])
        })?;
        let [registers, tiles] = took.map(|s| 2e-9 * (n as f64).powi(3) / s);
        println!("  {n:15} {registers:12.3} {tiles:10.3}");
    }
    Ok(())
}

fn vectors(gpu: &Gpu) -> Result<(), Error> {
    println!("  GB/s                add        sum        dot     matvec");
    for n in [1 << 14, 1 << 18, 1 << 20, 1 << 22] {
        let took = gpu.run(|job| {
            let (x, y) = (job.upload(&floats(n))?, job.upload(&floats(n))?);
            let (z, out) = (job.room::<f32>(n)?, job.room::<f32>(1)?);
            let side = n.isqrt();
            Ok([
                best(job, |job| kernels::add(job, &x, &y, &z, n))?,
                best(job, |job| kernels::sum(job, &x, &out, n))?,
                best(job, |job| kernels::dot(job, &x, &y, &out, n))?,
                best(job, |job| kernels::matvec(job, &x, &y, &z, [side; 2]))?,
            ])
        })?;
        print!("  {n:10}");
        for (took, vectors) in took.into_iter().zip([3, 1, 2, 1]) {
            print!(" {:10.3}", 4e-9 * (vectors * n) as f64 / took);
        }
        println!();
    }
    Ok(())
}

fn others(gpu: &Gpu) -> Result<(), Error> {
    for side in [16, 64, 128] {
        let [n, stride, padding] = [1; 3];
        let (c, k, h, w, r, s) = (16, 16, side, side, 3, 3);
        let sizes = Sizes {
            n,
            c,
            h,
            w,
            k,
            r,
            s,
            stride,
            padding,
        };
        let took = gpu.run(|job| {
            let (x, filters) = (floats(c * h * w), floats(k * c * r * s));
            let (x, filters) = (job.upload(&x)?, job.upload(&filters)?);
            let y = job.room::<f32>(k * h * w)?;
            best(job, |job| kernels::conv2d(job, &x, &filters, &y, &sizes))
        })?;
        let flops = 2.0 * (k * h * w * c * r * s) as f64;
        println!(
            "  conv2d 16x{side}x{side} with 16x3x3: {:.3} GFLOP/s",
            1e-9 * flops / took
        );
    }
    for [rows, n] in [[8, 1 << 10], [1, 1 << 16], [8, 1 << 17]] {
        let took = gpu.run(|job| {
            let (x, roots) = (
                job.upload(&floats(2 * rows * n))?,
                job.upload(&kernels::roots(n))?,
            );
            let y = job.room::<f32>(2 * rows * n)?;
            best(job, |job| {
                kernels::fft(job, &x, &roots, &y, [rows, n], false)
            })
        })?;
        let flops = 5.0 * (rows * n) as f64 * (n as f64).log2();
        println!("  fft {rows}x{n}: {:.3} GFLOP/s", 1e-9 * flops / took);
    }
    for n in [1 << 10, 1 << 12, 1 << 14] {
        let took = gpu.run(|job| {
            let (w, x) = (job.upload(&floats(n))?, job.upload(&floats(n))?);
            let y = job.room::<f32>(n)?;
            best(job, |job| kernels::causal(job, &w, &x, &y, n))
        })?;
        println!("  causal {n}: {:.3} GFLOP/s", 1e-9 * (n * n) as f64 / took);
    }
    Ok(())
}
