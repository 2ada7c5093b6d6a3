//! Products of matrices.

use super::{count, counts, holds, kernel, launch};
use crate::error::Error;
use crate::job::Job;
use crate::kernel::Kernel;
use crate::pool::Held;

/// The kernel of [`Product::Registers`].
pub static REGISTERS: Kernel = kernel!("matmul_registers_f32", 3, "registers.wgsl", "put.wgsl");

/// The kernel of [`Product::Tiles`].
pub static TILES: Kernel = kernel!("matmul_tiles_f32", 3, "tiles.wgsl", "put.wgsl");

/// The kernel that lays matrices out in whole quads, for [`Product::Registers`] and
/// [`conv2d`](super::conv2d()).
pub static PAD: Kernel = kernel!("pad_f32", 2, "pad.wgsl");

/// How matrices are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Product {
    /// Each invocation computes a block of the result in registers, and nothing is shared: for
    /// devices that compute on the CPU, where to share is as slow as to load. Needs [`REGISTERS`]
    /// and [`PAD`].
    Registers,
    /// Each workgroup computes a tile of the result from tiles of the others that its invocations
    /// share: for GPUs of silicon. Needs [`TILES`].
    Tiles,
}

/// C ← A B for A of m rows and k columns and B of k rows and n columns, row by row.
pub fn matmul(
    job: &mut Job<'_>,
    product: Product,
    a: &Held,
    b: &Held,
    c: &Held,
    [m, k, n]: [usize; 3],
) -> Result<(), Error> {
    let (kernel, rows, columns) = match product {
        Product::Registers => (&REGISTERS, ROWS, COLUMNS),
        Product::Tiles => (&TILES, TILE, TILE),
    };
    let name = kernel.name();
    for (what, held, sizes) in [("a", a, [m, k]), ("b", b, [k, n]), ("c", c, [m, n])] {
        holds(kernel, what, held, counts(name, &sizes)?)?;
    }
    if m == 0 || n == 0 {
        return Ok(());
    }
    let [m, k, n] = [count(name, m)?, count(name, k)?, count(name, n)?];
    let across = n.div_ceil(columns);
    let tiles = counts(name, &[m.div_ceil(rows) as usize, across as usize])?;
    match product {
        Product::Registers => {
            // Its loads are of four elements of a row each, which must be there.
            let whole = k % 4 == 0;
            let a = &padded(job, a, [m, k], whole)?;
            let b = &padded(job, b, [k, n], whole && n % 4 == 0)?;
            let params = [m, k.div_ceil(4), n, n.div_ceil(4), across, tiles];
            launch(job, kernel, &[a, b, c], &params, tiles)
        }
        Product::Tiles => {
            let params = [m, k, n, across, tiles];
            launch(job, kernel, &[a, b, c], &params, tiles)
        }
    }
}

/// Rows and columns of the result that a workgroup of [`REGISTERS`] computes: eight blocks of 16 by 16
/// side by side. On lavapipe (Mesa 22.3, Zen 3), n = 256, a second of one core made so many GFLOP with
/// blocks of 4×4 0.5, 8×8 1.0, 8×16 1.3, 16×8 1.4, 16×16 1.9; below each other 8×8 made 0.7.
const ROWS: u32 = 16;
const COLUMNS: u32 = 128;

/// Rows and columns of a tile of [`TILES`]: 8.3 KiB are shared, half of what every device has.
const TILE: u32 = 64;

/// A matrix in whole quads: itself if it is, or a copy with zeros.
pub(super) fn padded(
    job: &mut Job<'_>,
    x: &Held,
    [rows, columns]: [u32; 2],
    whole: bool,
) -> Result<Held, Error> {
    match whole {
        true => Ok(x.clone()),
        false => pad(job, x, [rows, columns], [columns, 1]),
    }
}

/// A copy of a matrix with zeros, up to multiples of four in both directions. From one of its
/// elements to the next it is `down` or `right` elements.
pub(super) fn pad(
    job: &mut Job<'_>,
    x: &Held,
    [rows, columns]: [u32; 2],
    [down, right]: [u32; 2],
) -> Result<Held, Error> {
    let (all, quads) = (rows.next_multiple_of(4), columns.div_ceil(4));
    let elements = counts(PAD.name(), &[4, all as usize, quads as usize])?;
    let y = job.room::<f32>(elements as usize)?;
    let params = [rows, columns, down, right, all, quads];
    let groups = (elements / 4).div_ceil(PADDED);
    launch(job, &PAD, &[x, &y], &params, groups)?;
    Ok(y)
}

/// Quads that a workgroup of [`PAD`] writes.
const PADDED: u32 = 64;
