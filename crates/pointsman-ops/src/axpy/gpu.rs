//! On GPUs.

use pointsman::{OpBuilder, Selector};

use super::Axpy;
use crate::Float;
use crate::gpu::{OnGpu, kernels, on_gpus};

pub(super) fn variants<T: Float>(
    selector: &Selector,
    builder: OpBuilder<Axpy<T>>,
) -> OpBuilder<Axpy<T>> {
    let variant = OnGpu::plain([&kernels::AXPY]);
    on_gpus::<T, _>(selector, builder, variant, |job, args| {
        let (x, y) = (job.upload(args.x)?, job.upload(args.y)?);
        kernels::axpy(job, args.a.wide() as f32, &x, &y, args.x.len())?;
        job.download(&y, args.y)
    })
}
