//! The choices that the hot path reads: one word each, in a small fixed cache per op.
//!
//! A word holds the tag it was published for *and* the choice, so that a reader can never combine
//! the tag of one cell with the choice of another: there is nothing to tear. That is why relaxed
//! loads and stores are enough, and why the type needs no lock for readers. A reader that misses
//! asks the learner, which publishes again: the cache may forget anything at any time.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Sets of slots of one op: 8 KiB in all, and room for as many settled cells as a busy program has.
const SETS: usize = if cfg!(loom) { 2 } else { 256 };

/// Slots in which one tag may lie: half a cache line.
const WAYS: usize = if cfg!(loom) { 1 } else { 4 };

const CHOICE_BITS: u32 = 19;
const VARIANT_BITS: u32 = 6;
const PERIOD_BITS: u32 = 5;
const CONFIDENCE_BITS: u32 = 6;
const SLOW_BIT: u32 = VARIANT_BITS + PERIOD_BITS + CONFIDENCE_BITS;
const HISTORY_BIT: u32 = SLOW_BIT + 1;

/// Largest confidence a published choice can carry.
const CONFIDENCE_MAX: f64 = ((1 << CONFIDENCE_BITS) - 1) as f64;

/// What the hot path needs to know of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Which variant serves: below 64.
    pub(crate) variant: u8,
    /// One call in `2^period` is timed: below 32.
    pub(crate) period: u8,
    /// Confidence in 63rds.
    confidence: u8,
    /// Whether it is expected to take so long that every call is traced.
    pub(crate) slow: bool,
    /// Whether it rests on measurements in its own cell.
    pub(crate) has_history: bool,
}

impl Choice {
    pub(crate) fn new(variant: u8, period: u8, confidence: f64) -> Self {
        Choice {
            variant: variant & ((1 << VARIANT_BITS) - 1),
            period: period.min((1 << PERIOD_BITS) - 1),
            confidence: (confidence.clamp(0.0, 1.0) * CONFIDENCE_MAX) as u8,
            slow: false,
            has_history: false,
        }
    }

    pub(crate) fn confidence(self) -> f64 {
        f64::from(self.confidence) / CONFIDENCE_MAX
    }

    fn to_bits(self) -> u64 {
        u64::from(self.variant)
            | u64::from(self.period) << VARIANT_BITS
            | u64::from(self.confidence) << (VARIANT_BITS + PERIOD_BITS)
            | u64::from(self.slow) << SLOW_BIT
            | u64::from(self.has_history) << HISTORY_BIT
    }

    #[inline]
    fn from_bits(bits: u64) -> Self {
        let field = |shift: u32, width: u32| ((bits >> shift) & ((1 << width) - 1)) as u8;
        Choice {
            variant: field(0, VARIANT_BITS),
            period: field(VARIANT_BITS, PERIOD_BITS),
            confidence: field(VARIANT_BITS + PERIOD_BITS, CONFIDENCE_BITS),
            slow: field(SLOW_BIT, 1) != 0,
            has_history: field(HISTORY_BIT, 1) != 0,
        }
    }
}

/// The published choices of one op. Who publishes holds the learner's lock; who reads, or takes
/// everything back, holds nothing.
pub(crate) struct Published {
    sets: Box<[[AtomicU64; WAYS]; SETS]>,
}

impl Published {
    pub(crate) fn new() -> Self {
        Published {
            sets: Box::new(std::array::from_fn(|_| {
                std::array::from_fn(|_| AtomicU64::new(0))
            })),
        }
    }

    /// The choice published for this tag, unless it was forgotten.
    #[inline]
    pub(crate) fn get(&self, tag: u64) -> Option<Choice> {
        let mark = mark(tag);
        self.ways(tag).iter().find_map(|slot| {
            let word = slot.load(Relaxed);
            (word >> CHOICE_BITS == mark).then(|| Choice::from_bits(word))
        })
    }

    /// Publishes a choice, in place of an older one for the same tag or of any other.
    pub(crate) fn put(&self, tag: u64, choice: Choice) {
        let (ways, mark) = (self.ways(tag), mark(tag));
        let holds = |wanted: u64| {
            ways.iter()
                .position(|slot| slot.load(Relaxed) >> CHOICE_BITS == wanted)
        };
        let at = holds(mark)
            .or_else(|| holds(0))
            .unwrap_or(mark as usize % WAYS);
        ways[at].store(mark << CHOICE_BITS | choice.to_bits(), Relaxed);
    }

    /// Takes back the choice for this tag.
    pub(crate) fn remove(&self, tag: u64) {
        let mark = mark(tag);
        for slot in self.ways(tag) {
            if slot.load(Relaxed) >> CHOICE_BITS == mark {
                slot.store(0, Relaxed);
            }
        }
    }

    /// Takes back every choice.
    pub(crate) fn clear(&self) {
        for slot in self.sets.iter().flatten() {
            slot.store(0, Relaxed);
        }
    }

    #[inline]
    fn ways(&self, tag: u64) -> &[AtomicU64; WAYS] {
        &self.sets[tag as usize % SETS]
    }
}

/// What tells tags in one set apart: never 0, which means an empty slot.
#[inline]
fn mark(tag: u64) -> u64 {
    (tag >> CHOICE_BITS).max(1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_published_is_found_until_taken_back() {
        let published = Published::new();
        assert_eq!(published.get(42 << 20), None);
        let mut choice = Choice::new(63, 31, 1.0);
        (choice.slow, choice.has_history) = (true, true);
        published.put(42 << 20, choice);
        assert_eq!(published.get(42 << 20), Some(choice));
        assert_eq!(published.get(43 << 20), None);
        published.put(42 << 20, Choice::new(1, 0, 0.5));
        assert_eq!(published.get(42 << 20).map(|c| c.variant), Some(1));
        published.remove(42 << 20);
        assert_eq!(published.get(42 << 20), None);
    }

    proptest! {
        #[test]
        fn a_tag_never_reads_the_choice_of_another(tags in prop::collection::vec(any::<u64>(), 1..4000)) {
            let published = Published::new();
            for tag in &tags {
                published.put(*tag, Choice::new(crate::cell::mix(*tag, 1) as u8 & 63, 0, 0.0));
            }
            for tag in &tags {
                if let Some(choice) = published.get(*tag) {
                    prop_assert_eq!(choice.variant, crate::cell::mix(*tag, 1) as u8 & 63);
                }
            }
        }
    }
}

/// Run with `RUSTFLAGS="--cfg loom" cargo test -p pointsman --lib --release f46`.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    #[test]
    fn f46_a_reader_never_sees_the_choice_of_another_cell() {
        loom::model(|| {
            // Both tags fall into the same single slot, so every write of one evicts the other.
            let (a, b) = (2 << 20, 4 << 20);
            let published = Arc::new(Published::new());
            let writer = {
                let published = published.clone();
                loom::thread::spawn(move || {
                    published.put(a, Choice::new(1, 0, 0.0));
                    published.put(b, Choice::new(2, 0, 0.0));
                    published.remove(b);
                    published.put(a, Choice::new(3, 0, 0.0));
                })
            };
            for _ in 0..2 {
                if let Some(choice) = published.get(a) {
                    assert!(choice.variant == 1 || choice.variant == 3);
                }
                if let Some(choice) = published.get(b) {
                    assert_eq!(choice.variant, 2);
                }
            }
            writer.join().unwrap();
            assert_eq!(published.get(a).map(|c| c.variant), Some(3));
        });
    }
}
