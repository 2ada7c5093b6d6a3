//! On GPUs.

use pointsman::{OpBuilder, Selector};

use super::Relu;
use crate::Float;
use crate::gpu::{OnGpu, kernels, on_gpus};

pub(super) fn variants<T: Float>(
    selector: &Selector,
    builder: OpBuilder<Relu<T>>,
) -> OpBuilder<Relu<T>> {
    let variant = OnGpu::plain([&kernels::RELU]);
    on_gpus::<T, _>(selector, builder, variant, |job, args| {
        let x = job.upload(args.x)?;
        let y = job.room::<T>(args.y.len())?;
        kernels::relu(job, &x, &y, args.x.len())?;
        job.download(&y, args.y)
    })
}
