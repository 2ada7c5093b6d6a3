//! What choosing costs, and what it is worth on real ops, measured beside the usual designs in one
//! run.
//!
//! ```no_run
//! let overhead = pointsman_benchmarks::Overhead::measure(400)?;
//! println!("{overhead}");
//! # Ok::<(), pointsman_benchmarks::OverheadError>(())
//! ```
#![deny(unsafe_code)]

mod foreign;
mod kernels;
mod new_cell;
mod oracle;
mod overhead;
mod report;
mod rivals;
mod timing;
mod traced;

pub use kernels::{Bar, Kernels, Reached};
pub use oracle::{Oracle, Stream};
pub use overhead::OverheadError;
#[doc(hidden)]
pub use overhead::call;
pub use report::{Overhead, Rival, Rivals};

/// Whether a benchmark was started by `cargo test`, or with `--test`: then it only has to work.
#[doc(hidden)]
pub fn only_has_to_work() -> bool {
    let has = |wanted: &str| std::env::args().any(|arg| arg == wanted);
    has("--test") || !has("--bench")
}
