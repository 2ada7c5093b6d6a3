//! Buffers that a thread keeps between calls, so that a call allocates only when it is larger
//! than all before it.

use std::any::{Any, TypeId};
use std::cell::RefCell;

thread_local! {
    static KEPT: RefCell<Vec<(TypeId, Box<dyn Any>)>> = const { RefCell::new(Vec::new()) };
}

/// Lends this thread's value of a type, which is made when it is first asked for.
///
/// It is taken out while it is lent: a thread that waits for others may run another op of the same
/// type meanwhile, which then works with a value of its own.
pub(crate) fn kept<S: Default + 'static, R>(work: impl FnOnce(&mut S) -> R) -> R {
    let id = TypeId::of::<S>();
    let found = KEPT.with_borrow_mut(|kept| {
        let at = kept.iter().position(|(kind, _)| *kind == id)?;
        Some(kept.swap_remove(at).1)
    });
    let mut value = found
        .and_then(|value| value.downcast::<S>().ok())
        .unwrap_or_default();
    let result = work(&mut value);
    KEPT.with_borrow_mut(|kept| {
        if !kept.iter().any(|(kind, _)| *kind == id) {
            kept.push((id, value));
        }
    });
    result
}

/// The first `len` elements of a buffer that grows as needed. What is in them is left over from
/// whatever was done before.
pub(crate) fn part<T: Clone + Default>(buffer: &mut Vec<T>, len: usize) -> &mut [T] {
    if buffer.len() < len {
        buffer.resize(len, T::default());
    }
    &mut buffer[..len]
}

/// Bytes of a page: loads wait for earlier stores at the same place in another page.
const PAGE: usize = 4096;
/// Bytes of a cache line.
const LINE: usize = 64;

/// The same, beginning with a cache line, and about a quarter into a page where `beside` begins.
/// Allocators give large buffers all the same place in a page; a transform between such took up to
/// twice as long here.
pub(crate) fn apart<'a, T: Clone + Default, U>(
    buffer: &'a mut Vec<T>,
    len: usize,
    beside: &[U],
) -> &'a mut [T] {
    let size = size_of::<T>().max(1);
    let all = part(buffer, len + (PAGE + LINE) / size);
    let place = (beside.as_ptr().addr() + PAGE / 4).next_multiple_of(LINE);
    let skip = place.wrapping_sub(all.as_ptr().addr()) % PAGE / size;
    &mut all[skip..][..len]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_kept_between_calls_and_never_lent_twice() {
        kept(|v: &mut Vec<u8>| v.push(1));
        let inner = kept(|v: &mut Vec<u8>| {
            v.push(2);
            kept(|v: &mut Vec<u8>| v.clone())
        });
        assert!(
            inner.is_empty(),
            "a call within a call has a buffer of its own"
        );
        kept(|v: &mut Vec<u8>| v.push(3));
        assert!(kept(|v: &mut Vec<u8>| v.contains(&3)));
        assert_eq!(kept(|v: &mut Vec<u16>| v.len()), 0);
    }

    #[test]
    fn buffers_apart_differ_in_their_place_in_a_page() {
        let mut buffer = Vec::new();
        for from in 0..100 {
            let beside = &[0_u32; 200][from..];
            let buffer: &mut [u64] = apart(&mut buffer, 1000, beside);
            assert_eq!(buffer.len(), 1000);
            assert_eq!(buffer.as_ptr().addr() % LINE, 0);
            let between = buffer.as_ptr().addr().wrapping_sub(beside.as_ptr().addr()) % PAGE;
            assert!((PAGE / 4..=PAGE / 4 + LINE).contains(&between), "{between}");
        }
    }
}
