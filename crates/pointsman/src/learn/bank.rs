//! The exploration budget: a fraction of the time spent serving flows in, trials flow out.

/// The account from which trials are paid, in nanoseconds.
///
/// A trial reserves its expected excess before it runs and is charged its actual excess after, so
/// that trials on several threads at once cannot spend the same time twice. Hence the promise:
/// trials cost at most the budget plus what the last ones took beyond expectation.
#[derive(Clone, Debug)]
pub(crate) struct Bank {
    budget: f64,
    balance: f64,
}

impl Bank {
    pub(crate) fn new(budget: f64) -> Self {
        Bank {
            budget,
            balance: 0.0,
        }
    }

    /// Time that callers got something for.
    pub(crate) fn earn(&mut self, served_ns: f64) {
        self.balance += self.budget * served_ns;
    }

    /// Sets aside what a trial is expected to cost; false if the balance does not cover it.
    pub(crate) fn reserve(&mut self, expected_ns: f64) -> bool {
        let covered = expected_ns <= self.balance;
        if covered {
            self.balance -= expected_ns;
        }
        covered
    }

    /// Replaces a reservation by what the trial really cost.
    pub(crate) fn settle(&mut self, reserved_ns: f64, actual_ns: f64) {
        self.balance += reserved_ns - actual_ns;
    }

    /// What trials may cost now, in nanoseconds; negative after a bad one.
    pub(crate) fn balance(&self) -> f64 {
        self.balance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_cannot_be_spent_twice_and_overruns_are_paid_back() {
        let mut bank = Bank::new(0.01);
        bank.earn(10_000.0);
        assert!(bank.reserve(60.0));
        assert!(!bank.reserve(60.0));
        bank.settle(60.0, 500.0);
        assert_eq!(bank.balance(), -400.0);
        assert!(!bank.reserve(1.0));
        bank.earn(50_000.0);
        assert!(bank.reserve(100.0));
    }
}
