//! Operations with scalar, vector and threaded variants, ready for a
//! [`Selector`](pointsman::Selector).
//!
//! ```
//! use pointsman::Selector;
//!
//! # let selector = Selector::builder().in_memory().build()?;
//! let dot = pointsman_ops::dot(&selector)?;
//! let axpy = pointsman_ops::axpy(&selector)?;
//!
//! let (x, mut y) = (vec![1.0; 1000], vec![2.0; 1000]);
//! axpy.run((3.0, &x, &mut y)); // y += 3 x
//! assert_eq!(dot.run((&x, &y)), 5000.0);
//! # Ok::<(), pointsman::BuildError>(())
//! ```
//!
//! Each op is a folder: `mod.rs` declares it and how its variants are checked against the
//! reference, the other files are its variants. This is the only crate of the project with unsafe
//! code, and all of it is in `lanes.rs`.
#![deny(unsafe_op_in_unsafe_fn)]

mod axpy;
mod dot;
mod lanes;
mod sample;
mod team;

pub use axpy::{Axpy, axpy};
pub use dot::{Dot, dot};
