//! Vector code from one generic body per kernel, compiled for the best instructions at hand.
//!
//! A [`Kernel`] is written in plain Rust with explicit lanes. [`vectorised`] compiles it once per
//! instruction set, picks by what the CPU really has, and hands it the fitting multiply-add.

/// Floats of one step of a kernel's main loop: eight vectors of AVX, enough to hide the latency of
/// a multiply-add (4 cycles, two a cycle). 64 lanes read 64–86 GB/s in cache on Zen 3, one 8.6.
pub(crate) const WIDE: usize = 64;

/// Floats of one vector: what is left after the wide steps goes in these.
pub(crate) const NARROW: usize = 8;

/// How `a · b + c` is computed.
pub(crate) trait MulAdd: Copy {
    fn mul_add(self, a: f32, b: f32, c: f32) -> f32;
}

/// One instruction and one rounding. Without the instruction it would be a slow library call.
#[derive(Clone, Copy)]
pub(crate) struct Fused;

impl MulAdd for Fused {
    #[inline(always)]
    fn mul_add(self, a: f32, b: f32, c: f32) -> f32 {
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
    fn mul_add(self, a: f32, b: f32, c: f32) -> f32 {
        a * b + c
    }
}

/// A loop in explicit lanes. `run` must be `#[inline(always)]`, so that it is compiled with the
/// instructions of its caller.
pub(crate) trait Kernel {
    type Output;
    fn run(self, ops: impl MulAdd) -> Self::Output;
}

/// Runs a kernel with the best instructions of this CPU. Safe whatever a
/// [`Machine`](pointsman::Machine) claims: the CPU itself is asked, at the price of one load.
#[inline]
pub(crate) fn vectorised<K: Kernel>(kernel: K) -> K::Output {
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

/// The same without asking for more than every CPU of the target has: what tests compare with.
#[cfg(all(test, not(target_arch = "aarch64")))]
pub(crate) fn plain<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Separate)
}
