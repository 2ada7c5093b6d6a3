//! Numbers as keys that sort.

use std::cmp::Ordering;

/// A number with a total order. Part of [`Float`](crate::Float).
pub trait Key: Copy {
    /// Bits of a key.
    const BITS: u32;

    /// A whole number of so many bits that orders as [`total_cmp`](f64::total_cmp) does.
    fn key(self) -> u64;

    /// The order of [`total_cmp`](f64::total_cmp).
    fn total(&self, other: &Self) -> Ordering;
}

macro_rules! key {
    ($float:ident, $signed:ident, $unsigned:ident) => {
        impl Key for $float {
            const BITS: u32 = $unsigned::BITS;

            #[inline(always)]
            fn key(self) -> u64 {
                let bits = self.to_bits();
                // Negative numbers are the larger the smaller their bits: flip all of them; of the
                // others the sign, so that they come after.
                let negative = (bits as $signed >> ($unsigned::BITS - 1)) as $unsigned;
                u64::from(bits ^ (negative | 1 << ($unsigned::BITS - 1)))
            }

            #[inline(always)]
            fn total(&self, other: &Self) -> Ordering {
                self.total_cmp(other)
            }
        }
    };
}

key!(f32, i32, u32);
key!(f64, i64, u64);
