//! Each row in lanes, where it is long enough to fill them.

use super::{Args, SpMv, gathered};
use crate::fold::total;
use crate::lanes::{Kernel, MulAdd, NARROW};
use crate::team::{self, Parts};
use crate::variants::Lanes;
use crate::{Csr, Float};

/// Some neighbouring rows of a matrix.
pub(crate) struct Rows<'a, T> {
    a: &'a Csr<T>,
    /// Where these rows begin, and where the last one ends.
    offsets: &'a [usize],
    x: &'a [T],
    y: &'a mut [T],
}

impl<T: Float> Kernel for Rows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self, ops: impl MulAdd) {
        for (ends, y) in self.offsets.windows(2).zip(self.y) {
            let (columns, values) = self.a.entries(ends[0]..ends[1]);
            *y = row(columns, values, self.x, ops);
        }
    }
}

#[cfg(test)]
impl<T> Rows<'_, T> {
    pub(super) fn len(&self) -> usize {
        self.y.len()
    }
}

/// One element of y.
#[inline(always)]
fn row<T: Float>(columns: &[u32], values: &[T], x: &[T], ops: impl MulAdd) -> T {
    let (column_steps, columns) = columns.as_chunks::<NARROW>();
    let (value_steps, values) = values.as_chunks::<NARROW>();
    let mut lanes = [T::zero(); NARROW];
    for (columns, values) in column_steps.iter().zip(value_steps) {
        let x = gathered(columns, x);
        for i in 0..NARROW {
            lanes[i] = ops.mul_add(values[i], x[i], lanes[i]);
        }
    }
    let mut rest = T::zero();
    for (column, value) in columns.iter().zip(values) {
        rest = ops.mul_add(*value, x[*column as usize], rest);
    }
    if value_steps.is_empty() {
        return rest;
    }
    total(lanes) + rest
}

impl<T: Float> Parts for Rows<'_, T> {
    /// Cuts where the entries are shared out evenly, between two rows. A row that has most of them
    /// stays with one thread; the workload says how long the longest is, so that is learned.
    fn cut(self, share: usize, of: usize) -> (Self, Self) {
        let Rows { a, offsets, x, y } = self;
        let (begin, end) = (offsets[0], offsets[y.len()]);
        let middle = begin + team::cut(end - begin, share, of);
        let at = offsets.partition_point(|o| *o < middle).min(y.len());
        let (first, rest) = y.split_at_mut(at);
        let part = |offsets, y| Rows { a, offsets, x, y };
        (part(&offsets[..=at], first), part(&offsets[at..], rest))
    }

    fn join((): (), (): ()) {}
}

impl<T: Float> Lanes for SpMv<T> {
    type Kernel<'k> = Rows<'k, T>;

    #[inline]
    fn kernel<'k>(args: &'k mut Args<'_, T>) -> Self::Kernel<'k> {
        Rows {
            a: args.a,
            offsets: args.a.offsets(),
            x: args.x,
            y: args.y,
        }
    }
}
