//! Eight rows at once, from the padded copy.

use super::{Args, gathered};
use crate::Float;
use crate::lanes::{Kernel, MulAdd, NARROW, vectorised};
use crate::sparse::Ell;

struct Slices<'a, T> {
    ell: &'a Ell<T>,
    x: &'a [T],
    y: &'a mut [T],
}

impl<T: Float> Kernel for Slices<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self, ops: impl MulAdd) {
        let Slices { ell, x, y } = self;
        for (slice, y) in ell.slices.iter().zip(y.chunks_mut(NARROW)) {
            let indices = &ell.indices[slice.steps.clone()];
            let values = &ell.values[slice.steps.clone()];
            let mut sums = [T::zero(); NARROW];
            for (step, (columns, values)) in (0..).zip(indices.iter().zip(values)) {
                let x = gathered(columns, x);
                for i in 0..NARROW {
                    let sum = ops.mul_add(values[i], x[i], sums[i]);
                    sums[i] = if step < slice.lens[i] { sum } else { sums[i] };
                }
            }
            y.copy_from_slice(&sums[..y.len()]);
        }
    }
}

/// Only for matrices with a padded copy.
#[inline]
pub(super) fn spmv<T: Float>(args: &mut Args<'_, T>) {
    match args.a.ell() {
        Some(ell) => vectorised(Slices {
            ell,
            x: args.x,
            y: args.y,
        }),
        None => super::scalar::spmv(args),
    }
}
