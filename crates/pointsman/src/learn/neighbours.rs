//! The local part of prediction: what the linear part misses in nearby cells, it misses here too.
//!
//! A Gaussian process over the nearest measurements of all variants at once. What is missed has a
//! part that all variants share (this workload is dearer than its features say, whoever serves) and
//! a part of each one's own; both are rough functions of the features (Matérn-1/2), for caches and
//! thresholds have edges. Only the own parts matter for the choice: a measurement of one variant
//! tells what its rivals would cost, and how sure the *difference* is.

use super::cholesky::Cholesky;
use super::scales::Scales;

/// Measurements that inform a prediction, over all variants; each has its share of them.
const POINTS: usize = 48;

/// Least and most measurements of one variant.
const LEAST: usize = 3;
const MOST: usize = 16;

/// A cell in which a variant was measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neighbour {
    /// Distance to the cell in question.
    pub(crate) distance: f64,
    /// Which cell.
    pub(crate) cell: u32,
    /// Which variant.
    pub(crate) variant: u8,
    /// Residual of its level to the linear part.
    pub(crate) residual: f64,
    /// Variance of that level.
    pub(crate) variance: f64,
}

/// The nearest measurements of one variant, in order of distance.
#[derive(Clone, Debug)]
pub(crate) struct Nearest {
    kept: Vec<Neighbour>,
    most: usize,
}

impl Nearest {
    /// One of so many variants.
    pub(crate) fn of(variants: usize) -> Self {
        let most = (POINTS / variants.max(1)).clamp(LEAST, MOST);
        Nearest {
            kept: Vec::with_capacity(most),
            most,
        }
    }

    /// Whether a cell at this distance would be among the nearest.
    pub(crate) fn wants(&self, distance: f64) -> bool {
        self.kept.len() < self.most || self.kept.last().is_some_and(|l| distance < l.distance)
    }

    pub(crate) fn offer(&mut self, neighbour: Neighbour) {
        if self.kept.len() == self.most {
            self.kept.pop();
        }
        let at = self
            .kept
            .partition_point(|n| n.distance <= neighbour.distance);
        self.kept.insert(at, neighbour);
    }

    /// Distance of the nearest; as near as can be if there is none, because then nothing is known
    /// anyway.
    pub(crate) fn distance(&self) -> f64 {
        self.kept.first().map_or(0.0, |n| n.distance)
    }

    pub(crate) fn into_kept(self) -> Vec<Neighbour> {
        self.kept
    }
}

/// What neighbours say of the variants at one place.
#[derive(Clone, Debug)]
pub(crate) struct Local {
    /// Variance of what the variants have in common.
    pub(crate) shared: f64,
    /// Mean and own variance of each variant's residual, in the order asked.
    pub(crate) own: Vec<(f64, f64)>,
}

impl Local {
    /// `distance` gives that of two cells.
    pub(crate) fn at(
        points: &[Neighbour],
        variants: &[u8],
        scales: &Scales,
        distance: impl Fn(u32, u32) -> f64,
    ) -> Self {
        let n = points.len();
        let covariance = |same: bool, distance: f64| {
            let own = if same {
                scales.own() * (-distance / scales.own_length()).exp()
            } else {
                0.0
            };
            scales.shared() * (-distance / scales.shared_length()).exp() + own
        };
        let mut matrix = vec![0.0; n * n];
        for (i, a) in points.iter().enumerate() {
            for (j, b) in points[..i].iter().enumerate() {
                let apart = distance(a.cell, b.cell);
                matrix[i * n + j] = covariance(a.variant == b.variant, apart);
            }
            matrix[i * n + i] = scales.shared() + scales.own() + a.variance + scales.nugget();
        }
        let factor = Cholesky::of(matrix, n);
        let mut residuals: Vec<f64> = points.iter().map(|p| p.residual).collect();
        factor.forward(&mut residuals);
        let here: Vec<Vec<f64>> = variants
            .iter()
            .map(|v| {
                let to = |p: &Neighbour| covariance(p.variant == *v, p.distance);
                let mut to: Vec<f64> = points.iter().map(to).collect();
                factor.forward(&mut to);
                to
            })
            .collect();
        // What is left of the covariance of two variants is what they still have in common.
        let (mut common, mut pairs) = (0.0, 0.0);
        for (i, a) in here.iter().enumerate() {
            for b in &here[..i] {
                common += scales.shared() - dot(a, b);
                pairs += 1.0;
            }
        }
        let shared = if pairs > 0.0 {
            f64::max(common / pairs, 0.0)
        } else {
            0.0
        };
        let own = here
            .iter()
            .map(|a| {
                let left = scales.shared() + scales.own() + scales.nugget() - dot(a, a);
                (dot(a, &residuals), (left - shared).max(1e-6))
            })
            .collect();
        Local { shared, own }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What two variants are expected to miss at `here`, from residuals at places on a line.
    fn local(places: &[(f64, u8, f64)], here: f64) -> Local {
        let points: Vec<Neighbour> = places
            .iter()
            .enumerate()
            .map(|(i, (place, variant, residual))| Neighbour {
                distance: (place - here).abs(),
                cell: i as u32,
                variant: *variant,
                residual: *residual,
                variance: 1e-4,
            })
            .collect();
        Local::at(&points, &[0, 1], &Scales::default(), |a, b| {
            (places[a as usize].0 - places[b as usize].0).abs()
        })
    }

    #[test]
    fn near_cells_inform_and_far_ones_do_not() {
        let near = local(&[(0.0, 0, 0.3), (0.2, 0, 0.3)], 0.1);
        let (mean, variance) = near.own[0];
        assert!((mean - 0.3).abs() < 0.08, "{mean}");
        let far = local(&[(0.0, 0, 0.3)], 50.0);
        assert!(far.own[0].0.abs() < 1e-3);
        assert!(variance + near.shared < (far.own[0].1 + far.shared) / 3.0);
    }

    #[test]
    fn what_one_variant_misses_tells_what_the_other_will() {
        // Everybody is slower here than the features say: seen of one, expected of the other.
        let one = local(&[(0.0, 0, 0.4)], 0.0);
        assert!(one.own[1].0 > 0.2, "{:?}", one.own);
        // And who misses more than the others here is expected to miss more nearby.
        let two = local(&[(0.0, 0, 0.4), (0.0, 1, 0.0)], 0.1);
        assert!(two.own[0].0 > two.own[1].0 + 0.05, "{:?}", two.own);
    }

    #[test]
    fn each_variant_keeps_its_share_of_the_nearest() {
        let mut nearest = Nearest::of(10);
        for i in (0..100).rev() {
            let neighbour = Neighbour {
                distance: f64::from(i),
                cell: i,
                variant: 0,
                residual: 0.0,
                variance: 0.0,
            };
            if nearest.wants(neighbour.distance) {
                nearest.offer(neighbour);
            }
        }
        let kept: Vec<u32> = nearest.into_kept().iter().map(|n| n.cell).collect();
        assert_eq!(kept, [0, 1, 2, 3]);
    }
}
