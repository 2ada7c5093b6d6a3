//! What the first call in a new cell costs, which nothing published can answer.

use std::hint::black_box;
use std::time::{Duration, Instant};

use pointsman::{BuildError, Calibration, FakeClock, Outcome, Selector, Workload};

use crate::timing::median;

const OP: &str = "new_cell";

/// Cells that are known, and calls in each.
const CELLS: u32 = 1_000;
const VISITS: u32 = 3;

/// Decisions in new cells that are timed.
const NEW: u32 = 201;

const CANDIDATES: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

/// Median of the nanoseconds that `decide` takes in a cell never seen, with 1,000 cells known and ten
/// candidates. Nothing that could be reused from the cell before it is near.
pub(crate) fn new_cell_ns() -> Result<f64, BuildError> {
    let clock = FakeClock::new();
    let selector = Selector::builder()
        .in_memory()
        .ignore_environment()
        .calibration(Calibration::nominal())
        .clock(clock.clone())
        .seed(0)
        .build()?;
    for call in 0..CELLS * VISITS {
        let sizes = sizes(call % CELLS);
        let decision = selector.decide(OP, &Workload::new(sizes), &CANDIDATES);
        let ns = cost_ns(sizes, decision.index());
        clock.advance(ns);
        selector.record(&decision, Outcome::took(ns));
    }
    let decide = |cell| {
        let workload = Workload::new(sizes(cell));
        let start = Instant::now();
        black_box(selector.decide(OP, black_box(&workload), &CANDIDATES));
        start.elapsed().as_nanos() as f64
    };
    Ok(median((CELLS..CELLS + NEW).map(decide).collect()))
}

/// Three sizes of up to 2^20 each, spread evenly: no two in one cell, but for a few.
fn sizes(cell: u32) -> [usize; 3] {
    // Multiples of irrational numbers, as in a quasi-random sequence.
    [0.819_172_5, 0.671_043_6, 0.549_700_5].map(|step: f64| {
        let octaves = 20.0 * (f64::from(cell) * step).fract();
        octaves.exp2() as usize
    })
}

/// A launch cost and a cost per element: one grows where the other falls, so that the fastest changes
/// with the size.
fn cost_ns(sizes: [usize; 3], variant: usize) -> Duration {
    let work: f64 = sizes.iter().map(|s| *s as f64).sum();
    let launch = 1_000.0 * 2f64.powi(variant as i32);
    Duration::from_nanos((launch + work * 20.0 / (1 + variant) as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cells_differ_and_so_does_the_fastest() {
        let mut cells: Vec<[usize; 3]> = (0..CELLS + NEW).map(sizes).collect();
        cells.sort_unstable();
        cells.dedup();
        assert!(cells.len() > 1_150, "{}", cells.len());
        let fastest = |sizes| (0..10).min_by_key(|v| cost_ns(sizes, *v));
        assert_eq!(fastest([1, 1, 1]), Some(0));
        assert!(fastest([1 << 20; 3]) > Some(5));
    }
}
