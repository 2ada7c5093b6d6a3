//! What is convolved with what.

use pointsman::Workload;

use crate::ShapeError;

/// The sizes of a convolution: `n` images of `c` channels, each `h` by `w`, with `k` filters of `r`
/// rows and `s` columns for each channel.
///
/// The filters move by `stride` over images with `padding` zeros on every side. Where a filter is
/// larger than a padded image there is no position for it, and the output is empty.
///
/// ```
/// use pointsman_ops::conv2d::Shape;
///
/// let shape = Shape { n: 1, c: 3, h: 32, w: 32, k: 8, r: 3, s: 3, stride: 2, padding: 1 };
/// assert_eq!(shape.output(), [1, 8, 16, 16]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Shape {
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

/// Elements of the smallest filter that is worth a transform: 7×7. With filters of 5×5 it took
/// 2.5 to 11 times as long as the best other variant, with 1 to 64 channels.
const LARGE: usize = 49;

impl Shape {
    /// The shape of the images.
    pub fn input(&self) -> [usize; 4] {
        [self.n, self.c, self.h, self.w]
    }

    /// The shape of the filters.
    pub fn filters(&self) -> [usize; 4] {
        [self.k, self.c, self.r, self.s]
    }

    /// The shape of the result.
    pub fn output(&self) -> [usize; 4] {
        [self.n, self.k, self.rows(), self.columns()]
    }

    /// Positions of a filter from top to bottom.
    pub(super) fn rows(&self) -> usize {
        self.positions(self.h, self.r)
    }

    /// Positions of a filter from left to right.
    pub(super) fn columns(&self) -> usize {
        self.positions(self.w, self.s)
    }

    fn positions(&self, image: usize, filter: usize) -> usize {
        let padded = image.saturating_add(self.padding.saturating_mul(2));
        match padded.checked_sub(filter) {
            Some(free) => (free / self.stride.max(1)).saturating_add(1),
            None => 0,
        }
    }

    /// Elements of one channel of the result.
    pub(super) fn plane(&self) -> usize {
        self.rows() * self.columns()
    }

    /// Elements of one image.
    pub(super) fn image(&self) -> usize {
        self.c * self.h * self.w
    }

    /// Elements of one filter: what each element of the result is a sum of.
    pub(super) fn depth(&self) -> usize {
        self.c * self.r * self.s
    }

    /// Floating-point operations, with those on padding.
    pub(super) fn flops(&self) -> f64 {
        let [n, k, rows, columns] = self.output().map(|n| n as f64);
        2.0 * n * k * rows * columns * self.c as f64 * self.r as f64 * self.s as f64
    }

    /// Whether the filters are those that [`winograd`](super::winograd) is made for.
    pub(super) fn is_three_by_three(&self) -> bool {
        (self.r, self.s, self.stride) == (3, 3, 1)
    }

    /// Whether the filters are those that [`fft`](super::fft) is made for.
    pub(super) fn suits_spectra(&self) -> bool {
        let large = self.r.saturating_mul(self.s) >= LARGE;
        large && self.stride == 1 && self.rows() > 0 && self.columns() > 0
    }

    pub(super) fn features(&self) -> [usize; 9] {
        let Shape { n, c, h, w, .. } = *self;
        [
            n,
            c,
            h,
            w,
            self.k,
            self.r,
            self.s,
            self.stride,
            self.padding,
        ]
    }

    pub(super) fn from_features(features: [usize; 9]) -> Self {
        let [n, c, h, w, k, r, s, stride, padding] = features;
        Shape {
            n,
            c,
            h,
            w,
            k,
            r,
            s,
            stride,
            padding,
        }
    }

    /// The shape that a workload of this op tells.
    pub(super) fn of(workload: &Workload) -> Self {
        let mut features = [0; 9];
        for (slot, feature) in features.iter_mut().zip(workload.features()) {
            *slot = *feature as usize;
        }
        Shape::from_features(features)
    }

    /// Whether so many elements of images, filters and result are right.
    pub(super) fn check(&self, x: usize, weights: usize, y: usize) -> Result<(), ShapeError> {
        let wrong =
            |one: &[usize], other: &[usize], rule| Err(ShapeError::new("conv2d", one, other, rule));
        if self.stride == 0 {
            let rule = "the stride (the last number) must be at least 1";
            return wrong(&self.filters(), &[self.stride], rule);
        }
        for (shape, len, rule) in [
            (self.input(), x, "the images must have n c h w elements"),
            (
                self.filters(),
                weights,
                "the filters must have k c r s elements",
            ),
            (
                self.output(),
                y,
                "the output must have an element per image, filter and position",
            ),
        ] {
            if product(&shape) != Some(len) {
                return wrong(&shape, &[len], rule);
            }
        }
        Ok(())
    }
}

/// How many elements a shape has, if a machine can count them.
pub(super) fn product(shape: &[usize; 4]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape
        .iter()
        .try_fold(1, |all: usize, n| all.checked_mul(*n))
}
