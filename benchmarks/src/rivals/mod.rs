//! The two usual designs, written for this comparison: what a program would do by hand.
//!
//! They are our own code, shaped like the selectors that Pointsman takes over from; what the
//! originals themselves take is in `DESIGN.md`.

pub(crate) mod history;
pub(crate) mod registry;
