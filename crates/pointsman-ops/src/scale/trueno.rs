//! By Trueno.

use pointsman::OpBuilder;

use super::Scale;
use crate::Float;
use crate::trueno::{AVX2, SSE2, on_trueno, plain, vector, write};

pub(super) fn variants<T: Float>(builder: OpBuilder<Scale<T>>) -> OpBuilder<Scale<T>> {
    on_trueno::<T, _>(builder, &[AVX2, SSE2], |args, theirs| {
        let scaled = vector(args.x, theirs).scale(plain(&[args.a])[0])?;
        write(args.x, scaled.as_slice());
        Ok(())
    })
}
