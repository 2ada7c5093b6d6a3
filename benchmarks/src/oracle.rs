//! A mixed stream of real calls, served by the adaptive policy, by every fixed backend and by an
//! oracle that knows in hindsight who is fastest for each shape.
//!
//! On each call of the stream the contestants run in random order: the adaptive selector and one with
//! fixed thresholds, as a program would call them, and each variant by itself, on the first calls of a
//! shape always and later on one in four. A selector's time is the sum of its runs; that of a variant
//! its mean times the number of calls, over the same stretch of time, so that all of them meet the
//! same noise, with their data in the caches. Only *which* variant the oracle and the fixed backends take is decided afterwards, by
//! medians.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

use pointsman::policy::{Adaptive, Policy, Rules};
use pointsman::{Backend, BuildError, Checks, Selector};
use pointsman_ops::Ops;
use pointsman_ops::catalogue::{Call, Entry};
use rand::prelude::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;

use crate::timing::median;

/// Shapes per op: few enough for medians, enough to lie between the powers of two that kernels like.
const SHAPES: usize = 12;

/// Calls of a shape on which every variant runs; after that one in [`SPARSE`] does.
const THOROUGH: usize = 8;
const SPARSE: u32 = 4;

/// What to play.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// Calls.
    pub calls: usize,
    /// Seed of the shapes and their order.
    pub seed: u64,
    /// Smallest and largest size, in elements of a call's largest array.
    pub sizes: (usize, usize),
    /// Whether GPUs take part, if this build knows of any.
    pub gpu: bool,
}

impl Default for Stream {
    /// 40,000 calls from 16 to a million elements: four minutes here.
    fn default() -> Self {
        Stream {
            calls: 40_000,
            seed: 1,
            sizes: (16, 1 << 20),
            gpu: false,
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
    /// Fixed thresholds on the size: the policy `rules`.
    pub rules: f64,
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
    variants: Vec<Timed>,
    reference: usize,
    /// The same call by thresholds.
    by_rules: Box<dyn Call>,
    adaptive: Vec<f64>,
    rules: Vec<f64>,
    /// For each visit, its number in the stream.
    at: Vec<usize>,
}

/// An eligible variant with its runs: number of the call in the stream, and seconds.
struct Timed {
    name: String,
    backend: Backend,
    runs: Vec<(usize, f64)>,
}

impl Stream {
    /// Plays it; `watch` is shown the selector that learns, `tick` is told how many calls are done.
    pub fn play(
        self,
        watch: impl FnOnce(&Selector),
        tick: impl Fn(usize),
    ) -> Result<Oracle, BuildError> {
        let selector = self.selector(Adaptive)?;
        watch(&selector);
        let entries = Ops::<f32>::new(&selector)?.entries();
        let by_rules = Ops::<f32>::new(&self.selector(Rules::default())?)?.entries();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let mut cases = self.cases(&entries, &by_rules, &mut random);
        for n in 0..self.calls {
            let at = random.random_range(0..cases.len());
            cases[at].visit(n, &mut random);
            tick(n + 1);
        }
        cases.retain(|case| !case.at.is_empty());
        Ok(self.sum_up(&entries, &cases))
    }

    /// A selector with this policy that knows nothing yet.
    fn selector(&self, policy: impl Policy + 'static) -> Result<Selector, BuildError> {
        let builder = Selector::builder()
            .in_memory()
            .ignore_environment()
            .checks(Checks::Inline)
            .policy(policy)
            .seed(self.seed);
        #[cfg(feature = "gpu")]
        let builder = match self.gpu {
            true => {
                pointsman_ops::gpu::prepare(|_| {});
                pointsman_ops::gpu::announce(builder)
            }
            false => builder,
        };
        builder.build()
    }

    /// Shapes of every op, log-uniform in size. Checks against the reference are made here, and what
    /// is learned meanwhile is forgotten: the stream begins without any knowledge of costs.
    fn cases(
        &self,
        entries: &[Box<dyn Entry>],
        by_rules: &[Box<dyn Entry>],
        random: &mut impl Rng,
    ) -> Vec<Case> {
        let (low, high) = (self.sizes.0 as f64, self.sizes.1 as f64);
        let mut cases = Vec::new();
        for (op, (entry, other)) in entries.iter().zip(by_rules).enumerate() {
            for _ in 0..SHAPES {
                let size = (low.ln() + random.random::<f64>() * (high / low).ln()).exp();
                let shape = playable(entry.as_ref(), size as usize);
                let case = Case::new(op, [entry.as_ref(), other.as_ref()], &shape, self.seed);
                if let Some(case) = case {
                    cases.push(case);
                }
            }
            entry.reset();
        }
        cases
    }

    fn sum_up(&self, entries: &[Box<dyn Entry>], cases: &[Case]) -> Oracle {
        let half = self.calls / 2;
        let best = |case: &Case| case.best(|_| true).unwrap_or(case.reference);
        let oracle = |case: &Case| case.sum(best(case), 0);
        let oracle_s: f64 = cases.iter().map(oracle).sum();
        let adaptive_s: f64 = cases.iter().flat_map(|c| &c.adaptive).sum();
        let rules_s: f64 = cases.iter().flat_map(|c| &c.rules).sum();
        let late = |case: &Case| -> f64 {
            let timed = case.at.iter().zip(&case.adaptive);
            timed.filter(|(at, _)| **at >= half).map(|(_, t)| t).sum()
        };
        let late_s: f64 = cases.iter().map(late).sum();
        let late_oracle_s: f64 = cases.iter().map(|c| c.sum(best(c), half)).sum();
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
            rules: rules_s / oracle_s,
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
    fn new(op: usize, entries: [&dyn Entry; 2], shape: &[usize], seed: u64) -> Option<Self> {
        let [entry, other] = entries;
        let mut call = entry.call(shape, seed).ok()?;
        let mut variants = Vec::new();
        let mut reference = None;
        for variant in call.explain().variants {
            if variant.eligible() && call.measure(&variant.name).is_ok() {
                if variant.reference {
                    reference = Some(variants.len());
                }
                variants.push(Timed {
                    name: variant.name,
                    backend: variant.backend,
                    runs: Vec::new(),
                });
            }
        }
        let mut by_rules = other.call(shape, seed).ok()?;
        by_rules.run(); // checked here, as the others were
        (variants.len() > 1).then_some(Case {
            op,
            call,
            variants,
            reference: reference?,
            by_rules,
            adaptive: Vec::new(),
            rules: Vec::new(),
            at: Vec::new(),
        })
    }

    /// Runs the contestants, in random order.
    fn visit(&mut self, n: usize, random: &mut impl Rng) {
        let mut order: Vec<usize> = (0..self.variants.len() + 2).collect();
        order.shuffle(random);
        let thorough = self.at.len() < THOROUGH;
        let quick = self.best(|_| true).unwrap_or(self.reference);
        let quick = self.variants[quick].name.clone();
        for who in order {
            // The data is in the caches for everybody, or whoever comes second is ahead.
            let here = if who > self.variants.len() {
                &mut self.by_rules
            } else {
                &mut self.call
            };
            let is_timed = thorough || random.random_range(0..SPARSE) == 0;
            if who >= self.variants.len() || is_timed {
                let _ = here.run_variant(&quick);
            }
            let Some(variant) = self.variants.get_mut(who) else {
                let start = Instant::now();
                let times = if who == self.variants.len() {
                    self.call.run();
                    &mut self.adaptive
                } else {
                    self.by_rules.run();
                    &mut self.rules
                };
                times.push(start.elapsed().as_secs_f64());
                continue;
            };
            if is_timed {
                let start = Instant::now();
                let ran = self.call.run_variant(&variant.name);
                let took = start.elapsed().as_secs_f64();
                // One that fails takes for ever, as far as anybody's choice goes.
                let took = if ran.is_ok() { took } else { f64::INFINITY };
                variant.runs.push((n, took));
            }
        }
        self.at.push(n);
    }

    /// The variant with the lowest median among some of them.
    fn best(&self, of: impl Fn(Backend) -> bool) -> Option<usize> {
        let some = self.variants.iter().enumerate();
        some.filter(|(_, v)| of(v.backend) && !v.runs.is_empty())
            .map(|(at, v)| (at, median(v.runs.iter().map(|(_, s)| *s).collect())))
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(at, _)| at)
    }

    /// Seconds that a variant would take for all calls from this one on.
    fn sum(&self, variant: usize, from: usize) -> f64 {
        let runs = &self.variants[variant].runs;
        let late: Vec<f64> = runs.iter().filter(|r| r.0 >= from).map(|r| r.1).collect();
        let visits = self.at.iter().filter(|at| **at >= from).count() as f64;
        let of = |seconds: &[f64]| seconds.iter().sum::<f64>() / seconds.len() as f64;
        match late.is_empty() {
            true => visits * of(&runs.iter().map(|r| r.1).collect::<Vec<f64>>()),
            false => visits * of(&late),
        }
    }
}

/// Seconds that each backend takes if it has to serve everything: for each op the one variant of it
/// that is best over all shapes, and the reference where that one may not serve.
fn fixed(cases: &[Case], ops: usize) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    let backends = cases.iter().flat_map(|c| &c.variants).map(|v| v.backend);
    for backend in backends.collect::<std::collections::HashSet<_>>() {
        let serve = |op: usize| {
            let ours = || cases.iter().filter(move |case| case.op == op);
            let by = |name: Option<&str>| -> f64 {
                ours()
                    .map(|case| {
                        let named = |v: &Timed| Some(&*v.name) == name;
                        let found = case.variants.iter().position(named);
                        case.sum(found.unwrap_or(case.reference), 0)
                    })
                    .sum()
            };
            let names = ours().flat_map(|case| &case.variants);
            let names = names.filter(|v| v.backend == backend);
            let names = names.map(|v| by(Some(&v.name)));
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
        writeln!(f, "{:<16}{:>8.3}", "rules", self.rules)?;
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
