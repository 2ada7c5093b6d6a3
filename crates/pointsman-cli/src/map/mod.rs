//! `pointsman map`: which variant serves at which size, from what is known.

mod command;
mod picture;
mod print;

use std::collections::BTreeMap;

use pointsman::{Backend, Explanation, VariantReport};
use pointsman_ops::catalogue::Entry;
use serde::Serialize;

use crate::sizes::Sizes;

pub(crate) use command::Map as Command;

/// The decision maps of some ops.
#[derive(Serialize)]
#[serde(transparent)]
pub(crate) struct Map {
    pub(crate) ops: Vec<OpMap>,
}

/// Who serves an op at which size.
#[derive(Serialize)]
pub(crate) struct OpMap {
    pub(crate) op: String,
    /// What the numbers of a shape are.
    axes: &'static [&'static str],
    /// Sizes that were measured, in order; empty if nothing is known of the op.
    points: Vec<Point>,
    /// The sizes between the first and the last point, by who serves them.
    pub(crate) spans: Vec<Span>,
    /// How many times longer the reference would take, geometric mean over the points.
    over_reference: Option<f64>,
    /// The backend that is best if one has to serve all sizes, and how many times longer it takes.
    best_fixed: Option<Fixed>,
}

/// One measured size.
#[derive(Serialize)]
struct Point {
    size: usize,
    shape: Vec<usize>,
    chosen: String,
    backend: Backend,
    confidence: f64,
    /// Nanoseconds that each eligible variant is expected to take.
    predicted_ns: BTreeMap<String, f64>,
}

/// Sizes that one variant serves.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Span {
    /// The first and the last size, and their shapes.
    pub(crate) from: usize,
    pub(crate) to: usize,
    from_shape: Vec<usize>,
    to_shape: Vec<usize>,
    pub(crate) variant: String,
    pub(crate) backend: Backend,
}

#[derive(Serialize)]
struct Fixed {
    backend: Backend,
    over: f64,
}

impl Map {
    pub(crate) fn new(entries: &[&dyn Entry], sizes: Sizes) -> Result<Self, String> {
        let ops: Result<_, String> = entries.iter().map(|e| OpMap::new(*e, sizes)).collect();
        Ok(Map { ops: ops? })
    }
}

impl OpMap {
    fn new(entry: &dyn Entry, sizes: Sizes) -> Result<Self, String> {
        let mut points: Vec<(usize, Explanation)> = Vec::new();
        let mut shapes: Vec<Vec<usize>> = Vec::new();
        for size in sizes.all() {
            let shape = entry.of_size(size);
            let told = entry.explain(&shape)?;
            let measured = told.variants.iter().any(|v| v.eligible() && v.samples > 0);
            if measured && shapes.last() != Some(&shape) {
                shapes.push(shape);
                points.push((size, told));
            }
        }
        let spans = spans(entry, &points)?;
        Ok(OpMap {
            op: entry.name().to_owned(),
            axes: entry.axes(),
            spans,
            over_reference: over(explained(&points), reference),
            best_fixed: best_fixed(&points),
            points: points
                .iter()
                .zip(shapes)
                .map(|((size, told), shape)| Point::new(*size, shape, told))
                .collect(),
        })
    }
}

impl Point {
    fn new(size: usize, shape: Vec<usize>, told: &Explanation) -> Self {
        let eligible = told.variants.iter().filter(|v| v.eligible());
        Point {
            size,
            shape,
            chosen: told.chosen.clone(),
            backend: backend_of(told),
            confidence: told.confidence,
            predicted_ns: eligible
                .map(|v| (v.name.clone(), v.predicted.ns()))
                .collect(),
        }
    }
}

fn chosen(told: &Explanation) -> Option<&VariantReport> {
    told.variants.iter().find(|v| v.name == told.chosen)
}

fn backend_of(told: &Explanation) -> Backend {
    chosen(told).map_or(Backend::Scalar, |v| v.backend)
}

/// Who serves between the points: where two neighbours differ, the size from which on the second
/// serves is found by halving.
fn spans(entry: &dyn Entry, points: &[(usize, Explanation)]) -> Result<Vec<Span>, String> {
    let chosen = |size| Ok(entry.explain(&entry.of_size(size))?.chosen);
    let points: Vec<(usize, &str)> = points.iter().map(|(s, t)| (*s, &*t.chosen)).collect();
    let mut spans = Vec::new();
    for run in runs(&points, chosen)? {
        let told = entry.explain(&entry.of_size(run.known))?;
        spans.push(Span {
            from: run.from,
            to: run.to,
            from_shape: entry.of_size(run.from),
            to_shape: entry.of_size(run.to),
            variant: run.variant,
            backend: backend_of(&told),
        });
    }
    Ok(spans)
}

/// Sizes that one variant serves.
pub(crate) struct Run {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// A point among them.
    known: usize,
    pub(crate) variant: String,
}

/// The runs of sizes that one variant serves, from who serves at some sizes and who would at any.
pub(crate) fn runs(
    points: &[(usize, &str)],
    chosen: impl Fn(usize) -> Result<String, String>,
) -> Result<Vec<Run>, String> {
    let mut runs: Vec<Run> = Vec::new();
    for (size, variant) in points {
        let from = match runs.last_mut() {
            Some(last) if last.variant == *variant => {
                last.to = *size;
                continue;
            }
            Some(last) => {
                let (mut below, mut from) = (last.to, *size);
                while from - below > 1 {
                    let middle = below + (from - below) / 2;
                    if chosen(middle)? == *variant {
                        from = middle;
                    } else {
                        below = middle;
                    }
                }
                last.to = from - 1;
                from
            }
            None => *size,
        };
        runs.push(Run {
            from,
            to: *size,
            known: *size,
            variant: (*variant).to_owned(),
        });
    }
    Ok(runs)
}

/// How many times longer others take than the choice: geometric mean over the points. A point where
/// the other may not serve, or is the choice itself, counts as one.
fn over<'a>(
    points: impl Iterator<Item = &'a Explanation>,
    other: impl Fn(&'a Explanation) -> Option<&'a VariantReport>,
) -> Option<f64> {
    let ratio = |told: &'a Explanation| {
        let chosen = chosen(told)?.predicted.ns();
        Some(other(told)?.predicted.ns() / chosen)
    };
    let logs: Vec<f64> = points.map(|told| ratio(told).unwrap_or(1.0).ln()).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    (!logs.is_empty()).then(|| mean.exp())
}

/// The backend that is best if one has to serve all sizes, each with its best variant; where it has
/// none that may serve, the reference does.
fn best_fixed(points: &[(usize, Explanation)]) -> Option<Fixed> {
    let mut backends: Vec<Backend> = Vec::new();
    for variant in &points.first()?.1.variants {
        if !backends.contains(&variant.backend) {
            backends.push(variant.backend);
        }
    }
    let fixed = |backend: Backend| {
        let over = over(explained(points), |told| on(told, backend))?;
        Some(Fixed { backend, over })
    };
    backends
        .into_iter()
        .filter_map(fixed)
        .min_by(|a, b| a.over.total_cmp(&b.over))
}

/// The best variant of a backend that may serve, or the reference.
fn on(told: &Explanation, backend: Backend) -> Option<&VariantReport> {
    let variants = told.variants.iter();
    variants
        .filter(|v| v.eligible() && v.backend == backend)
        .min_by(|a, b| a.predicted.ns().total_cmp(&b.predicted.ns()))
        .or_else(|| reference(told))
}

fn reference(told: &Explanation) -> Option<&VariantReport> {
    told.variants.iter().find(|v| v.reference)
}

fn explained(points: &[(usize, Explanation)]) -> impl Iterator<Item = &Explanation> {
    points.iter().map(|(_, told)| told)
}
