//! The forward pass: plain, through `gemm`, and in one go.

use rayon::prelude::*;

use super::{Activation, Args};
use crate::Float;
use crate::lanes::vectorised;
use crate::product::{Onto, Team, multiply};
use crate::team::share;
use crate::tile::{Finish, Tiled};

/// One product after the other.
pub(super) fn naive<T: Float>(args: &mut Args<'_, T>) {
    let n = args.w.columns();
    for i in 0..args.x.rows() {
        let y = &mut args.y[i * n..][..n];
        y.copy_from_slice(args.b);
        for (p, x) in args.x.row(i).iter().enumerate() {
            for (y, w) in y.iter_mut().zip(args.w.row(p)) {
                *y += *x * *w;
            }
        }
    }
    finish(args.activation, args.y, args.sums.as_deref_mut());
}

/// The sums begin with the bias, the product is added to them.
pub(super) fn packed<T: Float>(args: &mut Args<'_, T>, team: Team) {
    let n = args.w.columns();
    if args.y.is_empty() {
        return;
    }
    for row in args.y.chunks_exact_mut(n) {
        row.copy_from_slice(args.b);
    }
    multiply(args.x.into(), args.w.into(), args.y, n, Onto::Old, team);
    if team == Team::One {
        return finish(args.activation, args.y, args.sums.as_deref_mut());
    }
    let share = share(args.y.len());
    let y = args.y.par_chunks_mut(share);
    match &mut args.sums {
        Some(sums) => y
            .zip(sums.par_chunks_mut(share))
            .for_each(|(y, sums)| finish(args.activation, y, Some(sums))),
        None => y.for_each(|y| finish(args.activation, y, None)),
    }
}

/// Keeps the sums if that is asked for, and makes outputs of them.
fn finish<T: Float>(activation: Activation, y: &mut [T], sums: Option<&mut [T]>) {
    if let Some(sums) = sums {
        sums.copy_from_slice(y);
    }
    if activation != Activation::Identity {
        y.iter_mut().for_each(|y| *y = activation.of(*y));
    }
}

/// Each sum becomes an output while it is still in a register, and is not kept.
pub(super) fn fused<T: Float>(args: &mut Args<'_, T>) {
    vectorised(Tiled {
        a: args.x,
        b: args.w,
        c: args.y,
        finish: Outputs(args.b, args.activation),
    });
}

struct Outputs<'a, T>(&'a [T], Activation);

impl<T: Float> Finish<T> for Outputs<'_, T> {
    #[inline(always)]
    fn finish<const N: usize>(&self, column: usize, mut sums: [T; N]) -> [T; N] {
        let b = &self.0[column..][..N];
        for i in 0..N {
            sums[i] = self.1.of(sums[i] + b[i]);
        }
        sums
    }
}
