//! The exploration budget: a fraction of the time spent serving flows in, trials flow out.

/// Share of what comes in that repays what bad trials took beyond the balance. The rest pays for
/// new ones: one bad trial of a huge workload must not end the cheap ones of all others.
const REPAID: f64 = 0.5;

/// Excess of a trial, as a multiple of what the best takes, from which it is not noise but bad. Where
/// trials have been that bad, a second one is not risked before the first is repaid.
const BAD: f64 = 10.0;

/// Share of all that ever came in that a trial leaves for dearer ones if it is worth nothing; if it is
/// worth `w` times its price, this ÷ (1 + w). Without it, cheap trials that just pay took everything,
/// and replays of `spmv_cpu_threads` were 1.4 % slower in the geometric mean.
const KEPT: f64 = 0.3;

/// The account from which trials are paid, in nanoseconds.
///
/// A trial sets its expected excess aside before it runs and is charged its actual excess after, so
/// that trials on several threads at once cannot spend the same time twice. A trial starts only
/// while there is something in the account. What a bad one took beyond that is debt. Until it is
/// repaid, nothing is tried that could, if it were as bad as any so far, make the account owe more
/// than one bad trial. Hence the promise: trials cost at most the budget plus the worst of them. It is
/// not enforced while no trial was worse than `BAD`.
#[derive(Clone, Debug)]
pub(crate) struct Bank {
    budget: f64,
    balance: f64,
    /// All that ever came in.
    earned: f64,
    /// The most that a trial would have cost that was worth it and could not be paid.
    wanted: f64,
    debt: f64,
    /// The most that a single trial has cost, and the most as a multiple of what the best takes.
    worst: f64,
    dearest: f64,
}

impl Bank {
    pub(crate) fn new(budget: f64) -> Self {
        Bank {
            budget,
            balance: 0.0,
            earned: 0.0,
            wanted: 0.0,
            debt: 0.0,
            worst: 0.0,
            dearest: 0.0,
        }
    }

    /// Notes what a trial cost beyond what the best would have taken.
    pub(crate) fn note(&mut self, actual_ns: f64, best_ns: f64) {
        self.worst = self.worst.max(actual_ns);
        if best_ns > 0.0 {
            self.dearest = self.dearest.max(actual_ns / best_ns);
        }
    }

    /// Whether trials of this price are covered, on a workload that the best serves in `best_ns`,
    /// from this part of the balance.
    pub(crate) fn covers(&self, price_ns: f64, best_ns: f64, part: f64) -> bool {
        let owed = self.debt - self.balance + self.dearest * best_ns;
        let risked = self.debt <= 0.0 || self.dearest <= BAD || owed <= self.worst;
        risked && price_ns <= part * self.balance
    }

    /// Whether trials of this price leave enough for others that are worth more, as multiples of
    /// their price.
    pub(crate) fn leaves_enough(&self, price_ns: f64, worth: f64) -> bool {
        let kept = (KEPT * self.earned / (1.0 + worth)).min(self.wanted);
        self.balance - price_ns >= kept
    }

    /// Notes a trial that is worth its price, for which the balance is too low.
    pub(crate) fn want(&mut self, price_ns: f64) {
        self.wanted = self.wanted.max(price_ns);
    }

    /// Time that callers got something for.
    pub(crate) fn earn(&mut self, served_ns: f64) {
        let earned = self.budget * served_ns;
        self.earned += earned;
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

    #[test]
    fn until_a_bad_trial_is_repaid_no_second_one_is_risked() {
        let mut bank = Bank::new(0.01);
        bank.earn(10_000.0);
        assert!(bank.covers(50.0, 1e9, 0.5), "nothing is owed");
        bank.reserve(50.0);
        bank.settle(50.0, 1_100.0);
        bank.note(1_100.0, 11.0);
        bank.earn(10_000.0);
        // 1,000 were owed and 100 have come in: 200 are left to the worst so far, 1,100.
        assert!(bank.covers(10.0, 1.9, 0.5));
        assert!(
            !bank.covers(10.0, 2.1, 0.5),
            "it may take a hundred times as long"
        );
        bank.earn(190_000.0);
        assert!(bank.covers(10.0, 1e9, 0.5), "repaid");
    }

    #[test]
    fn trials_that_just_pay_leave_something_for_better_ones() {
        let mut bank = Bank::new(0.01);
        bank.earn(100_000.0);
        assert!(bank.leaves_enough(1_000.0, 1.0), "nobody wants it");
        bank.want(5_000.0);
        // 1,000 have come in: 150 of them stay for trials that are worth more than their price.
        let mut cheap = 0;
        while bank.covers(10.0, 1.0, 0.5) && bank.leaves_enough(10.0, 1.0) {
            bank.reserve(10.0);
            cheap += 1;
        }
        assert_eq!(cheap, 85);
        assert!(bank.leaves_enough(140.0, 50.0));
        assert!(!bank.leaves_enough(151.0, 50.0), "not more than there is");
    }

    #[test]
    fn noise_does_not_end_trials() {
        let mut bank = Bank::new(0.01);
        bank.earn(10_000.0);
        bank.reserve(50.0);
        bank.settle(50.0, 1_100.0);
        bank.note(1_100.0, 500.0);
        bank.earn(10_000.0);
        assert!(bank.covers(10.0, 500.0, 0.5));
    }
}
