//! Ranges of sizes.

use std::str::FromStr;

/// Powers of two from a least to a largest size, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Exponents of the first and the last.
    first: u32,
    last: u32,
}

impl Sizes {
    /// What tuning goes through unless it is told otherwise: 16 to 4 million elements, from what is
    /// all overhead to what fits no cache.
    pub(crate) const DEFAULT: &str = "16..4194304";

    /// The least and the largest.
    pub(crate) fn ends(self) -> (usize, usize) {
        (1 << self.first, 1 << self.last)
    }

    /// All of them, in order.
    pub(crate) fn all(self) -> impl Iterator<Item = usize> {
        (self.first..=self.last).map(|exponent| 1 << exponent)
    }

    /// All of them, from small to large in wide steps first and then the ones between, so that whoever
    /// stops early knows something of every size. No step is so wide that nothing can be said of the
    /// next size.
    pub(crate) fn coarse_to_fine(self) -> Vec<usize> {
        let wide = |size: &usize| (size.ilog2() - self.first).is_multiple_of(STEP);
        let (coarse, fine): (Vec<usize>, Vec<usize>) = self.all().partition(wide);
        [coarse, fine].concat()
    }
}

/// Powers of two that a wide step skips.
const STEP: u32 = 3;

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("{why}; a range is like {}", Sizes::DEFAULT);
        let (low, high) = text
            .split_once("..")
            .ok_or_else(|| wrong("there is no \"..\" in it"))?;
        let number = |part: &str| {
            let part = part.trim().trim_start_matches('=');
            let size: Option<usize> = part.parse().ok();
            size.filter(|s| (1..=1 << 32).contains(s))
                .ok_or_else(|| wrong(&format!("{part:?} is not a whole number from 1 to 2^32")))
        };
        let (low, high) = (number(low)?, number(high)?);
        if low > high {
            return Err(wrong(&format!("{low} is above {high}")));
        }
        let (first, last) = (low.next_power_of_two().ilog2(), high.ilog2());
        if first > last {
            return Err(wrong(&format!("no power of two is from {low} to {high}")));
        }
        Ok(Sizes { first, last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_holds_its_powers_of_two() {
        let all = |text: &str| text.parse::<Sizes>().unwrap().all().collect::<Vec<_>>();
        assert_eq!(all("1..8"), [1, 2, 4, 8]);
        assert_eq!(all("3..=40"), [4, 8, 16, 32]);
        assert_eq!(all("64..64"), [64]);
        assert_eq!(all(Sizes::DEFAULT).len(), 19);
    }

    #[test]
    fn wide_steps_come_first_and_nothing_is_left_out() {
        let order = |text: &str| text.parse::<Sizes>().unwrap().coarse_to_fine();
        assert_eq!(order("2..128"), [2, 16, 128, 4, 8, 32, 64]);
        assert_eq!(order("1..1"), [1]);
        let mut all = order(Sizes::DEFAULT);
        all.sort_unstable();
        let sizes: Sizes = Sizes::DEFAULT.parse().unwrap();
        assert!(all.into_iter().eq(sizes.all()));
    }

    #[test]
    fn bad_ranges_say_what_is_wrong() {
        for (text, why) in [
            ("16", ".."),
            ("a..4", "\"a\""),
            ("0..4", "\"0\""),
            ("9..8", "above"),
            ("9..15", "power of two"),
            ("1..99999999999999", "2^32"),
        ] {
            let error = text.parse::<Sizes>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
