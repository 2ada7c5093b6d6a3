//! Each element by itself.

use super::{count, holds, kernel, launch};
use crate::error::Error;
use crate::job::Job;
use crate::kernel::Kernel;
use crate::pool::Held;

/// The kernel of [`add()`].
pub static ADD: Kernel = kernel!("add_f32", 3, "add.wgsl", "each.wgsl");

/// The kernel of [`axpy()`].
pub static AXPY: Kernel = kernel!("axpy_f32", 2, "axpy.wgsl", "each.wgsl");

/// The kernel of [`relu()`].
pub static RELU: Kernel = kernel!("relu_f32", 2, "positive.wgsl", "relu.wgsl", "each.wgsl");

/// The kernel of [`scale()`].
pub static SCALE: Kernel = kernel!("scale_f32", 1, "scale.wgsl", "each.wgsl");

/// Elements of a workgroup.
const PER_GROUP: u32 = 256;

/// z ← x + y.
pub fn add(job: &mut Job<'_>, x: &Held, y: &Held, z: &Held, n: usize) -> Result<(), Error> {
    checked(job, &ADD, &[("x", x), ("y", y), ("z", z)], n, 0.0)
}

/// y ← a x + y.
pub fn axpy(job: &mut Job<'_>, a: f32, x: &Held, y: &Held, n: usize) -> Result<(), Error> {
    checked(job, &AXPY, &[("x", x), ("y", y)], n, a)
}

/// y ← max(x, 0); what is not a number stays so.
pub fn relu(job: &mut Job<'_>, x: &Held, y: &Held, n: usize) -> Result<(), Error> {
    checked(job, &RELU, &[("x", x), ("y", y)], n, 0.0)
}

/// x ← a x.
pub fn scale(job: &mut Job<'_>, a: f32, x: &Held, n: usize) -> Result<(), Error> {
    checked(job, &SCALE, &[("x", x)], n, a)
}

fn checked(
    job: &mut Job<'_>,
    kernel: &'static Kernel,
    named: &[(&str, &Held)],
    n: usize,
    a: f32,
) -> Result<(), Error> {
    let n = count(kernel.name(), n)?;
    for (name, held) in named {
        holds(kernel, name, held, n)?;
    }
    let buffers: Vec<&Held> = named.iter().map(|(_, held)| *held).collect();
    each(job, kernel, &buffers, [n, a.to_bits(), 0, 0])
}

/// Runs a kernel on each of so many elements, the first parameter.
pub(super) fn each(
    job: &mut Job<'_>,
    kernel: &'static Kernel,
    buffers: &[&Held],
    params: [u32; 4],
) -> Result<(), Error> {
    let groups = params[0].div_ceil(PER_GROUP);
    launch(job, kernel, buffers, &params, groups)
}
