//! Dense matrices in row-major order.

use crate::{Float, ShapeError};

/// A matrix that owns its elements.
///
/// ```
/// use pointsman_ops::Matrix;
///
/// let m = Matrix::new(2, 3, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// assert_eq!((m.rows(), m.columns(), m.row(1)), (2, 3, &[4.0, 5.0, 6.0][..]));
/// # Ok::<(), pointsman_ops::ShapeError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix<T> {
    rows: usize,
    columns: usize,
    elements: Vec<T>,
}

impl<T: Float> Matrix<T> {
    /// A matrix of these elements, row after row.
    pub fn new(rows: usize, columns: usize, elements: Vec<T>) -> Result<Self, ShapeError> {
        fits(rows, columns, elements.len())?;
        Ok(Matrix {
            rows,
            columns,
            elements,
        })
    }

    /// A matrix of zeros.
    pub fn zeros(rows: usize, columns: usize) -> Self {
        Matrix {
            rows,
            columns,
            elements: vec![T::zero(); rows * columns],
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// One row.
    pub fn row(&self, row: usize) -> &[T] {
        &self.elements[row * self.columns..][..self.columns]
    }

    /// All elements, row after row.
    pub fn elements(&self) -> &[T] {
        &self.elements
    }

    /// The same, to be changed.
    pub fn elements_mut(&mut self) -> &mut [T] {
        &mut self.elements
    }

    /// Gives up the elements, row after row.
    pub fn into_elements(self) -> Vec<T> {
        self.elements
    }

    /// The matrix as an argument.
    pub fn view(&self) -> View<'_, T> {
        View {
            rows: self.rows,
            columns: self.columns,
            elements: &self.elements,
        }
    }
}

/// A matrix whose elements are somebody else's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View<'a, T> {
    rows: usize,
    columns: usize,
    elements: &'a [T],
}

impl<'a, T: Float> View<'a, T> {
    /// A matrix of these elements, row after row.
    pub fn new(rows: usize, columns: usize, elements: &'a [T]) -> Result<Self, ShapeError> {
        fits(rows, columns, elements.len())?;
        Ok(View {
            rows,
            columns,
            elements,
        })
    }

    /// The same where the elements are known to fill the shape.
    pub(crate) fn of(rows: usize, columns: usize, elements: &'a [T]) -> Self {
        debug_assert_eq!(rows * columns, elements.len());
        View {
            rows,
            columns,
            elements,
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// One row.
    pub fn row(&self, row: usize) -> &'a [T] {
        &self.elements[row * self.columns..][..self.columns]
    }

    /// The rows before this one, and those from it on.
    pub(crate) fn split_at(&self, row: usize) -> (Self, Self) {
        let (first, rest) = self.elements.split_at(row * self.columns);
        let part = |rows, elements| View {
            rows,
            columns: self.columns,
            elements,
        };
        (part(row, first), part(self.rows - row, rest))
    }

    /// All elements, row after row.
    pub fn elements(&self) -> &'a [T] {
        self.elements
    }
}

impl<'a, T: Float> From<&'a Matrix<T>> for View<'a, T> {
    fn from(matrix: &'a Matrix<T>) -> Self {
        matrix.view()
    }
}

/// Whether so many elements fill the shape.
fn fits(rows: usize, columns: usize, elements: usize) -> Result<(), ShapeError> {
    if rows.checked_mul(columns) == Some(elements) {
        return Ok(());
    }
    let rule = "there must be rows times columns elements";
    Err(ShapeError::new(
        "matrix",
        &[rows, columns],
        &[elements],
        rule,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_that_its_elements_do_not_fill_is_an_error() {
        let error = Matrix::new(2, 3, vec![0.0_f32; 5]).unwrap_err().to_string();
        assert!(error.contains("2x3 and 5"), "{error}");
        assert!(View::new(usize::MAX, 2, &[0.0_f64; 2]).is_err());
        assert!(View::<f32>::new(0, 7, &[]).is_ok());
    }
}
