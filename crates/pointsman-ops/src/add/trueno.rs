//! By Trueno.

use pointsman::OpBuilder;

use super::Add;
use crate::Float;
use crate::trueno::{AVX2, SSE2, on_trueno, vector, write};

pub(super) fn variants<T: Float>(builder: OpBuilder<Add<T>>) -> OpBuilder<Add<T>> {
    on_trueno::<T, _>(builder, &[AVX2, SSE2], |args, theirs| {
        let z = vector(args.x, theirs).add(&vector(args.y, theirs))?;
        write(args.z, z.as_slice());
        Ok(())
    })
}
