//! Logarithmic axes.

use std::fmt::Write as _;

/// Numbers as places along an axis.
pub(super) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// From the logarithms of the least and the largest number to the first and the last place.
    pub(super) fn new((low, high): (f64, f64), (from, to): (f64, f64)) -> Self {
        let (low, high) = match high - low {
            gap if gap > 1e-9 => (low, high),
            _ => (low - 1.0, low + 1.0),
        };
        Scale {
            low,
            high,
            from,
            to,
        }
    }

    pub(super) fn at(&self, value: f64) -> f64 {
        let share = (value.max(1e-12).ln() - self.low) / (self.high - self.low);
        self.from + share * (self.to - self.from)
    }

    /// Powers of ten within, with their exponents.
    pub(super) fn decades(&self) -> impl Iterator<Item = (i32, f64)> + '_ {
        let ten = std::f64::consts::LN_10;
        let first = (self.low / ten - 1e-9).ceil() as i32;
        let last = (self.high / ten + 1e-9).floor() as i32;
        (first..=last).map(|e| (e, self.at(10f64.powi(e))))
    }
}

/// The logarithms of the least and the largest of some numbers; `None` of nothing.
pub(super) fn bounds(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let logs = values.filter(|v| *v > 0.0).map(f64::ln);
    logs.fold(None, |bounds, ln| match bounds {
        None => Some((ln, ln)),
        Some((low, high)) => Some((ln.min(low), ln.max(high))),
    })
}

/// A path through points; `M` begins it anew.
pub(super) fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut out = String::new();
    for (i, (x, y)) in points.enumerate() {
        let letter = if i == 0 { 'M' } else { 'L' };
        let _ = write!(out, "{letter}{x:.1} {y:.1}");
    }
    out
}
