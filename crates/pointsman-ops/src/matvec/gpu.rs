//! On GPUs.

use pointsman::{OpBuilder, Selector};

use super::MatVec;
use crate::Float;
use crate::gpu::{OnGpu, kernels, on_gpus};

pub(super) fn variants<T: Float>(
    selector: &Selector,
    builder: OpBuilder<MatVec<T>>,
) -> OpBuilder<MatVec<T>> {
    let variant = OnGpu::plain([&kernels::MATVEC, &kernels::PAD]);
    on_gpus::<T, _>(selector, builder, variant, |job, args| {
        let (a, x) = (job.upload(args.a.elements())?, job.upload(args.x)?);
        let y = job.room::<T>(args.y.len())?;
        kernels::matvec(job, &a, &x, &y, [args.a.rows(), args.a.columns()])?;
        job.download(&y, args.y)
    })
}
