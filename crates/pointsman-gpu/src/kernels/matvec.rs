//! A matrix times a vector.

use super::matmul::padded;
use super::{count, counts, holds, kernel, launch};
use crate::error::Error;
use crate::job::Job;
use crate::kernel::Kernel;
use crate::pool::Held;

/// The kernel of [`matvec()`], which needs [`PAD`](super::PAD), too.
pub static MATVEC: Kernel = kernel!("matvec_f32", 3, "matvec.wgsl");

/// Rows of a workgroup.
const PER_GROUP: u32 = 16;

/// y ← A x for A of m rows and k columns, row by row. Rows that are no multiple of four long are
/// copied first, which takes about as long again.
pub fn matvec(
    job: &mut Job<'_>,
    a: &Held,
    x: &Held,
    y: &Held,
    [m, k]: [usize; 2],
) -> Result<(), Error> {
    let name = MATVEC.name();
    holds(&MATVEC, "a", a, counts(name, &[m, k])?)?;
    let [m, k] = [count(name, m)?, count(name, k)?];
    holds(&MATVEC, "x", x, k)?;
    holds(&MATVEC, "y", y, m)?;
    let whole = k % 4 == 0;
    let a = &padded(job, a, [m, k], whole)?;
    let x = &padded(job, x, [1, k], whole)?;
    let params = [m, k.div_ceil(4)];
    launch(job, &MATVEC, &[a, x, y], &params, m.div_ceil(PER_GROUP))
}
