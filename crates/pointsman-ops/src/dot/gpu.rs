//! On GPUs.

use pointsman::{OpBuilder, Selector};

use super::Dot;
use crate::Float;
use crate::gpu::{OnGpu, kernels, on_gpus};

pub(super) fn variants<T: Float>(
    selector: &Selector,
    builder: OpBuilder<Dot<T>>,
) -> OpBuilder<Dot<T>> {
    let variant = OnGpu::plain([&kernels::DOT, &kernels::SUM]);
    on_gpus::<T, _>(selector, builder, variant, |job, args| {
        let (x, y) = (job.upload(args.x)?, job.upload(args.y)?);
        let (dot, mut back) = (job.room::<T>(1)?, [T::zero()]);
        kernels::dot(job, &x, &y, &dot, args.x.len())?;
        job.download(&dot, &mut back)?;
        Ok(back[0])
    })
}
