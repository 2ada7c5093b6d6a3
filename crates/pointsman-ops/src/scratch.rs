//! Memory that variants need for the time of a call, kept by each thread for the next one.

use crate::Float;

/// Elements above which memory goes back to the system after a call.
const KEPT: usize = 1 << 23;

/// Lends so many elements, whose values are whatever was left there.
pub(crate) fn with_scratch<T: Float, R>(len: usize, body: impl FnOnce(&mut [T]) -> R) -> R {
    // Taken and not borrowed: while rayon waits within the body, this thread may begin another.
    let mut elements = T::scratch().take();
    if elements.len() < len {
        elements.resize(len, T::zero());
    }
    let result = body(&mut elements[..len]);
    if elements.len() <= KEPT {
        T::scratch().set(elements);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_within_scratch_is_other_memory() {
        with_scratch(4, |outer: &mut [f32]| {
            outer.fill(1.0);
            with_scratch(4, |inner: &mut [f32]| inner.fill(2.0));
            assert_eq!(outer, [1.0; 4]);
        });
    }
}
