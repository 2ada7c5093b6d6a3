//! How work is shared out to threads: on rayon's global pool, so that ops inside the user's own
//! rayon code, or inside each other, never run on more threads than there are cores.

use crate::lanes::{Kernel, vectorised};

/// Elements below which nothing is shared out. To hand work over takes 0.7–6 µs here, in which one
/// thread streams some 4,000 elements; from there on the learner decides.
pub(crate) const WORTH_SHARING: usize = 4096;

/// A kernel whose work can be cut in two.
pub(crate) trait Parts: Kernel<Output: Send> + Send + Sized {
    /// The first `share` of `of` equal shares of the work, and the rest.
    fn cut(self, share: usize, of: usize) -> (Self, Self);

    /// The result from those of the two parts.
    fn join(first: Self::Output, rest: Self::Output) -> Self::Output;
}

/// Runs a kernel in lanes, a part on every thread.
pub(crate) fn shared<K: Parts>(kernel: K) -> K::Output {
    in_parts(kernel, rayon::current_num_threads())
}

/// Runs a kernel in so many parts at once.
pub(crate) fn in_parts<K: Parts>(kernel: K, parts: usize) -> K::Output {
    if parts <= 1 {
        return vectorised(kernel);
    }
    let half = parts / 2;
    let (first, rest) = kernel.cut(half, parts);
    let (first, rest) = rayon::join(
        move || in_parts(first, half),
        move || in_parts(rest, parts - half),
    );
    K::join(first, rest)
}

/// Where to cut `len` elements.
pub(crate) fn cut(len: usize, share: usize, of: usize) -> usize {
    len / of * share + len % of * share / of
}

/// Elements per thread.
pub(crate) fn share(len: usize) -> usize {
    len.div_ceil(rayon::current_num_threads()).max(1)
}
