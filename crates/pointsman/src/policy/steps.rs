//! Dear trials are approached in steps.
//!
//! A variant that was measured on cheap workloads only is expected to be as good or bad, within wide bounds, on
//! dear ones. Where that is bad, a trial there costs more than the bank holds for a long time, although the variant may be
//! the best: what it takes to begin, which is all that cheap workloads show, may be nothing there. A trial half-way costs
//! little and says much. So what a variant may save on a dear workload makes trials of it on the way there worth more.

/// Log of the least factor in cost between one step and the next: with less, the second says little that is new.
const STEP: f64 = 0.7;

/// Distance to the wish, in log cost, at which a step counts for a factor of e less.
const REACH: f64 = 2.0;

/// How many times what is wished for counts beside what a step saves where it is made. With 1, replays of the times of four
/// Python libraries found the best variant of the dearest workload later; with 6, so did replays of the public tables.
const WEIGHT: f64 = 3.0;

/// Wishes that differ by less in log cost are for the same workload.
const SAME: f64 = 0.15;

/// How far up one variant is known, and where it is wished for. Workloads are told apart by the log cost of their best variant.
#[derive(Clone, Copy, Debug)]
struct Wish {
    /// The dearest workload on which it was measured.
    reached: f64,
    /// A workload that is dearer than its trial's price allows, and what it may save there.
    wanted: f64,
    saves_ns: f64,
}

/// The wishes for the variants of an op.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps(Vec<Wish>);

impl Steps {
    fn of(&mut self, variant: u8) -> &mut Wish {
        let index = usize::from(variant);
        if self.0.len() <= index {
            let none = Wish {
                reached: f64::NEG_INFINITY,
                wanted: f64::NEG_INFINITY,
                saves_ns: 0.0,
            };
            self.0.resize(index + 1, none);
        }
        &mut self.0[index]
    }

    /// A variant is known on this workload.
    pub(crate) fn reach(&mut self, variant: u8, here: f64) {
        let wish = self.of(variant);
        wish.reached = wish.reached.max(here);
    }

    /// A variant that was never measured on this workload may save so much there, in nanoseconds.
    pub(crate) fn wish(&mut self, variant: u8, here: f64, saves_ns: f64) {
        let wish = self.of(variant);
        let is_news = (wish.wanted - here).abs() < SAME;
        let is_past = wish.wanted <= wish.reached;
        if is_news || is_past || saves_ns > wish.saves_ns {
            (wish.wanted, wish.saves_ns) = (here, saves_ns);
        }
    }

    /// What a trial of a variant on this workload is worth as a step to a dearer one, in nanoseconds.
    pub(crate) fn worth_ns(&mut self, variant: u8, here: f64) -> f64 {
        let wish = self.of(variant);
        if here < wish.reached + STEP || here >= wish.wanted {
            return 0.0;
        }
        WEIGHT * wish.saves_ns * ((here - wish.wanted) / REACH).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_worth_more_the_nearer_the_step() {
        let mut steps = Steps::default();
        steps.reach(1, 2.0);
        steps.wish(1, 10.0, 100.0);
        let worth = [3.0, 6.0, 9.0].map(|here| steps.worth_ns(1, here));
        assert!(worth[0] > 0.0 && worth[0] < worth[1] && worth[1] < worth[2]);
        assert!(worth[2] < 300.0);
        assert_eq!(steps.worth_ns(0, 6.0), 0.0, "another variant");
    }

    #[test]
    fn what_is_known_nearer_or_lies_beyond_is_no_step() {
        let mut steps = Steps::default();
        steps.wish(0, 10.0, 100.0);
        steps.reach(0, 6.0);
        steps.reach(0, 4.0);
        assert_eq!(steps.worth_ns(0, 5.0), 0.0);
        assert_eq!(steps.worth_ns(0, 6.5), 0.0, "too near to what is known");
        assert!(steps.worth_ns(0, 7.0) > 0.0);
        assert_eq!(
            steps.worth_ns(0, 10.0),
            0.0,
            "a trial there is its own worth"
        );
        assert_eq!(steps.worth_ns(0, 12.0), 0.0);
    }

    #[test]
    fn the_greatest_wish_counts_until_it_is_fulfilled_or_less() {
        let mut steps = Steps::default();
        steps.wish(0, 10.0, 100.0);
        steps.wish(0, 8.0, 50.0);
        let before = steps.worth_ns(0, 6.0);
        steps.wish(0, 10.0, 20.0);
        assert!(
            (steps.worth_ns(0, 6.0) - before / 5.0).abs() < 1e-9,
            "less is expected now"
        );
        steps.reach(0, 10.0);
        steps.wish(0, 12.0, 1.0);
        assert!(steps.worth_ns(0, 11.0) > 0.0, "another one's turn");
    }

    #[test]
    fn nothing_wished_for_is_worth_nothing() {
        assert_eq!(Steps::default().worth_ns(63, 5.0), 0.0);
    }
}
