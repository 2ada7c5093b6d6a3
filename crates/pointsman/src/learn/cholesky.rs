//! Cholesky factors of the small symmetric systems that prediction solves (tens of rows).

use super::kernel::{dot, subtract};

/// Rows that are eliminated at a time.
const BLOCK: usize = 4;

/// The upper factor `U` of a symmetric positive definite matrix `Uᵀ U`.
///
/// Upper, and row by row: every inner loop runs along a row, which the compiler vectorises.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cholesky {
    size: usize,
    upper: Vec<f64>,
}

impl Cholesky {
    /// Factors a row-major matrix, of which only the upper half is read.
    ///
    /// A pivot that rounding has made tiny or negative is raised, so that there is always a
    /// factor: that of a matrix with a little more noise on its diagonal.
    pub(crate) fn of(mut matrix: Vec<f64>, size: usize) -> Self {
        debug_assert_eq!(matrix.len(), size * size);
        for start in (0..size).step_by(BLOCK) {
            let end = (start + BLOCK).min(size);
            let (done, below) = matrix.split_at_mut(end * size);
            let block = &mut done[start * size..];
            for k in start..end {
                let (row, rest) = block[(k - start) * size..].split_at_mut(size);
                let scale = row[k].max(1e-10).sqrt().recip();
                row[k] = scale.recip();
                row[k + 1..].iter_mut().for_each(|x| *x *= scale);
                for (i, other) in (k + 1..end).zip(rest.chunks_exact_mut(size)) {
                    subtract(&mut other[i..], row[i], &row[i..]);
                }
            }
            if let [a, b, c, d] = *block.chunks_exact(size).collect::<Vec<_>>() {
                take_four([a, b, c, d], below, end);
            }
        }
        Cholesky {
            size,
            upper: matrix,
        }
    }

    fn rows(&self) -> impl DoubleEndedIterator<Item = (usize, &[f64])> {
        self.upper.chunks_exact(self.size.max(1)).enumerate()
    }

    /// Half the logarithm of the matrix's determinant.
    pub(crate) fn half_ln_determinant(&self) -> f64 {
        self.rows().map(|(k, row)| row[k].ln()).sum()
    }

    /// Solves `Uᵀ y = b` in place.
    pub(crate) fn forward(&self, b: &mut [f64]) {
        for (k, row) in self.rows() {
            // Many are zero at first: a cell is of few of the categories.
            if b[k] != 0.0 {
                b[k] /= row[k];
                let known = b[k];
                subtract(&mut b[k + 1..], known, &row[k + 1..]);
            }
        }
    }

    /// The same for many right sides at once, the columns of `b`.
    pub(crate) fn forward_all(&self, b: &mut [f64], columns: usize) {
        for (k, row) in self.rows() {
            let (done, below) = b.split_at_mut((k + 1) * columns);
            let known = &mut done[k * columns..];
            let scale = row[k].recip();
            known.iter_mut().for_each(|x| *x *= scale);
            for (other, factor) in below.chunks_exact_mut(columns).zip(&row[k + 1..]) {
                subtract(other, *factor, known);
            }
        }
    }

    /// Solves `Uᵀ U x = b` in place.
    pub(crate) fn solve(&self, b: &mut [f64]) {
        self.forward(b);
        for (k, row) in self.rows().rev() {
            b[k] = (b[k] - dot(&row[k + 1..], &b[k + 1..])) / row[k];
        }
    }
}

/// What four rows take from all rows below them, the first of which is `first`: in one pass over
/// memory, two rows at a time.
fn take_four([a, b, c, d]: [&[f64]; 4], below: &mut [f64], first: usize) {
    let size = a.len();
    let factors = |i: usize| (a[i], b[i], c[i], d[i]);
    let mut i = first;
    for pair in below.chunks_mut(2 * size) {
        let (upper, lower) = pair.split_at_mut(size);
        let (w, x, y, z) = factors(i);
        upper[i] -= (w * w + x * x) + (y * y + z * z);
        i += 1;
        let four = (a[i..].iter().zip(&b[i..])).zip(c[i..].iter().zip(&d[i..]));
        if lower.is_empty() {
            for (upper, ((a, b), (c, d))) in upper[i..].iter_mut().zip(four) {
                *upper -= (w * a + x * b) + (y * c + z * d);
            }
        } else {
            let (p, q, r, s) = factors(i);
            let both = upper[i..].iter_mut().zip(&mut lower[i..]);
            for ((upper, lower), ((a, b), (c, d))) in both.zip(four) {
                *upper -= (w * a + x * b) + (y * c + z * d);
                *lower -= (p * a + q * b) + (r * c + s * d);
            }
            i += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_solution_gives_back_the_right_side(
            size in 1usize..24,
            numbers in prop::collection::vec(-1.0..1.0, 24 * 24),
            b in prop::collection::vec(-1.0..1.0, 24),
        ) {
            // G Gᵀ + I is positive definite with eigenvalues of at least 1.
            let g = |i: usize, k: usize| numbers[i * 24 + k];
            let matrix: Vec<f64> = (0..size * size)
                .map(|at| {
                    let (i, j) = (at / size, at % size);
                    (0..size).map(|k| g(i, k) * g(j, k)).sum::<f64>() + f64::from(i == j)
                })
                .collect();
            let mut x = b[..size].to_vec();
            Cholesky::of(matrix.clone(), size).solve(&mut x);
            for i in 0..size {
                let back: f64 = (0..size).map(|j| matrix[i * size + j] * x[j]).sum();
                prop_assert!((back - b[i]).abs() < 1e-12 * 576.0, "{back} {}", b[i]);
            }
        }
    }

    #[test]
    fn a_singular_matrix_still_gives_finite_numbers() {
        let mut x = vec![1.0, 1.0];
        Cholesky::of(vec![1.0, 1.0, 1.0, 1.0], 2).solve(&mut x);
        assert!(x.iter().all(|v| v.is_finite()));
    }
}
