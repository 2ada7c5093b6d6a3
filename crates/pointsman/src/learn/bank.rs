//! The exploration budget: a fraction of the time spent serving flows in, trials flow out.

/// The first so many nanoseconds that an op serves count this many times more: what is found out at the start is of
/// use all along. At a budget of 1 % that is 4 ms for trials. In replays of Python's libraries from the start of their
/// processes (12 recordings, 20,000 calls, 720 runs) the total went from 1.052 times the oracle to 1.042; with half as much to
/// 1.045, and no further with more.
const START_NS: f64 = 80e6;
const START_TIMES: f64 = 5.0;

/// Share of all that ever came in that a trial leaves for dearer ones if it is worth nothing; if it is
/// worth `w` times its price, this ÷ (1 + w). Without it, cheap trials that just pay took everything,
/// and replays of `spmv_cpu_threads` were 1.4 % slower in the geometric mean.
const KEPT: f64 = 0.3;

/// The account from which trials are paid, in nanoseconds.
///
/// A trial sets its expected excess aside before it runs and is charged its actual excess after, so
/// that trials on several threads at once cannot spend the same time twice. A trial starts only if what is
/// in the account covers it, so after a bad one there are no others until it is repaid. Hence the
/// promise: trials cost at most the budget plus one bad trial (on several threads, one on each).
#[derive(Clone, Debug)]
pub(crate) struct Bank {
    budget: f64,
    /// Time that callers got something for.
    served: f64,
    /// All that ever came in, and all that went out or is set aside.
    earned: f64,
    spent: f64,
    /// The most that a trial would have cost that was worth it and could not be paid.
    wanted: f64,
}

impl Bank {
    pub(crate) fn new(budget: f64) -> Self {
        Bank {
            budget,
            served: 0.0,
            earned: 0.0,
            spent: 0.0,
            wanted: 0.0,
        }
    }

    /// Whether this part of the balance covers trials of this price.
    pub(crate) fn covers(&self, price_ns: f64, part: f64) -> bool {
        price_ns <= part * self.balance()
    }

    /// Whether trials of this price leave enough for others that are worth more, as multiples of
    /// their price.
    pub(crate) fn leaves_enough(&self, price_ns: f64, worth: f64) -> bool {
        let kept = (KEPT * self.earned / (1.0 + worth)).min(self.wanted);
        self.balance() - price_ns >= kept
    }

    /// Notes a trial that is worth its price, for which the balance is too low.
    pub(crate) fn want(&mut self, price_ns: f64) {
        self.wanted = self.wanted.max(price_ns);
    }

    /// Time that callers got something for.
    pub(crate) fn earn(&mut self, served_ns: f64) {
        self.served += served_ns;
        let counted = self.served + START_TIMES * self.served.min(START_NS);
        self.earned = self.budget * counted;
    }

    /// Sets aside what a trial is expected to cost.
    pub(crate) fn reserve(&mut self, expected_ns: f64) {
        self.spent += expected_ns;
    }

    /// Replaces a reservation by what the trial really cost.
    pub(crate) fn settle(&mut self, reserved_ns: f64, actual_ns: f64) {
        self.spent += actual_ns - reserved_ns;
    }

    /// What trials may cost now, in nanoseconds; below 0 after a bad one.
    pub(crate) fn balance(&self) -> f64 {
        self.earned - self.spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bank of an op that has long been serving: 1 % of what it serves comes in.
    fn steady() -> Bank {
        let mut bank = Bank::new(0.01);
        bank.earn(START_NS);
        bank.reserve(bank.balance());
        bank
    }

    #[test]
    fn what_is_set_aside_cannot_be_spent_twice() {
        let mut bank = steady();
        bank.earn(10_000.0);
        bank.reserve(60.0);
        assert_eq!(bank.balance().round(), 40.0);
        bank.settle(60.0, 0.0);
        assert_eq!(bank.balance().round(), 100.0);
    }

    #[test]
    fn more_comes_in_at_the_start() {
        let mut bank = Bank::new(0.01);
        bank.earn(10_000.0);
        assert_eq!(bank.balance().round(), 600.0);
        bank.earn(START_NS);
        let start = bank.balance();
        assert_eq!(start.round(), 100.0 + 6.0 * 0.01 * START_NS);
        bank.earn(10_000.0);
        assert_eq!((bank.balance() - start).round(), 100.0);
        let mut none = Bank::new(0.0);
        none.earn(START_NS);
        assert_eq!(none.balance(), 0.0, "no budget, no trials");
    }

    #[test]
    fn after_a_bad_trial_there_is_no_other_until_it_is_repaid() {
        let mut bank = steady();
        bank.earn(10_000.0);
        assert!(bank.covers(50.0, 0.5));
        bank.reserve(50.0);
        bank.settle(50.0, 1_100.0);
        assert_eq!(bank.balance().round(), -1_000.0);
        assert!(!bank.covers(0.0, 0.5), "not even one that is free");
        bank.earn(100_100.0);
        assert!(bank.covers(0.5, 0.5));
    }

    #[test]
    fn trials_that_just_pay_leave_something_for_better_ones() {
        let mut bank = Bank::new(0.01 / (1.0 + START_TIMES));
        bank.earn(100_000.0);
        assert!(bank.leaves_enough(1_000.0, 1.0), "nobody wants it");
        bank.want(5_000.0);
        // 1,000 have come in: 150 of them stay for trials that are worth more than their price.
        let mut cheap = 0;
        while bank.covers(10.0, 0.5) && bank.leaves_enough(10.0, 1.0) {
            bank.reserve(10.0);
            cheap += 1;
        }
        assert_eq!(cheap, 85);
        assert!(bank.leaves_enough(140.0, 50.0));
        assert!(!bank.leaves_enough(151.0, 50.0), "not more than there is");
    }
}
