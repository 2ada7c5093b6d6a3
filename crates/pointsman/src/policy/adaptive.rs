//! The default policy: serve the best by prediction, and try others when the budget covers it.
//!
//! - The best is the lowest predicted mean; among near-equals the incumbent stays.
//! - Which other variant to try is a Thompson draw: each variant is as likely to be tried as it is
//!   to be the fastest.
//! - A trial happens only if its pessimistic excess over the best fits the bank.
//! - The first tries of a variant nobody has tried are outside the budget, because nothing is
//!   known that could price them; there are few, and only on cheap workloads.

use rand::RngExt;
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::decision::{Prediction, Reason};
use crate::learn::{Bank, Pick};

/// First tries of a variant that are outside the budget. The first is its warm-up, the other two
/// are the fewest that can outvote an outlier.
pub(crate) const FIRST_TRIES: u32 = 3;

/// Log cost that counts as equal: 5 %.
pub(crate) const NEAR: f64 = 0.048_790_164_169_432;

/// Least advantage, in log cost, for which an incumbent gives way: 3 %.
const STICKY: f64 = 0.03;

/// Uncertainty, in log units, that a trial's price takes into account at most. Beyond it the price
/// would be astronomical and the variant never tried.
const PESSIMISM: f64 = 1.5;

/// Samples in one cell that may all have been unlucky.
pub(crate) const FEW: u32 = 9;

/// Distance, in log units, at which a variant is out of reach of a few unlucky samples: 3 times.
const OUT_OF_REACH: f64 = 1.1;

/// How far, in log units, a variant may lie from the best when its samples are known to mislead.
const ANYTHING: f64 = 0.5;

/// Distance, in log units, beyond which boldness only wastes the budget: 4.5 times.
const WORTH_BOLDNESS: f64 = 1.5;

/// Tries of a variant, over all cells, before its predictions are taken at their word.
const NEW: u32 = 48;

/// An eligible variant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) variant: u8,
    pub(crate) prediction: Prediction,
    pub(crate) tries: u32,
    /// Whether any measurement of it was ever accepted.
    pub(crate) measured: bool,
}

impl Candidate {
    /// One that nothing is known about.
    pub(crate) fn unknown(variant: u8) -> Self {
        Candidate {
            variant,
            prediction: Prediction::default(),
            tries: 0,
            measured: false,
        }
    }
}

/// What a pick rests on.
pub(crate) struct Situation<'a> {
    /// Never empty.
    pub(crate) candidates: &'a [Candidate],
    pub(crate) incumbent: Option<u8>,
    pub(crate) explore: bool,
    /// Median cost of the last calls; `None` while there are too few, or when nobody needs it.
    pub(crate) typical_ns: Option<f64>,
    /// A run of trials under way.
    pub(crate) burst: Option<Burst>,
    /// Share of all samples of the op that are outliers.
    pub(crate) outliers: f64,
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

    /// Whether the call just made was one of the first.
    pub(crate) fn is_cold(self, variant: u8) -> bool {
        self.variant == variant && self.left >= BURST_WARM
    }
}

/// Calls shorter than this are tried in bursts: for longer ones, cold caches are noise.
const SHORT_NS: f64 = 5_000.0;

/// Trials in a burst after the first, and how many at the end count.
const BURST: u8 = 6;
const BURST_WARM: u8 = 3;

pub(crate) fn pick(
    situation: &Situation<'_>,
    bank: &mut Bank,
    rng: &mut Xoshiro256PlusPlus,
) -> Pick {
    let candidates = situation.candidates;
    let best = best(candidates, situation.incumbent);
    let best_ns = best.prediction.ns();
    let answer = |chosen: &Candidate, reason, reserved_ns| Pick {
        variant: chosen.variant,
        reason,
        confidence: confidence(chosen, candidates),
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
        let drawn = draw(situation, best, boldness(bank, best_ns), rng);
        if drawn.variant != best.variant {
            let pessimistic = drawn.prediction.mean() + drawn.prediction.sd().min(PESSIMISM);
            let excess_ns = (pessimistic.exp() - best_ns).max(0.0);
            let more = if best_ns < SHORT_NS { BURST } else { 0 };
            if bank.reserve(excess_ns * f64::from(1 + more)) {
                let mut pick = answer(drawn, Reason::Trial, excess_ns);
                pick.burst = Some(Burst {
                    variant: drawn.variant,
                    left: more,
                    price_ns: excess_ns,
                })
                .filter(|b| b.left > 0);
                return pick;
            }
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
fn best(candidates: &[Candidate], incumbent: Option<u8>) -> &Candidate {
    let rank = |c: &Candidate| (!c.measured, c.prediction.mean());
    let lowest = |a: &&Candidate, b: &&Candidate| {
        let (a, b) = (rank(a), rank(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    };
    let best = candidates.iter().min_by(lowest).unwrap_or(&candidates[0]);
    match candidates.iter().find(|c| Some(c.variant) == incumbent) {
        Some(old) if old.prediction.samples() > 0 => {
            let noise = best.prediction.sd().hypot(old.prediction.sd());
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
        // Warm-up and one measurement of each, one after the other; then what is left.
        .min_by_key(|c| [1, 0, 2][c.tries.min(2) as usize])
}

/// How many standard deviations count as one for a variant that has not been tried often: up to
/// four while the bank is rich. Its first tries were on cheap workloads; what it does on dear ones
/// is guesswork, and a budget that nobody spends is best spent on finding out.
fn boldness(bank: &Bank, best_ns: f64) -> f64 {
    let calls = (bank.balance() / best_ns.max(1.0)).max(0.0);
    1.0 + calls.ln_1p().min(6.0) / 2.0
}

/// A Thompson draw: each variant at random from what it may cost; the lowest wins.
fn draw<'a>(
    situation: &Situation<'a>,
    best: &Candidate,
    boldness: f64,
    rng: &mut Xoshiro256PlusPlus,
) -> &'a Candidate {
    let (candidates, outliers) = (situation.candidates, situation.outliers);
    let mut lowest = (f64::INFINITY, &candidates[0]);
    for candidate in candidates {
        let normal: f64 = StandardNormal.sample(rng);
        let p = candidate.prediction;
        let misled = candidate.variant != best.variant
            && rng.random::<f64>() < misled(p.samples(), outliers);
        let drawn = if misled {
            best.prediction.mean() + ANYTHING * normal
        } else if candidate.tries < NEW && p.mean() - best.prediction.mean() < WORTH_BOLDNESS {
            p.mean() + boldness * p.sd() * normal
        } else {
            p.mean() + p.sd() * normal
        };
        if drawn < lowest.0 {
            lowest = (drawn, candidate);
        }
    }
    lowest.1
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
    if samples == 0 || samples >= FEW {
        return 0.0;
    }
    // The level of n samples is the lower middle one: outliers rule it if more than half are.
    let needed = samples / 2 + 1;
    let ways = (0..needed).fold(1.0, |ways, i| {
        ways * f64::from(samples - i) / f64::from(i + 1)
    });
    (ways * outliers.powi(needed as i32)).min(0.5)
}

/// Probability that the chosen variant is within 5 % of the best.
pub(crate) fn confidence(chosen: &Candidate, candidates: &[Candidate]) -> f64 {
    candidates
        .iter()
        .filter(|c| c.variant != chosen.variant)
        .map(|other| {
            let (a, b) = (other.prediction, chosen.prediction);
            let sd = a.sd().hypot(b.sd()).max(1e-6);
            let z = (a.mean() - b.mean() + NEAR) / sd;
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
        close(misled(9, 0.2), 0.0);
    }
}
