//! On GPUs.

use pointsman::{OpBuilder, Selector};

use super::Sum;
use crate::Float;
use crate::gpu::{OnGpu, kernels, on_gpus};

pub(super) fn variants<T: Float>(
    selector: &Selector,
    builder: OpBuilder<Sum<T>>,
) -> OpBuilder<Sum<T>> {
    let variant = OnGpu::plain([&kernels::SUM]);
    on_gpus::<T, _>(selector, builder, variant, |job, args| {
        let x = job.upload(args.x)?;
        let (sum, mut back) = (job.room::<T>(1)?, [T::zero()]);
        kernels::sum(job, &x, &sum, args.x.len())?;
        job.download(&sum, &mut back)?;
        Ok(back[0])
    })
}
