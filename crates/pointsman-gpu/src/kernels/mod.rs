//! Ready kernels in `f32`, over data that is on a GPU already.
//!
//! Each function adds its work to a [`Job`] and returns; what it needs beside its arguments it takes
//! from the pool. A result must not be one of the other arguments, unless it says so.
//!
//! ```
//! use pointsman_gpu::{gpus, kernels};
//!
//! for gpu in &gpus().found {
//!     let mut sum = [0.0f32];
//!     gpu.run(|job| {
//!         let (x, y) = (job.upload(&[1.0f32, 2.0])?, job.upload(&[3.0f32, 4.0])?);
//!         let result = job.room::<f32>(1)?;
//!         kernels::dot(job, &x, &y, &result, 2)?;
//!         job.download(&result, &mut sum)
//!     })?;
//!     assert_eq!(sum, [11.0]);
//! }
//! # Ok::<(), pointsman_gpu::Error>(())
//! ```
//!
//! A GPU may fuse a multiplication with an addition, may take denormal numbers for zeros, and adds
//! in an order of its own; other than that, rounding and what is not finite are as on the CPU.
//!
//! Most of a kernel's time on a device that computes on the CPU goes into loads and stores, which
//! such drivers do lane by lane. So kernels move four elements at a time and keep in registers what
//! they can; barriers, which are as dear there, are left to sums and to [`Product::Tiles`].

mod causal;
mod conv2d;
mod dense;
mod elementwise;
mod fft;
mod matmul;
mod matvec;
mod reduce;

pub use causal::{CAUSAL, causal};
pub use conv2d::{CONV2D, Sizes, conv2d};
pub use dense::{BIAS, dense};
pub use elementwise::{ADD, AXPY, RELU, SCALE, add, axpy, relu, scale};
pub use fft::{FFT, fft, roots};
pub use matmul::{PAD, Product, REGISTERS, TILES, matmul};
pub use matvec::{MATVEC, matvec};
pub use reduce::{DOT, SUM, dot, sum};

use crate::error::Error;
use crate::job::Job;
use crate::kernel::Kernel;
use crate::pool::Held;

static ALL: [&Kernel; 14] = [
    &ADD, &AXPY, &BIAS, &CAUSAL, &CONV2D, &DOT, &FFT, &MATVEC, &PAD, &REGISTERS, &RELU, &SCALE,
    &SUM, &TILES,
];

/// All of them, to be prepared at once.
pub fn all() -> &'static [&'static Kernel] {
    &ALL
}

/// A kernel that numbers its workgroups over two dimensions of the grid.
macro_rules! kernel {
    ($name:literal, $buffers:literal, $($part:literal),+) => {
        $crate::kernel::Kernel::new(
            $name,
            concat!(include_str!("group.wgsl"), $(include_str!($part)),+),
            $buffers,
        )
    };
}
use kernel;

/// A number of elements as kernels count.
fn count(what: &str, n: usize) -> Result<u32, Error> {
    // Indices are rounded up to whole workgroups on the way, and must not wrap.
    let most = u32::MAX / 2;
    u32::try_from(n)
        .ok()
        .filter(|n| *n <= most)
        .ok_or_else(|| Error::Refused(format!("{what} of {n} elements; {most} is the most")))
}

/// The product of sizes as kernels count.
fn counts(what: &str, sizes: &[usize]) -> Result<u32, Error> {
    let product = sizes.iter().try_fold(1usize, |all, n| all.checked_mul(*n));
    // What overflows may have a zero behind it.
    let product = match sizes.contains(&0) {
        true => 0,
        false => product.unwrap_or(usize::MAX),
    };
    count(what, product)
}

/// Whether a buffer holds so many elements.
fn holds(kernel: &Kernel, what: &str, held: &Held, elements: u32) -> Result<(), Error> {
    let needs = u64::from(elements) * size_of::<f32>() as u64;
    if held.bytes() >= needs {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "{what} of {} in a buffer of {} bytes; {elements} elements need {needs}",
        kernel.name(),
        held.bytes()
    )))
}

/// Runs a kernel in so many workgroups, in two dimensions if they are too many for one. The last
/// buffer is its result.
fn launch(
    job: &mut Job<'_>,
    kernel: &'static Kernel,
    buffers: &[&Held],
    params: &[u32],
    groups: u32,
) -> Result<(), Error> {
    if groups == 0 {
        return Ok(());
    }
    if let Some((result, others)) = buffers.split_last()
        && others.iter().any(|held| held.buffer() == result.buffer())
    {
        return Err(Error::Refused(format!(
            "the result of {} in the buffer of an argument; it needs one of its own",
            kernel.name()
        )));
    }
    let grid = grid(groups, job.most_groups());
    job.dispatch(kernel, buffers, params, grid)
}

/// As even as can be: there may be fewer workgroups too many than there are rows.
fn grid(groups: u32, most: u32) -> [u32; 3] {
    let rows = groups.div_ceil(most.max(1)).max(1);
    [groups.div_ceil(rows), rows, 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_hold_all_groups_and_hardly_more() {
        for most in [1, 7, 65_535] {
            for groups in [1, 6, 7, 8, 48, 49, 50, 65_535, 65_536, 131_071, 4_000_000] {
                let [x, y, z] = grid(groups, most);
                let all = u64::from(x) * u64::from(y);
                assert!(x <= most && z == 1, "{groups} by {most}: {x} {y}");
                assert!(
                    (u64::from(groups)..u64::from(groups) + u64::from(y)).contains(&all),
                    "{groups} by {most}: {x} {y}"
                );
            }
        }
    }

    #[test]
    fn sizes_that_cannot_be_counted_are_refused_with_their_value() {
        assert_eq!(counts("x", &[3, 5]), Ok(15));
        assert_eq!(counts("x", &[usize::MAX, 2, 0]), Ok(0));
        for sizes in [[1 << 20, 1 << 12], [usize::MAX, 2]] {
            let error = counts("x", &sizes).unwrap_err().to_string();
            assert!(
                error.contains("x of") && error.contains("2147483647"),
                "{error}"
            );
        }
    }

    #[test]
    fn every_kernel_has_a_name_of_its_own() {
        let mut names: Vec<_> = all().iter().map(|kernel| kernel.name()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn without_parameters_nothing_is_touched() {
        let gpus = crate::open(std::time::Duration::from_secs(120));
        let Some(gpu) = gpus.found.first() else {
            return println!("SKIPPED, no GPU: {:?}", gpus.missing);
        };
        for kernel in all() {
            let (old, mut new) = ([0x3f9e_0652_u32; 64], [0; 64]);
            gpu.run(|job| {
                let mut held = Vec::new();
                for _ in 0..kernel.buffers {
                    held.push(job.upload(&old)?);
                }
                let buffers: Vec<&Held> = held.iter().collect();
                job.dispatch(kernel, &buffers, &[0; 16], [2, 2, 1])?;
                for held in &held {
                    job.download(held, &mut new)?;
                    assert_eq!(old, new, "{}", kernel.name());
                }
                Ok(())
            })
            .unwrap();
        }
    }
}
