//! How much variants differ, how fast that changes with the features, and how much of it is noise:
//! learned from the op's own measurements.
//!
//! No values suit all ops: where variants differ by a constant, freedom to differ more is freedom to
//! be wrong, and where they cross twice, a stiff model never sees it. The measure is the marginal
//! likelihood of some of the measurements under the whole model. Each time the model is fitted, a
//! few dozen measurements say for each scale whether they would rather have it larger or smaller,
//! and what enough of them agree on is done.

use super::cholesky::Cholesky;
use super::kernel::{dot, faded};

/// Variances of log cost, and lengths in standard deviations of the features.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scales([f64; SCALES]);

const SCALES: usize = 7;

/// Where the search starts: the middle of what real ops showed. It ends within a factor of e^4 of
/// here.
const START: [f64; SCALES] = [0.3, 0.1, 0.2, 0.05, 1.6, 1.6, 0.005];

/// What a step multiplies each by.
const STEP: [f64; SCALES] = [2.0, 2.0, 2.0, 2.0, 1.5, 1.5, 2.0];

/// How sure the start is: standard deviation of the log of each.
const SURE: f64 = 1.5;

/// Variance of the slopes and the offset that all variants share: as good as free.
const SHARED: f64 = 30.0;

impl Default for Scales {
    fn default() -> Self {
        Scales(START)
    }
}

impl Scales {
    /// How far apart variants are on average.
    pub(crate) fn own_offset(&self) -> f64 {
        self.0[0]
    }

    /// How much their slopes differ, for one feature.
    pub(crate) fn own_slope(&self) -> f64 {
        self.0[1]
    }

    /// What the linear part misses for all variants alike, and how far that reaches.
    pub(crate) fn shared(&self) -> f64 {
        self.0[2]
    }

    pub(crate) fn shared_length(&self) -> f64 {
        self.0[4]
    }

    /// What it misses for one variant, and how far that reaches.
    pub(crate) fn own(&self) -> f64 {
        self.0[3]
    }

    pub(crate) fn own_length(&self) -> f64 {
        self.0[5]
    }

    /// What no feature explains.
    pub(crate) fn nugget(&self) -> f64 {
        self.0[6]
    }

    fn stepped(mut self, which: usize, up: bool) -> Self {
        let step = if up { STEP[which] } else { STEP[which].recip() };
        self.0[which] *= step;
        self
    }

    /// Log of how likely they were thought before anything was measured.
    fn ln_prior(&self) -> f64 {
        let off = self
            .0
            .iter()
            .zip(START)
            .map(|(s, start)| (s / start).ln() / SURE);
        -0.5 * off.map(|z| z * z).sum::<f64>()
    }
}

/// A measurement that helps to judge.
#[derive(Clone, Debug)]
pub(crate) struct Witness {
    pub(crate) variant: u8,
    pub(crate) value: f64,
    pub(crate) variance: f64,
    pub(crate) basis: Vec<f64>,
}

/// Some measurements, and how they lie to each other.
pub(crate) struct Witnesses {
    all: Vec<Witness>,
    /// Upper halves, row by row: distance, and inner product of the basis vectors.
    distances: Vec<f64>,
    products: Vec<f64>,
}

/// What the distances mean under some lengths, and which lengths those are.
struct Faded {
    lengths: (f64, f64),
    shared: Vec<f64>,
    own: Vec<f64>,
}

impl Witnesses {
    /// `distances` are those of the first to itself and all after it, then of the second, and so on.
    pub(crate) fn new(mut all: Vec<Witness>, distances: Vec<f64>) -> Self {
        let middle = all.iter().map(|w| w.value).sum::<f64>() / all.len().max(1) as f64;
        all.iter_mut().for_each(|w| w.value -= middle);
        let mut products = Vec::with_capacity(distances.len());
        for (i, a) in all.iter().enumerate() {
            products.extend(all[i..].iter().map(|b| dot(&a.basis, &b.basis)));
        }
        Witnesses {
            all,
            distances,
            products,
        }
    }

    fn faded(&self, scales: &Scales) -> Faded {
        Faded {
            lengths: (scales.shared_length(), scales.own_length()),
            shared: faded(&self.distances, scales.shared_length()),
            own: faded(&self.distances, scales.own_length()),
        }
    }

    /// Log of how likely the measurements are under these scales, but for a constant. `faded` is
    /// for other scales, most of which have the same lengths.
    fn ln_likelihood(&self, scales: &Scales, before: &Faded) -> f64 {
        let n = self.all.len();
        let (shared, own);
        let shared = if before.lengths.0 == scales.shared_length() {
            &before.shared
        } else {
            shared = faded(&self.distances, scales.shared_length());
            &shared
        };
        let own = if before.lengths.1 == scales.own_length() {
            &before.own
        } else {
            own = faded(&self.distances, scales.own_length());
            &own
        };
        let mut matrix = vec![0.0; n * n];
        let mut at = 0;
        for (i, a) in self.all.iter().enumerate() {
            let row = &mut matrix[i * n + i..][..n - i];
            let terms = self.products[at..].iter().zip(&shared[at..]);
            for (covariance, (product, shared)) in row.iter_mut().zip(terms) {
                *covariance = SHARED * product + scales.shared() * shared;
            }
            let terms = self.products[at..].iter().zip(&own[at..]);
            for ((covariance, b), (product, own)) in row.iter_mut().zip(&self.all[i..]).zip(terms) {
                let same =
                    scales.own_offset() + scales.own_slope() * (product - 1.0) + scales.own() * own;
                *covariance += if a.variant == b.variant { same } else { 0.0 };
            }
            row[0] += a.variance + scales.nugget();
            at += n - i;
        }
        let factor = Cholesky::of(matrix, n);
        let mut values: Vec<f64> = self.all.iter().map(|w| w.value).collect();
        factor.forward(&mut values);
        -0.5 * values.iter().map(|z| z * z).sum::<f64>() - factor.half_ln_determinant()
    }
}

/// What the measurements so far would rather have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Search {
    pub(crate) scales: Scales,
    /// Log odds for a larger and a smaller value of each.
    votes: [[f64; 2]; SCALES],
}

/// Log odds at which a step is made.
const AGREED: f64 = 1.0;

/// Share of older votes that stays when there are new ones.
const MEMORY: f64 = 0.8;

impl Search {
    /// Hears some measurements; whether anything has changed.
    pub(crate) fn hear(&mut self, witnesses: &Witnesses) -> bool {
        let faded = witnesses.faded(&self.scales);
        let now = witnesses.ln_likelihood(&self.scales, &faded);
        let mut best = (AGREED, None);
        for which in 0..SCALES {
            for up in [false, true] {
                let other = self.scales.stepped(which, up);
                let vote = &mut self.votes[which][usize::from(up)];
                *vote = MEMORY * *vote + witnesses.ln_likelihood(&other, &faded) - now;
                let odds = *vote + other.ln_prior() - self.scales.ln_prior();
                if odds > best.0 {
                    best = (odds, Some((which, up)));
                }
            }
        }
        let Some((which, up)) = best.1 else {
            return false;
        };
        self.scales = self.scales.stepped(which, up);
        self.votes = Default::default();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 48 measurements of three variants over one feature, under costs that the caller makes up.
    fn witnesses(cost: impl Fn(u8, f64, usize) -> f64) -> Witnesses {
        let place = |i: usize| ((i * 29) % 48) as f64 / 12.0 - 2.0;
        let all = (0..48)
            .map(|i| Witness {
                variant: (i % 3) as u8,
                value: cost((i % 3) as u8, place(i), i),
                variance: 1e-3,
                basis: vec![1.0, place(i)],
            })
            .collect();
        let pairs = (0..48).flat_map(|i| (i..48).map(move |j| (i, j)));
        let distances = pairs.map(|(i, j)| (place(i) - place(j)).abs());
        Witnesses::new(all, distances.collect())
    }

    fn settled(cost: impl Fn(u8, f64, usize) -> f64) -> Scales {
        let witnesses = witnesses(cost);
        let mut search = Search::default();
        (0..100).for_each(|_| _ = search.hear(&witnesses));
        search.scales
    }

    #[test]
    fn variants_that_differ_by_a_constant_lose_the_freedom_to_differ_more() {
        let flat = settled(|v, x, _| 2.0 * x + 0.3 * f64::from(v));
        let crossing = settled(|v, x, _| 2.0 * x + (f64::from(v) - 1.0) * x);
        assert!(flat.own_slope() < START[1] / 4.0, "{flat:?}");
        assert!(
            crossing.own_slope() > 4.0 * flat.own_slope(),
            "{crossing:?}"
        );
    }

    #[test]
    fn noise_is_told_from_structure() {
        let noise = |i: usize| crate::cell::mix(i as u64, 9) as f64 / u64::MAX as f64 - 0.5;
        let noisy = settled(|_, x, i| 2.0 * x + noise(i));
        let smooth = settled(|_, x, _| 2.0 * x);
        assert!(
            noisy.nugget() > 4.0 * smooth.nugget(),
            "{noisy:?} {smooth:?}"
        );
    }

    #[test]
    fn a_search_ends() {
        let witnesses = witnesses(|v, x, i| f64::from(v) * x * x + (i % 7) as f64);
        let mut search = Search::default();
        let moves = (0..300).filter(|_| search.hear(&witnesses)).count();
        assert!(moves < 150, "{moves} moves");
        assert!(search.scales.0.iter().all(|s| s.is_finite() && *s > 0.0));
    }
}
