//! Causal convolution: what fractional derivatives on a uniform grid are, but for a factor.

use super::{count, holds, kernel, launch};
use crate::error::Error;
use crate::job::Job;
use crate::kernel::Kernel;
use crate::pool::Held;

/// The kernel of [`causal()`].
pub static CAUSAL: Kernel = kernel!("causal_f32", 3, "causal.wgsl");

/// Results of a workgroup.
const PER_GROUP: u32 = 512;

/// yᵢ ← Σ wⱼ xᵢ₋ⱼ over j ≤ i, each result from what came before it: n² / 2 products. What is not
/// finite reaches later results only.
pub fn causal(job: &mut Job<'_>, w: &Held, x: &Held, y: &Held, n: usize) -> Result<(), Error> {
    let n = count("causal_f32", n)?;
    for (name, held) in [("w", w), ("x", x), ("y", y)] {
        holds(&CAUSAL, name, held, n)?;
    }
    launch(job, &CAUSAL, &[w, x, y], &[n], n.div_ceil(PER_GROUP))
}
