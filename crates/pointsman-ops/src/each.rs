//! The kernel of all element-wise ops.

use crate::Float;
use crate::lanes::{Kernel, MulAdd, NARROW, WIDE};
use crate::team::{self, Parts};

/// What is done to each element, from those of `K` vectors and the one that is replaced.
pub(crate) trait Map<T, const K: usize>: Copy + Send {
    /// Must be `#[inline(always)]`, as all code of kernels.
    fn of(self, x: [T; K], old: T, ops: impl MulAdd) -> T;
}

/// yᵢ ← f(xᵢ, yᵢ) for all elements; all vectors are as long as y.
pub(crate) struct Each<'a, T, M, const K: usize> {
    pub(crate) map: M,
    pub(crate) x: [&'a [T]; K],
    pub(crate) y: &'a mut [T],
}

impl<T: Float, M: Map<T, K>, const K: usize> Kernel for Each<'_, T, M, K> {
    type Output = ();

    #[inline(always)]
    fn run(self, ops: impl MulAdd) {
        let Each { map, x, y } = self;
        let (x, y) = steps::<T, M, K, WIDE>(map, x, y, ops);
        let (x, y) = steps::<T, M, K, NARROW>(map, x, y, ops);
        steps::<T, M, K, 1>(map, x, y, ops);
    }
}

/// Goes on in steps of `N`; what is left of the vectors.
#[inline(always)]
fn steps<'a, T: Float, M: Map<T, K>, const K: usize, const N: usize>(
    map: M,
    x: [&'a [T]; K],
    y: &'a mut [T],
    ops: impl MulAdd,
) -> ([&'a [T]; K], &'a mut [T]) {
    let (ys, y_rest) = y.as_chunks_mut::<N>();
    let xs = x.map(|x| x.as_chunks::<N>().0);
    let x_rest = x.map(|x| &x[N * ys.len()..]);
    for (step, y) in ys.iter_mut().enumerate() {
        let x = xs.map(|x| &x[step]);
        // All of y is read before any of it is written: nothing can overlap, whatever the
        // compiler knows of the slices.
        let old = *y;
        let mut new = [T::zero(); N];
        for i in 0..N {
            new[i] = map.of(x.map(|x| x[i]), old[i], ops);
        }
        *y = new;
    }
    (x_rest, y_rest)
}

impl<T: Float, M: Map<T, K>, const K: usize> Parts for Each<'_, T, M, K> {
    fn cut(self, share: usize, of: usize) -> (Self, Self) {
        let Each { map, x, y } = self;
        let at = team::cut(y.len(), share, of);
        let (first, rest) = y.split_at_mut(at);
        let part = |x, y| Each { map, x, y };
        (
            part(x.map(|x| &x[..at]), first),
            part(x.map(|x| &x[at..]), rest),
        )
    }

    fn join((): (), (): ()) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::floats;

    #[derive(Clone, Copy)]
    struct Mixed;

    impl Map<f32, 2> for Mixed {
        #[inline(always)]
        fn of(self, [a, b]: [f32; 2], old: f32, _: impl MulAdd) -> f32 {
            a * b - old
        }
    }

    #[test]
    fn every_element_is_done_once_at_every_length_and_alignment() {
        let [a, b, before] = [0, 1, 2].map(|stream| floats::<f32>(300, 9, stream));
        for n in 0..=4 * WIDE + NARROW + 1 {
            for (i, j, k) in (0..8).flat_map(|i| [(i, 0, 3), (0, i, 5), (7 - i, i, i)]) {
                let (a, b) = (&a[i..i + n], &b[j..j + n]);
                for parts in [1, 3] {
                    let mut y = before.clone();
                    let each = Each {
                        map: Mixed,
                        x: [a, b],
                        y: &mut y[k..k + n],
                    };
                    team::in_parts(each, parts);
                    for (at, y) in y.iter().enumerate() {
                        let expected = match at.checked_sub(k).filter(|at| *at < n) {
                            Some(at) => a[at] * b[at] - before[k + at],
                            None => before[at],
                        };
                        assert_eq!(*y, expected, "{at}, {n} from {i}, {j}, {k}");
                    }
                }
            }
        }
    }
}
