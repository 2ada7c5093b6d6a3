//! Variants that Trueno computes, for `f32`.
//!
//! Trueno runs what its backend says, also instructions that the CPU has not got, which ends the process: so each backend serves
//! only where its CPU features are. Its vectors own what is in them: each call copies, and what that takes counts.
//!
//! What is left out of Trueno 0.18, and why: `AVX512` crashes on vectors that are not aligned, also where the CPU has it; `GPU` runs
//! scalar code; `NEON` has not been tried; its `relu` and `norm` give other results for NaN and for squares that overflow, and its `exp` with SSE2 is
//! further off than our bound.

use pointsman::{Backend, BoxError, Cap, DType, Op, OpBuilder};

pub(crate) use ::trueno::{Backend as Theirs, Matrix, Vector};

use crate::Float;

/// A backend of Trueno's as a variant, and what it needs of a CPU.
pub(crate) struct Width {
    name: &'static str,
    theirs: Theirs,
    caps: &'static [Cap],
}

pub(crate) const SSE2: Width = Width {
    name: "trueno_sse2",
    theirs: Theirs::SSE2,
    caps: &[Cap::Sse2],
};

pub(crate) const AVX2: Width = Width {
    name: "trueno_avx2",
    theirs: Theirs::AVX2,
    caps: &[Cap::Avx2, Cap::Fma],
};

/// Adds a variant for each of these. The body must write its results at its end, and nothing if it fails.
pub(crate) fn on_trueno<T: Float, O: Op>(
    mut builder: OpBuilder<O>,
    widths: &[Width],
    body: impl for<'a> Fn(&mut O::Args<'a>, Theirs) -> Result<O::Output, BoxError>
    + Copy
    + Send
    + Sync
    + 'static,
) -> OpBuilder<O> {
    if T::DTYPE != DType::F32 {
        return builder;
    }
    for width in widths {
        let theirs = width.theirs;
        let body = move |args: &mut O::Args<'_>| body(args, theirs);
        builder = builder.try_variant(width.name, Backend::Simd, body);
        builder = width.caps.iter().fold(builder, |b, cap| b.requires(*cap));
        builder = builder.untouched_on_error();
    }
    builder
}

/// Numbers of an op for `f32` as what they are.
pub(crate) fn plain<T: Float>(numbers: &[T]) -> &[f32] {
    bytemuck::cast_slice(numbers)
}

/// A copy for Trueno.
pub(crate) fn vector<T: Float>(numbers: &[T], theirs: Theirs) -> Vector<f32> {
    Vector::from_slice_with_backend(plain(numbers), theirs)
}

/// Copies a result to where it belongs.
pub(crate) fn write<T: Float>(to: &mut [T], from: &[f32]) {
    bytemuck::cast_slice_mut::<T, f32>(to).copy_from_slice(from);
}
