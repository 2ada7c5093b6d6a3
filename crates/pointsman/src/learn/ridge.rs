//! The global part of prediction: log cost is close to linear in the log features.
//!
//! All variants of an op share slopes (a call with twice the data takes about twice as long,
//! whoever serves it); each has an offset and small slopes of its own. Fitting both at once lets a
//! variant that was tried twice inherit what the others have shown.

use super::cholesky::Cholesky;
use super::kernel::{dot, subtract};
use super::scales::Scales;

/// Variance of the shared offset and slopes: as good as free.
const SHARED_OFFSET: f64 = 100.0;
const SHARED_SLOPE: f64 = 100.0;

/// Variance of the offset of a variant of which little is known, and of its slopes, to be shared by
/// the features: one variant may be all launch cost where another is all work, which is a slope of
/// -2.8 per four octaves.
const ANY_OFFSET: f64 = 1.0;
const ANY_SLOPE: f64 = 4.0;

/// Residuals beyond this many log units lose weight: one absurd first sample must not tilt the fit.
const ROBUST: f64 = 1.0;

/// One cell's median log cost for one variant, less its prior.
pub(crate) struct Point<'a> {
    pub(crate) variant: u8,
    pub(crate) basis: &'a [f64],
    pub(crate) value: f64,
    /// 1 for a cell measured here; less for knowledge of other machines.
    pub(crate) weight: f64,
}

/// Shared and own coefficients.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ridge {
    shared: Vec<f64>,
    own: Vec<Own>,
    /// Variance of the offset and of each slope of a variant that was never measured.
    unknown: (f64, f64),
}

#[derive(Clone, Debug, Default)]
struct Own {
    weights: Vec<f64>,
    precision: Cholesky,
}

impl Ridge {
    /// Fits all points at once: exact joint ridge regression, own coefficients eliminated. Once
    /// plainly, and once with less weight on what that left far off.
    pub(crate) fn fit(
        points: &[Point<'_>],
        variants: usize,
        (features, dimension): (usize, usize),
        scales: &Scales,
    ) -> Self {
        let misfit = scales.shared() + scales.own() + scales.nugget();
        let mut sums: Vec<Sums> = (0..variants).map(|_| Sums::new(dimension)).collect();
        for point in points {
            sums[usize::from(point.variant)].add(point, point.weight / misfit);
        }
        let mut ridge = Ridge::solved(&sums, scales);
        let mut far = false;
        for point in points {
            let residual = (point.value - ridge.mean(point.basis, point.variant)).abs();
            if residual > ROBUST {
                far = true;
                let less = ROBUST / residual - 1.0;
                sums[usize::from(point.variant)].add(point, point.weight * less / misfit);
            }
        }
        if far {
            ridge = Ridge::solved(&sums, scales);
        }
        // How sure that is, is another matter: until a variant has shown its slopes, it may have any.
        let slope = (ANY_SLOPE / features.max(1) as f64).max(scales.own_slope());
        let offset = ANY_OFFSET.max(scales.own_offset());
        let wide = |i: usize| {
            match i {
                0 => offset,
                i if i <= features => slope,
                _ => scales.own_slope(),
            }
            .recip()
        };
        for (own, sums) in ridge.own.iter_mut().zip(&sums) {
            own.precision = Cholesky::of(sums.with_diagonal(wide), dimension);
        }
        ridge.unknown = (offset, slope);
        ridge
    }

    /// Solves for the coefficients.
    fn solved(sums: &[Sums], scales: &Scales) -> Self {
        let p = sums.first().map_or(0, |s| s.b.len());
        let own_precision = |i: usize| {
            if i == 0 {
                scales.own_offset()
            } else {
                scales.own_slope()
            }
            .recip()
        };
        // Normal equations of the shared part: A - A (A + Λ)⁻¹ A, summed over the variants. With
        // UᵀU = A + Λ and W = U⁻ᵀ A, what is subtracted is WᵀW.
        let mut left = vec![0.0; p * p];
        let mut shared = vec![0.0; p];
        let mut factors = Vec::with_capacity(sums.len());
        for s in sums {
            let factor = Cholesky::of(s.with_diagonal(own_precision), p);
            let whole = s.whole();
            if s.seen {
                let mut explained = s.b.clone();
                factor.solve(&mut explained);
                for ((sum, b), row) in shared.iter_mut().zip(&s.b).zip(whole.chunks_exact(p)) {
                    *sum += b - dot(row, &explained);
                }
                let mut w = whole.clone();
                factor.forward_all(&mut w, p);
                subtract(&mut left, -1.0, &s.a);
                for row in w.chunks_exact(p) {
                    for i in 0..p {
                        subtract(&mut left[i * p + i..][..p - i], row[i], &row[i..]);
                    }
                }
            }
            factors.push((factor, whole));
        }
        for i in 0..p {
            left[i * p + i] += if i == 0 { SHARED_OFFSET } else { SHARED_SLOPE }.recip();
        }
        Cholesky::of(left, p).solve(&mut shared);
        let own = sums.iter().zip(factors).map(|(s, (factor, whole))| {
            let rows = whole.chunks_exact(p).zip(&s.b);
            let mut weights: Vec<f64> = rows.map(|(row, b)| b - dot(row, &shared)).collect();
            factor.solve(&mut weights);
            Own {
                weights,
                precision: Cholesky::default(),
            }
        });
        Ridge {
            own: own.collect(),
            shared,
            unknown: Default::default(),
        }
    }

    /// Mean distance of the points from the fit: how well it explains them. A day is 32 log units:
    /// no point counts for more.
    pub(crate) fn mean_miss(&self, points: &[Point<'_>]) -> f64 {
        let miss = |p: &Point<'_>| (p.value - self.mean(p.basis, p.variant)).abs().min(32.0);
        let sum: f64 = points.iter().map(|p| p.weight * miss(p)).sum();
        sum / points.iter().map(|p| p.weight).sum::<f64>().max(1.0)
    }

    /// The shared coefficients: what moving within a cell changes for every variant.
    pub(crate) fn shared(&self) -> &[f64] {
        &self.shared
    }

    /// Log cost of a variant, less its prior.
    pub(crate) fn mean(&self, basis: &[f64], variant: u8) -> f64 {
        let own = self
            .own
            .get(usize::from(variant))
            .map_or(0.0, |o| dot(&o.weights, basis));
        dot(&self.shared, basis) + own
    }

    /// Variance of the variant's own part: what separates it from the others is known this badly.
    pub(crate) fn own_variance(&self, basis: &[f64], variant: u8) -> f64 {
        match self.own.get(usize::from(variant)) {
            Some(own) if own.weights.len() == basis.len() => {
                let mut x = basis.to_vec();
                own.precision.forward(&mut x);
                dot(&x, &x)
            }
            _ => self.unknown_variance(basis),
        }
    }

    /// The same of one of which nothing is known.
    pub(crate) fn unknown_variance(&self, basis: &[f64]) -> f64 {
        self.unknown.0 + self.unknown.1 * dot(&basis[1..], &basis[1..])
    }
}

/// Sums over the points of one variant.
struct Sums {
    /// The upper half of a matrix.
    a: Vec<f64>,
    b: Vec<f64>,
    seen: bool,
}

impl Sums {
    fn new(p: usize) -> Self {
        Sums {
            a: vec![0.0; p * p],
            b: vec![0.0; p],
            seen: false,
        }
    }

    fn add(&mut self, point: &Point<'_>, weight: f64) {
        let p = self.b.len();
        self.seen = true;
        for (i, row) in self.a.chunks_exact_mut(p).enumerate() {
            let scaled = weight * point.basis[i];
            // Most of the columns are zero: a cell is of few of the categories.
            if scaled != 0.0 {
                self.b[i] += scaled * point.value;
                subtract(&mut row[i..], -scaled, &point.basis[i..]);
            }
        }
    }

    /// Both halves of the matrix.
    fn whole(&self) -> Vec<f64> {
        let p = self.b.len();
        let mut out = self.a.clone();
        for i in 0..p {
            for j in 0..i {
                out[i * p + j] = self.a[j * p + i];
            }
        }
        out
    }

    fn with_diagonal(&self, extra: impl Fn(usize) -> f64) -> Vec<f64> {
        let p = self.b.len();
        let mut out = self.a.clone();
        (0..p).for_each(|i| out[i * p + i] += extra(i));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(variant: u8, x: f64, value: f64) -> Point<'static> {
        Point {
            variant,
            basis: vec![1.0, x].leak(),
            value,
            weight: 1.0,
        }
    }

    #[test]
    fn a_variant_seen_once_inherits_the_slope_of_the_others() {
        let line = |x: f64| 10.0 + 2.5 * x;
        let xs = (-10..10).map(|i| f64::from(i) / 4.0);
        let mut points: Vec<Point<'_>> = xs.map(|x| point(0, x, line(x))).collect();
        points.push(point(1, 0.0, line(0.0) - 0.7));
        let ridge = Ridge::fit(&points, 3, (1, 2), &Scales::default());
        let far = ridge.mean(&[1.0, 2.0], 1) - ridge.mean(&[1.0, 2.0], 0);
        assert!((far + 0.7).abs() < 0.25, "{far}");
        assert!((ridge.mean(&[1.0, 2.0], 0) - line(2.0)).abs() < 0.1);
        // What it does far from where it was seen is uncertain; never seen, it is everywhere.
        assert!(ridge.own_variance(&[1.0, 2.0], 1) > 4.0 * ridge.own_variance(&[1.0, 0.0], 1));
        assert!((ridge.mean(&[1.0, 0.0], 2) - line(0.0)).abs() < 0.8);
        assert!(ridge.own_variance(&[1.0, 0.0], 2) > 0.9);
        assert!(ridge.own_variance(&[1.0, 0.0], 0) < 0.05);
    }

    #[test]
    fn one_absurd_point_does_not_tilt_the_fit() {
        let mut points: Vec<Point<'_>> = (0..12).map(|i| point(0, f64::from(i), 8.0)).collect();
        points.push(point(0, 12.0, 8.0 + 1000f64.ln()));
        let ridge = Ridge::fit(&points, 1, (1, 2), &Scales::default());
        assert!((ridge.mean(&[1.0, 6.0], 0) - 8.0).abs() < 0.35);
    }
}
