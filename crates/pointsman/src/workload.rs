//! Step 1 of a call: the features of its arguments, and the cell they fall into.

use std::fmt;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::backend::Backend;
use crate::cell;

/// Most numeric features a workload may have.
pub const MAX_FEATURES: usize = 16;

/// Most categorical codes a workload may have.
pub const MAX_CODES: usize = 4;

/// A number that can be a feature: any integer or float. NaN counts as 0, infinities as the
/// largest finite number.
pub trait Feature: Copy {
    /// The value as a finite float.
    fn value(self) -> f64;

    /// The value as a size: negative numbers count as 0.
    fn size(self) -> u64;
}

macro_rules! small_integers {
    ($($t:ty)*) => { $(impl Feature for $t {
        #[inline]
        fn value(self) -> f64 { self as f64 }
        #[inline]
        fn size(self) -> u64 { u64::try_from(self).unwrap_or(0) }
    })* };
}
small_integers!(u8 u16 u32 i8 i16 i32 i64 isize);

macro_rules! large_integers {
    ($($t:ty)*) => { $(impl Feature for $t {
        #[inline]
        fn value(self) -> f64 {
            // Signed numbers convert in one instruction, and sizes fit into them.
            i64::try_from(self).unwrap_or(i64::MAX) as f64
        }
        #[inline]
        fn size(self) -> u64 { u64::try_from(self).unwrap_or(u64::MAX) }
    })* };
}
large_integers!(u64 usize u128);

impl Feature for i128 {
    fn value(self) -> f64 {
        self as f64
    }

    fn size(self) -> u64 {
        u64::try_from(self.max(0)).unwrap_or(u64::MAX)
    }
}

impl Feature for f64 {
    #[inline]
    fn value(self) -> f64 {
        if self.is_nan() {
            0.0
        } else {
            self.clamp(f64::MIN, f64::MAX)
        }
    }

    #[inline]
    fn size(self) -> u64 {
        self as u64 // saturates; NaN and negative numbers give 0
    }
}

impl Feature for f32 {
    #[inline]
    fn value(self) -> f64 {
        f64::from(self).value()
    }

    #[inline]
    fn size(self) -> u64 {
        self as u64
    }
}

/// Element type of the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum DType {
    /// The caller did not say.
    #[default]
    Unspecified,
    Bool,
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F16,
    Bf16,
    F32,
    F64,
    C64,
    C128,
    /// None of the above.
    Other,
}

impl DType {
    const ALL: [DType; 17] = [
        DType::Unspecified,
        DType::Bool,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::F16,
        DType::Bf16,
        DType::F32,
        DType::F64,
        DType::C64,
        DType::C128,
        DType::Other,
    ];

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Bytes of one element; `None` where the type does not say.
    pub fn bytes(self) -> Option<u64> {
        match self {
            DType::Unspecified | DType::Other => None,
            DType::Bool | DType::U8 | DType::I8 => Some(1),
            DType::U16 | DType::I16 | DType::F16 | DType::Bf16 => Some(2),
            DType::U32 | DType::I32 | DType::F32 => Some(4),
            DType::U64 | DType::I64 | DType::F64 | DType::C64 => Some(8),
            DType::C128 => Some(16),
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}").to_lowercase())
    }
}

pub(crate) const GRADIENT: u8 = 1;
pub(crate) const ITERATIVE: u8 = 2;

/// The features of one call: what decides how long each variant takes, and who may serve.
///
/// ```
/// use pointsman::{DType, Workload};
///
/// let (m, n, k) = (512usize, 512usize, 64usize);
/// let workload = Workload::new([m, n, k])
///     .dtype(DType::F32)
///     .flops(2.0 * m as f64 * n as f64 * k as f64)
///     .bytes(4 * (m * k + k * n + m * n));
/// assert_eq!(workload.size(), 512 * 512 * 64);
/// ```
///
/// It is `Copy` and holds no pointer, so that building one costs a few nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    pub(crate) numeric: [f64; MAX_FEATURES],
    pub(crate) codes: [u32; MAX_CODES],
    size: u64,
    flops: f64,
    bytes: f64,
    pub(crate) numeric_len: u8,
    pub(crate) codes_len: u8,
    align_log2: u8,
    pub(crate) flags: u8,
    pub(crate) dtype: DType,
    pub(crate) located: Backend,
    preferred: Option<Backend>,
}

/// A list of features or codes that is too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadError {
    what: &'static str,
    given: usize,
    most: usize,
}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}: a workload has at most {}",
            self.given, self.what, self.most
        )
    }
}

impl std::error::Error for WorkloadError {}

impl Workload {
    /// A workload with these numeric features, at most 16 (checked when it compiles).
    #[inline]
    pub fn new<F: Feature, const N: usize>(features: [F; N]) -> Self {
        const { assert!(N <= MAX_FEATURES, "a workload has at most 16 features") };
        let mut workload = Self::empty();
        let mut size = 1u64;
        for (slot, feature) in workload.numeric.iter_mut().zip(features) {
            *slot = feature.value();
            size = size.saturating_mul(feature.size());
        }
        workload.numeric_len = N as u8;
        workload.size = size;
        workload
    }

    /// A workload from a list whose length is known only at run time.
    pub fn from_slice(features: &[f64]) -> Result<Self, WorkloadError> {
        if features.len() > MAX_FEATURES {
            return Err(WorkloadError {
                what: "numeric features",
                given: features.len(),
                most: MAX_FEATURES,
            });
        }
        let mut workload = Self::empty();
        for (slot, value) in workload.numeric.iter_mut().zip(features) {
            *slot = value.value();
        }
        workload.numeric_len = features.len() as u8;
        workload.size = features.iter().product::<f64>() as u64;
        Ok(workload)
    }

    #[inline]
    fn empty() -> Self {
        Workload {
            numeric: [0.0; MAX_FEATURES],
            codes: [0; MAX_CODES],
            size: 0,
            flops: 0.0,
            bytes: 0.0,
            numeric_len: 0,
            codes_len: 0,
            align_log2: 0,
            flags: 0,
            dtype: DType::Unspecified,
            located: Backend::Scalar,
            preferred: None,
        }
    }

    /// Categorical features, at most four (checked when it compiles): layouts, modes, formats.
    #[inline]
    pub fn codes<const N: usize>(mut self, codes: [u32; N]) -> Self {
        const { assert!(N <= MAX_CODES, "a workload has at most 4 codes") };
        self.codes[..N].copy_from_slice(&codes);
        self.codes_len = N as u8;
        self
    }

    /// Categorical features from a list whose length is known only at run time.
    pub fn codes_from_slice(mut self, codes: &[u32]) -> Result<Self, WorkloadError> {
        if codes.len() > MAX_CODES {
            return Err(WorkloadError {
                what: "codes",
                given: codes.len(),
                most: MAX_CODES,
            });
        }
        self.codes[..codes.len()].copy_from_slice(codes);
        self.codes_len = codes.len() as u8;
        Ok(self)
    }

    /// The size that `min_size` and `max_size` are compared with. Without this call it is the
    /// product of the numeric features.
    #[inline]
    pub fn sized(mut self, size: usize) -> Self {
        self.size = size as u64;
        self
    }

    /// Element type of the data.
    #[inline]
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = dtype;
        self
    }

    /// Floating-point operations of the call, for the cost model.
    #[inline]
    pub fn flops(mut self, flops: impl Feature) -> Self {
        self.flops = flops.value().max(0.0);
        self
    }

    /// Bytes the call reads and writes, for the cost model and for transfers.
    #[inline]
    pub fn bytes(mut self, bytes: impl Feature) -> Self {
        self.bytes = bytes.value().max(0.0);
        self
    }

    /// The caller needs gradients of this call: variants without them are not eligible.
    #[inline]
    pub fn gradient(mut self, needed: bool) -> Self {
        self.set_flag(GRADIENT, needed);
        self
    }

    /// The call is one step of an iteration over the same data.
    #[inline]
    pub fn iterative(mut self, iterative: bool) -> Self {
        self.set_flag(ITERATIVE, iterative);
        self
    }

    /// Alignment of the data, from its address: `.aligned(x.as_ptr() as usize)`. With several
    /// buffers, call it for each: the weakest alignment counts.
    #[inline]
    pub fn aligned(mut self, address: usize) -> Self {
        let log2 = address.trailing_zeros().min(62) as u8 + 1;
        self.align_log2 = match self.align_log2 {
            0 => log2,
            known => known.min(log2),
        };
        self
    }

    /// Where the data lives now; the host's memory unless said otherwise.
    #[inline]
    pub fn located(mut self, backend: Backend) -> Self {
        self.located = place_of(backend);
        self
    }

    /// Serve this call from this backend if one of its variants is eligible.
    #[inline]
    pub fn prefer(mut self, backend: Backend) -> Self {
        self.preferred = Some(backend);
        self
    }

    #[inline]
    fn set_flag(&mut self, flag: u8, on: bool) {
        self.flags = if on {
            self.flags | flag
        } else {
            self.flags & !flag
        };
    }

    /// The numeric features.
    pub fn features(&self) -> &[f64] {
        &self.numeric[..usize::from(self.numeric_len)]
    }

    /// The categorical codes.
    pub fn category_codes(&self) -> &[u32] {
        &self.codes[..usize::from(self.codes_len)]
    }

    /// The size that `min_size` and `max_size` are compared with.
    #[inline]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Element type of the data.
    #[inline]
    pub fn element_type(&self) -> DType {
        self.dtype
    }

    /// Floating-point operations; 0 if the caller did not say.
    pub fn flop_count(&self) -> f64 {
        self.flops
    }

    /// Bytes read and written; 0 if the caller did not say.
    pub fn byte_count(&self) -> f64 {
        self.bytes
    }

    /// Whether the caller needs gradients.
    #[inline]
    pub fn needs_gradient(&self) -> bool {
        self.flags & GRADIENT != 0
    }

    /// Whether the call is one step of an iteration.
    pub fn is_iterative(&self) -> bool {
        self.flags & ITERATIVE != 0
    }

    /// Alignment of the data in bytes, if the caller gave an address.
    #[inline]
    pub fn alignment(&self) -> Option<u64> {
        match self.align_log2 {
            0 => None,
            log2 => Some(1 << (log2 - 1)),
        }
    }

    /// Where the data lives now.
    pub fn location(&self) -> Backend {
        self.located
    }

    /// The backend the caller prefers.
    #[inline]
    pub fn preference(&self) -> Option<Backend> {
        self.preferred
    }

    /// Positions of the features in log space, where time is close to linear.
    pub(crate) fn coordinates(&self) -> impl Iterator<Item = f64> + '_ {
        self.features().iter().map(|value| cell::coordinate(*value))
    }

    /// The same workload with other numeric features: what a check asks a sample for. What the
    /// sample then is, flops, alignment and all, the op says.
    pub(crate) fn with_features(&self, features: &[f64]) -> Self {
        let mut other = *self;
        let mut size = 1.0;
        for (slot, value) in other.numeric.iter_mut().zip(features) {
            *slot = *value;
            size *= *value;
        }
        other.size = size as u64;
        other.align_log2 = 0;
        other.preferred = None;
        other
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, number) in self.features().iter().enumerate() {
            let between = if i > 0 { "x" } else { "" };
            write!(f, "{between}{number}")?;
        }
        for code in self.category_codes() {
            write!(f, " #{code}")?;
        }
        if self.dtype != DType::Unspecified {
            write!(f, " {}", self.dtype)?;
        }
        if self.needs_gradient() {
            f.write_str(" gradient")?;
        }
        if self.is_iterative() {
            f.write_str(" iterative")?;
        }
        if !self.located.is_host() {
            write!(f, " on {}", self.located)?;
        }
        Ok(())
    }
}

impl Serialize for Workload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Workload", 8)?;
        out.serialize_field("features", self.features())?;
        out.serialize_field("codes", self.category_codes())?;
        out.serialize_field("size", &self.size)?;
        out.serialize_field("dtype", &self.dtype)?;
        out.serialize_field("gradient", &self.needs_gradient())?;
        out.serialize_field("flops", &self.flops)?;
        out.serialize_field("bytes", &self.bytes)?;
        out.serialize_field("located", &self.located)?;
        out.end()
    }
}

/// Whose memory a backend works on: the host's variants share one.
#[inline]
pub(crate) fn place_of(backend: Backend) -> Backend {
    match backend {
        Backend::Scalar | Backend::Simd | Backend::Threads => Backend::Scalar,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f40_sizes_zero_and_max_and_nan_features_are_fine() {
        for n in [0, 1, usize::MAX] {
            let w = Workload::new([n, n])
                .flops(n as f64 * 2.0)
                .bytes(usize::MAX);
            assert_eq!(w.cell_key(), w.cell().key());
            assert!(w.coordinates().all(f64::is_finite));
        }
        assert_eq!(Workload::new([usize::MAX]).size(), u64::MAX);
        assert_eq!(Workload::new([usize::MAX, 2]).size(), u64::MAX);
        let odd = Workload::new([f64::NAN, f64::INFINITY, -3.0])
            .flops(f64::NAN)
            .bytes(-1);
        assert_eq!(odd.features(), &[0.0, f64::MAX, -3.0]);
        assert_eq!((odd.flop_count(), odd.byte_count()), (0.0, 0.0));
        assert!(odd.coordinates().all(f64::is_finite));
        assert!(Workload::from_slice(&[1.0; 17]).is_err());
        assert!(odd.codes_from_slice(&[1; 5]).is_err());
    }

    #[test]
    fn the_weakest_alignment_counts() {
        assert_eq!(Workload::new([1]).alignment(), None);
        assert_eq!(
            Workload::new([1]).aligned(64).aligned(4096).alignment(),
            Some(64)
        );
        assert_eq!(Workload::new([1]).aligned(3).alignment(), Some(1));
        assert!(Workload::new([1]).aligned(0).alignment().is_some());
    }
}
