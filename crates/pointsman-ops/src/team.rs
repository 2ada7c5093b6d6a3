//! How work is shared out to threads: on rayon's global pool, so that ops inside the user's own
//! rayon code, or inside each other, never run on more threads than there are cores.

/// Elements below which nothing is shared out. To hand work over takes 0.7–6 µs here, in which one
/// thread streams some 4,000 elements; from there on the learner decides.
pub(crate) const WORTH_SHARING: usize = 4096;

/// Elements per thread.
pub(crate) fn share(len: usize) -> usize {
    len.div_ceil(rayon::current_num_threads()).max(1)
}
