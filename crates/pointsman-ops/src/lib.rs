//! Operations on scalar, vector and threaded backends that choose among their variants by
//! themselves.
//!
//! ```
//! use pointsman_ops as ops;
//!
//! let (x, mut y) = (vec![1.0; 1000], vec![2.0; 1000]);
//! ops::axpy(3.0, &x, &mut y)?; // y += 3 x
//! assert_eq!(ops::dot(&x, &y)?, 5000.0);
//! # Ok::<(), ops::Error>(())
//! ```
//!
//! The functions share one [`Selector`](pointsman::Selector); [`Ops`] declares the same ops on a
//! selector of yours, as handles that plan, explain and count.
//!
//! Each op is a folder: `mod.rs` declares it and how its variants are checked against the
//! reference, the other files are its variants. This is the only crate of the project with unsafe
//! code, and all of it is in `lanes.rs`.
#![deny(unsafe_op_in_unsafe_fn)]

pub mod axpy;
pub mod catalogue;
mod causal;
pub mod derivative;
pub mod dot;
mod error;
pub mod fft;
mod float;
pub mod fode;
mod fourier;
mod lanes;
mod matrix;
mod ops;
mod powers;
mod sample;
mod scratch;
pub mod sort;
mod team;

pub use axpy::axpy;
pub use derivative::{caputo_l1, grunwald_letnikov};
pub use dot::dot;
pub use error::{Error, ShapeError, ValueError};
pub use fft::{fft, ifft};
pub use float::Float;
pub use fode::fode;
pub use matrix::{Matrix, View};
pub use num_complex::Complex;
pub use ops::Ops;
pub use sort::sort;
