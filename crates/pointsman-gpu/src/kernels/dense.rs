//! A dense layer of a network.

use super::elementwise::each;
use super::matmul::{Product, matmul};
use super::{counts, holds, kernel};
use crate::error::Error;
use crate::job::Job;
use crate::kernel::Kernel;
use crate::pool::Held;

/// The kernel of [`dense()`], which needs those of its product, too.
pub static BIAS: Kernel = kernel!("bias_f32", 2, "positive.wgsl", "bias.wgsl", "each.wgsl");

/// Y ← f(X W + b) for X of m rows and k columns and W of k rows and n columns, where f makes 0 of
/// what is negative if `relu` says so, and else does nothing. Without, Y is what a backward pass
/// needs to keep.
#[expect(clippy::too_many_arguments, reason = "what a layer is made of")]
pub fn dense(
    job: &mut Job<'_>,
    product: Product,
    x: &Held,
    w: &Held,
    b: &Held,
    y: &Held,
    [m, k, n]: [usize; 3],
    relu: bool,
) -> Result<(), Error> {
    let outputs = counts("dense_f32", &[m, n])?;
    let columns = counts("dense_f32", &[n])?;
    holds(&BIAS, "b", b, columns)?;
    matmul(job, product, x, w, y, [m, k, n])?;
    each(job, &BIAS, &[b, y], [outputs, 0, columns, relu.into()])
}
