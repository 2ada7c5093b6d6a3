//! By Trueno.

use pointsman::OpBuilder;

use super::Sum;
use crate::Float;
use crate::trueno::{AVX2, SSE2, on_trueno, vector};

pub(super) fn variants<T: Float>(builder: OpBuilder<Sum<T>>) -> OpBuilder<Sum<T>> {
    on_trueno::<T, _>(builder, &[AVX2, SSE2], |args, theirs| {
        Ok(T::of(vector(args.x, theirs).sum()?.into()))
    })
}
