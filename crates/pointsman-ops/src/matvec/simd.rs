//! Four rows at once, so that each part of x is loaded once for all of them.

use std::hint::black_box;

use super::{Args, MatVec};
use crate::dot::Product;
use crate::fold::{Fold, total};
use crate::lanes::{Kernel, MulAdd, NARROW};
use crate::team::{self, Parts};
use crate::variants::Lanes;
use crate::{Float, View};

/// Rows at once: with one vector of lanes each, enough to hide the latency of a multiply-add.
const ROWS: usize = 4;

pub(crate) struct Rows<'a, T> {
    a: View<'a, T>,
    x: &'a [T],
    y: &'a mut [T],
}

impl<T: Float> Kernel for Rows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self, ops: impl MulAdd) {
        let Rows { a, x, y } = self;
        let (blocks, rest) = y.as_chunks_mut::<ROWS>();
        let done = ROWS * blocks.len();
        for (block, y) in blocks.iter_mut().enumerate() {
            let first = ROWS * block;
            let rows = [first, first + 1, first + 2, first + 3].map(|row| a.row(row));
            *y = products(rows, x, ops);
        }
        for (row, y) in rest.iter_mut().enumerate() {
            let (term, x) = (Product, [a.row(done + row), x]);
            *y = Fold { term, x }.run(ops);
        }
    }
}

/// The products of some rows with x.
#[inline(always)]
fn products<T: Float>(rows: [&[T]; ROWS], x: &[T], ops: impl MulAdd) -> [T; ROWS] {
    let (xs, x_rest) = x.as_chunks::<NARROW>();
    let chunks = rows.map(|row| row.as_chunks::<NARROW>().0);
    let mut lanes = [[T::zero(); NARROW]; ROWS];
    for (step, x) in xs.iter().enumerate() {
        let chunks = chunks.map(|row| &row[step]);
        for row in 0..ROWS {
            for i in 0..NARROW {
                lanes[row][i] = ops.mul_add(chunks[row][i], x[i], lanes[row][i]);
            }
        }
    }
    let lanes = black_box(lanes); // as in `Fold`
    let mut sums = lanes.map(total);
    for (column, x) in (NARROW * xs.len()..).zip(x_rest) {
        for row in 0..ROWS {
            sums[row] = ops.mul_add(rows[row][column], *x, sums[row]);
        }
    }
    sums
}

impl<T: Float> Parts for Rows<'_, T> {
    fn cut(self, share: usize, of: usize) -> (Self, Self) {
        let Rows { a, x, y } = self;
        let at = team::cut(y.len(), share, of);
        let (y, y_rest) = y.split_at_mut(at);
        let (a, a_rest) = a.split_at(at);
        let rest = Rows {
            a: a_rest,
            x,
            y: y_rest,
        };
        (Rows { a, x, y }, rest)
    }

    fn join((): (), (): ()) {}
}

impl<T: Float> Lanes for MatVec<T> {
    type Kernel<'k> = Rows<'k, T>;

    #[inline]
    fn kernel<'k>(args: &'k mut Args<'_, T>) -> Self::Kernel<'k> {
        Rows {
            a: args.a,
            x: args.x,
            y: args.y,
        }
    }
}
