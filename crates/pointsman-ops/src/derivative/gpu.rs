//! On GPUs.

use pointsman::{OpBuilder, Selector};

use super::{Derivative, Kept, Method};
use crate::Float;
use crate::gpu::{OnGpu, kernels, on_gpus};
use crate::scratch::kept;

pub(super) fn variants<T: Float, M: Method>(
    selector: &Selector,
    builder: OpBuilder<Derivative<T, M>>,
) -> OpBuilder<Derivative<T, M>> {
    let variant = OnGpu {
        suffix: "",
        kernels: vec![&kernels::CAUSAL, &kernels::SCALE],
        // Weights, values and sums.
        bytes: |workload| [1.5 * workload.byte_count(), workload.byte_count() / 2.0],
    };
    on_gpus::<T, _>(selector, builder, variant, |job, args| {
        kept(|kept: &mut Kept<T, M>| {
            let (order, n) = (args.order.wide(), args.x.len());
            let (w, x) = kept.terms(order, args.x);
            let (w, x) = (job.upload(w)?, job.upload(x)?);
            let y = job.room::<T>(n)?;
            kernels::causal(job, &w, &x, &y, n)?;
            let factor = M::factor(order, args.step.wide());
            kernels::scale(job, factor as f32, &y, n)?;
            job.download(&y, args.y)
        })
    })
}
