//! The variants that one kernel gives: in vectors of two widths, and on all threads.

use pointsman::{Backend, Kind, Op, OpBuilder, Selector, Verify};

use crate::lanes::{needs_vectors, needs_wide_vectors, vectorised, vectorised_512};
use crate::team::{Parts, WORTH_SHARING, shared};

/// An op that one kernel computes.
pub(crate) trait Lanes: Op<Output: Send> {
    type Kernel<'k>: Parts<Output = Self::Output>;

    fn kernel<'k>(args: &'k mut Self::Args<'_>) -> Self::Kernel<'k>;
}

/// Adds the variants `simd`, `avx512` and `threads`.
pub(crate) fn with_lanes<O: Lanes, K: Kind<O>>(builder: OpBuilder<O, K>) -> OpBuilder<O, K> {
    let builder = builder.variant("simd", Backend::Simd, |args| vectorised(O::kernel(args)));
    let builder = needs_vectors(builder).variant("avx512", Backend::Simd, |args| {
        vectorised_512(O::kernel(args))
    });
    needs_wide_vectors(builder)
        .variant("threads", Backend::Threads, |args| shared(O::kernel(args)))
        .min_size(WORTH_SHARING)
}

/// An op with a scalar reference and these variants, checked before they serve.
pub(crate) fn in_lanes<O: Lanes + Verify + Default>(
    selector: &Selector,
    scalar: impl Fn(&mut O::Args<'_>) -> O::Output + Send + Sync + 'static,
) -> OpBuilder<O> {
    let op = selector.op(O::default());
    with_lanes(op.reference("scalar", Backend::Scalar, scalar)).verified()
}

#[cfg(test)]
pub(crate) type Body<O> = fn(&mut <O as Op>::Args<'_>) -> <O as Op>::Output;

/// The reference, the bodies of these variants and the fallback that this machine may not need, by
/// name, for tests.
#[cfg(test)]
pub(crate) fn bodies<O: Lanes>(reference: Body<O>) -> Vec<(&'static str, Body<O>)> {
    vec![
        ("scalar", reference),
        ("simd", |args| vectorised(O::kernel(args))),
        ("avx512", |args| vectorised_512(O::kernel(args))),
        ("threads", |args| crate::team::in_parts(O::kernel(args), 3)),
        #[cfg(not(target_arch = "aarch64"))]
        ("without FMA", |args| {
            crate::lanes::without_fma(|| vectorised(O::kernel(args)))
        }),
    ]
}

/// Lengths at which kernels go wrong: every remainder of their steps, and some of many steps.
#[cfg(test)]
pub(crate) fn lengths() -> impl Iterator<Item = usize> {
    (0..=4 * crate::lanes::WIDE).chain([1000, 4097, 65_536, 100_003])
}
