//! What a machine can do that a variant may need.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

macro_rules! caps {
    ($($(#[$doc:meta])* $cap:ident = $name:literal,)*) => {
        /// A capability that a variant may need: a set of CPU instructions, or a GPU.
        ///
        /// ```
        /// use pointsman::Cap;
        ///
        /// assert_eq!(Cap::Avx2.to_string(), "avx2");
        /// assert_eq!("gpu:1".parse(), Ok(Cap::Gpu(1)));
        /// assert!("avx3".parse::<Cap>().is_err());
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Cap {
            $($(#[$doc])* $cap,)*
            /// The GPU with this number.
            Gpu(u8),
        }

        /// The instruction sets and their names.
        const INSTRUCTIONS: &[(Cap, &str)] = &[$((Cap::$cap, $name),)*];
    };
}

// The names are those of Rust's `target_feature`, and part of every fingerprint: they stay.
caps! {
    /// SSE2: 128-bit vectors, on every x86-64.
    Sse2 = "sse2",
    /// SSE4.1.
    Sse41 = "sse4.1",
    /// SSE4.2.
    Sse42 = "sse4.2",
    /// AVX: 256-bit vectors of floats.
    Avx = "avx",
    /// AVX2: 256-bit vectors of integers.
    Avx2 = "avx2",
    /// Fused multiply-add on x86.
    Fma = "fma",
    /// Conversion of 16-bit floats on x86.
    F16c = "f16c",
    /// AVX-512, its foundation: 512-bit vectors.
    Avx512f = "avx512f",
    /// AVX-512 on bytes and words.
    Avx512bw = "avx512bw",
    /// AVX-512 on double and quad words.
    Avx512dq = "avx512dq",
    /// AVX-512 on shorter vectors.
    Avx512vl = "avx512vl",
    /// AVX-512 dot products of bytes and words.
    Avx512vnni = "avx512vnni",
    /// Bit manipulation, first set.
    Bmi1 = "bmi1",
    /// Bit manipulation, second set.
    Bmi2 = "bmi2",
    /// Counting of bits.
    Popcnt = "popcnt",
    /// NEON: 128-bit vectors on Arm.
    Neon = "neon",
    /// Arithmetic on 16-bit floats on Arm.
    Fp16 = "fp16",
    /// Dot products of bytes on Arm.
    Dotprod = "dotprod",
    /// SVE: vectors of the machine's own length on Arm.
    Sve = "sve",
    /// SVE, second set.
    Sve2 = "sve2",
}

impl Cap {
    /// The instruction sets that this CPU and its operating system offer.
    ///
    /// GPUs are not among them: whoever finds one adds it with
    /// [`Machine::with_gpu`](crate::Machine::with_gpu).
    ///
    /// ```
    /// use pointsman::Cap;
    ///
    /// # #[cfg(target_arch = "x86_64")]
    /// assert!(Cap::detected().contains(&Cap::Sse2));
    /// ```
    pub fn detected() -> BTreeSet<Cap> {
        cpu::detected()
            .filter(|(_, found)| *found)
            .map(|(cap, _)| cap)
            .collect()
    }
}

#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
mod cpu {
    use super::Cap;

    pub(super) fn detected() -> impl Iterator<Item = (Cap, bool)> {
        [
            (Cap::Sse2, is_x86_feature_detected!("sse2")),
            (Cap::Sse41, is_x86_feature_detected!("sse4.1")),
            (Cap::Sse42, is_x86_feature_detected!("sse4.2")),
            (Cap::Avx, is_x86_feature_detected!("avx")),
            (Cap::Avx2, is_x86_feature_detected!("avx2")),
            (Cap::Fma, is_x86_feature_detected!("fma")),
            (Cap::F16c, is_x86_feature_detected!("f16c")),
            (Cap::Avx512f, is_x86_feature_detected!("avx512f")),
            (Cap::Avx512bw, is_x86_feature_detected!("avx512bw")),
            (Cap::Avx512dq, is_x86_feature_detected!("avx512dq")),
            (Cap::Avx512vl, is_x86_feature_detected!("avx512vl")),
            (Cap::Avx512vnni, is_x86_feature_detected!("avx512vnni")),
            (Cap::Bmi1, is_x86_feature_detected!("bmi1")),
            (Cap::Bmi2, is_x86_feature_detected!("bmi2")),
            (Cap::Popcnt, is_x86_feature_detected!("popcnt")),
        ]
        .into_iter()
    }
}

#[cfg(target_arch = "aarch64")]
mod cpu {
    use std::arch::is_aarch64_feature_detected;

    use super::Cap;

    pub(super) fn detected() -> impl Iterator<Item = (Cap, bool)> {
        [
            (Cap::Neon, is_aarch64_feature_detected!("neon")),
            (Cap::Fp16, is_aarch64_feature_detected!("fp16")),
            (Cap::Dotprod, is_aarch64_feature_detected!("dotprod")),
            (Cap::Sve, is_aarch64_feature_detected!("sve")),
            (Cap::Sve2, is_aarch64_feature_detected!("sve2")),
        ]
        .into_iter()
    }
}

#[cfg(not(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64")))]
mod cpu {
    use super::Cap;

    pub(super) fn detected() -> impl Iterator<Item = (Cap, bool)> {
        std::iter::empty()
    }
}

/// A text that names no capability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapError(String);

impl fmt::Display for CapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CapError {}

impl fmt::Display for Cap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Cap::Gpu(n) = self {
            return f.pad(&format!("gpu:{n}"));
        }
        let named = INSTRUCTIONS.iter().find(|(cap, _)| cap == self);
        f.pad(named.map_or("unknown", |(_, name)| name))
    }
}

impl FromStr for Cap {
    type Err = CapError;

    fn from_str(text: &str) -> Result<Self, CapError> {
        if let Some((cap, _)) = INSTRUCTIONS.iter().find(|(_, name)| *name == text) {
            return Ok(*cap);
        }
        if let Some(gpu) = text.strip_prefix("gpu:").and_then(|n| n.parse().ok()) {
            return Ok(Cap::Gpu(gpu));
        }
        let valid: Vec<&str> = INSTRUCTIONS.iter().map(|(_, name)| *name).collect();
        Err(CapError(format!(
            "unknown capability {text:?}; valid are {}, gpu:0 to gpu:255",
            valid.join(", ")
        )))
    }
}

impl Serialize for Cap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f44_names_go_round_and_a_bad_one_says_what_is_valid() {
        let gpus = [(Cap::Gpu(0), "gpu:0"), (Cap::Gpu(255), "gpu:255")];
        for (cap, name) in INSTRUCTIONS.iter().chain(&gpus) {
            assert_eq!(cap.to_string(), *name);
            assert_eq!(name.parse(), Ok(*cap));
        }
        for bad in ["", "AVX2", "avx2 ", "gpu:256", "gpu"] {
            let error = bad.parse::<Cap>().unwrap_err().to_string();
            assert!(error.contains(&format!("{bad:?}")), "{error}");
            assert!(
                error.contains("avx2") && error.contains("gpu:255"),
                "{error}"
            );
        }
        assert_eq!(serde_json::to_string(&Cap::Sse41).unwrap(), "\"sse4.1\"");
    }

    #[test]
    fn what_is_detected_is_at_least_what_the_build_relies_on() {
        let found = Cap::detected();
        for (cap, built) in [
            (Cap::Sse2, cfg!(target_feature = "sse2")),
            (Cap::Avx2, cfg!(target_feature = "avx2")),
            (Cap::Neon, cfg!(target_feature = "neon")),
        ] {
            assert!(!built || found.contains(&cap), "{cap}");
        }
    }
}
