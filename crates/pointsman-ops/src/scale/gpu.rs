//! On GPUs.

use pointsman::{OpBuilder, Selector};

use super::Scale;
use crate::Float;
use crate::gpu::{OnGpu, kernels, on_gpus};

pub(super) fn variants<T: Float>(
    selector: &Selector,
    builder: OpBuilder<Scale<T>>,
) -> OpBuilder<Scale<T>> {
    let variant = OnGpu::plain([&kernels::SCALE]);
    on_gpus::<T, _>(selector, builder, variant, |job, args| {
        let x = job.upload(args.x)?;
        kernels::scale(job, args.a.wide() as f32, &x, args.x.len())?;
        job.download(&x, args.x)
    })
}
