//! On GPUs.

use pointsman::{OpBuilder, Selector};

use super::{Activation, Dense};
use crate::Float;
use crate::gpu::kernels::{self, Product};
use crate::gpu::{OnGpu, on_gpus_if};

/// As for products of matrices, one for each way to multiply. Neither keeps the sums.
pub(super) fn variants<T: Float>(
    selector: &Selector,
    mut builder: OpBuilder<Dense<T>>,
) -> OpBuilder<Dense<T>> {
    let registers = OnGpu {
        suffix: "_registers",
        kernels: vec![&kernels::REGISTERS, &kernels::PAD, &kernels::BIAS],
        bytes: |workload| [2.0 * workload.byte_count(), workload.byte_count()],
    };
    let tiles = OnGpu {
        suffix: "_tiles",
        ..OnGpu::plain([&kernels::TILES, &kernels::BIAS])
    };
    for (variant, product) in [(registers, Product::Registers), (tiles, Product::Tiles)] {
        let limit = |builder: OpBuilder<Dense<T>>| builder.without_gradient();
        builder = on_gpus_if::<T, _>(selector, builder, variant, limit, move |job, g| {
            let (x, w) = (job.upload(g.x.elements())?, job.upload(g.w.elements())?);
            let (b, y) = (job.upload(g.b)?, job.room::<T>(g.y.len())?);
            let sizes = [g.x.rows(), g.x.columns(), g.w.columns()];
            let relu = g.activation == Activation::Relu;
            kernels::dense(job, product, &x, &w, &b, &y, sizes, relu)?;
            job.download(&y, g.y)
        });
    }
    builder
}
