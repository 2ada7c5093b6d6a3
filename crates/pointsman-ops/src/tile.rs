//! A matrix product in blocks of registers, without packing: the shortest way to a small product,
//! and one that can finish each element before it is stored.

use crate::lanes::{Kernel, MulAdd};
use crate::{Float, View};

/// Rows of a block. With two vectors of columns, eight sums: enough to hide the latency of a
/// multiply-add, few enough to stay in registers on every instruction set.
const ROWS: usize = 4;

/// What becomes of sums before they are stored. The method must be `#[inline(always)]`, so that it
/// is compiled with the instructions of its caller.
pub(crate) trait Finish<T> {
    /// `N` neighbouring sums of a row, the first of which is of this column.
    fn finish<const N: usize>(&self, column: usize, sums: [T; N]) -> [T; N];
}

/// Nothing: the sums are the result.
impl<T> Finish<T> for () {
    #[inline(always)]
    fn finish<const N: usize>(&self, _: usize, sums: [T; N]) -> [T; N] {
        sums
    }
}

/// C ← f(A B).
pub(crate) struct Tiled<'a, T, F> {
    pub(crate) a: View<'a, T>,
    pub(crate) b: View<'a, T>,
    pub(crate) c: &'a mut [T],
    pub(crate) finish: F,
}

impl<T: Float, F: Finish<T>> Kernel for Tiled<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run(mut self, ops: impl MulAdd) {
        let n = self.b.columns();
        // Two vectors of AVX, whatever the type; what is left goes in ever narrower blocks.
        let done = match size_of::<T>() {
            4 => self.columns::<16>(0, ops),
            _ => self.columns::<8>(0, ops),
        };
        let done = self.columns::<4>(done, ops);
        let done = self.columns::<1>(done, ops);
        debug_assert_eq!(done, n);
    }
}

impl<T: Float, F: Finish<T>> Tiled<'_, T, F> {
    /// Blocks of `N` columns from this one on; the first column that is not done.
    #[inline(always)]
    fn columns<const N: usize>(&mut self, from: usize, ops: impl MulAdd) -> usize {
        let (m, n) = (self.a.rows(), self.b.columns());
        let mut column = from;
        while column + N <= n {
            let mut row = 0;
            while row + ROWS <= m {
                self.block::<ROWS, N>(row, column, ops);
                row += ROWS;
            }
            while row < m {
                self.block::<1, N>(row, column, ops);
                row += 1;
            }
            column += N;
        }
        column
    }

    #[inline(always)]
    fn block<const M: usize, const N: usize>(
        &mut self,
        row: usize,
        column: usize,
        ops: impl MulAdd,
    ) {
        let (k, n) = (self.a.columns(), self.b.columns());
        let rows: [&[T]; M] = std::array::from_fn(|i| &self.a.row(row + i)[..k]);
        let mut sums = [[T::zero(); N]; M];
        for (p, b) in self.b.elements().chunks_exact(n).enumerate().take(k) {
            let Some(b) = b[column..].first_chunk::<N>() else {
                return;
            };
            for i in 0..M {
                let a = rows[i][p];
                for j in 0..N {
                    sums[i][j] = ops.mul_add(a, b[j], sums[i][j]);
                }
            }
        }
        for (i, sums) in sums.into_iter().enumerate() {
            let c = &mut self.c[(row + i) * n + column..][..N];
            c.copy_from_slice(&self.finish.finish(column, sums));
        }
    }
}
