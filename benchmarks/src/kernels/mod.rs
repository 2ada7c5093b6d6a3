//! The ops beside what a user would call instead, in the same run.

mod contest;
mod print;

use std::hint::black_box;
use std::thread;

use pointsman::{BuildError, Checks, Selector};
use pointsman_ops::Ops;
use pointsman_ops::catalogue::Entry;
use rand::prelude::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;

use self::contest::Contest;
use crate::foreign::{Fftw, OpenBlas, matrixmultiply};

/// What every contestant reached.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Kernels {
    /// One line per op, size and contestant.
    pub results: Vec<Reached>,
    /// Bars, and whether they are met.
    pub bars: Vec<Bar>,
    /// Rivals that are not installed here.
    pub missing: Vec<String>,
}

/// What one contestant reached.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Reached {
    /// The op.
    pub op: String,
    /// Its size: what `explain` takes.
    pub shape: String,
    /// A variant of ours, or a rival's name.
    pub who: String,
    /// Whether it is a rival.
    pub rival: bool,
    /// The best of all rounds.
    pub ns: f64,
    /// How fast that is, in `unit`.
    pub rate: f64,
    /// `GFLOP/s` or `GB/s` or `M elements/s`.
    pub unit: &'static str,
}

/// A bar: our best of some variants against a rival.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Bar {
    /// What is compared.
    pub what: String,
    /// Our speed divided by the rival's.
    pub ratio: f64,
    /// What it is held to.
    pub bar: f64,
}

/// Elements for the streaming rates: more than any cache holds.
const LARGE: usize = 10_000_000;

impl Kernels {
    /// Measures all of them; with `test`, one short round at small sizes that only has to work.
    pub fn measure(test: bool, tick: impl Fn(&str)) -> Result<Self, BuildError> {
        let selector = Selector::builder()
            .in_memory()
            .ignore_environment()
            .checks(Checks::Inline)
            .build()?;
        let entries = Ops::<f32>::new(&selector)?.entries();
        let mut kernels = Kernels {
            results: Vec::new(),
            bars: Vec::new(),
            missing: Vec::new(),
        };
        let sizes = |all: &[usize]| if test { vec![64] } else { all.to_vec() };
        tick("matmul");
        for n in sizes(&[64, 256, 512, 1024]) {
            kernels.matmul(&entries, n, test);
        }
        tick("fft");
        for n in sizes(&[1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18]) {
            kernels.fft(&entries, n, test);
        }
        for op in ["dot_f32", "axpy_f32"] {
            tick(op);
            kernels.streaming(&entries, op, if test { 1000 } else { LARGE }, test);
        }
        tick("sort");
        for n in sizes(&[1000, 100_000, 1_000_000]) {
            kernels.sort(&entries, n, test);
        }
        Ok(kernels)
    }

    fn matmul(&mut self, entries: &[Box<dyn Entry>], n: usize, test: bool) {
        let shape = [n, n, n];
        let a: Vec<f32> = (0..n * n).map(|i| (i % 19) as f32 - 9.0).collect();
        let mut c = vec![0.0; n * n];
        let blas = OpenBlas::open();
        if blas.is_none() {
            self.miss("OpenBLAS (Debian: libopenblas0-pthread)");
        }
        let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
        let (mut c1, mut c2) = (c.clone(), c.clone());
        let mut contest = Contest::new(entries, "matmul_f32", &shape, &["naive", "blocked"]);
        if let Some(blas) = &blas {
            contest.rival("OpenBLAS, one thread", || {
                blas.set_threads(1);
                blas.multiply(n, &a, &a, black_box(&mut c1));
            });
            contest.rival("OpenBLAS, all cores", || {
                blas.set_threads(cores);
                blas.multiply(n, &a, &a, black_box(&mut c2));
            });
        }
        contest.rival("matrixmultiply", || {
            matrixmultiply(n, &a, &a, black_box(&mut c))
        });
        let flops = 2.0 * (n as f64).powi(3);
        let results = contest.hold(flops / 1e9, "GFLOP/s", test);
        let one = ["gemm", "register"];
        let name = |what: &str| format!("matmul {n} {what}");
        self.bar(
            &results,
            name("one thread"),
            &one,
            "OpenBLAS, one thread",
            0.9,
        );
        self.bar(
            &results,
            name("all cores"),
            &["threads"],
            "OpenBLAS, all cores",
            0.9,
        );
        self.results.extend(results);
    }

    fn fft(&mut self, entries: &[Box<dyn Entry>], n: usize, test: bool) {
        let fftw = Fftw::open();
        let plan = fftw.as_ref().and_then(|fftw| fftw.plan(n));
        let mut contest = Contest::new(entries, "fft_f32", &[1, n], &["plain"]);
        match &plan {
            Some(plan) => contest.rival("FFTW, measured plan", || plan.run()),
            None => self.miss("FFTW (Debian: libfftw3-single3)"),
        }
        // The usual count for a complex transform.
        let flops = 5.0 * n as f64 * (n as f64).log2();
        let results = contest.hold(flops / 1e9, "GFLOP/s", test);
        let what = format!("fft {n}");
        self.bar(&results, what, &["simd"], "FFTW, measured plan", 0.8);
        self.results.extend(results);
    }

    /// Against the best rate at which this machine streams the same bytes.
    fn streaming(&mut self, entries: &[Box<dyn Entry>], op: &str, n: usize, test: bool) {
        let (x, w) = (vec![1.0_f32; n], vec![2.0_f32; n]);
        let (mut y, mut z) = (vec![1.0_f32; n], vec![1.0_f32; n]);
        let reads = op.starts_with("dot");
        let bytes = if reads { 8.0 } else { 12.0 } * n as f64;
        let mut contest = Contest::new(entries, op, &[n], &[]);
        if reads {
            contest.rival("read, one thread", || {
                black_box(read(&x, &w));
            });
            contest.rival("read, all cores", || {
                black_box(read_on_all(&x, &w));
            });
        } else {
            contest.rival("triad, one thread", || triad(&x, black_box(&mut y)));
            contest.rival("triad, all cores", || triad_on_all(&x, black_box(&mut z)));
        }
        let results = contest.hold(bytes / 1e9, "GB/s", test);
        let kind = if reads { "read" } else { "triad" };
        for (how, ours) in [("one thread", &["simd"][..]), ("all cores", &["threads"])] {
            let rival = format!("{kind}, {how}");
            self.bar(&results, format!("{op} {n} {how}"), ours, &rival, 0.9);
        }
        self.results.extend(results);
    }

    fn sort(&mut self, entries: &[Box<dyn Entry>], n: usize, test: bool) {
        let random = Xoshiro256PlusPlus::seed_from_u64(1);
        let x: Vec<f32> = random.random_iter().take(n).collect();
        let mut y = x.clone();
        let mut contest = Contest::new(entries, "sort_f32", &[n], &[]);
        contest.rival("slice::sort_unstable_by", || {
            y.copy_from_slice(&x);
            black_box(&mut y).sort_unstable_by(f32::total_cmp);
        });
        let results = contest.hold(n as f64 / 1e6, "M elements/s", test);
        self.results.extend(results);
    }

    fn miss(&mut self, rival: &str) {
        if !self.missing.iter().any(|m| m == rival) {
            self.missing.push(rival.to_owned());
        }
    }

    /// Our best of some variants against a rival that took part.
    fn bar(&mut self, results: &[Reached], what: String, ours: &[&str], rival: &str, bar: f64) {
        let rate = |who: &str| results.iter().find(|r| r.who == who).map(|r| r.rate);
        let best = ours
            .iter()
            .filter_map(|who| rate(who))
            .max_by(f64::total_cmp);
        if let (Some(ours), Some(rival)) = (best, rate(rival)) {
            let ratio = ours / rival;
            self.bars.push(Bar { what, ratio, bar });
        }
    }
}

/// Reads two vectors as fast as they come: sums in lanes, so that nothing else limits it.
fn read(x: &[f32], y: &[f32]) -> f32 {
    let mut sums = [0.0; 64];
    for (x, y) in x.as_chunks::<64>().0.iter().zip(y.as_chunks::<64>().0) {
        (0..64).for_each(|i| sums[i] += x[i] + y[i]);
    }
    sums.iter().sum()
}

fn triad(x: &[f32], y: &mut [f32]) {
    for (x, y) in x.iter().zip(y) {
        *y += 0.5 * *x;
    }
}

/// The same with a part on every core.
fn read_on_all(x: &[f32], y: &[f32]) -> f32 {
    let part = share(x.len());
    thread::scope(|scope| {
        let parts = x.chunks(part).zip(y.chunks(part));
        let parts: Vec<_> = parts.map(|(x, y)| scope.spawn(|| read(x, y))).collect();
        parts.into_iter().filter_map(|p| p.join().ok()).sum()
    })
}

fn triad_on_all(x: &[f32], y: &mut [f32]) {
    let part = share(x.len());
    thread::scope(|scope| {
        for (x, y) in x.chunks(part).zip(y.chunks_mut(part)) {
            scope.spawn(move || triad(x, y));
        }
    });
}

fn share(len: usize) -> usize {
    len.div_ceil(thread::available_parallelism().map_or(1, |cores| cores.get()))
}
