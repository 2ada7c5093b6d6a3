//! The line through the workloads of an op along which it is drawn, and how far along it a workload
//! lies.

use pointsman::{Explanation, Selector, Workload};
use pointsman_ops::catalogue::Entry;

use super::cells::Measured;

/// How large a workload is: the product of its positive features. What the charts have from left to
/// right.
pub(super) fn extent(features: &[f64]) -> f64 {
    let product: f64 = features.iter().filter(|f| **f > 0.0).product();
    product.clamp(1e-9, 1e30)
}

/// How far a feature may be from the line, as a factor, to be said to lie on it: two cells.
const NEAR: f64 = 1.27;

/// Workloads of an op by one number, larger ones at larger numbers.
pub(super) trait Line {
    /// The workload at this size.
    fn workload(&self, size: usize) -> Result<Workload, String>;
    /// Who would serve it, and why.
    fn explain(&self, size: usize) -> Result<Explanation, String>;
    /// The workload in words.
    fn label(&self, size: usize) -> String;
    /// What the line is, in words.
    fn describe(&self) -> String;

    /// Sizes on it, `per_octave` for each power of two, whose workloads lie between two extents.
    fn sizes(&self, from: f64, to: f64, per_octave: u32) -> Result<Vec<usize>, String> {
        let mut sizes: Vec<usize> = Vec::new();
        let mut last: Option<Vec<f64>> = None;
        for step in 0..=MOST_OCTAVES * per_octave {
            let size = (f64::from(step) / f64::from(per_octave)).exp2().round() as usize;
            let workload = self.workload(size)?;
            let at = extent(workload.features());
            if at > to * 1.01 {
                break;
            }
            if at >= from / 1.01 && last.as_deref() != Some(workload.features()) {
                last = Some(workload.features().to_vec());
                sizes.push(size);
            }
        }
        Ok(sizes)
    }

    /// Whether a cell lies on it.
    fn holds(&self, cell: &Workload, near: &[Workload]) -> bool {
        let at = extent(cell.features());
        let apart = |w: &&Workload| (extent(w.features()) / at).ln().abs();
        let Some(here) = near.iter().min_by(|a, b| apart(a).total_cmp(&apart(b))) else {
            return false;
        };
        // What the nearest one misses along the line is no distance from it.
        let slack = NEAR * apart(&here).exp();
        same_kind(here, cell)
            && here.features().len() == cell.features().len()
            && here.features().iter().zip(cell.features()).all(|(a, b)| {
                let ratio = (a.abs().max(0.5) / b.abs().max(0.5)).ln().abs();
                a.signum() == b.signum() && ratio <= slack.ln()
            })
    }
}

/// The largest power of two that a line is followed to.
const MOST_OCTAVES: u32 = 40;

/// Whether two workloads differ in numbers only.
pub(super) fn same_kind(a: &Workload, b: &Workload) -> bool {
    a.element_type() == b.element_type()
        && a.category_codes() == b.category_codes()
        && a.needs_gradient() == b.needs_gradient()
        && a.is_iterative() == b.is_iterative()
        && a.location() == b.location()
}

/// An op of the catalogue, along its typical shapes.
pub(super) struct Typical<'a>(pub(super) &'a dyn Entry);

impl Line for Typical<'_> {
    fn workload(&self, size: usize) -> Result<Workload, String> {
        self.0.workload(&self.0.of_size(size))
    }

    fn explain(&self, size: usize) -> Result<Explanation, String> {
        self.0.explain(&self.0.of_size(size))
    }

    fn label(&self, size: usize) -> String {
        let shape: Vec<f64> = self.0.of_size(size).iter().map(|n| *n as f64).collect();
        super::text::shape(&shape)
    }

    fn describe(&self) -> String {
        match self.0.axes() {
            [one] => format!("by {one}"),
            axes => format!(
                "along typical shapes ({}), by the product of the features",
                axes.join(" × ")
            ),
        }
    }
}

/// Any other op, along the trend of the cells in which it was measured: each feature as a power of
/// the product of all.
pub(super) struct Trend<'a> {
    selector: &'a Selector,
    op: &'a str,
    variants: Vec<&'a str>,
    like: Workload,
    /// Offset and slope of the log of each positive feature; others stay as they are.
    features: Vec<Feature>,
    /// Log extent, log flops and log bytes of the cells, in order.
    work: Vec<[f64; 3]>,
}

struct Feature {
    offset: f64,
    slope: f64,
    whole: bool,
    fixed: Option<f64>,
}

impl<'a> Trend<'a> {
    /// The trend of the cells of the most common kind; `None` if there is no cell.
    pub(super) fn new(
        selector: &'a Selector,
        op: &'a str,
        variants: Vec<&'a str>,
        cells: &[Measured],
    ) -> Option<Self> {
        let alike = |a: &Workload, b: &Workload| {
            same_kind(a, b) && a.features().len() == b.features().len()
        };
        let count = |c: &&Measured| {
            cells
                .iter()
                .filter(|o| alike(&c.workload, &o.workload))
                .count()
        };
        let like = cells.iter().rev().max_by_key(count)?.workload;
        let kind: Vec<&Measured> = cells.iter().filter(|c| alike(&c.workload, &like)).collect();
        let extents: Vec<f64> = kind.iter().map(|c| c.extent.ln()).collect();
        let features = (0..like.features().len())
            .map(|i| {
                let values: Vec<f64> = kind.iter().map(|c| c.workload.features()[i]).collect();
                Feature::fit(&extents, &values)
            })
            .collect();
        let mut work: Vec<[f64; 3]> = kind
            .iter()
            .map(|c| [c.extent.ln(), c.flops.max(1.0).ln(), c.bytes.max(1.0).ln()])
            .collect();
        work.sort_by(|a, b| a[0].total_cmp(&b[0]));
        Some(Trend {
            selector,
            op,
            variants,
            like,
            features,
            work,
        })
    }

    /// Flops or bytes at a log extent, between those of the nearest cells.
    fn work(&self, at: f64, which: usize) -> f64 {
        let above = self.work.partition_point(|w| w[0] < at);
        let (Some(high), Some(low)) = (
            self.work.get(above).or(self.work.last()),
            self.work[..above].last().or(self.work.first()),
        ) else {
            return 0.0;
        };
        let share = match high[0] - low[0] {
            gap if gap > 0.0 => (at - low[0]) / gap,
            _ => 0.0,
        };
        let ln = low[which] + share * (high[which] - low[which]);
        if ln > 0.0 { ln.exp() } else { 0.0 }
    }
}

impl Feature {
    /// The straight line through log values by the median of all slopes: a few shapes apart from the
    /// others do not tilt it.
    fn fit(extents: &[f64], values: &[f64]) -> Self {
        let whole = values.iter().all(|v| v.fract() == 0.0);
        let mut feature = Feature {
            offset: 0.0,
            slope: 0.0,
            whole,
            fixed: None,
        };
        if values.iter().any(|v| *v <= 0.0) {
            feature.fixed = median(values.to_vec());
            return feature;
        }
        let logs: Vec<f64> = values.iter().map(|v| v.ln()).collect();
        // Some hundred cells say as much as thousands would.
        let thin = logs.len().div_ceil(MOST_FITTED);
        let points: Vec<(f64, f64)> = extents.iter().copied().zip(logs).step_by(thin).collect();
        let mut slopes = Vec::new();
        for (i, (x, y)) in points.iter().enumerate() {
            for (other_x, other_y) in &points[..i] {
                if (x - other_x).abs() > 0.1 {
                    slopes.push((y - other_y) / (x - other_x));
                }
            }
        }
        feature.slope = median(slopes).unwrap_or(0.0);
        let offsets = points.iter().map(|(x, y)| y - feature.slope * x).collect();
        feature.offset = median(offsets).unwrap_or(0.0);
        feature
    }

    fn at(&self, ln_extent: f64) -> f64 {
        if let Some(fixed) = self.fixed {
            return fixed;
        }
        let value = (self.offset + self.slope * ln_extent).exp();
        if self.whole {
            value.round().max(1.0)
        } else {
            value
        }
    }
}

/// Most cells that a trend is fitted to: the pairs of them are many.
const MOST_FITTED: usize = 200;

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

impl Line for Trend<'_> {
    fn workload(&self, size: usize) -> Result<Workload, String> {
        let at = (size.max(1) as f64).ln();
        let features: Vec<f64> = self.features.iter().map(|f| f.at(at)).collect();
        let mut workload = Workload::from_slice(&features)
            .and_then(|w| w.codes_from_slice(self.like.category_codes()))
            .map_err(|error| error.to_string())?
            .dtype(self.like.element_type())
            .gradient(self.like.needs_gradient())
            .iterative(self.like.is_iterative())
            .located(self.like.location());
        let (flops, bytes) = (self.work(at, 1), self.work(at, 2));
        if flops > 0.0 {
            workload = workload.flops(flops);
        }
        if bytes > 0.0 {
            workload = workload.bytes(bytes);
        }
        Ok(workload)
    }

    fn explain(&self, size: usize) -> Result<Explanation, String> {
        let told = self
            .selector
            .explain(self.op, &self.workload(size)?, &self.variants);
        told.ok_or_else(|| "there are more ops than a selector knows".to_owned())
    }

    fn label(&self, size: usize) -> String {
        let workload = self.workload(size);
        workload.map_or_else(|_| size.to_string(), |w| super::text::shape(w.features()))
    }

    fn describe(&self) -> String {
        match self.features.len() {
            0 => "its workloads have no size".to_owned(),
            1 => "by its only feature".to_owned(),
            _ => "along the trend of the measured workloads, by the product of their features"
                .to_owned(),
        }
    }
}
