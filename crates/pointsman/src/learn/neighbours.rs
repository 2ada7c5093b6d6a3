//! The local part of prediction: what the linear part misses in nearby cells, it misses here too.
//!
//! A Gaussian process with a Matérn-1/2 kernel over the few nearest cells in which the variant was
//! measured: rough enough for cache sizes and thresholds, and small enough for microseconds.

use super::cholesky::Cholesky;

/// Cells that inform a prediction, per variant. Twenty served the prototype; the gain of the last
/// few is lost in noise and the cost grows with the cube.
pub(crate) const NEAREST: usize = 16;

/// Distance at which correlation has fallen to 1/e, in standard deviations of the features.
const LENGTH: f64 = 0.8;

/// A cell in which the variant was measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neighbour {
    /// Squared distance to the cell in question.
    pub(crate) distance2: f64,
    /// Which cell.
    pub(crate) cell: u32,
    /// Residual of its median log cost to the linear part.
    pub(crate) residual: f64,
    /// Variance of that median.
    pub(crate) variance: f64,
}

/// The nearest cells of one variant, kept in order of distance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nearest(Vec<Neighbour>);

impl Nearest {
    /// Whether a cell at this distance would be among the nearest.
    pub(crate) fn wants(&self, distance2: f64) -> bool {
        self.0.len() < NEAREST || self.0.last().is_some_and(|l| distance2 < l.distance2)
    }

    pub(crate) fn offer(&mut self, neighbour: Neighbour) {
        if self.0.len() == NEAREST {
            self.0.pop();
        }
        let at = self
            .0
            .partition_point(|n| n.distance2 <= neighbour.distance2);
        self.0.insert(at, neighbour);
    }

    /// Visits each of the nearest.
    pub(crate) fn each(&mut self, visit: impl FnMut(&mut Neighbour)) {
        self.0.iter_mut().for_each(visit);
    }

    /// Mean and variance of the residual at the cell in question. `distance2` gives the squared
    /// distance of two of the cells; `dimensions` is the number of features.
    pub(crate) fn residual(
        &self,
        misfit: f64,
        dimensions: usize,
        distance2: impl Fn(u32, u32) -> f64,
    ) -> (f64, f64) {
        let n = self.0.len();
        let signal = misfit * misfit;
        if n == 0 {
            return (0.0, signal);
        }
        let length = LENGTH * (dimensions.max(1) as f64).sqrt();
        let kernel = |d2: f64| signal * (-d2.sqrt() / length).exp();
        let mut matrix = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..i {
                matrix[i * n + j] = kernel(distance2(self.0[i].cell, self.0[j].cell));
            }
            matrix[i * n + i] = signal + self.0[i].variance + 1e-6;
        }
        let factor = Cholesky::of(matrix, n);
        let mut to_here: Vec<f64> = self.0.iter().map(|x| kernel(x.distance2)).collect();
        let mut residuals: Vec<f64> = self.0.iter().map(|x| x.residual).collect();
        factor.forward(&mut to_here);
        factor.forward(&mut residuals);
        let mean = to_here.iter().zip(&residuals).map(|(a, b)| a * b).sum();
        let explained: f64 = to_here.iter().map(|a| a * a).sum();
        (mean, (signal - explained).max(1e-6))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nearest(places: &[(f64, f64)], here: f64) -> (f64, f64) {
        let mut nearest = Nearest::default();
        for (i, (place, residual)) in places.iter().enumerate() {
            let neighbour = Neighbour {
                distance2: (place - here).powi(2),
                cell: i as u32,
                residual: *residual,
                variance: 1e-4,
            };
            if nearest.wants(neighbour.distance2) {
                nearest.offer(neighbour);
            }
        }
        nearest.residual(0.3, 1, |a, b| {
            (places[a as usize].0 - places[b as usize].0).powi(2)
        })
    }

    #[test]
    fn near_cells_inform_and_far_ones_do_not() {
        let (mean, variance) = nearest(&[(0.0, 0.3), (0.2, 0.3)], 0.1);
        assert!(
            (mean - 0.3).abs() < 0.05 && variance < 0.02,
            "{mean} {variance}"
        );
        let (mean, variance) = nearest(&[(0.0, 0.3)], 20.0);
        assert!(mean.abs() < 1e-3 && (variance - 0.09).abs() < 1e-3);
        assert_eq!(nearest(&[], 0.0), (0.0, 0.09));
    }

    #[test]
    fn only_the_nearest_are_kept() {
        let many: Vec<(f64, f64)> = (0..100)
            .map(|i| (f64::from(i), f64::from(i) / 100.0))
            .collect();
        let (mean, _) = nearest(&many, 50.0);
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
    }
}
