//! The global part of prediction: log cost is close to linear in the log features.
//!
//! All variants of an op share slopes (a call with twice the data takes about twice as long,
//! whoever serves it); each has an offset and small slopes of its own. Fitting both at once lets a
//! variant that was tried twice inherit what the others have shown.

use super::cholesky::Cholesky;
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
pub(crate) struct Point {
    pub(crate) variant: usize,
    pub(crate) basis: Vec<f64>,
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
    /// Fits all points at once: exact joint ridge regression, own coefficients eliminated.
    pub(crate) fn fit(
        &mut self,
        points: &[Point],
        variants: usize,
        (features, dimension): (usize, usize),
        scales: &Scales,
    ) {
        let before = std::mem::take(self);
        let misfit = scales.shared() + scales.own() + scales.nugget();
        let p = dimension;
        let mut sums: Vec<Sums> = (0..variants).map(|_| Sums::new(p)).collect();
        for point in points {
            let residual = (point.value - before.mean(&point.basis, point.variant)).abs();
            let trust = if before.shared.is_empty() || residual <= ROBUST {
                1.0
            } else {
                ROBUST / residual
            };
            sums[point.variant].add(point, point.weight * trust / misfit);
        }
        let own_precision = |i: usize| {
            if i == 0 {
                scales.own_offset()
            } else {
                scales.own_slope()
            }
            .recip()
        };
        // How sure that is, is another matter: until a variant has shown its slopes, it may have any.
        let slope = (ANY_SLOPE / features.max(1) as f64).max(scales.own_slope());
        let wide = |i: usize| {
            match i {
                0 => ANY_OFFSET.max(scales.own_offset()),
                i if i <= features => slope,
                _ => scales.own_slope(),
            }
            .recip()
        };
        self.unknown = (ANY_OFFSET.max(scales.own_offset()), slope);
        let factors: Vec<Cholesky> = sums
            .iter()
            .map(|s| Cholesky::of(s.with_diagonal(own_precision), p))
            .collect();
        // Normal equations of the shared part: A - A (A + Λ)⁻¹ A, summed over the variants.
        let mut left = vec![0.0; p * p];
        let mut right = vec![0.0; p];
        for (s, factor) in sums.iter().zip(&factors).filter(|(s, _)| s.seen) {
            let mut explained = s.b.clone();
            factor.solve(&mut explained);
            for (i, sum) in right.iter_mut().enumerate() {
                *sum += s.b[i] - dot(&s.a[i * p..][..p], &explained);
            }
            for j in 0..p {
                let mut column: Vec<f64> = (0..p).map(|i| s.a[i * p + j]).collect();
                factor.solve(&mut column);
                for i in 0..p {
                    left[i * p + j] += s.a[i * p + j] - dot(&s.a[i * p..][..p], &column);
                }
            }
        }
        for i in 0..p {
            left[i * p + i] += if i == 0 { SHARED_OFFSET } else { SHARED_SLOPE }.recip();
        }
        Cholesky::of(left, p).solve(&mut right);
        self.own = sums
            .iter()
            .zip(factors)
            .map(|(s, precision)| {
                let mut weights: Vec<f64> = (0..p)
                    .map(|i| s.b[i] - dot(&s.a[i * p..][..p], &right))
                    .collect();
                precision.solve(&mut weights);
                let precision = Cholesky::of(s.with_diagonal(wide), p);
                Own { weights, precision }
            })
            .collect();
        self.shared = right;
    }

    /// Mean distance of the points from the fit: how well it explains them. A day is 32 log units:
    /// no point counts for more.
    pub(crate) fn mean_miss(&self, points: &[Point]) -> f64 {
        let miss = |p: &Point| (p.value - self.mean(&p.basis, p.variant)).abs().min(32.0);
        let sum: f64 = points.iter().map(|p| p.weight * miss(p)).sum();
        sum / points.iter().map(|p| p.weight).sum::<f64>().max(1.0)
    }

    /// The shared coefficients: what moving within a cell changes for every variant.
    pub(crate) fn shared(&self) -> &[f64] {
        &self.shared
    }

    /// Log cost of a variant, less its prior.
    pub(crate) fn mean(&self, basis: &[f64], variant: usize) -> f64 {
        let own = self
            .own
            .get(variant)
            .map_or(0.0, |o| dot(&o.weights, basis));
        dot(&self.shared, basis) + own
    }

    /// Variance of the variant's own part: what separates it from the others is known this badly.
    pub(crate) fn own_variance(&self, basis: &[f64], variant: usize) -> f64 {
        match self.own.get(variant) {
            Some(own) if own.weights.len() == basis.len() => {
                let mut x = basis.to_vec();
                own.precision.forward(&mut x);
                dot(&x, &x)
            }
            _ => {
                let slopes = dot(&basis[1..], &basis[1..]);
                self.unknown.0 + self.unknown.1 * slopes
            }
        }
    }
}

/// Sums over the points of one variant.
struct Sums {
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

    fn add(&mut self, point: &Point, weight: f64) {
        let p = self.b.len();
        self.seen = true;
        for i in 0..p {
            let scaled = weight * point.basis[i];
            self.b[i] += scaled * point.value;
            for j in 0..p {
                self.a[i * p + j] += scaled * point.basis[j];
            }
        }
    }

    fn with_diagonal(&self, extra: impl Fn(usize) -> f64) -> Vec<f64> {
        let p = self.b.len();
        let mut out = self.a.clone();
        (0..p).for_each(|i| out[i * p + i] += extra(i));
        out
    }
}

/// Sum of products; a longer list's surplus counts as multiplied by zero.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(variant: usize, x: f64, value: f64) -> Point {
        Point {
            variant,
            basis: vec![1.0, x],
            value,
            weight: 1.0,
        }
    }

    #[test]
    fn a_variant_seen_once_inherits_the_slope_of_the_others() {
        let line = |x: f64| 10.0 + 2.5 * x;
        let xs = (-10..10).map(|i| f64::from(i) / 4.0);
        let mut points: Vec<Point> = xs.map(|x| point(0, x, line(x))).collect();
        points.push(point(1, 0.0, line(0.0) - 0.7));
        let mut ridge = Ridge::default();
        ridge.fit(&points, 3, (1, 2), &Scales::default());
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
        let mut points: Vec<Point> = (0..12).map(|i| point(0, f64::from(i), 8.0)).collect();
        points.push(point(0, 12.0, 8.0 + 1000f64.ln()));
        let mut ridge = Ridge::default();
        for _ in 0..3 {
            ridge.fit(&points, 1, (1, 2), &Scales::default());
        }
        assert!((ridge.mean(&[1.0, 6.0], 0) - 8.0).abs() < 0.35);
    }
}
