//! On GPUs.

use pointsman::{OpBuilder, Selector};

use super::Conv2d;
use crate::Float;
use crate::gpu::kernels::{self, Sizes};
use crate::gpu::{OnGpu, on_gpus};

pub(super) fn variants<T: Float>(
    selector: &Selector,
    builder: OpBuilder<Conv2d<T>>,
) -> OpBuilder<Conv2d<T>> {
    let variant = OnGpu {
        suffix: "",
        kernels: vec![&kernels::CONV2D, &kernels::PAD],
        bytes: |workload| [2.0 * workload.byte_count(), workload.byte_count()],
    };
    on_gpus::<T, _>(selector, builder, variant, |job, args| {
        let (x, filters) = (job.upload(args.x)?, job.upload(args.filters)?);
        let y = job.room::<T>(args.y.len())?;
        let shape = args.shape;
        let sizes = Sizes {
            n: shape.n,
            c: shape.c,
            h: shape.h,
            w: shape.w,
            k: shape.k,
            r: shape.r,
            s: shape.s,
            stride: shape.stride,
            padding: shape.padding,
        };
        kernels::conv2d(job, &x, &filters, &y, &sizes)?;
        job.download(&y, args.y)
    })
}
