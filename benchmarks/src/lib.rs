//! What choosing costs, measured beside the usual designs in one run.
//!
//! ```no_run
//! let overhead = pointsman_benchmarks::Overhead::measure(400)?;
//! println!("{overhead}");
//! # Ok::<(), pointsman_benchmarks::OverheadError>(())
//! ```
#![forbid(unsafe_code)]

mod overhead;
mod report;
mod rivals;
mod timing;

pub use overhead::OverheadError;
#[doc(hidden)]
pub use overhead::call;
pub use report::{Overhead, Rival, Rivals};
