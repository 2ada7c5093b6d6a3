//! What lists, tuples and dictionaries hold: searched level by level, each container once.

use std::collections::HashSet;
use std::ops::ControlFlow;

use foldhash::fast::RandomState;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::kinds::{self, Kind};

/// Containers within containers that are searched.
const DEEPEST: u8 = 4;

/// Items of one container, and of all, that are looked at while none of them is an array of a library that computes gradients or
/// is asynchronous: a million numbers are not gone through on each call.
const MOST_PLAIN: usize = 256;
const MOST_PLAIN_IN_ALL: usize = 4096;

/// The same once there was one, because where there is one there may be more.
const MOST: usize = 1 << 20;

struct Search<'py, V> {
    visit: V,
    left: usize,
    /// Whether there was such an array.
    is_wide: bool,
    /// Containers that were found, and how deep they may be searched.
    found: Vec<(Bound<'py, PyAny>, u8)>,
    known: HashSet<usize, RandomState>,
}

/// Shows the items of a container, and of those inside of it, to a visitor, which may stop it. The first so many of its
/// items are left out, and so are containers themselves.
pub(crate) fn each<'py, B>(
    container: &Bound<'py, PyAny>,
    skipped: usize,
    visit: impl FnMut(Kind, &Bound<'py, PyAny>) -> ControlFlow<B>,
) -> Option<B> {
    let mut search = Search {
        visit,
        left: MOST_PLAIN_IN_ALL,
        is_wide: false,
        found: Vec::new(),
        known: HashSet::default(),
    };
    let mut next = 0;
    let mut flow = search.container(container, skipped, DEEPEST);
    while flow.is_continue() {
        let (container, depth) = search.found.get(next).cloned()?;
        next += 1;
        flow = search.container(&container, 0, depth);
    }
    flow.break_value()
}

impl<'py, V> Search<'py, V> {
    fn container<B>(
        &mut self,
        container: &Bound<'py, PyAny>,
        skipped: usize,
        depth: u8,
    ) -> ControlFlow<B>
    where
        V: FnMut(Kind, &Bound<'py, PyAny>) -> ControlFlow<B>,
    {
        if container.is_instance_of::<PyDict>() {
            // A view: nothing is copied, and a change meanwhile is an exception.
            let values = container.call_method0(intern!(container.py(), "values"));
            match values.and_then(|values| values.try_iter()) {
                Ok(values) => self.items(values.map_while(Result::ok), skipped, depth),
                Err(_) => ControlFlow::Continue(()),
            }
        } else if let Ok(items) = container.cast::<PyList>() {
            self.items(items.iter(), skipped, depth)
        } else if let Ok(items) = container.cast::<PyTuple>() {
            self.items(items.iter(), skipped, depth)
        } else {
            ControlFlow::Continue(())
        }
    }

    fn items<B>(
        &mut self,
        items: impl Iterator<Item = Bound<'py, PyAny>>,
        skipped: usize,
        depth: u8,
    ) -> ControlFlow<B>
    where
        V: FnMut(Kind, &Bound<'py, PyAny>) -> ControlFlow<B>,
    {
        for (i, item) in items.skip(skipped).enumerate() {
            if self.left == 0 || (i >= MOST_PLAIN && !self.is_wide) {
                break;
            }
            self.left -= 1;
            let kind = kinds::kind(&item);
            match kind {
                Kind::List | Kind::Tuple | Kind::Dict => {
                    if depth > 0 && self.known.insert(item.as_ptr() as usize) {
                        self.found.push((item, depth - 1));
                    }
                    continue;
                }
                Kind::Torch | Kind::Jax | Kind::CuPy if !self.is_wide => {
                    (self.left, self.is_wide) = (MOST, true);
                }
                _ => {}
            }
            (self.visit)(kind, &item)?;
        }
        ControlFlow::Continue(())
    }
}
