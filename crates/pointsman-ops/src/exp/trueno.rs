//! By Trueno.

use pointsman::OpBuilder;

use super::Exp;
use crate::Float;
use crate::trueno::{AVX2, on_trueno, vector, write};

pub(super) fn variants<T: Float>(builder: OpBuilder<Exp<T>>) -> OpBuilder<Exp<T>> {
    on_trueno::<T, _>(builder, &[AVX2], |args, theirs| {
        let y = vector(args.x, theirs).exp()?;
        write(args.y, y.as_slice());
        Ok(())
    })
}
