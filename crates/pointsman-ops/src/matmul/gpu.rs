//! On GPUs.

use pointsman::{OpBuilder, Selector};

use super::Matmul;
use crate::Float;
use crate::gpu::kernels::{self, Product};
use crate::gpu::{OnGpu, on_gpus};

/// The inner of the two ways needs copies of A and B with rows of whole quads, and each of the three
/// matrices may be the largest.
const REGISTERS: OnGpu = OnGpu {
    suffix: "_registers",
    kernels: &[&kernels::REGISTERS, &kernels::PAD],
    bytes: |workload| [2.0 * workload.byte_count(), workload.byte_count()],
};

const TILES: OnGpu = OnGpu {
    suffix: "_tiles",
    ..OnGpu::plain(&[&kernels::TILES])
};

/// Which of the two is the faster one depends on what the GPU is made of: calls will show.
pub(super) fn variants<T: Float>(
    selector: &Selector,
    mut builder: OpBuilder<Matmul<T>>,
) -> OpBuilder<Matmul<T>> {
    for (variant, product) in [(REGISTERS, Product::Registers), (TILES, Product::Tiles)] {
        builder = on_gpus::<T, _>(selector, builder, variant, move |job, g| {
            let (a, b) = (job.upload(g.a.elements())?, job.upload(g.b.elements())?);
            let c = job.room::<T>(g.c.len())?;
            let sizes = [g.a.rows(), g.a.columns(), g.b.columns()];
            kernels::matmul(job, product, &a, &b, &c, sizes)?;
            job.download(&c, g.c)
        });
    }
    builder
}
