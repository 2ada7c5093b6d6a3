//! Which ops have given up on an error, on its way through calls inside of each other.

use std::cell::Cell;

use pyo3::intern;
use pyo3::prelude::*;

thread_local! {
    /// Of outermost calls that failed: what was noted in one says nothing in the next, if the same exception is raised again.
    static TURN: Cell<u64> = const { Cell::new(0) };
}

fn noted(py: Python<'_>, error: &PyErr) -> Option<Vec<u64>> {
    let noted = error
        .value(py)
        .getattr(intern!(py, "__pointsman_refused__"));
    let noted: Vec<u64> = noted.ok()?.extract().ok()?;
    (noted.first() == Some(&TURN.get())).then_some(noted)
}

/// Notes that an op has given up on an error inside of another call.
pub(crate) fn note(py: Python<'_>, error: &PyErr, op: u64) {
    let mut all = noted(py, error).unwrap_or_else(|| vec![TURN.get()]);
    all.push(op);
    // An exception that takes no attributes is tried by each level, as any other error is.
    let _ = error
        .value(py)
        .setattr(intern!(py, "__pointsman_refused__"), all);
}

/// Whether it has.
pub(crate) fn is_noted(py: Python<'_>, error: &PyErr, op: u64) -> bool {
    noted(py, error).is_some_and(|noted| noted[1..].contains(&op))
}

/// The outermost call is over.
pub(crate) fn end() {
    TURN.set(TURN.get().wrapping_add(1));
}
