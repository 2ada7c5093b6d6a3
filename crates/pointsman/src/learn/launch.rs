//! What variants take however little there is to do.
//!
//! The cost model knows what it takes to begin a call on each backend, but not in each variant: 40 ns for the bounds
//! checks before a loop, 60 µs for a call into a library of Python. Measured on small workloads, such a variant is many times
//! as slow as the cost model says, and would be expected to be so on large ones, where it may be the best, and where
//! nobody would dare to try it. So what small workloads show is explained by a launch first, if it can be.

/// Measurements of a variant that its launch is learned from, at most.
const ENOUGH: usize = 32;

/// Launches that are considered are this far apart, in log units, and so many at most.
const STEP: f64 = 0.7;
const STEPS: usize = 40;

/// Log likelihood by which a launch must explain the costs better than none.
const AGREED: f64 = 1.5;

/// Variance of what is left unexplained.
const MISFIT: f64 = 0.2;

/// A measurement of a variant: the log of its cost, and what the cost model says without a launch, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight {
    pub(crate) ln_cost: f64,
    pub(crate) model_ns: f64,
}

/// A launch, the log of how much slower than the cost model the rest is, and how badly both explain the costs.
#[derive(Clone, Copy)]
struct Guess {
    launch_ns: f64,
    slower: f64,
    badness: f64,
}

/// The launch of each variant, in nanoseconds of the cost model; 0 if it has none beyond what the model says.
pub(crate) fn launches(seen: &[Vec<Sight>]) -> Vec<f64> {
    // Amounts of work are often a guess, and off by a factor for all variants alike: that of the one which is known best.
    let known = seen.iter().max_by_key(|sights| sights.len());
    let usual = known.map_or(0.0, |sights| best(sights, 0.0).slower);
    seen.iter()
        .map(|sights| best(sights, usual).launch_ns)
        .collect()
}

/// The best guess about a variant, if variants are usually so much slower than the cost model says.
fn best(sights: &[Sight], usual: f64) -> Guess {
    let every = sights.len().div_ceil(ENOUGH).max(1);
    let some = || sights.iter().step_by(every);
    let count = some().count() as f64;
    let guess = |launch_ns: f64| {
        let left = |s: &Sight| s.ln_cost - (s.model_ns + launch_ns).ln();
        let slower = (some().map(left).sum::<f64>() + MISFIT * usual) / (count + MISFIT);
        // Neither one absurd sample nor a variant that is slow beyond all others is impossible.
        let missed = |s: &Sight| (left(s) - slower).powi(2).min(1.0) / (2.0 * MISFIT);
        let badness = some().map(missed).sum::<f64>() + (slower - usual).powi(2).ln_1p();
        Guess {
            launch_ns,
            slower,
            badness,
        }
    };
    let none = guess(0.0);
    let least = some().map(|s| s.model_ns).fold(f64::INFINITY, f64::min);
    let most = some().map(|s| s.ln_cost).fold(f64::NEG_INFINITY, f64::max);
    (0..STEPS)
        .map(|i| least.ln() + STEP * i as f64)
        .take_while(|ln| *ln < most + STEP)
        .map(|ln| guess(ln.exp()))
        .min_by(|a, b| a.badness.total_cmp(&b.badness))
        .filter(|launch| launch.badness + AGREED < none.badness)
        .unwrap_or(none)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measurements of work that takes so many nanoseconds by the cost model.
    fn sights(work_ns: &[f64], cost: impl Fn(f64) -> f64) -> Vec<Sight> {
        let sight = |ns: &f64| Sight {
            ln_cost: cost(*ns).ln(),
            model_ns: *ns,
        };
        work_ns.iter().map(sight).collect()
    }

    const SMALL: [f64; 4] = [4.0, 20.0, 100.0, 500.0];

    #[test]
    fn what_is_the_same_for_all_sizes_is_a_launch() {
        let plain = sights(&SMALL, |ns| ns);
        let found = launches(&[plain, sights(&SMALL, |ns| 60_000.0 + ns)]);
        assert_eq!(found[0], 0.0);
        assert!((40_000.0..90_000.0).contains(&found[1]), "{found:?}");
    }

    #[test]
    fn once_is_enough_where_it_would_be_slower_beyond_belief() {
        let plain = sights(&SMALL, |ns| ns);
        let found = |cost: f64| launches(&[plain.clone(), sights(&[20.0], |_| cost)])[1];
        assert!((1_000.0..4_000.0).contains(&found(2_000.0)));
        assert_eq!(found(60.0), 0.0, "perhaps it is just slower");
    }

    #[test]
    fn what_grows_with_the_work_is_none() {
        let plain = sights(&SMALL, |ns| ns);
        assert_eq!(
            launches(&[plain, sights(&SMALL, |ns| 100.0 * ns)]),
            [0.0; 2]
        );
    }

    #[test]
    fn amounts_of_work_may_be_wrong_for_all() {
        // Both are 50 times as slow as the cost model says.
        let plain = sights(&SMALL, |ns| 50.0 * ns);
        let found = launches(&[plain, sights(&[4.0, 20.0], |ns| 50.0 * (3_000.0 + ns))]);
        assert_eq!(found[0], 0.0);
        assert!((2_000.0..5_000.0).contains(&found[1]), "{found:?}");
    }

    #[test]
    fn nothing_measured_and_absurd_amounts_are_no_launches() {
        assert!(launches(&[]).is_empty());
        assert_eq!(launches(&[vec![], vec![]]), [0.0; 2]);
        let absurd = Sight {
            ln_cost: 3.0,
            model_ns: f64::MAX,
        };
        assert_eq!(launches(&[vec![absurd; 3]]), [0.0]);
    }
}
