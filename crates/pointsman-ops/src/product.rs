//! Matrix products through the crate `gemm`, behind a safe function, and how exact they are.

use gemm::Parallelism;

use crate::sample::gamma;
use crate::{Float, View};

/// A matrix whose rows and columns may lie at any distance: a transposed one, or part of another.
#[derive(Clone, Copy)]
pub(crate) struct Strided<'a, T> {
    elements: &'a [T],
    rows: usize,
    columns: usize,
    row_step: usize,
    column_step: usize,
}

impl<'a, T: Float> Strided<'a, T> {
    /// Rows after each other, each of `step` elements of which the first `columns` count.
    pub(crate) fn new(elements: &'a [T], rows: usize, columns: usize, step: usize) -> Self {
        Strided {
            elements,
            rows,
            columns,
            row_step: step,
            column_step: 1,
        }
    }

    pub(crate) fn transposed(self) -> Self {
        Strided {
            rows: self.columns,
            columns: self.rows,
            row_step: self.column_step,
            column_step: self.row_step,
            ..self
        }
    }

    fn at(&self, row: usize, column: usize) -> T {
        self.elements[row * self.row_step + column * self.column_step]
    }

    /// Whether all of it lies within its elements, at distances that pointers can have.
    fn is_inside(&self) -> bool {
        let furthest = || {
            let down = (self.rows - 1).checked_mul(self.row_step)?;
            down.checked_add((self.columns - 1).checked_mul(self.column_step)?)
        };
        self.rows == 0
            || self.columns == 0
            || furthest().is_some_and(|last| last < self.elements.len())
    }
}

impl<'a, T: Float> From<View<'a, T>> for Strided<'a, T> {
    fn from(view: View<'a, T>) -> Self {
        Strided::new(view.elements(), view.rows(), view.columns(), view.columns())
    }
}

/// Who works on a product.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Team {
    /// The calling thread.
    One,
    /// Rayon's global pool.
    All,
}

/// Multiply-adds of a product below which nothing is shared out: `gemm` would not either.
pub(crate) const WORTH_SHARING: usize = gemm::DEFAULT_THREADING_THRESHOLD;

/// What becomes of the old elements of C.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Onto {
    /// C ← A B.
    Nothing,
    /// C ← A B + C.
    Old,
}

/// Multiplies into C, whose rows begin `step` elements apart.
pub(crate) fn multiply<T: Float>(
    a: Strided<'_, T>,
    b: Strided<'_, T>,
    c: &mut [T],
    step: usize,
    onto: Onto,
    team: Team,
) {
    let (m, k, n) = (a.rows, a.columns, b.columns);
    if m == 0 || n == 0 {
        return;
    }
    assert_eq!(k, b.rows, "the inner sizes differ");
    assert!(n <= step || m == 1, "the rows of the output overlap");
    assert!(
        a.is_inside() && b.is_inside() && Strided::new(c, m, n, step).is_inside(),
        "a matrix is larger than its elements"
    );
    if k == 0 {
        if onto == Onto::Nothing {
            c.chunks_mut(step).for_each(|row| row[..n].fill(T::zero()));
        }
        return;
    }
    let alpha = match onto {
        Onto::Nothing => T::zero(),
        Onto::Old => T::one(),
    };
    let parallelism = match team {
        Team::One => Parallelism::None,
        Team::All => Parallelism::Rayon(0),
    };
    // SAFETY: every element of the m×k, k×n and m×n matrices lies within its slice, as was just
    // asked, hence all steps fit an isize; C is borrowed alone and its rows do not overlap; T is
    // f32 or f64 (Float is sealed), which the function takes.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.as_mut_ptr(),
            1,
            step as isize,
            onto == Onto::Old,
            a.elements.as_ptr(),
            a.column_step as isize,
            a.row_step as isize,
            b.elements.as_ptr(),
            b.column_step as isize,
            b.row_step as isize,
            alpha,
            T::one(),
            false,
            false,
            false,
            parallelism,
        );
    }
}

/// How far each element of a product may be from the exact one, in whatever order it was summed:
/// γ Σₚ |aᵢₚ bₚⱼ|, at most γ ‖aᵢ‖ ‖bⱼ‖, which takes no third loop.
pub(crate) struct Bound {
    rows: Vec<f64>,
    columns: Vec<f64>,
    gamma: f64,
}

impl Bound {
    /// For sums of so many roundings, and one more for the norms themselves.
    pub(crate) fn new<T: Float>(a: Strided<'_, T>, b: Strided<'_, T>, roundings: usize) -> Self {
        let b = b.transposed();
        Bound {
            rows: norms(a),
            columns: norms(b),
            gamma: gamma::<T>(roundings + 1),
        }
    }

    pub(crate) fn at(&self, row: usize, column: usize) -> f64 {
        self.gamma * self.rows[row] * self.columns[column]
    }

    /// Whether two results are both within the bound, and so much per column.
    pub(crate) fn agree<T: Float>(
        &self,
        expected: &[T],
        got: &[T],
        more: impl Fn(usize) -> f64,
    ) -> bool {
        let n = self.columns.len();
        let near = |(i, (e, g)): (usize, (&T, &T))| {
            let (row, column) = (i / n, i % n);
            (e.wide() - g.wide()).abs() <= 2.0 * (self.at(row, column) + more(column))
        };
        expected.len() == got.len() && expected.iter().zip(got).enumerate().all(near)
    }
}

/// The Euclidean norm of each row.
fn norms<T: Float>(matrix: Strided<'_, T>) -> Vec<f64> {
    let square = |i, j| matrix.at(i, j).wide().powi(2);
    let norm = |i| (0..matrix.columns).map(|j| square(i, j)).sum::<f64>();
    (0..matrix.rows).map(|i| norm(i).sqrt()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "larger than its elements")]
    fn a_matrix_that_reaches_beyond_its_elements_is_never_read() {
        let (a, mut c) = ([1.0_f32; 5], [0.0; 4]);
        let a = Strided::new(&a, 2, 3, 3);
        multiply(a, a.transposed(), &mut c, 2, Onto::Nothing, Team::One);
    }

    #[test]
    fn transposed_and_partial_matrices_multiply_without_touching_what_lies_between() {
        let a = [1.0, 2.0, 9.0, 3.0, 4.0_f64]; // [1 2; 3 4] in rows of three
        let b = [5.0, 6.0, 7.0, 8.0]; // transposed: [5 7; 6 8]
        let mut c = [0.5; 5];
        let (a, b) = (
            Strided::new(&a, 2, 2, 3),
            Strided::new(&b, 2, 2, 2).transposed(),
        );
        multiply(a, b, &mut c, 3, Onto::Nothing, Team::One);
        assert_eq!(c, [17.0, 23.0, 0.5, 39.0, 53.0]);
        multiply(a, b, &mut c, 3, Onto::Old, Team::One);
        assert_eq!(c, [34.0, 46.0, 0.5, 78.0, 106.0]);
    }
}
