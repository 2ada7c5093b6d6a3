//! Matrices for the checks, and what a workload says of a matrix.

use pointsman::Workload;

use crate::sample::floats;
use crate::{Csr, Float};

/// What a workload says of a sparse matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Form {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) nonzeros: usize,
    pub(super) longest: usize,
}

impl Form {
    #[inline]
    pub(super) fn of<T: Float>(matrix: &Csr<T>) -> Self {
        Form {
            rows: matrix.rows(),
            columns: matrix.columns(),
            nonzeros: matrix.nonzeros(),
            longest: matrix.longest_row(),
        }
    }

    /// A square matrix whose longest rows have half as much again as the others on average.
    pub(super) fn typical(rows: usize, per_row: usize) -> Self {
        let longest = per_row.saturating_add(per_row / 2);
        let nonzeros = rows.saturating_mul(per_row);
        Self::possible(&[rows, rows.max(longest), nonzeros, longest])
    }

    /// The nearest form that a matrix can have, without places that are taken twice.
    pub(super) fn possible(features: &[usize]) -> Self {
        let [rows, columns, nonzeros, longest] = [0, 1, 2, 3].map(|i| features[i]);
        let nonzeros = nonzeros.min(rows.saturating_mul(columns));
        let least = if rows == 0 {
            0
        } else {
            nonzeros.div_ceil(rows)
        };
        let longest = longest.min(columns).min(nonzeros).max(least);
        Form {
            rows,
            columns,
            nonzeros,
            longest,
        }
    }

    #[inline]
    pub(super) fn workload<T: Float>(self) -> Workload {
        let Form {
            rows,
            columns,
            nonzeros,
            longest,
        } = self;
        let [entries, offsets] = [nonzeros as f64, rows as f64 + 1.0];
        let entry = (size_of::<T>() + size_of::<u32>()) as f64;
        let vectors = size_of::<T>() as f64 * (rows as f64 + columns as f64);
        Workload::new([rows, columns, nonzeros, longest])
            .sized(nonzeros)
            .dtype(T::DTYPE)
            .flops(2.0 * entries)
            .bytes(entry * entries + size_of::<usize>() as f64 * offsets + vectors)
    }

    /// A matrix of this form: every fourth row is among the longest if there are so many entries,
    /// else the first only; the others share the rest evenly.
    pub(super) fn matrix<T: Float>(self, seed: u64) -> Csr<T> {
        let Form { rows, columns, .. } = self;
        let every = match rows.div_ceil(4).saturating_mul(self.longest) <= self.nonzeros {
            true => 4,
            false => rows.max(1),
        };
        let long = rows.div_ceil(every);
        let rest = self.nonzeros - long * self.longest;
        let shared = |others: usize| match rows - long {
            0 => 0,
            all => (others as u128 * rest as u128 / all as u128) as usize,
        };
        let mut offsets = vec![0];
        let mut indices = Vec::with_capacity(self.nonzeros);
        // Between 0 and 1: where in its share of the row an entry is.
        let places = floats::<f32>(self.nonzeros, seed, 2);
        for row in 0..rows {
            let others = row - row.div_ceil(every); // before this one
            let len = match row % every {
                0 => self.longest,
                _ => shared(others + 1) - shared(others),
            };
            for entry in 0..len {
                let [begin, end] =
                    [entry, entry + 1].map(|e| e as u64 * columns as u64 / len as u64);
                let place = (f64::from(places[indices.len()]) + 1.0) / 2.0;
                indices.push((begin + (place * (end - begin) as f64) as u64) as u32);
            }
            offsets.push(indices.len());
        }
        let values = floats(indices.len(), seed, 0);
        Csr::new(rows, columns, offsets, indices, values).expect("offsets grow, columns are inside")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_for_the_checks_are_of_the_form_that_was_asked_for() {
        let sides = [0, 1, 2, 3, 7, 20];
        for rows in sides {
            for (columns, longest) in sides.iter().flat_map(|c| sides.map(|l| (*c, l))) {
                for nonzeros in [0, 1, 5, 19, 64, 1000] {
                    let form = Form::possible(&[rows, columns, nonzeros, longest]);
                    assert_eq!(Form::of(&form.matrix::<f32>(3)), form);
                }
            }
        }
        let typical = Form::typical(1000, 16);
        assert_eq!((typical.nonzeros, typical.longest), (16_000, 24));
        assert_eq!(Form::of(&typical.matrix::<f64>(1)), typical);
    }

    #[test]
    fn impossible_forms_become_possible() {
        let form = Form::possible(&[2, 3, 100, 1]);
        assert_eq!((form.nonzeros, form.longest), (6, 3));
        assert_eq!(Form::possible(&[0, 5, 9, 9]).nonzeros, 0);
    }
}
