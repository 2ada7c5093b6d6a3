//! By Trueno.

use pointsman::{Backend, BoxError, DType, OpBuilder};

use super::{Args, Matmul};
use crate::trueno::{Matrix, plain, write};
use crate::{Float, View};

/// One variant: Trueno's products take no notice of the backend.
pub(super) fn variants<T: Float>(builder: OpBuilder<Matmul<T>>) -> OpBuilder<Matmul<T>> {
    match T::DTYPE {
        DType::F32 => builder
            .try_variant("trueno", Backend::Simd, multiply)
            .untouched_on_error(),
        _ => builder,
    }
}

fn multiply<T: Float>(args: &mut Args<'_, T>) -> Result<(), BoxError> {
    let matrix = |m: &View<'_, T>| Matrix::from_slice(m.rows(), m.columns(), plain(m.elements()));
    let product = matrix(&args.a)?.matmul(&matrix(&args.b)?)?;
    write(args.c, product.as_slice());
    Ok(())
}
