//! Operations on scalar, vector and threaded backends that choose among their variants by
//! themselves.
//!
//! ```
//! use pointsman_ops as ops;
//!
//! let (x, mut y) = (vec![1.0; 1000], vec![2.0; 1000]);
//! ops::axpy(3.0, &x, &mut y)?; // y += 3 x
//! assert_eq!(ops::dot(&x, &y)?, 5000.0);
//!
//! let a = ops::Matrix::new(2, 2, vec![1.0, 2.0, 3.0, 4.0])?;
//! let square = ops::matmul(&a, &a)?; // whichever of its variants is fastest here
//! assert_eq!(square.elements(), [7.0, 10.0, 15.0, 22.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The functions share one [`Selector`](pointsman::Selector); [`Ops`] declares the same ops on a
//! selector of yours, as handles that plan, explain and count.
//!
//! Each op is a folder: `mod.rs` declares it and how its variants are checked against the
//! reference, the other files are its variants. Most ops have one kernel, from which `variants.rs`
//! makes the variants `simd`, `avx512` and `threads`. This is the only crate of the project with
//! unsafe code, and all of it is in `lanes.rs` and `product.rs`.
#![deny(unsafe_op_in_unsafe_fn)]

pub mod add;
pub mod axpy;
pub mod catalogue;
mod causal;
pub mod conv2d;
pub mod dense;
pub mod derivative;
pub mod dot;
mod each;
mod error;
pub mod exp;
pub mod fft;
mod float;
pub mod fode;
mod fold;
mod fourier;
#[cfg(feature = "gpu")]
pub mod gpu;
mod lanes;
pub mod matmul;
mod matrix;
pub mod matvec;
pub mod norm;
mod ops;
mod powers;
mod product;
pub mod relu;
mod sample;
pub mod scale;
mod scratch;
pub mod sort;
mod sparse;
pub mod spmv;
pub mod sum;
mod team;
mod tile;
#[cfg(feature = "trueno")]
mod trueno;
mod variants;

pub use add::add;
pub use axpy::axpy;
pub use conv2d::conv2d;
pub use dense::{dense, dense_backward};
pub use derivative::{caputo_l1, grunwald_letnikov};
pub use dot::dot;
pub use error::{Error, ShapeError, ValueError};
pub use exp::exp;
pub use fft::{fft, ifft};
pub use float::Float;
pub use fode::fode;
pub use matmul::matmul;
pub use matrix::{Matrix, View};
pub use matvec::matvec;
pub use norm::norm;
pub use num_complex::Complex;
pub use ops::Ops;
pub use relu::relu;
pub use scale::scale;
pub use sort::sort;
pub use sparse::{Csr, CsrError};
pub use spmv::spmv;
pub use sum::sum;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/coming-from.md")]
struct ComingFrom;
