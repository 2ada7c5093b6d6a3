//! A mixed stream of real calls, served by the adaptive policy, by every fixed backend and by an
//! oracle that knows in hindsight who is fastest for each shape.
//!
//! On each call of the stream every contestant runs once, in random order: the adaptive selector as
//! a program would call it, and each variant by itself. A contestant's time is the sum of its own
//! runs, so that all of them meet the same noise; only *which* variant the oracle and the fixed
//! backends take is decided afterwards, by medians.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

use pointsman::{Backend, BuildError, Checks, Selector};
use pointsman_ops::Ops;
use pointsman_ops::catalogue::{Call, Entry};
use rand::prelude::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;

use crate::timing::median;

/// Shapes per op: few enough for medians, enough to lie between the powers of two that kernels like.
const SHAPES: usize = 12;

/// What to play.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// Calls; each runs all variants once.
    pub calls: usize,
    /// Seed of the shapes and their order.
    pub seed: u64,
    /// Smallest and largest size, in elements of a call's largest array.
    pub sizes: (usize, usize),
}

impl Default for Stream {
    /// 6,000 calls from 16 to a million elements: one to two minutes here.
    fn default() -> Self {
        Stream {
            calls: 6000,
            seed: 1,
            sizes: (16, 1 << 20),
        }
    }
}

/// What it came to, as multiples of the oracle's time.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Oracle {
    /// The adaptive policy, learning from the first call on, choosing included.
    pub adaptive: f64,
    /// The same over the second half of the calls.
    pub adaptive_late: f64,
    /// Each backend with its best variant of each op; the reference where it has none.
    pub fixed: BTreeMap<String, f64>,
    /// Seconds that the oracle takes.
    pub oracle_s: f64,
    /// Share of the adaptive policy's time that its trials took beyond the best.
    pub trial_share: f64,
    /// The same of first tries, which are outside the budget.
    pub first_try_share: f64,
    /// Calls and shapes played.
    pub calls: usize,
    /// Shapes.
    pub shapes: usize,
    /// The seed.
    pub seed: u64,
    /// Where the adaptive policy lost most: op, and its share of all that was lost.
    pub lost: Vec<(String, f64)>,
}

/// Operations of a call at most: even the slowest variant takes milliseconds, and all of them run on
/// every call.
const MOST_FLOPS: f64 = 5e7;

/// The typical shape of this size, or of a smaller one if that is too much work.
fn playable(entry: &dyn Entry, mut size: usize) -> Vec<usize> {
    loop {
        let shape = entry.of_size(size);
        let work = entry.workload(&shape).map_or(0.0, |w| w.flop_count());
        if work <= MOST_FLOPS || size <= 1 {
            return shape;
        }
        size -= size.div_ceil(8);
    }
}

/// One shape of one op, with what was measured.
struct Case {
    op: usize,
    call: Box<dyn Call>,
    /// Eligible variants: name, backend, and a time per visit.
    variants: Vec<(String, Backend, Vec<f64>)>,
    reference: usize,
    adaptive: Vec<f64>,
    /// For each visit, its number in the stream.
    at: Vec<usize>,
}

impl Stream {
    /// Plays it; `tick` is told how many calls are done.
    pub fn play(self, tick: impl Fn(usize)) -> Result<Oracle, BuildError> {
        let selector = Selector::builder()
            .in_memory()
            .ignore_environment()
            .checks(Checks::Inline)
            .seed(self.seed)
            .build()?;
        let entries = Ops::<f32>::new(&selector)?.entries();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let mut cases = self.cases(&entries, &mut random);
        for n in 0..self.calls {
            let at = random.random_range(0..cases.len());
            cases[at].visit(n, &mut random);
            tick(n + 1);
        }
        cases.retain(|case| !case.at.is_empty());
        Ok(self.sum_up(&entries, &cases))
    }

    /// Shapes of every op, log-uniform in size. Checks against the reference are made here, and what
    /// is learned meanwhile is forgotten: the stream begins without any knowledge of costs.
    fn cases(&self, entries: &[Box<dyn Entry>], random: &mut impl Rng) -> Vec<Case> {
        let (low, high) = (self.sizes.0 as f64, self.sizes.1 as f64);
        let mut cases = Vec::new();
        for (op, entry) in entries.iter().enumerate() {
            for _ in 0..SHAPES {
                let size = (low.ln() + random.random::<f64>() * (high / low).ln()).exp();
                let shape = playable(entry.as_ref(), size as usize);
                if let Some(case) = Case::new(op, entry.as_ref(), &shape, self.seed) {
                    cases.push(case);
                }
            }
            entry.reset();
        }
        cases
    }

    fn sum_up(&self, entries: &[Box<dyn Entry>], cases: &[Case]) -> Oracle {
        let oracle = |case: &Case| case.sum(case.best(|_| true).unwrap_or(case.reference));
        let oracle_s: f64 = cases.iter().map(oracle).sum();
        let adaptive_s: f64 = cases.iter().flat_map(|c| &c.adaptive).sum();
        let half = self.calls / 2;
        let late = |case: &Case, times: &[f64]| -> f64 {
            let timed = case.at.iter().zip(times);
            timed.filter(|(at, _)| **at >= half).map(|(_, t)| t).sum()
        };
        let late_oracle = |case: &Case| {
            let best = case.best(|_| true).unwrap_or(case.reference);
            late(case, &case.variants[best].2)
        };
        let late_s: f64 = cases.iter().map(|c| late(c, &c.adaptive)).sum();
        let late_oracle_s: f64 = cases.iter().map(late_oracle).sum();
        let mut lost: Vec<(String, f64)> = entries
            .iter()
            .enumerate()
            .map(|(op, entry)| {
                let ours = cases.iter().filter(|case| case.op == op);
                let lost: f64 = ours
                    .map(|c| c.adaptive.iter().sum::<f64>() - oracle(c))
                    .sum();
                (entry.name().to_owned(), lost / (adaptive_s - oracle_s))
            })
            .collect();
        lost.sort_by(|a, b| b.1.total_cmp(&a.1));
        lost.truncate(3);
        let spent = |of: fn(&pointsman::VariantStats) -> f64| {
            let stats: Vec<_> = entries.iter().map(|e| e.stats()).collect();
            let ns: f64 = stats.iter().flat_map(|s| &s.variants).map(of).sum();
            ns / 1e9 / adaptive_s
        };
        Oracle {
            adaptive: adaptive_s / oracle_s,
            adaptive_late: late_s / late_oracle_s,
            fixed: fixed(cases, entries.len())
                .into_iter()
                .map(|(backend, s)| (backend, s / oracle_s))
                .collect(),
            oracle_s,
            trial_share: spent(|v| v.trial_excess_ns),
            first_try_share: spent(|v| v.first_try_excess_ns),
            calls: self.calls,
            shapes: cases.len(),
            seed: self.seed,
            lost,
        }
    }
}

impl Case {
    /// A shape with the variants that may serve it and give the right result; `None` if there is no
    /// choice.
    fn new(op: usize, entry: &dyn Entry, shape: &[usize], seed: u64) -> Option<Self> {
        let told = entry.explain(shape).ok()?;
        let mut call = entry.call(shape, seed).ok()?;
        let mut variants = Vec::new();
        let mut reference = None;
        for variant in told.variants {
            if variant.eligible() && call.measure(&variant.name).is_ok() {
                if variant.reference {
                    reference = Some(variants.len());
                }
                variants.push((variant.name, variant.backend, Vec::new()));
            }
        }
        (variants.len() > 1).then_some(Case {
            op,
            call,
            variants,
            reference: reference?,
            adaptive: Vec::new(),
            at: Vec::new(),
        })
    }

    /// Runs every contestant once, in random order.
    fn visit(&mut self, n: usize, random: &mut impl Rng) {
        let mut order: Vec<usize> = (0..=self.variants.len()).collect();
        order.shuffle(random);
        for who in order {
            let start = Instant::now();
            match self.variants.get_mut(who) {
                Some((name, _, times)) => {
                    let ran = self.call.run_variant(name);
                    let took = start.elapsed().as_secs_f64();
                    // One that fails takes for ever, as far as anybody's choice goes.
                    times.push(if ran.is_ok() { took } else { f64::INFINITY });
                }
                None => {
                    self.call.run();
                    self.adaptive.push(start.elapsed().as_secs_f64());
                }
            }
        }
        self.at.push(n);
    }

    /// The variant with the lowest median among some of them.
    fn best(&self, of: impl Fn(Backend) -> bool) -> Option<usize> {
        let medians = self.variants.iter().enumerate().filter(|(_, v)| of(v.1));
        medians
            .map(|(at, (_, _, times))| (at, median(times.clone())))
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(at, _)| at)
    }

    fn sum(&self, variant: usize) -> f64 {
        self.variants[variant].2.iter().sum()
    }
}

/// Seconds that each backend takes if it has to serve everything: for each op the one variant of it
/// that is best over all shapes, and the reference where that one may not serve.
fn fixed(cases: &[Case], ops: usize) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    let backends = cases.iter().flat_map(|c| &c.variants).map(|v| v.1);
    for backend in backends.collect::<std::collections::HashSet<_>>() {
        let serve = |op: usize| {
            let ours = || cases.iter().filter(move |case| case.op == op);
            let by = |name: Option<&str>| -> f64 {
                ours()
                    .map(|case| {
                        let named = |v: &(String, Backend, Vec<f64>)| Some(&*v.0) == name;
                        case.sum(
                            case.variants
                                .iter()
                                .position(named)
                                .unwrap_or(case.reference),
                        )
                    })
                    .sum()
            };
            let names = ours().flat_map(|case| &case.variants);
            let names = names.filter(|v| v.1 == backend).map(|v| by(Some(&v.0)));
            names.min_by(f64::total_cmp).unwrap_or_else(|| by(None))
        };
        sums.insert(backend.to_string(), (0..ops).map(serve).sum());
    }
    sums
}

impl fmt::Display for Oracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} calls of {} shapes, seed {}; the oracle takes {:.2} s\n",
            self.calls, self.shapes, self.seed, self.oracle_s
        )?;
        writeln!(f, "{:<16}{:>8}  bar", "", "÷ oracle")?;
        writeln!(f, "{:<16}{:>8.3}  1.03", "adaptive", self.adaptive)?;
        writeln!(f, "{:<16}{:>8.3}", "  second half", self.adaptive_late)?;
        for (backend, over) in &self.fixed {
            writeln!(f, "{:<16}{over:>8.3}", format!("always {backend}"))?;
        }
        let lost: Vec<String> = self
            .lost
            .iter()
            .map(|(op, share)| format!("{op} {:.0} %", 100.0 * share))
            .collect();
        write!(
            f,
            "\nTrials took {:.2} % of the time, first tries {:.2} %. Most was lost in {}.",
            100.0 * self.trial_share,
            100.0 * self.first_try_share,
            lost.join(", ")
        )
    }
}
