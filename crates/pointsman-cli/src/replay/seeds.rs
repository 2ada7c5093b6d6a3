//! The seeds that a user asks for.

use std::str::FromStr;

/// Most seeds of one command.
const MAX_SEEDS: usize = 1_000;

/// One seed, several (`1,2,3`) or a range whose ends both count (`1..5`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeds(Vec<u64>);

impl Seeds {
    /// How many there are: at least one.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The seeds, in the order given.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().copied()
    }
}

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "a seed is a whole number; several are given as 1,2,3 or 1..5".to_owned();
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
        let mut seeds = Vec::new();
        for part in text.split(',') {
            let (from, to) = match part.split_once("..") {
                Some((from, to)) => (number(from)?, number(to.strip_prefix('=').unwrap_or(to))?),
                None => (number(part)?, number(part)?),
            };
            if from > to {
                return Err(format!(
                    "the range {part} is empty; the smaller seed comes first"
                ));
            }
            if to - from >= (MAX_SEEDS - seeds.len()) as u64 {
                return Err(format!("more than {MAX_SEEDS} seeds"));
            }
            seeds.extend(from..=to);
        }
        Ok(Seeds(seeds))
    }
}
