//! Convolution of images with filters.

use super::matmul::pad;
use super::{count, counts, holds, kernel, launch};
use crate::error::Error;
use crate::job::Job;
use crate::kernel::Kernel;
use crate::pool::Held;

/// The kernel of [`conv2d()`], which needs [`PAD`](super::PAD), too.
pub static CONV2D: Kernel = kernel!("conv2d_f32", 3, "conv2d.wgsl");

/// Positions of a workgroup.
const PER_GROUP: u32 = 256;

/// The sizes of a convolution: `n` images of `c` channels, each `h` by `w`, with `k` filters of `r`
/// rows and `s` columns for each channel, which move by `stride` over images with `padding` zeros on
/// every side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Sizes {
    pub n: usize,
    pub c: usize,
    pub h: usize,
    pub w: usize,
    pub k: usize,
    pub r: usize,
    pub s: usize,
    pub stride: usize,
    pub padding: usize,
}

impl Sizes {
    /// Positions of a filter, from top to bottom and from left to right; none where it is larger
    /// than a padded image.
    fn positions(&self) -> Result<[usize; 2], Error> {
        if self.stride == 0 {
            return Err(Error::Refused(
                "conv2d_f32 with a stride of 0; 1 is the least".to_owned(),
            ));
        }
        let along = |image: usize, filter: usize| {
            let padded = image.saturating_add(self.padding.saturating_mul(2));
            // Kernels compute positions on padded images.
            count("a row or column of a padded image of conv2d_f32", padded)?;
            let free = padded.checked_sub(filter);
            Ok(free.map_or(0, |free| free / self.stride + 1))
        };
        Ok([along(self.h, self.r)?, along(self.w, self.s)?])
    }
}

/// Slides every filter over every image, without turning it. Images are in the order n, c, h, w,
/// filters in the order k, c, r, s, and the result is in the order of images, filters, rows and
/// columns.
pub fn conv2d(
    job: &mut Job<'_>,
    x: &Held,
    filters: &Held,
    y: &Held,
    sizes: &Sizes,
) -> Result<(), Error> {
    let Sizes { n, c, h, w, k, .. } = *sizes;
    let [rows, columns] = sizes.positions()?;
    let what = CONV2D.name();
    let outputs = counts(what, &[n, k, rows, columns])?;
    if outputs == 0 {
        return Ok(());
    }
    let depth = counts(what, &[c, sizes.r, sizes.s])?;
    holds(&CONV2D, "x", x, counts(what, &[n, c, h, w])?)?;
    let weights = counts(what, &[k, c, sizes.r, sizes.s])?;
    holds(&CONV2D, "filters", filters, weights)?;
    holds(&CONV2D, "y", y, outputs)?;
    let fits = |size: usize| count(what, size);
    let (k, rows, columns) = (fits(k)?, fits(rows)?, fits(columns)?);
    let turned = pad(job, filters, [depth, k], [1, depth])?;
    let chunks = (rows * columns).div_ceil(PER_GROUP);
    // A stride that leaves the image at once need not be counted.
    let stride = fits(sizes.stride).unwrap_or(1);
    let (r, s, padding) = (fits(sizes.r)?, fits(sizes.s)?, fits(sizes.padding)?);
    let params = [
        [fits(n)?, fits(c)?, fits(h)?, fits(w)?],
        [k, r, s, stride],
        [padding, rows, columns, chunks],
        [k.div_ceil(4), 0, 0, 0],
    ];
    let groups = counts(what, &[n, k.div_ceil(8) as usize, chunks as usize])?;
    launch(
        job,
        &CONV2D,
        &[x, &turned, y],
        params.as_flattened(),
        groups,
    )
}
