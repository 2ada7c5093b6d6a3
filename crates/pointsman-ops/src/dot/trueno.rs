//! By Trueno.

use pointsman::OpBuilder;

use super::Dot;
use crate::Float;
use crate::trueno::{AVX2, SSE2, on_trueno, vector};

pub(super) fn variants<T: Float>(builder: OpBuilder<Dot<T>>) -> OpBuilder<Dot<T>> {
    on_trueno::<T, _>(builder, &[AVX2, SSE2], |args, theirs| {
        let dot = vector(args.x, theirs).dot(&vector(args.y, theirs))?;
        Ok(T::of(dot.into()))
    })
}
