//! On GPUs.

use pointsman::{OpBuilder, Selector};

use super::Matmul;
use crate::Float;
use crate::gpu::kernels::{self, Product};
use crate::gpu::{OnGpu, on_gpus};

/// Which of the two is the faster one depends on what the GPU is made of: calls will show.
pub(super) fn variants<T: Float>(
    selector: &Selector,
    mut builder: OpBuilder<Matmul<T>>,
) -> OpBuilder<Matmul<T>> {
    let registers = OnGpu {
        suffix: "_registers",
        kernels: vec![&kernels::REGISTERS, &kernels::PAD],
        // It may need copies of A and B with rows of whole quads.
        bytes: |workload| [2.0 * workload.byte_count(), workload.byte_count()],
    };
    let tiles = OnGpu {
        suffix: "_tiles",
        ..OnGpu::plain([&kernels::TILES])
    };
    for (variant, product) in [(registers, Product::Registers), (tiles, Product::Tiles)] {
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
