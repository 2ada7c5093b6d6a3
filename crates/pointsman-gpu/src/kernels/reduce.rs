//! Sums, by trees: a result is off by the roundings of its longest branch, some thirty for a million
//! elements.

use super::{count, holds, kernel, launch};
use crate::error::Error;
use crate::job::Job;
use crate::kernel::Kernel;
use crate::pool::Held;

/// The kernel of [`dot()`], which needs [`SUM`], too.
pub static DOT: Kernel = kernel!("dot_f32", 3, "dot.wgsl", "reduce.wgsl");

/// The kernel of [`sum()`].
pub static SUM: Kernel = kernel!("sum_f32", 2, "sum.wgsl", "reduce.wgsl");

/// Elements that a workgroup makes one of.
const PER_GROUP: u32 = 4096;

/// The only element of `out` ← the sum of x; 0 of nothing.
pub fn sum(job: &mut Job<'_>, x: &Held, out: &Held, n: usize) -> Result<(), Error> {
    reduce(job, &SUM, &[("x", x)], out, n)
}

/// The only element of `out` ← the sum of the products of x and y; 0 of nothing.
pub fn dot(job: &mut Job<'_>, x: &Held, y: &Held, out: &Held, n: usize) -> Result<(), Error> {
    reduce(job, &DOT, &[("x", x), ("y", y)], out, n)
}

fn reduce(
    job: &mut Job<'_>,
    first: &'static Kernel,
    named: &[(&str, &Held)],
    out: &Held,
    n: usize,
) -> Result<(), Error> {
    let mut n = count(first.name(), n)?;
    for (name, held) in named {
        holds(first, name, held, n)?;
    }
    holds(first, "the result", out, 1)?;
    let mut kernel = first;
    let mut terms: Vec<Held> = named.iter().map(|(_, held)| (*held).clone()).collect();
    loop {
        // Of nothing, too, there is a sum.
        let groups = n.div_ceil(PER_GROUP).max(1);
        let sums = match groups {
            1 => out.clone(),
            _ => job.room::<f32>(groups as usize)?,
        };
        let buffers: Vec<&Held> = terms.iter().chain([&sums]).collect();
        launch(job, kernel, &buffers, &[n, groups], groups)?;
        if groups == 1 {
            return Ok(());
        }
        (kernel, terms, n) = (&SUM, vec![sums], groups);
    }
}
