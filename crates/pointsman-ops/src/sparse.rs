//! Sparse matrices in rows.

use std::fmt;
use std::ops::Range;

use crate::Float;
use crate::lanes::NARROW;

/// A sparse matrix in compressed rows (CSR): of each row the columns and values of its entries.
///
/// Entries may be in any order within their row; those of one place add up.
///
/// ```
/// use pointsman_ops::Csr;
///
/// // 1 0 2
/// // 0 0 0
/// // 0 3 0
/// let m = Csr::new(3, 3, vec![0, 2, 2, 3], vec![0, 2, 1], vec![1.0, 2.0, 3.0])?;
/// assert_eq!((m.nonzeros(), m.longest_row()), (3, 2));
/// let error = Csr::new(1, 3, vec![0, 2], vec![0, 7], vec![1.0, 2.0]).unwrap_err();
/// assert_eq!(error.to_string(), "entry 1 is in column 7, and there are 3 columns");
/// # Ok::<(), pointsman_ops::CsrError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Csr<T> {
    columns: usize,
    longest: usize,
    /// One more than there are rows: where each row begins, and where the last one ends.
    offsets: Vec<usize>,
    indices: Vec<u32>,
    values: Vec<T>,
    ell: Option<Ell<T>>,
}

/// What is wrong with the parts of a sparse matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CsrError {
    /// There are not as many offsets as rows, and one.
    Offsets {
        /// Offsets that were given.
        given: usize,
        /// Rows of the matrix.
        rows: usize,
    },
    /// There are not as many values as column indices.
    Values {
        /// Values that were given.
        values: usize,
        /// Column indices that were given.
        indices: usize,
    },
    /// The first offset is not 0.
    First {
        /// What it is.
        offset: usize,
    },
    /// A row ends before it begins.
    Decreasing {
        /// The row.
        row: usize,
        /// Its two offsets.
        offsets: [usize; 2],
    },
    /// The last offset is not the number of entries.
    Last {
        /// What it is.
        offset: usize,
        /// Entries that were given.
        entries: usize,
    },
    /// An entry is outside the matrix.
    Column {
        /// The entry's number.
        entry: usize,
        /// The column it claims.
        column: u32,
        /// Columns of the matrix.
        columns: usize,
    },
}

impl fmt::Display for CsrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CsrError::Offsets { given, rows } => {
                write!(
                    f,
                    "{given} offsets for {rows} rows: one more than rows is needed"
                )
            }
            CsrError::Values { values, indices } => {
                write!(
                    f,
                    "{values} values and {indices} column indices: each entry needs both"
                )
            }
            CsrError::First { offset } => write!(f, "the first offset is {offset}, and must be 0"),
            CsrError::Decreasing { row, offsets } => {
                let [begin, end] = offsets;
                write!(
                    f,
                    "row {row} goes from offset {begin} to {end}: they must not decrease"
                )
            }
            CsrError::Last { offset, entries } => {
                write!(
                    f,
                    "the last offset is {offset}, and there are {entries} entries"
                )
            }
            CsrError::Column {
                entry,
                column,
                columns,
            } => {
                write!(
                    f,
                    "entry {entry} is in column {column}, and there are {columns} columns"
                )
            }
        }
    }
}

impl std::error::Error for CsrError {}

impl<T: Float> Csr<T> {
    /// A matrix of these entries: row r has those from `offsets[r]` up to `offsets[r + 1]`.
    pub fn new(
        rows: usize,
        columns: usize,
        offsets: Vec<usize>,
        indices: Vec<u32>,
        values: Vec<T>,
    ) -> Result<Self, CsrError> {
        let entries = indices.len();
        if rows.checked_add(1) != Some(offsets.len()) {
            let given = offsets.len();
            return Err(CsrError::Offsets { given, rows });
        }
        if values.len() != entries {
            return Err(CsrError::Values {
                values: values.len(),
                indices: entries,
            });
        }
        if offsets[0] != 0 {
            return Err(CsrError::First { offset: offsets[0] });
        }
        let mut longest = 0;
        for (row, ends) in offsets.windows(2).enumerate() {
            let Some(len) = ends[1].checked_sub(ends[0]) else {
                return Err(CsrError::Decreasing {
                    row,
                    offsets: [ends[0], ends[1]],
                });
            };
            longest = longest.max(len);
        }
        if offsets[rows] != entries {
            return Err(CsrError::Last {
                offset: offsets[rows],
                entries,
            });
        }
        if let Some(entry) = indices.iter().position(|c| *c as usize >= columns) {
            return Err(CsrError::Column {
                entry,
                column: indices[entry],
                columns,
            });
        }
        Ok(Csr {
            columns,
            longest,
            offsets,
            indices,
            values,
            ell: None,
        })
    }

    /// The same matrix with a second copy of its entries in padded form, which serves matrices of
    /// many short rows best. Without one the variant `ell` is not eligible. No copy is made if it
    /// would have more than twice as many entries as the matrix.
    pub fn padded(mut self) -> Self {
        self.ell = Ell::of(&self);
        self
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Number of entries.
    pub fn nonzeros(&self) -> usize {
        self.values.len()
    }

    /// Entries of the longest row.
    pub fn longest_row(&self) -> usize {
        self.longest
    }

    /// Columns and values of one row's entries.
    pub fn row(&self, row: usize) -> (&[u32], &[T]) {
        self.entries(self.offsets[row]..self.offsets[row + 1])
    }

    #[inline(always)]
    pub(crate) fn entries(&self, range: Range<usize>) -> (&[u32], &[T]) {
        (&self.indices[range.clone()], &self.values[range])
    }

    pub(crate) fn offsets(&self) -> &[usize] {
        &self.offsets
    }

    pub(crate) fn ell(&self) -> Option<&Ell<T>> {
        self.ell.as_ref()
    }
}

/// Entries of a padded copy for each of the matrix, at most. Twice the bytes take twice the time
/// where memory is the limit, and short rows in lanes gain no more than that.
const MOST_PADDING: usize = 2;

/// Rows of one slice: a lane each.
const LANES: usize = NARROW;

/// Rows in slices of as many as there are lanes (sliced ELL), each padded to its longest row: the
/// first entries of all rows of the slice, then the second ones.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ell<T> {
    pub(crate) slices: Vec<Slice>,
    pub(crate) indices: Vec<[u32; LANES]>,
    pub(crate) values: Vec<[T; LANES]>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slice {
    /// Where its entries are in the columns.
    pub(crate) steps: Range<usize>,
    /// Entries of each row: what comes after is padding, which must not be added. Zero times an
    /// infinite element of the vector is not zero.
    pub(crate) lens: [u32; LANES],
}

impl<T: Float> Ell<T> {
    fn of(matrix: &Csr<T>) -> Option<Self> {
        let len = |row: usize| match matrix.offsets.get(row + 1) {
            Some(end) => end - matrix.offsets[row],
            None => 0,
        };
        let lens = |slice: usize| -> [usize; LANES] {
            std::array::from_fn(|lane| len(LANES * slice + lane))
        };
        let slices = 0..matrix.rows().div_ceil(LANES);
        let longest = |slice| lens(slice).into_iter().max().unwrap_or(0);
        let steps: usize = slices.clone().map(longest).sum();
        if steps * LANES > MOST_PADDING * matrix.nonzeros()
            || u32::try_from(matrix.longest).is_err()
        {
            return None;
        }
        let mut ell = Ell {
            slices: Vec::with_capacity(slices.len()),
            indices: vec![[0; LANES]; steps],
            values: vec![[T::zero(); LANES]; steps],
        };
        let mut begin = 0;
        for slice in slices {
            let lens = lens(slice);
            for (lane, len) in lens.into_iter().enumerate() {
                for entry in 0..len {
                    let from = matrix.offsets[LANES * slice + lane] + entry;
                    ell.indices[begin + entry][lane] = matrix.indices[from];
                    ell.values[begin + entry][lane] = matrix.values[from];
                }
            }
            let end = begin + longest(slice);
            ell.slices.push(Slice {
                steps: begin..end,
                lens: lens.map(|len| len as u32),
            });
            begin = end;
        }
        Some(ell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(rows: usize, offsets: &[usize], indices: &[u32], values: usize) -> String {
        let values = vec![1.0_f32; values];
        let made = Csr::new(rows, 4, offsets.to_vec(), indices.to_vec(), values);
        made.unwrap_err().to_string()
    }

    #[test]
    fn errors_say_which_part_is_wrong_and_what_would_be_right() {
        let cases = [
            (error(2, &[0, 1], &[0], 1), "2 offsets for 2 rows"),
            (
                error(usize::MAX, &[], &[], 0),
                "0 offsets for 18446744073709551615 rows",
            ),
            (
                error(1, &[0, 2], &[0, 1], 3),
                "3 values and 2 column indices",
            ),
            (error(1, &[1, 1], &[0], 1), "first offset is 1"),
            (
                error(3, &[0, 2, 1, 2], &[0, 1], 2),
                "row 1 goes from offset 2 to 1",
            ),
            (
                error(1, &[0, 1], &[0, 1], 2),
                "last offset is 1, and there are 2 entries",
            ),
            (error(1, &[0, 3], &[0, 4, 1], 3), "entry 1 is in column 4"),
        ];
        for (error, part) in cases {
            assert!(error.contains(part), "{error}");
        }
        assert!(Csr::<f64>::new(0, 0, vec![0], vec![], vec![]).is_ok());
    }

    #[test]
    fn padded_copies_are_made_only_where_they_are_small() {
        let matrix = |lens: &[usize]| {
            let mut offsets = vec![0];
            lens.iter()
                .for_each(|len| offsets.push(offsets[offsets.len() - 1] + len));
            let entries = offsets[lens.len()];
            let (indices, values) = (vec![0; entries], vec![1.0_f32; entries]);
            Csr::new(lens.len(), 1, offsets, indices, values).unwrap()
        };
        assert_eq!(matrix(&[3; 16]).ell(), None, "not asked for");
        let padded = |lens: &[usize]| matrix(lens).padded().ell().is_some();
        assert!(padded(&[3; 16]) && padded(&[2, 4, 2, 4, 2, 4, 2, 4]) && padded(&[]));
        assert!(!padded(&[8, 1, 1, 1, 1, 1, 1, 1]) && !padded(&[1]));
    }
}
