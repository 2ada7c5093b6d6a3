//! The exploration budget: a fraction of the time spent serving flows in, trials flow out.

/// Share of what comes in that repays what bad trials took beyond the balance. The rest pays for
/// new ones: one bad trial of a huge workload must not end the cheap ones of all others.
const REPAID: f64 = 0.5;

/// The account from which trials are paid, in nanoseconds.
///
/// A trial sets its expected excess aside before it runs and is charged its actual excess after, so
/// that trials on several threads at once cannot spend the same time twice. A trial starts only
/// while there is something in the account. Hence the promise: trials cost at most the budget plus
/// what bad ones took beyond expectation, which is repaid before it can happen often.
#[derive(Clone, Debug)]
pub(crate) struct Bank {
    budget: f64,
    balance: f64,
    debt: f64,
}

impl Bank {
    pub(crate) fn new(budget: f64) -> Self {
        Bank {
            budget,
            balance: 0.0,
            debt: 0.0,
        }
    }

    /// Time that callers got something for.
    pub(crate) fn earn(&mut self, served_ns: f64) {
        let earned = self.budget * served_ns;
        let repaid = (REPAID * earned).min(self.debt);
        self.debt -= repaid;
        self.balance += earned - repaid;
    }

    /// Sets aside what a trial is expected to cost.
    pub(crate) fn reserve(&mut self, expected_ns: f64) {
        self.balance -= expected_ns;
    }

    /// Replaces a reservation by what the trial really cost. What the balance cannot cover is debt.
    pub(crate) fn settle(&mut self, reserved_ns: f64, actual_ns: f64) {
        self.balance += reserved_ns - actual_ns;
        if self.balance < 0.0 && actual_ns > reserved_ns {
            self.debt -= self.balance;
            self.balance = 0.0;
        }
    }

    /// What trials may cost now, in nanoseconds; not above 0 after a bad one.
    pub(crate) fn balance(&self) -> f64 {
        self.balance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_aside_cannot_be_spent_twice() {
        let mut bank = Bank::new(0.01);
        bank.earn(10_000.0);
        bank.reserve(60.0);
        assert_eq!(bank.balance(), 40.0);
        bank.settle(60.0, 0.0);
        assert_eq!(bank.balance(), 100.0);
    }

    #[test]
    fn a_bad_trial_is_repaid_from_half_of_what_comes_in() {
        let mut bank = Bank::new(0.01);
        bank.earn(10_000.0);
        bank.reserve(60.0);
        bank.settle(60.0, 500.0);
        assert_eq!(bank.balance(), 0.0);
        // 400 are owed: 800 must come in before everything is for new trials again.
        bank.earn(40_000.0);
        assert_eq!(bank.balance(), 200.0);
        bank.earn(60_000.0);
        assert_eq!(bank.balance(), 200.0 + 200.0 + 200.0);
    }
}
