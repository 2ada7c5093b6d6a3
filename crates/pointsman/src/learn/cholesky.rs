//! Cholesky factors of the small symmetric systems that prediction solves (tens of rows).

/// The lower factor of a symmetric positive definite matrix.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cholesky {
    size: usize,
    lower: Vec<f64>,
}

impl Cholesky {
    /// Factors a row-major matrix, of which only the lower half is read.
    ///
    /// A pivot that rounding has made tiny or negative is raised, so that there is always a
    /// factor: that of a matrix with a little more noise on its diagonal.
    pub(crate) fn of(mut matrix: Vec<f64>, size: usize) -> Self {
        debug_assert_eq!(matrix.len(), size * size);
        for i in 0..size {
            for j in 0..=i {
                let (row_i, row_j) = (&matrix[i * size..], &matrix[j * size..]);
                let dot: f64 = (0..j).map(|k| row_i[k] * row_j[k]).sum();
                let rest = matrix[i * size + j] - dot;
                matrix[i * size + j] = if i == j {
                    rest.max(1e-10).sqrt()
                } else {
                    rest / matrix[j * size + j]
                };
            }
        }
        Cholesky {
            size,
            lower: matrix,
        }
    }

    /// Half the logarithm of the matrix's determinant.
    pub(crate) fn half_ln_determinant(&self) -> f64 {
        let diagonal = (0..self.size).map(|i| self.lower[i * self.size + i]);
        diagonal.map(f64::ln).sum()
    }

    /// Solves `L y = b` in place.
    pub(crate) fn forward(&self, b: &mut [f64]) {
        for i in 0..self.size {
            let row = &self.lower[i * self.size..];
            let dot: f64 = (0..i).map(|k| row[k] * b[k]).sum();
            b[i] = (b[i] - dot) / row[i];
        }
    }

    /// Solves `L Lᵀ x = b` in place.
    pub(crate) fn solve(&self, b: &mut [f64]) {
        self.forward(b);
        for i in (0..self.size).rev() {
            let dot: f64 = (i + 1..self.size)
                .map(|k| self.lower[k * self.size + i] * b[k])
                .sum();
            b[i] = (b[i] - dot) / self.lower[i * self.size + i];
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
            size in 1usize..12,
            numbers in prop::collection::vec(-1.0..1.0, 12 * 12),
            b in prop::collection::vec(-1.0..1.0, 12),
        ) {
            // G Gᵀ + I is positive definite with eigenvalues of at least 1.
            let g = |i: usize, k: usize| numbers[i * 12 + k];
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
                prop_assert!((back - b[i]).abs() < 1e-12 * 144.0, "{back} {}", b[i]);
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
