//! On GPUs.

use pointsman::{OpBuilder, Selector};

use super::Add;
use crate::Float;
use crate::gpu::{OnGpu, kernels, on_gpus};

pub(super) fn variants<T: Float>(
    selector: &Selector,
    builder: OpBuilder<Add<T>>,
) -> OpBuilder<Add<T>> {
    let variant = OnGpu::plain([&kernels::ADD]);
    on_gpus::<T, _>(selector, builder, variant, |job, args| {
        let (x, y) = (job.upload(args.x)?, job.upload(args.y)?);
        let z = job.room::<T>(args.z.len())?;
        kernels::add(job, &x, &y, &z, args.x.len())?;
        job.download(&z, args.z)
    })
}
