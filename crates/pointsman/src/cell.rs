//! The region of workload space that a workload falls into.

use std::hash::Hasher;

use crate::backend::Backend;
use crate::workload::{DType, GRADIENT, ITERATIVE, MAX_CODES, MAX_FEATURES, Workload, place_of};

/// Mantissa bits that tell cells apart: 3 gives eight cells an octave, so that the sizes in one
/// cell differ by at most 12.5 % while the integers up to 16 each have a cell of their own.
const CELL_MANTISSA: u32 = 3;

/// Bits of an `f64` that its cell ignores.
const CELL_SHIFT: u32 = 52 - CELL_MANTISSA;

impl Workload {
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
    /// It equals `self.cell().key()`, without making the cell.
    // Or nothing of it folds away in `Handle::run`.
    #[inline(always)]
    pub(crate) fn cell_key(&self) -> u64 {
        let head = head_key(
            self.numeric_len,
            self.codes_len,
            self.flags,
            self.dtype,
            self.located,
        );
        let numeric = &self.numeric[..usize::from(self.numeric_len)];
        let codes = &self.codes[..usize::from(self.codes_len)];
        key(head, numeric.iter().map(|value| quantised(*value)), codes)
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
    /// The cell of what is not about a workload: it has no features.
    pub fn whole() -> Self {
        Workload::new([0.0; 0]).cell()
    }

    /// A workload from the middle of the cell, of whole numbers where there are any. What a cell
    /// does not tell apart is not given: flops, bytes, alignment.
    ///
    /// ```
    /// use pointsman::Workload;
    ///
    /// let cell = Workload::new([520]).cell();
    /// assert_eq!(cell.workload().features(), [544.0]);
    /// assert_eq!(cell.workload().cell(), cell);
    /// assert_eq!(cell.ranges().collect::<Vec<_>>(), [(512.0, 576.0)]);
    /// ```
    pub fn workload(&self) -> Workload {
        let mut features = [0.0; MAX_FEATURES];
        for (slot, q) in features.iter_mut().zip(self.numeric()) {
            let (from, to) = (value_from(*q), value_from(q + 1));
            let middle = from.midpoint(to);
            *slot = match middle.round() {
                _ if from.fract() == 0.0 && (to - from).abs() <= 1.0 => from,
                whole if quantised(whole) == *q => whole,
                _ => middle,
            };
        }
        let numeric = &features[..usize::from(self.numeric_len)];
        let mut workload = Workload::from_slice(numeric).unwrap_or(Workload::new([0.0; 0]));
        workload.codes = self.codes;
        workload.codes_len = self.codes_len;
        workload.flags = self.flags;
        workload.dtype(self.dtype).located(self.located)
    }

    /// Between which numbers each feature lies: from the first, up to but not including the second.
    /// Of negative numbers, the first is the one nearer to zero.
    pub fn ranges(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.numeric()
            .iter()
            .map(|q| (value_from(*q), value_from(q + 1)))
    }

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
        key(head, self.numeric().iter().copied(), self.codes())
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
            .map(|q| coordinate(value_from(*q).midpoint(value_from(q + 1))))
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
    pub(crate) fn block_bounds(&self) -> ([f64; MAX_FEATURES], [f64; MAX_FEATURES]) {
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

#[inline]
fn quantised(value: f64) -> u16 {
    (value.to_bits() >> CELL_SHIFT) as u16
}

/// The edge of a cell in one feature that is nearer to zero. Beyond the outermost cells, where it
/// would be infinite, it is the largest finite number of their sign.
fn value_from(quantised: u16) -> f64 {
    let value = f64::from_bits(u64::from(quantised) << CELL_SHIFT);
    if value.is_finite() {
        value
    } else {
        f64::MAX.copysign(value)
    }
}

/// log2(1 + |x|), with the sign of x. No further than 2^70, which is beyond every size there is:
/// numbers such as 1e300 must not dwarf all others.
pub(crate) fn coordinate(value: f64) -> f64 {
    let octaves = value.abs().ln_1p() * std::f64::consts::LOG2_E;
    octaves.min(70.0).copysign(value)
}

const SEED: u64 = 0x9E37_79B9_7F4A_7C15;

/// One step of a multiply-and-fold hash.
#[inline]
pub(crate) fn mix(key: u64, value: u64) -> u64 {
    let wide = u128::from(key ^ value) * 0xD6E8_FEB8_6659_FD93_u128;
    (wide as u64) ^ ((wide >> 64) as u64)
}

/// One number for the kind of call and its features. The first feature shares a step with the
/// kind: most workloads have one or two.
#[inline]
fn key(head: u64, mut numeric: impl Iterator<Item = u16>, codes: &[u32]) -> u64 {
    let first = u64::from(numeric.next().unwrap_or(0)) << 48;
    let key = numeric.fold(mix(SEED, head | first), |key, q| mix(key, u64::from(q)));
    codes
        .iter()
        .fold(key, |key, code| mix(key, u64::from(*code)))
}

/// What a published choice is looked up by: a cell and who may serve.
#[inline]
pub(crate) fn tag(key: u64, eligible: u64) -> u64 {
    // The key is well mixed; a product spreads the few bits of the mask over all of it.
    key ^ eligible.wrapping_mul(SEED)
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

/// Hashes keys, which are mixed already, by themselves, and names eight bytes at a step. The names
/// are the program's own: nobody can choose them to collide.
#[derive(Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.0 = mix(self.0, u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.0 = mix(self.0 ^ SEED, u64::from_le_bytes(last));
    }

    fn write_u8(&mut self, byte: u8) {
        self.0 ^= u64::from(byte); // ends a string
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
    fn the_outermost_cells_go_round_too() {
        for value in [f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324, -5e-324, -0.0] {
            let cell = Workload::new([value]).cell();
            assert_eq!(cell.workload().cell(), cell, "{value:e}");
            assert_eq!(Cell::decode(&cell.encode()), Some(cell), "{value:e}");
        }
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
            prop_assert_eq!(cell.workload().cell(), cell);
        }

        #[test]
        fn f03_any_bytes_decode_to_a_cell_or_nothing(bytes in prop::collection::vec(any::<u8>(), 0..96)) {
            if let Some(cell) = Cell::decode(&bytes) {
                prop_assert_eq!(cell.encode(), bytes);
            }
        }
    }
}
