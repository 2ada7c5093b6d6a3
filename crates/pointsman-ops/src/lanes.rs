//! Vector code from one generic body per kernel, compiled for the best instructions at hand.
//!
//! A [`Kernel`] is written in plain Rust with explicit lanes. [`vectorised`] compiles it once per
//! instruction set, picks by what the CPU really has, and hands it the fitting multiply-add.

use pointsman::{Cap, Kind, Op, OpBuilder};

use crate::Float;

/// Elements of one step of a kernel's main loop: four vectors of AVX for `f32`, eight for `f64`,
/// enough to hide the latency of a multiply-add behind its two loads.
pub(crate) const WIDE: usize = 32;

/// Elements of a short step: what is left after the wide ones goes in these.
pub(crate) const NARROW: usize = 8;

/// How `a · b + c` is computed.
pub(crate) trait MulAdd: Copy {
    fn mul_add<T: Float>(self, a: T, b: T, c: T) -> T;
}

/// One instruction and one rounding. Without the instruction it would be a slow library call.
#[derive(Clone, Copy)]
pub(crate) struct Fused;

impl MulAdd for Fused {
    #[inline(always)]
    fn mul_add<T: Float>(self, a: T, b: T, c: T) -> T {
        a.mul_add(b, c)
    }
}

/// Two instructions and two roundings.
#[cfg(not(target_arch = "aarch64"))]
#[derive(Clone, Copy)]
pub(crate) struct Separate;

#[cfg(not(target_arch = "aarch64"))]
impl MulAdd for Separate {
    #[inline(always)]
    fn mul_add<T: Float>(self, a: T, b: T, c: T) -> T {
        a * b + c
    }
}

/// A loop in explicit lanes. `run` must be `#[inline(always)]`, so that it is compiled with the
/// instructions of its caller.
pub(crate) trait Kernel {
    type Output;
    fn run(self, ops: impl MulAdd) -> Self::Output;
}

/// Runs a kernel with AVX2, NEON or what every CPU of the target has. Safe whatever a
/// [`Machine`](pointsman::Machine) claims: the CPU itself is asked, at the price of one load.
#[inline]
pub(crate) fn vectorised<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(all(test, not(target_arch = "aarch64")))]
    if PLAIN.get() {
        return kernel.run(Separate);
    }
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        fn avx2<K: Kernel>(kernel: K) -> K::Output {
            kernel.run(Fused)
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the CPU and its operating system offer AVX2 and FMA, as was just asked; that
            // is all the function needs beyond safe code.
            return unsafe { avx2(kernel) };
        }
        kernel.run(Separate)
    }
    // Every 64-bit Arm has NEON with fused multiply-add.
    #[cfg(target_arch = "aarch64")]
    {
        kernel.run(Fused)
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        kernel.run(Separate)
    }
}

/// Runs a kernel with AVX-512 where there is, else as [`vectorised`]. A variant of its own and not
/// simply better: some CPUs lower their clock for it.
#[inline]
pub(crate) fn vectorised_512<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,fma")]
        fn avx512<K: Kernel>(kernel: K) -> K::Output {
            kernel.run(Fused)
        }
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("fma") {
            // SAFETY: the CPU and its operating system offer AVX-512F and FMA, as was just asked;
            // that is all the function needs beyond safe code.
            return unsafe { avx512(kernel) };
        }
    }
    vectorised(kernel)
}

#[cfg(all(test, not(target_arch = "aarch64")))]
thread_local! {
    static PLAIN: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Does this with kernels that ask for no more than every CPU of the target has, on this thread: what
/// CPUs of other users run.
#[cfg(all(test, not(target_arch = "aarch64")))]
pub(crate) fn without_fma<R>(work: impl FnOnce() -> R) -> R {
    let before = PLAIN.replace(true);
    let result = work();
    PLAIN.set(before);
    result
}

/// Says of the variant declared last that it needs what [`vectorised`] makes it for.
pub(crate) fn needs_vectors<O: Op, K: Kind<O>>(builder: OpBuilder<O, K>) -> OpBuilder<O, K> {
    if cfg!(target_arch = "aarch64") {
        builder.requires(Cap::Neon)
    } else {
        builder.requires(Cap::Avx2).requires(Cap::Fma)
    }
}

/// Says of the variant declared last that it needs what [`vectorised_512`] makes it for.
pub(crate) fn needs_wide_vectors<O: Op, K: Kind<O>>(builder: OpBuilder<O, K>) -> OpBuilder<O, K> {
    builder.requires(Cap::Avx512f).requires(Cap::Fma)
}
