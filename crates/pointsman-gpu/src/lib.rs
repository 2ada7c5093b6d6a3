//! GPUs as backends: which there are, what they hold, and how kernels run on them without ever
//! making a caller wait for ever.
//!
//! ```
//! use pointsman_gpu::{Kernel, gpus};
//!
//! static DOUBLE: Kernel = Kernel::new(
//!     "double",
//!     "struct Params { n: u32 }
//!      @group(0) @binding(0) var<uniform> p: Params;
//!      @group(0) @binding(1) var<storage, read_write> x: array<f32>;
//!      @compute @workgroup_size(64)
//!      fn main(@builtin(global_invocation_id) id: vec3<u32>) {
//!          if (id.x < p.n) { x[id.x] = 2.0 * x[id.x]; }
//!      }",
//!     1,
//! );
//!
//! for gpu in &gpus().found {
//!     let mut x = vec![1.5f32; 100];
//!     gpu.run(|job| {
//!         let held = job.upload(&x)?;
//!         job.dispatch(&DOUBLE, &[&held], &[100], [2, 1, 1])?;
//!         job.download(&held, &mut x)
//!     })?;
//!     assert_eq!(x[99], 3.0);
//! }
//! // On a machine without one, it says why.
//! assert!(!gpus().found.is_empty() || !gpus().missing.is_empty());
//! # Ok::<(), pointsman_gpu::Error>(())
//! ```
//!
//! A [`Gpu`] makes its device when it is first needed, makes another one if that is lost, and rests
//! for longer and longer if that one is lost, too. Waits are bounded, buffers and pipelines are
//! kept for the next call, within bounds, and every error of the driver is a value: see [`Error`].

mod array;
mod calibrate;
mod compile;
mod device;
mod error;
mod exit;
mod found;
mod info;
mod job;
mod kernel;
pub mod kernels;
mod memory;
mod pool;

pub use array::DeviceArray;
pub use calibrate::Measured;
pub use compile::Prepared;
pub use error::Error;
pub use found::{Gpus, gpus, open};
pub use info::{Info, Kind};
pub use job::Job;
pub use kernel::Kernel;
pub use memory::{Free, GpuMemory, Source};
pub use pool::Held;

pub use crate::device::Gpu;
