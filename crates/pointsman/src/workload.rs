//! Step 1 of a call: the features of its arguments, and the cell they fall into.

use std::fmt;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::backend::Backend;

/// Most numeric features a workload may have.
pub const MAX_FEATURES: usize = 16;

/// Most categorical codes a workload may have.
pub const MAX_CODES: usize = 4;

/// Mantissa bits that tell cells apart: 3 gives eight cells an octave, so that the sizes in one
/// cell differ by at most 12.5 % while the integers up to 16 each have a cell of their own.
const CELL_MANTISSA: u32 = 3;

/// Bits of an `f32` that its cell ignores.
const CELL_SHIFT: u32 = 23 - CELL_MANTISSA;

/// A number that can be a feature: any integer or float. NaN counts as 0, infinities as the
/// largest finite number.
pub trait Feature: Copy {
    /// The value as a float.
    fn value(self) -> f64;
}

macro_rules! features {
    ($($t:ty)*) => { $(impl Feature for $t {
        #[inline]
        fn value(self) -> f64 { self as f64 }
    })* };
}
features!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64);

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

    fn from_code(code: u8) -> Option<Self> {
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

const GRADIENT: u8 = 1;
const ITERATIVE: u8 = 2;

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
    numeric: [f32; MAX_FEATURES],
    codes: [u32; MAX_CODES],
    size: u64,
    flops: f64,
    bytes: f64,
    numeric_len: u8,
    codes_len: u8,
    align_log2: u8,
    flags: u8,
    dtype: DType,
    located: Backend,
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
        let mut size = 1.0;
        for (slot, feature) in workload.numeric.iter_mut().zip(features) {
            let value = feature.value();
            *slot = finite(value);
            size *= value;
        }
        workload.numeric_len = N as u8;
        workload.size = size as u64; // saturates; NaN and negative numbers give 0
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
            *slot = finite(*value);
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
        self.flops = amount(flops.value());
        self
    }

    /// Bytes the call reads and writes, for the cost model and for transfers.
    #[inline]
    pub fn bytes(mut self, bytes: impl Feature) -> Self {
        self.bytes = amount(bytes.value());
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
    pub fn features(&self) -> &[f32] {
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

    /// The cell this workload falls into.
    pub fn cell(&self) -> Cell {
        let mut numeric = [0; MAX_FEATURES];
        for (slot, value) in numeric.iter_mut().zip(self.features()) {
            *slot = quantised(*value);
        }
        Cell {
            numeric,
            codes: self.codes,
            numeric_len: self.numeric_len,
            codes_len: self.codes_len,
            flags: self.flags,
            dtype: self.dtype,
            located: self.located,
        }
    }

    /// A number that names the cell within this process: what the hot path looks up.
    ///
    /// It equals `self.cell().key()`; a test holds the two together.
    #[inline]
    pub(crate) fn cell_key(&self) -> u64 {
        let head = head_key(
            self.numeric_len,
            self.codes_len,
            self.flags,
            self.dtype,
            self.located,
        );
        let mut key = mix(SEED, head);
        for value in &self.numeric[..usize::from(self.numeric_len)] {
            key = mix(key, u64::from(quantised(*value)));
        }
        for code in &self.codes[..usize::from(self.codes_len)] {
            key = mix(key, u64::from(*code));
        }
        key
    }

    /// Positions of the features in log space, where time is close to linear.
    pub(crate) fn coordinates(&self) -> impl Iterator<Item = f64> + '_ {
        self.features()
            .iter()
            .map(|value| coordinate(f64::from(*value)))
    }

    /// The same workload with other numeric features, and all amounts that follow from them
    /// scaled: what a check sample of another size looks like.
    pub(crate) fn with_features(&self, features: &[f32]) -> Self {
        let mut other = *self;
        let mut size = 1.0;
        for (slot, value) in other.numeric.iter_mut().zip(features) {
            *slot = *value;
            size *= f64::from(*value);
        }
        other.size = size as u64;
        other.align_log2 = 0;
        other.preferred = None;
        other
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.features().iter().map(f32::to_string).collect();
        f.write_str(&numbers.join("x"))?;
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

/// A region of workload space that shares statistics: a box of up to 12.5 % a side around the
/// features, one dtype, one set of codes and flags, one place of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cell {
    numeric: [u16; MAX_FEATURES],
    codes: [u32; MAX_CODES],
    numeric_len: u8,
    codes_len: u8,
    flags: u8,
    dtype: DType,
    located: Backend,
}

impl Cell {
    /// Longest encoded cell in bytes.
    pub(crate) const MAX_ENCODED: usize = 6 + 32 + 2 * MAX_FEATURES + 4 * MAX_CODES;

    pub(crate) fn key(&self) -> u64 {
        let head = head_key(
            self.numeric_len,
            self.codes_len,
            self.flags,
            self.dtype,
            self.located,
        );
        let mut key = mix(SEED, head);
        for value in self.numeric() {
            key = mix(key, u64::from(*value));
        }
        for code in self.codes() {
            key = mix(key, u64::from(*code));
        }
        key
    }

    fn numeric(&self) -> &[u16] {
        &self.numeric[..usize::from(self.numeric_len)]
    }

    pub(crate) fn codes(&self) -> &[u32] {
        &self.codes[..usize::from(self.codes_len)]
    }

    /// What besides the codes makes two cells different in kind.
    pub(crate) fn kind(&self) -> (DType, u8, Backend) {
        (self.dtype, self.flags, self.located)
    }

    /// The same as one number.
    pub(crate) fn kind_code(&self) -> u64 {
        head_key(0, 0, self.flags, self.dtype, self.located)
    }

    /// The middle of the cell in log space.
    pub(crate) fn coordinates(&self) -> impl Iterator<Item = f64> + '_ {
        self.numeric()
            .iter()
            .map(|q| coordinate(f64::from(value_from(*q)).midpoint(f64::from(value_from(q + 1)))))
    }

    /// A key shared by the cells whose features lie between the same powers of two: variants are
    /// checked once per such block.
    pub(crate) fn block(&self) -> Cell {
        let mut block = *self;
        for q in &mut block.numeric {
            *q &= !((1 << CELL_MANTISSA) - 1);
        }
        block
    }

    /// Smallest and largest whole-number features of this block of cells.
    pub(crate) fn block_bounds(&self) -> ([f32; MAX_FEATURES], [f32; MAX_FEATURES]) {
        let (mut low, mut high) = ([0.0; MAX_FEATURES], [0.0; MAX_FEATURES]);
        for (i, q) in self.block().numeric().iter().enumerate() {
            let (from, to) = (value_from(*q), value_from(q + (1 << CELL_MANTISSA)));
            low[i] = from.ceil();
            high[i] = (to.ceil() - 1.0).max(low[i]);
        }
        (low, high)
    }

    /// Bytes that name the cell in the store: the same in every process and build.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let located = self.located.to_string();
        let mut out = Vec::with_capacity(Self::MAX_ENCODED);
        out.extend([
            self.numeric_len,
            self.codes_len,
            self.flags,
            self.dtype as u8,
            located.len() as u8,
        ]);
        out.extend(located.as_bytes());
        self.numeric()
            .iter()
            .for_each(|q| out.extend(q.to_le_bytes()));
        self.codes()
            .iter()
            .for_each(|c| out.extend(c.to_le_bytes()));
        out
    }

    /// Reads what [`Cell::encode`] wrote; `None` for any other bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&[numeric_len, codes_len, flags, dtype, located_len], rest) =
            bytes.split_first_chunk()?;
        if usize::from(numeric_len) > MAX_FEATURES
            || usize::from(codes_len) > MAX_CODES
            || flags > GRADIENT | ITERATIVE
        {
            return None;
        }
        let (located, rest) = rest.split_at_checked(usize::from(located_len))?;
        let (numbers, codes) = rest.split_at_checked(2 * usize::from(numeric_len))?;
        if codes.len() != 4 * usize::from(codes_len) {
            return None;
        }
        let name = std::str::from_utf8(located).ok()?;
        let located: Backend = name.parse().ok()?;
        if place_of(located).to_string() != name {
            return None; // not how `encode` writes it
        }
        let mut cell = Cell {
            numeric: [0; MAX_FEATURES],
            codes: [0; MAX_CODES],
            numeric_len,
            codes_len,
            flags,
            dtype: DType::from_code(dtype)?,
            located,
        };
        for (slot, q) in cell.numeric.iter_mut().zip(numbers.chunks_exact(2)) {
            *slot = u16::from_le_bytes([q[0], q[1]]);
            if *slot != quantised(value_from(*slot)) {
                return None; // not the image of a finite number
            }
        }
        for (slot, c) in cell.codes.iter_mut().zip(codes.chunks_exact(4)) {
            *slot = u32::from_le_bytes([c[0], c[1], c[2], c[3]]);
        }
        Some(cell)
    }
}

/// Whose memory a backend works on: the host's variants share one.
#[inline]
fn place_of(backend: Backend) -> Backend {
    match backend {
        Backend::Scalar | Backend::Simd | Backend::Threads => Backend::Scalar,
        other => other,
    }
}

#[inline]
fn finite(value: f64) -> f32 {
    let narrow = value as f32;
    if narrow.is_finite() {
        narrow
    } else if value.is_nan() {
        0.0
    } else {
        f32::MAX.copysign(narrow)
    }
}

#[inline]
fn amount(value: f64) -> f64 {
    if value > 0.0 {
        value.min(f64::MAX)
    } else {
        0.0
    }
}

#[inline]
fn quantised(value: f32) -> u16 {
    (value.to_bits() >> CELL_SHIFT) as u16
}

/// Lower edge of a cell in one feature.
fn value_from(quantised: u16) -> f32 {
    let value = f32::from_bits(u32::from(quantised) << CELL_SHIFT);
    if value.is_finite() { value } else { f32::MAX }
}

/// log2(1 + |x|), with the sign of x.
fn coordinate(value: f64) -> f64 {
    value.abs().ln_1p().copysign(value) * std::f64::consts::LOG2_E
}

const SEED: u64 = 0x9E37_79B9_7F4A_7C15;

/// One step of a multiply-and-fold hash.
#[inline]
pub(crate) fn mix(key: u64, value: u64) -> u64 {
    let wide = u128::from(key ^ value) * 0xD6E8_FEB8_6659_FD93_u128;
    (wide as u64) ^ ((wide >> 64) as u64)
}

#[inline]
fn head_key(numeric: u8, codes: u8, flags: u8, dtype: DType, located: Backend) -> u64 {
    let place = match located {
        Backend::Gpu(n) => 0x100 | u64::from(n),
        Backend::Custom(custom) => 0x200 | custom.index(),
        Backend::Scalar | Backend::Simd | Backend::Threads => 0,
    };
    u64::from(numeric)
        | u64::from(codes) << 8
        | u64::from(flags) << 16
        | (dtype as u64) << 24
        | place << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
        assert_eq!(odd.features(), &[0.0, f32::MAX, -3.0]);
        assert_eq!((odd.flop_count(), odd.byte_count()), (0.0, 0.0));
        assert!(odd.coordinates().all(f64::is_finite));
        assert!(Workload::from_slice(&[1.0; 17]).is_err());
        assert!(odd.codes_from_slice(&[1; 5]).is_err());
    }

    #[test]
    fn small_integers_have_their_own_cells_and_large_ones_share() {
        let key = |n: usize| Workload::new([n]).cell_key();
        for n in 0..16 {
            assert_ne!(key(n), key(n + 1), "{n}");
        }
        assert_eq!(key(512), key(575));
        assert_ne!(key(512), key(576));
        assert_ne!(key(511), key(512));
    }

    #[test]
    fn a_block_spans_one_octave() {
        let bounds = |n: usize| {
            let (low, high) = Workload::new([n]).cell().block_bounds();
            (low[0], high[0])
        };
        assert_eq!(bounds(700), (512.0, 1023.0));
        assert_eq!(bounds(1), (1.0, 1.0));
        assert_eq!(bounds(0), (0.0, 0.0));
        let block = |n: usize| Workload::new([n]).cell().block();
        assert_eq!(block(512), block(1023));
        assert_ne!(block(511), block(512));
    }

    #[test]
    fn what_makes_calls_different_makes_cells_different() {
        let base = Workload::new([64]);
        let others = [
            base.codes([1]),
            base.dtype(DType::F64),
            base.gradient(true),
            base.iterative(true),
            base.located(Backend::Gpu(0)),
            Workload::new([64, 0]),
        ];
        for (i, other) in others.iter().enumerate() {
            assert_ne!(base.cell_key(), other.cell_key(), "{i}");
            assert_ne!(base.cell(), other.cell(), "{i}");
        }
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

    proptest! {
        #[test]
        fn f40_any_features_give_a_cell_that_goes_round(
            numbers in prop::collection::vec(any::<f64>(), 0..=16),
            codes in prop::collection::vec(any::<u32>(), 0..=4),
            gradient: bool,
        ) {
            let w = Workload::from_slice(&numbers).unwrap()
                .codes_from_slice(&codes).unwrap().gradient(gradient).dtype(DType::F32);
            let cell = w.cell();
            prop_assert_eq!(cell.key(), w.cell_key());
            prop_assert!(cell.coordinates().all(f64::is_finite));
            prop_assert_eq!(Cell::decode(&cell.encode()), Some(cell));
        }

        #[test]
        fn f03_any_bytes_decode_to_a_cell_or_nothing(bytes in prop::collection::vec(any::<u8>(), 0..96)) {
            if let Some(cell) = Cell::decode(&bytes) {
                prop_assert_eq!(cell.encode(), bytes);
            }
        }
    }
}
