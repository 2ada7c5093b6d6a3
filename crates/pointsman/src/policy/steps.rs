//! Dear trials are approached in steps.
//!
//! A variant that was measured on cheap workloads only is expected to be as good or bad, within wide bounds, on
//! dear ones. Where that is bad, a trial there costs more than the bank holds for a long time, although the variant may be
//! the best: what it takes to begin, which is all that cheap workloads show, may be nothing there. A trial half-way costs
//! little and says much. So what a variant may save on a dear workload makes trials of it on the way there worth more.

/// Log of the least factor in cost between one step and the next: with less, the second says little that is new.
const STEP: f64 = 0.7;

/// Distance to the wish, in log cost, at which a step counts for a factor of e less.
const DISTANCE: f64 = 2.0;

/// How many times what is wished for counts beside what a step saves where it is made. With 1, replays of the times of four
/// Python libraries took 0.2 % longer; with 6, nothing was better beyond the noise.
const WEIGHT: f64 = 3.0;

/// How far up one variant is known, and where it is wished for. How dear a workload is, is the log cost of its best variant.
#[derive(Clone, Copy, Debug)]
struct Wish {
    /// The dearest workload on which it was measured and is not the best. Where it is the best, there is nothing to wish for,
    /// and it may lose on others that are as dear.
    reached: f64,
    /// A cell where it was never measured, how dear it is, and what it may save there.
    cell: u64,
    wanted: f64,
    saves_ns: f64,
}

/// Wished for nowhere.
const NOTHING: Wish = Wish {
    reached: f64::NEG_INFINITY,
    cell: 0,
    wanted: f64::NEG_INFINITY,
    saves_ns: 0.0,
};

/// The wishes for the variants of an op.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps(Vec<Wish>);

impl Steps {
    fn of(&mut self, variant: u8) -> &mut Wish {
        let index = usize::from(variant);
        if self.0.len() <= index {
            self.0.resize(index + 1, NOTHING);
        }
        &mut self.0[index]
    }

    /// A variant was measured in this cell: if it was wished for here, that is over.
    pub(crate) fn fulfilled(&mut self, variant: u8, cell: u64) {
        let wish = self.of(variant);
        if wish.cell == cell {
            let reached = wish.reached;
            *wish = Wish { reached, ..NOTHING };
        }
    }

    /// A variant was measured in a cell that is so dear, and is not the best there: what it takes on the way is known.
    pub(crate) fn known(&mut self, variant: u8, cell: u64, here: f64) {
        self.fulfilled(variant, cell);
        let wish = self.of(variant);
        wish.reached = wish.reached.max(here);
    }

    /// A variant that was never measured in this cell may save so much there, in nanoseconds.
    pub(crate) fn wish(&mut self, variant: u8, cell: u64, here: f64, saves_ns: f64) {
        let wish = self.of(variant);
        let is_past = wish.wanted <= wish.reached;
        if wish.cell == cell || is_past || saves_ns > wish.saves_ns {
            (wish.cell, wish.wanted, wish.saves_ns) = (cell, here, saves_ns);
        }
    }

    /// What a trial of a variant in a cell that is so dear is worth as a step to a dearer one, in nanoseconds.
    pub(crate) fn worth_ns(&mut self, variant: u8, here: f64) -> f64 {
        let wish = self.of(variant);
        if here < wish.reached + STEP || here >= wish.wanted {
            return 0.0;
        }
        WEIGHT * wish.saves_ns * ((here - wish.wanted) / DISTANCE).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_worth_more_the_nearer_the_step() {
        let mut steps = Steps::default();
        steps.known(1, 7, 2.0);
        steps.wish(1, 8, 10.0, 100.0);
        let worth = [3.0, 6.0, 9.0].map(|here| steps.worth_ns(1, here));
        assert!(worth[0] > 0.0 && worth[0] < worth[1] && worth[1] < worth[2]);
        assert!(worth[2] < WEIGHT * 100.0);
        assert_eq!(steps.worth_ns(0, 6.0), 0.0, "another variant");
    }

    #[test]
    fn what_is_known_nearer_or_lies_beyond_is_no_step() {
        let mut steps = Steps::default();
        steps.wish(0, 8, 10.0, 100.0);
        steps.known(0, 6, 6.0);
        steps.known(0, 4, 4.0);
        assert_eq!(steps.worth_ns(0, 5.0), 0.0);
        assert_eq!(steps.worth_ns(0, 6.5), 0.0, "too near to what is known");
        assert!(steps.worth_ns(0, 7.0) > 0.0);
        assert_eq!(steps.worth_ns(0, 10.0), 0.0, "it is worth what it saves");
        assert_eq!(steps.worth_ns(0, 12.0), 0.0);
    }

    #[test]
    fn the_greatest_wish_counts_until_less_is_expected() {
        let mut steps = Steps::default();
        steps.wish(0, 8, 10.0, 100.0);
        let before = steps.worth_ns(0, 6.0);
        steps.wish(0, 9, 10.0, 50.0);
        assert_eq!(steps.worth_ns(0, 6.0), before, "another cell, as dear");
        steps.wish(0, 8, 10.0, 20.0);
        assert!(steps.worth_ns(0, 6.0) < before / 4.0);
    }

    #[test]
    fn a_wish_that_was_fulfilled_is_over_however_cheap_it_made_the_cell() {
        let mut steps = Steps::default();
        steps.wish(0, 8, 10.0, 100.0);
        steps.known(0, 8, 9.0);
        assert_eq!(steps.worth_ns(0, 9.8), 0.0);
        steps.wish(0, 9, 12.0, 1.0);
        assert!(steps.worth_ns(0, 11.0) > 0.0, "another one's turn");
    }

    #[test]
    fn nothing_wished_for_is_worth_nothing() {
        assert_eq!(Steps::default().worth_ns(63, 5.0), 0.0);
    }
}
