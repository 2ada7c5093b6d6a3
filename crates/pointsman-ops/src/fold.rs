//! The kernel of all sums over vectors.

use std::hint::black_box;

use crate::Float;
use crate::lanes::{Kernel, MulAdd, NARROW, WIDE};
use crate::team::{self, Parts};

/// What is added for each element of `K` vectors.
pub(crate) trait Term<T, const K: usize>: Copy + Send {
    /// The sum with the term of these elements. Must be `#[inline(always)]`, as all code of kernels.
    fn add(self, sum: T, x: [T; K], ops: impl MulAdd) -> T;
}

/// The sum of the terms of all elements, in lanes that are added at the end; all vectors are of one
/// length.
pub(crate) struct Fold<'a, T, F, const K: usize> {
    pub(crate) term: F,
    pub(crate) x: [&'a [T]; K],
}

impl<T: Float, F: Term<T, K>, const K: usize> Kernel for Fold<'_, T, F, K> {
    type Output = T;

    #[inline(always)]
    fn run(self, ops: impl MulAdd) -> T {
        let Fold { term, x } = self;
        let (wide, x) = lanes::<T, F, K, WIDE>(term, x, ops);
        let (mut sums, x) = lanes::<T, F, K, NARROW>(term, x, ops);
        let ([rest], _) = lanes::<T, F, K, 1>(term, x, ops);
        for part in wide.as_chunks::<NARROW>().0 {
            for i in 0..NARROW {
                sums[i] += part[i];
            }
        }
        total(sums) + rest
    }
}

/// The sum of the lanes, in halves: a third of the latency of one after the other.
#[inline(always)]
pub(crate) fn total<T: Float>(lanes: [T; NARROW]) -> T {
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// Sums in `N` lanes, and what is left of the vectors.
#[inline(always)]
fn lanes<T: Float, F: Term<T, K>, const K: usize, const N: usize>(
    term: F,
    x: [&[T]; K],
    ops: impl MulAdd,
) -> ([T; N], [&[T]; K]) {
    let xs = x.map(|x| x.as_chunks::<N>().0);
    let steps = xs[0].len();
    let mut sums = [T::zero(); N];
    for step in 0..steps {
        let x = xs.map(|x| &x[step]);
        for i in 0..N {
            sums[i] = term.add(sums[i], x.map(|x| x[i]), ops);
        }
    }
    // Through memory: seeing how the lanes are added up, the compiler would split the vectors above
    // into pairs to suit that, at half the speed.
    (black_box(sums), x.map(|x| &x[N * steps..]))
}

impl<T: Float, F: Term<T, K>, const K: usize> Parts for Fold<'_, T, F, K> {
    fn cut(self, share: usize, of: usize) -> (Self, Self) {
        let Fold { term, x } = self;
        let at = team::cut(x[0].len(), share, of);
        let part = |x| Fold { term, x };
        (part(x.map(|x| &x[..at])), part(x.map(|x| &x[at..])))
    }

    fn join(first: T, rest: T) -> T {
        first + rest
    }
}
