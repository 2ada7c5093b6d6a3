//! On GPUs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use pointsman::{OpBuilder, Selector};

use super::Fft;
use crate::Float;
use crate::gpu::{OnGpu, kernels, on_gpus_if};

/// Lengths whose roots are kept.
const MOST_KEPT: usize = 16;

/// The roots of unity for rows of n numbers: their sines take longer than the transform.
fn roots(n: usize) -> Arc<[f32]> {
    static KEPT: Mutex<Option<HashMap<usize, Arc<[f32]>>>> = Mutex::new(None);
    let mut kept = KEPT.lock().unwrap_or_else(|e| e.into_inner());
    let kept = kept.get_or_insert_default();
    if kept.len() >= MOST_KEPT && !kept.contains_key(&n) {
        kept.clear();
    }
    let made = || kernels::roots(n).into();
    kept.entry(n).or_insert_with(made).clone()
}

pub(super) fn variants<T: Float>(
    selector: &Selector,
    builder: OpBuilder<Fft<T>>,
) -> OpBuilder<Fft<T>> {
    let variant = OnGpu {
        suffix: "",
        kernels: vec![&kernels::FFT],
        // Input, output and one of the same size between the stages, and the roots of a row.
        bytes: |workload| [2.0 * workload.byte_count(), workload.byte_count() / 2.0],
    };
    let limit = |builder: OpBuilder<Fft<T>>| builder.when(|args| args.n.is_power_of_two());
    on_gpus_if::<T, _>(selector, builder, variant, limit, |job, args| {
        let (x, roots) = (job.upload(args.x)?, job.upload(&roots(args.n))?);
        let y = job.room::<T>(2 * args.y.len())?;
        let sizes = [args.rows(), args.n];
        kernels::fft(job, &x, &roots, &y, sizes, args.inverse)?;
        job.download(&y, args.y)
    })
}
