//! The default policy: serve the best by prediction, and try others when it is worth it and the
//! budget covers it.
//!
//! - The best is the lowest expected cost; among near-equals the incumbent stays.
//! - A variant is worth a trial if what it may save, over as many calls as came so far, outweighs
//!   what the trial is expected to cost. What it may save is what one more measurement could change,
//!   so that a variant that is known is not tried again, and one that is hopeless hardly ever.
//! - A trial happens only if its expected excess over the best fits the bank.
//! - What a variant may save on a dear workload makes trials of it on cheaper ones, on the way there, worth more: see
//!   [`super::steps`].
//! - The first tries of a variant nobody has tried are outside the budget, because nothing is
//!   known that could price them; there are few, and only on cheap workloads. Where the cost model
//!   says that they are dear, they are trials like any other.

use crate::decision::{Prediction, Reason};
use crate::learn::{Bank, Pick};
use crate::outcome::Cost;
use crate::policy::steps::Steps;

/// First tries of a variant that are outside the budget. The first is its warm-up, the other two
/// are the fewest that can outvote an outlier.
pub(crate) const FIRST_TRIES: u32 = 3;

/// Log cost that counts as equal: 5 %.
pub(crate) const NEAR: f64 = 0.048_790_164_169_432;

/// Least advantage, in log cost, for which an incumbent gives way: 3 %.
const STICKY: f64 = 0.03;

/// Least saving, in log cost, that a trial is made for: 2 %.
const WORTHWHILE: f64 = 0.02;

/// Uncertainty, in log units, that a trial's price takes into account at most. Beyond it the price
/// would be astronomical and the variant never tried.
const PESSIMISM: f64 = 0.7;

/// Uncertainty, in log units, beyond which nothing is known at all: a factor of 20.
const MOST_UNSURE: f64 = 3.0;

/// Samples in one cell that may all have been unlucky.
pub(crate) const FEW: u32 = 9;

/// Distance, in log units, at which a variant is out of reach of a few unlucky samples: 3 times.
const OUT_OF_REACH: f64 = 1.1;

/// How often a prediction is wrong beyond its stated uncertainty, and what the variant would save
/// then: what makes sure that every variant is tried in a cell that is called often enough.
const WRONG: f64 = 0.01;
const IF_WRONG: f64 = 0.5;

/// Tries of a variant, and cells in which it was measured, before the uncertainty of its predictions is
/// taken at its word: the few measurements they rest on may be outliers, and were made on cheap workloads.
/// While the bank is rich, up to four standard deviations count as one.
const NEW: u32 = 8;
const NEW_CELLS: u32 = 4;
const MOST_BOLD: f64 = 6.0;

/// Share of the calls in other cells that may profit from what is found out in this one.
const REACH: f64 = 0.3;

/// Share of the bank that one trial may take, and how many times as much if it is worth it.
const SHARE: f64 = 0.5;
const MOST_WORTH: f64 = 2.0;

/// Distance, in log units, from which the cost model's word is enough to make a first try wait for the
/// budget: 3 times. It is rarely wrong by more.
const DEAR: f64 = 1.1;

/// An eligible variant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) variant: u8,
    pub(crate) prediction: Prediction,
    /// Its log cost is this plus its loading times what all candidates share, plus an error of its
    /// own with this variance.
    pub(crate) mean: f64,
    pub(crate) loading: f64,
    pub(crate) own: f64,
    /// Variance of one more sample.
    pub(crate) noise: f64,
    pub(crate) tries: u32,
    /// Cells in which it was measured.
    pub(crate) points: u32,
    /// Whether any measurement of it was ever accepted.
    pub(crate) measured: bool,
    /// Log of what the cost model alone says; 0 if it says nothing, or is not trusted.
    pub(crate) prior: f64,
}

impl Candidate {
    /// Log of the expected cost: uncertain costs are dearer than their median.
    fn expected(&self, shared: f64) -> f64 {
        self.mean + 0.5 * (self.own + self.loading.powi(2) * shared).min(1.0)
    }

    /// One that nothing is known about.
    pub(crate) fn unknown(variant: u8) -> Self {
        Self::alone(variant, Prediction::default())
    }

    /// One that shares nothing with the others.
    pub(crate) fn alone(variant: u8, prediction: Prediction) -> Self {
        Candidate {
            variant,
            prediction,
            mean: prediction.mean(),
            loading: 0.0,
            own: prediction.sd().powi(2),
            noise: 0.01,
            tries: 0,
            points: 0,
            measured: false,
            prior: 0.0,
        }
    }
}

/// What a pick rests on.
pub(crate) struct Situation<'a> {
    /// Never empty.
    pub(crate) candidates: &'a [Candidate],
    /// Variance of what they share.
    pub(crate) shared: f64,
    pub(crate) incumbent: Option<u8>,
    /// Key of the cell.
    pub(crate) cell: u64,
    /// Calls of this cell, and of all of them.
    pub(crate) visits: f64,
    pub(crate) calls: f64,
    pub(crate) explore: bool,
    /// Median cost of the last calls; `None` while there are too few, or when nobody needs it.
    pub(crate) typical_ns: Option<f64>,
    /// A run of trials under way.
    pub(crate) burst: Option<Burst>,
    /// Share of all samples of the op that are outliers, and how far off those are, in log units.
    pub(crate) outliers: f64,
    pub(crate) outliers_far: f64,
}

/// A run of trials of a short op: the first few run cold and do not count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Burst {
    variant: u8,
    left: u8,
    /// What the bank has set aside for each.
    price_ns: f64,
}

impl Burst {
    /// The next trial of the run; if its variant may not serve this call, what was set aside
    /// goes back.
    fn next<'a>(
        mut self,
        candidates: &'a [Candidate],
        bank: &mut Bank,
    ) -> Option<(Self, &'a Candidate)> {
        match candidates.iter().find(|c| c.variant == self.variant) {
            Some(candidate) => {
                self.left -= 1;
                Some((self, candidate))
            }
            None => {
                self.refund(bank);
                None
            }
        }
    }

    /// Gives back what was set aside for the rest of it.
    pub(crate) fn refund(self, bank: &mut Bank) {
        bank.settle(self.price_ns * f64::from(self.left), 0.0);
    }

    /// Whether the call just made took so long that there is no need of more: it was not slow for being cold.
    pub(crate) fn is_over(self, variant: u8, cost: Cost) -> bool {
        self.variant == variant && cost.ns() as f64 > LONG_NS
    }

    /// Whether the call just made was one of the first.
    pub(crate) fn is_cold(self, variant: u8) -> bool {
        self.variant == variant && self.left >= BURST_WARM
    }
}

/// Calls shorter than this are tried in bursts: for longer ones, cold caches are noise.
const SHORT_NS: f64 = 5_000.0;

/// What hardly any call takes only because its code is cold: seven calls of 40 µs, to find out that another takes 4, took
/// most of what had come in after 250 calls of an op over Python's libraries.
const LONG_NS: f64 = 20_000.0;

/// Trials in a burst after the first, and how many at the end count.
const BURST: u8 = 6;
const BURST_WARM: u8 = 3;

pub(crate) fn pick(situation: &Situation<'_>, bank: &mut Bank, steps: &mut Steps) -> Pick {
    let candidates = situation.candidates;
    let best = best(situation);
    let best_ns = best.prediction.ns();
    let answer = |chosen: &Candidate, reason, reserved_ns| Pick {
        variant: chosen.variant,
        reason,
        confidence: confidence(chosen, candidates, situation.shared),
        predicted: chosen.prediction,
        best_ns,
        reserved_ns,
        burst: None,
        settled: settled(best, candidates),
        publish: None,
    };
    if situation.explore && candidates.len() > 1 {
        if let Some((burst, candidate)) = situation.burst.and_then(|b| b.next(candidates, bank)) {
            let mut pick = answer(candidate, Reason::Trial, burst.price_ns);
            pick.burst = Some(burst).filter(|b| b.left > 0);
            return pick;
        }
        if let Some(first) = first_try(situation, best) {
            return answer(first, Reason::FirstTry, 0.0);
        }
        if let Some((tried, price_ns)) = worth_a_trial(situation, best, bank, steps) {
            let more = more_trials(best, tried);
            bank.reserve(price_ns * f64::from(1 + more));
            let mut pick = answer(tried, Reason::Trial, price_ns);
            pick.burst = Some(Burst {
                variant: tried.variant,
                left: more,
                price_ns,
            })
            .filter(|b| b.left > 0);
            return pick;
        }
    }
    if let Some(burst) = situation
        .burst
        .filter(|_| !situation.explore || candidates.len() < 2)
    {
        burst.refund(bank);
    }
    let reason = match (candidates.len(), best.prediction.samples()) {
        (1, _) => Reason::OnlyEligible,
        (_, 0) => Reason::Prior,
        _ => Reason::Historical,
    };
    answer(best, reason, 0.0)
}

/// Lowest mean, unless the incumbent is as good within the noise. Who has never been measured is
/// behind everybody who has: a guess does not serve, it is tried.
fn best<'a>(situation: &Situation<'a>) -> &'a Candidate {
    let (candidates, incumbent) = (situation.candidates, situation.incumbent);
    let rank = |c: &Candidate| (!c.measured, c.expected(situation.shared));
    let lowest = |a: &&Candidate, b: &&Candidate| {
        let (a, b) = (rank(a), rank(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    };
    let best = candidates.iter().min_by(lowest).unwrap_or(&candidates[0]);
    match candidates.iter().find(|c| Some(c.variant) == incumbent) {
        Some(old) if old.prediction.samples() > 0 => {
            let noise = difference(best, old, situation.shared).sqrt();
            let gap = old.prediction.mean() - best.prediction.mean();
            if gap <= noise.clamp(STICKY, 2.0 * NEAR) {
                old
            } else {
                best
            }
        }
        _ => best,
    }
}

/// The next of the variants that still need first tries, if this call is cheap enough.
fn first_try<'a>(situation: &Situation<'a>, best: &Candidate) -> Option<&'a Candidate> {
    let typical_ns = situation.typical_ns?;
    // What this call costs must be known, if not precisely. Equal costs differ by rounding; the
    // slack is what counts as equal.
    let p = best.prediction;
    let doubt = (p.sd() - 0.3).max(0.0);
    let cheap = best.measured && p.mean() + doubt <= typical_ns.ln() + NEAR;
    situation
        .candidates
        .iter()
        .filter(|c| cheap && c.tries < FIRST_TRIES && c.variant != best.variant)
        .filter(|c| !is_dear(c, best))
        // Warm-up and one measurement of each, one after the other; then what is left.
        .min_by_key(|c| [1, 0, 2][c.tries.min(2) as usize])
}

/// Whether the cost model calls a variant dear. It must know both: that the best is better than it says,
/// or that it says nothing of it, is no word against the other.
fn is_dear(other: &Candidate, best: &Candidate) -> bool {
    let knows_both = other.prior > 0.0 && best.prior > 0.0;
    knows_both && other.prior - best.prior >= DEAR
}

/// The variant most worth a trial here that the bank can pay for, if any is worth one, and its
/// price: what it is expected to cost beyond the best.
fn worth_a_trial<'a>(
    situation: &Situation<'a>,
    best: &Candidate,
    bank: &mut Bank,
    steps: &mut Steps,
) -> Option<(&'a Candidate, f64)> {
    let best_ns = best.mean.exp();
    let balance_ns = bank.balance();
    // A budget that nobody spends is best spent on finding out more.
    let boldness = 1.0 + (balance_ns / best_ns).max(0.0).ln_1p().min(MOST_BOLD) / 2.0;
    if best.prediction.samples() > 0 {
        steps.fulfilled(best.variant, situation.cell);
    }
    let mut found = None;
    let mut most = 1.0;
    for other in situation.candidates {
        if other.variant == best.variant {
            continue;
        }
        let gap = other.mean - best.mean;
        let variance = difference(other, best, situation.shared);
        let loss = saving(gap, variance.sqrt().min(PESSIMISM)).1;
        // How far one more sample of it may move the picture: what is uncertain about the best is
        // found out by serving from the best.
        let open = variance - best.own;
        let mut moved = open / (open + other.noise).sqrt();
        if other.tries < NEW || other.points < NEW_CELLS {
            moved *= boldness;
        }
        let gain = saving(gap + WORTHWHILE, moved).0;
        let elsewhere = REACH * situation.calls / f64::from(other.points + 1);
        let wrong = match other.prediction.samples() {
            0 => WRONG,
            // One sample may be anything, and is looked at again however slow it was.
            1 => misled(1, situation.outliers),
            samples => {
                let hiding = (-gap.max(0.0) / situation.outliers_far).exp();
                misled(samples, situation.outliers * hiding)
            }
        };
        let to_come = situation.visits + elsewhere;
        let mut worth = (gain + wrong * IF_WRONG) * to_come / loss.max(1e-9);
        let mut price_ns = loss * best_ns;
        if !other.measured {
            // Tried, and nothing came of it: perhaps nothing ever does, at what price nobody knows.
            let fruitless = f64::from(1 + other.tries);
            worth /= fruitless;
            price_ns *= fruitless;
        }
        if other.prediction.samples() > 0 {
            steps.known(other.variant, situation.cell, best.mean);
        } else {
            worth += steps.worth_ns(other.variant, best.mean) / price_ns.max(1.0);
            // What came only once may never come again.
            let again = (situation.visits - 1.0).max(0.0);
            let saves_ns = gain * again * best_ns;
            steps.wish(other.variant, situation.cell, best.mean, saves_ns);
        }
        let part = SHARE * worth.min(MOST_WORTH);
        let all_ns = price_ns * f64::from(1 + more_trials(best, other));
        if worth > 1.0 && all_ns > balance_ns {
            bank.want(all_ns);
        }
        let covered = bank.covers(all_ns, part);
        if worth > most && covered && bank.leaves_enough(all_ns, worth) {
            most = worth;
            found = Some((other, price_ns));
        }
    }
    found
}

/// Trials that follow the first one if both the variant and the best are short.
fn more_trials(best: &Candidate, other: &Candidate) -> u8 {
    let is_short = |c: &Candidate| c.prediction.ns() < SHORT_NS;
    if is_short(best) && is_short(other) {
        BURST
    } else {
        0
    }
}

/// What a variant is expected to save per call, and to cost beyond the other, as shares of what the
/// other costs; the log of their ratio is normal.
fn saving(mean: f64, sd: f64) -> (f64, f64) {
    let sd = sd.clamp(1e-6, MOST_UNSURE);
    let below = |z: f64| 0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2);
    let z = -mean / sd;
    let ratio = (mean + 0.5 * sd * sd).min(20.0).exp();
    let gain = below(z) - ratio * below(z - sd);
    (gain.max(0.0), (ratio - 1.0 + gain).max(0.0))
}

/// Whether nothing is left to find out: every other variant is out of reach, or well measured.
fn settled(best: &Candidate, candidates: &[Candidate]) -> bool {
    candidates
        .iter()
        .filter(|c| c.variant != best.variant)
        .all(|c| {
            let gap = c.prediction.mean() - best.prediction.mean();
            match c.prediction.samples() {
                0 => gap > 3.0 * c.prediction.sd(),
                1..FEW => gap > OUT_OF_REACH,
                _ => true,
            }
        })
}

/// Probability that so few samples show outliers and nothing else, when this share of all samples
/// are outliers: that most of them are.
fn misled(samples: u32, outliers: f64) -> f64 {
    if samples == 0 {
        return 0.0;
    }
    // The level of up to four samples is the lower middle one: outliers rule it if more than half are. From five on
    // fewer are enough to move it, but hardly as far.
    let needed = samples / 2 + 1;
    let ways = (0..needed).fold(1.0, |ways, i| {
        ways * f64::from(samples - i) / f64::from(i + 1)
    });
    (ways * outliers.powi(needed as i32)).min(0.5)
}

/// Variance of the difference of two log costs.
fn difference(a: &Candidate, b: &Candidate, shared: f64) -> f64 {
    a.own + b.own + (a.loading - b.loading).powi(2) * shared
}

/// Probability that the chosen variant is within 5 % of the best.
pub(crate) fn confidence(chosen: &Candidate, candidates: &[Candidate], shared: f64) -> f64 {
    candidates
        .iter()
        .filter(|c| c.variant != chosen.variant)
        .map(|other| {
            let sd = difference(other, chosen, shared).sqrt().max(1e-6);
            let z = (other.mean - chosen.mean + NEAR) / sd;
            0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2)
        })
        .product()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_samples_mislead_as_often_as_most_of_them_are_outliers() {
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        close(misled(0, 0.2), 0.0);
        close(misled(1, 0.2), 0.2);
        close(misled(2, 0.2), 0.04);
        close(misled(3, 0.2), 3.0 * 0.04);
        close(misled(4, 0.2), 4.0 * 0.008);
        close(misled(9, 0.2), 126.0 * 0.2f64.powi(5));
    }

    #[test]
    fn the_cost_model_calls_dear_only_what_it_can_compare() {
        let by = |prior| Candidate {
            prior,
            ..Candidate::unknown(0)
        };
        assert!(is_dear(&by(8.0), &by(6.0)));
        assert!(!is_dear(&by(7.0), &by(6.0)), "less than 3 times");
        assert!(!is_dear(&by(8.0), &by(0.0)), "nothing is said of the best");
        assert!(!is_dear(&by(0.0), &by(6.0)));
    }

    #[test]
    fn only_short_calls_are_tried_in_bursts() {
        let takes = |ns: f64| Candidate::alone(0, Prediction::new(ns.ln(), 0.1, 1));
        assert_eq!(more_trials(&takes(300.0), &takes(900.0)), BURST);
        assert_eq!(more_trials(&takes(300.0), &takes(40_000.0)), 0);
        assert_eq!(more_trials(&takes(40_000.0), &takes(300.0)), 0);
        let burst = Burst {
            variant: 1,
            left: BURST,
            price_ns: 1.0,
        };
        let cost = |ns| Cost::from_ns(ns).expect("a cost");
        assert!(!burst.is_over(1, cost(9_000)), "it may have been cold");
        assert!(burst.is_over(1, cost(40_000)));
        assert!(!burst.is_over(0, cost(40_000)), "somebody else's");
    }

    #[test]
    fn what_is_known_is_not_tried_because_the_best_is_not() {
        let known = Candidate {
            own: 1e-4,
            noise: 1e-3,
            tries: 100,
            points: 1,
            measured: true,
            ..Candidate::alone(1, Prediction::new(10.0, 0.01, 32))
        };
        let once = Candidate {
            own: 0.1,
            ..Candidate {
                variant: 0,
                ..known
            }
        };
        let situation = |candidates| Situation {
            candidates,
            shared: 0.0,
            incumbent: None,
            cell: 1,
            visits: 100.0,
            calls: 100.0,
            explore: true,
            typical_ns: None,
            burst: None,
            outliers: 0.02,
            outliers_far: 1.0,
        };
        let both = [once, known];
        let mut bank = Bank::new(1.0);
        bank.earn(1e9);
        let mut steps = Steps::default();
        let mut tried = |best| worth_a_trial(&situation(&both), best, &mut bank, &mut steps);
        assert!(tried(&once).is_none(), "serving from the best tells more");
        assert!(tried(&known).is_some(), "the other may be the better one");
    }
}
