//! The local part of prediction: what the linear part misses in nearby cells, it misses here too.
//!
//! A Gaussian process over the nearest measurements of all variants at once. What is missed has a
//! part that all variants share (this workload is dearer than its features say, whoever serves) and
//! a part of each one's own; both are rough functions of the features (Matérn-1/2), for caches and
//! thresholds have edges. Only the own parts matter for the choice: a measurement of one variant
//! tells what its rivals would cost, and how sure the *difference* is.

use super::cholesky::Cholesky;
use super::kernel::{fade, faded};
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
    /// Which variant.
    pub(crate) variant: u8,
    /// Residual of its level to the linear part.
    pub(crate) residual: f64,
    /// Variance of that level.
    pub(crate) variance: f64,
}

/// Measurements of each of so many variants that inform a prediction.
pub(crate) fn share(variants: usize) -> usize {
    (POINTS / variants.max(1)).clamp(LEAST, MOST)
}

/// The nearest of some cells, in order, with the squares of their distances; those of all cells are
/// given. The cell `here` is not one of its own neighbours.
pub(crate) fn nearest(
    squares: &[f32],
    cells: &[u32],
    here: Option<usize>,
    most: usize,
) -> Vec<(f32, u32)> {
    let mut kept: Vec<(f32, u32)> = Vec::with_capacity(most);
    let mut limit = f32::INFINITY;
    for cell in cells {
        let square = squares[*cell as usize];
        if square >= limit || Some(*cell as usize) == here {
            continue;
        }
        if kept.len() < most {
            kept.push((square, *cell));
        }
        // Those that are farther away move back by one; the last gives way.
        let mut at = kept.len() - 1;
        while at > 0 && kept[at - 1].0 > square {
            kept[at] = kept[at - 1];
            at -= 1;
        }
        kept[at] = (square, *cell);
        if kept.len() == most {
            limit = kept[most - 1].0;
        }
    }
    kept
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
    /// From measurements, variant by variant; `distances` are those of the first to itself and all
    /// after it, then those of the second, and so on.
    pub(crate) fn at(
        points: &[Neighbour],
        variants: &[u8],
        scales: &Scales,
        distances: &[f64],
    ) -> Self {
        let n = points.len();
        let close = faded(distances, scales.shared_length());
        let per = scales.own_length().recip();
        let mut matrix = vec![0.0; n * n];
        let mut at = 0;
        for (i, a) in points.iter().enumerate() {
            let row = &mut matrix[i * n + i..][..n - i];
            for (covariance, close) in row.iter_mut().zip(&close[at..]) {
                *covariance = scales.shared() * close;
            }
            let same = points[i..].partition_point(|b| a.variant == b.variant);
            for (covariance, distance) in row[..same].iter_mut().zip(&distances[at..]) {
                *covariance += scales.own() * fade(distance * per);
            }
            row[0] += a.variance + scales.nugget();
            at += n - i;
        }
        let factor = Cholesky::of(matrix, n);
        let mut residuals: Vec<f64> = points.iter().map(|p| p.residual).collect();
        factor.forward(&mut residuals);
        // One column a variant: how it goes with each of the points.
        let columns = variants.len();
        let mut here = vec![0.0; n * columns];
        for (point, row) in points.iter().zip(here.chunks_exact_mut(columns.max(1))) {
            row.fill(scales.shared() * fade(point.distance / scales.shared_length()));
            if let Some(at) = variants.iter().position(|v| *v == point.variant) {
                row[at] += scales.own() * fade(point.distance / scales.own_length());
            }
        }
        factor.forward_all(&mut here, columns);
        let mut means = vec![0.0; columns];
        let mut squares = vec![0.0; columns];
        // Sum of the products of all pairs of columns: (square of the sum - sum of squares) / 2.
        let mut products = 0.0;
        for (row, residual) in here.chunks_exact(columns.max(1)).zip(&residuals) {
            let sum: f64 = row.iter().sum();
            products += 0.5 * sum * sum;
            for ((x, mean), square) in row.iter().zip(&mut means).zip(&mut squares) {
                *mean += x * residual;
                *square += x * x;
            }
        }
        products -= 0.5 * squares.iter().sum::<f64>();
        // What is left of the covariance of two variants is what they still have in common.
        let pairs = (columns * columns.saturating_sub(1) / 2) as f64;
        let shared = if pairs > 0.0 {
            f64::max(scales.shared() - products / pairs, 0.0)
        } else {
            0.0
        };
        let own = means.into_iter().zip(squares).map(|(mean, square)| {
            let left = scales.shared() + scales.own() + scales.nugget() - square;
            (mean, (left - shared).max(1e-6))
        });
        Local {
            shared,
            own: own.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What two variants are expected to miss at `here`, from residuals at places on a line.
    fn local(places: &[(f64, u8, f64)], here: f64) -> Local {
        let points: Vec<Neighbour> = places
            .iter()
            .map(|(place, variant, residual)| Neighbour {
                distance: (place - here).abs(),
                variant: *variant,
                residual: *residual,
                variance: 1e-4,
            })
            .collect();
        let n = places.len();
        let pairs = (0..n).flat_map(|i| (i..n).map(move |j| (i, j)));
        let distances = pairs.map(|(i, j)| (places[i].0 - places[j].0).abs());
        let distances: Vec<f64> = distances.collect();
        Local::at(&points, &[0, 1], &Scales::default(), &distances)
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
    fn the_nearest_are_kept_in_order() {
        let squares: Vec<f32> = (0..100).rev().map(|i| (i * i) as f32).collect();
        let all: Vec<u32> = (0..100).collect();
        let cells = |cells: &[u32]| -> Vec<u32> {
            let nearest = nearest(&squares, cells, Some(98), share(10));
            nearest.iter().map(|(_, cell)| *cell).collect()
        };
        assert_eq!(cells(&all), [99, 97, 96, 95]);
        assert_eq!(cells(&[7, 70, 98, 3]), [70, 7, 3]);
        assert!(cells(&[]).is_empty());
    }
}
