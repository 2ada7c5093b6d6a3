//! What choosing a variant has cost, and how sure and how right it was.

/// Tenths of stated confidence that are counted apart.
pub const TENTHS: usize = 10;

/// What one variant of an op has cost so far, over all programs that saved to the store. Nothing is
/// learned from it: it is for people.
///
/// It is of the variant as a whole, so that its cell is [`Cell::whole`](crate::Cell::whole).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Calls it served.
    pub calls: u64,
    /// Time it spent serving in nanoseconds, estimated from the timed calls; trials are not in it.
    pub served_ns: u64,
    /// Trials of it within the budget.
    pub trials: u64,
    /// Time spent in them, in nanoseconds.
    pub trial_ns: u64,
    /// What they cost beyond the best known variant, in nanoseconds: what the budget pays.
    pub trial_excess_ns: u64,
    /// First tries of it, outside the budget.
    pub first_tries: u64,
    /// Time spent in them, in nanoseconds.
    pub first_try_ns: u64,
    /// What they cost beyond the best known variant, in nanoseconds.
    pub first_try_excess_ns: u64,
    /// How often it was put in quarantine.
    pub quarantines: u64,
    /// Its choices by the confidence they were made with, in tenths: the first are those below 0.1.
    pub stated: [Stated; TENTHS],
}

/// Choices that were made with about the same confidence and timed in cells where an alternative
/// had been measured, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stated {
    /// How many.
    pub judged: u64,
    /// How many of them were within 5 % of the best alternative measured in their cell.
    pub right: u64,
    /// Sum of their confidences, in thousandths.
    pub sum: u64,
}

impl Stated {
    /// Counts a choice.
    pub(crate) fn add(&mut self, confidence: f64, right: bool) {
        self.judged += 1;
        self.right += u64::from(right);
        self.sum += (1000.0 * confidence.clamp(0.0, 1.0)).round() as u64;
    }
}

/// The tenth that a confidence belongs to.
pub(crate) fn tenth(confidence: f64) -> usize {
    ((confidence * TENTHS as f64) as usize).min(TENTHS - 1)
}

/// Numbers of an account.
const NUMBERS: usize = 9 + 3 * TENTHS;

impl Account {
    fn numbers_mut(&mut self) -> impl Iterator<Item = &mut u64> {
        let Account {
            calls,
            served_ns,
            trials,
            trial_ns,
            trial_excess_ns,
            first_tries,
            first_try_ns,
            first_try_excess_ns,
            quarantines,
            stated,
        } = self;
        let plain = [
            calls,
            served_ns,
            trials,
            trial_ns,
            trial_excess_ns,
            first_tries,
            first_try_ns,
            first_try_excess_ns,
            quarantines,
        ];
        let stated = stated.iter_mut();
        let stated = stated.flat_map(|s| [&mut s.judged, &mut s.right, &mut s.sum]);
        plain.into_iter().chain(stated)
    }

    /// All of its numbers, in the order in which they are written.
    pub(super) fn numbers(&self) -> [u64; NUMBERS] {
        let mut copy = self.clone();
        let mut numbers = [0; NUMBERS];
        for (slot, number) in numbers.iter_mut().zip(copy.numbers_mut()) {
            *slot = *number;
        }
        numbers
    }

    /// An account from its numbers, each of them from `next`; `None` if there are too few.
    pub(super) fn read(mut next: impl FnMut() -> Option<u64>) -> Option<Self> {
        let mut account = Account::default();
        for slot in account.numbers_mut() {
            *slot = next()?;
        }
        account.is_sound().then_some(account)
    }

    /// Whether no more choices were right than were judged.
    pub(super) fn is_sound(&self) -> bool {
        self.stated.iter().all(|s| s.right <= s.judged)
    }

    /// Adds what came in addition.
    pub(crate) fn merge(&mut self, change: &Account) {
        for (slot, more) in self.numbers_mut().zip(change.numbers()) {
            *slot = slot.saturating_add(more);
        }
    }

    /// What came in addition to an earlier state; `None` if nothing did.
    pub(crate) fn since(&self, earlier: &Account) -> Option<Account> {
        let mut change = self.clone();
        for (slot, before) in change.numbers_mut().zip(earlier.numbers()) {
            *slot = slot.saturating_sub(before);
        }
        (change != Account::default()).then_some(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_added_to_the_earlier_state_is_the_later_one() {
        let mut earlier = Account {
            calls: 3,
            trial_ns: 70,
            ..Account::default()
        };
        earlier.stated[9].add(0.97, true);
        let mut later = earlier.clone();
        later.calls += 5;
        later.quarantines += 1;
        later.stated[9].add(1.0, false);
        let change = later.since(&earlier).unwrap();
        assert_eq!((change.calls, change.trial_ns), (5, 0));
        assert_eq!(
            change.stated[9],
            Stated {
                judged: 1,
                right: 0,
                sum: 1000
            }
        );
        earlier.merge(&change);
        assert_eq!(earlier, later);
        assert_eq!(later.since(&later), None);
    }

    #[test]
    fn every_confidence_has_its_tenth() {
        assert_eq!(
            [0.0, 0.09, 0.1, 0.55, 0.999, 1.0, f64::NAN].map(tenth),
            [0, 0, 1, 5, 9, 9, 0]
        );
    }
}
