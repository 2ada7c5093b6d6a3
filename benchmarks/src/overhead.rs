//! What choosing costs beyond the direct call.

use std::fmt;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use pointsman::{
    Backend, BuildError, Clock, Explanation, Handle, Op, Outcome, Reason, Selector, SystemClock,
    Workload,
};

use crate::new_cell::new_cell_ns;
use crate::report::{Overhead, Rival, Rivals};
use crate::rivals::history::{self, History};
use crate::rivals::registry::{self, Registry};
use crate::timing::{Contestant, median, median_excess, rounds, two_thread_ratio};
use crate::traced;

/// Elements of the vectors: small, so that what is measured is not lost in what is called.
const LENGTH: usize = 32;

/// Calls in which a published op may go to the learner at most a few times.
const PROBE: usize = 4096;

/// Probes until an op that does not settle is given up: it takes two or three.
const MAX_PROBES: usize = 20;

/// Ops that are given up before the machine is.
const MAX_OPS: u64 = 10;

/// Runs that are given up before the machine is.
const MAX_RUNS: u32 = 5;

/// Calls of each variant before the first that counts: code that never ran is slow.
const WARM_UP: usize = 100;

/// What the slowed clock says a call takes: long enough that a settled cell is looked at as often
/// as one ever is.
const SLOWED_NS: u64 = 1_000_000;

/// Short runs in which allocations are counted.
const COUNTED: u32 = 101;

const OP: &str = "overhead_dot_f32";
const CANDIDATES: [&str; 2] = ["belabored", "lanes"];
const FASTEST: &str = "lanes";

/// Why nothing could be measured.
#[derive(Debug)]
#[non_exhaustive]
pub enum OverheadError {
    /// No rounds were asked for.
    NoRounds,
    /// The op could not be declared.
    Build(BuildError),
    /// The op did not settle on the variant that is clearly faster, or left it while it was
    /// measured: the machine is too busy to measure on.
    Unsettled(Box<Explanation>),
}

impl fmt::Display for OverheadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OverheadError::NoRounds => f.write_str("at least one round is needed"),
            OverheadError::Build(error) => error.fmt(f),
            OverheadError::Unsettled(e) => write!(
                f,
                "the op did not settle on {FASTEST}, which is faster, but on {} ({}, confidence \
                 {:.0} %); try again on a quieter machine",
                e.chosen,
                e.reason,
                100.0 * e.confidence
            ),
        }
    }
}

impl std::error::Error for OverheadError {}

impl From<BuildError> for OverheadError {
    fn from(error: BuildError) -> Self {
        OverheadError::Build(error)
    }
}

struct Dot;

impl Op for Dot {
    type Args<'a> = (&'a [f32], &'a [f32]);
    type Output = f32;

    fn name(&self) -> &str {
        OP
    }

    fn workload(&self, (x, _): &(&[f32], &[f32])) -> Workload {
        workload(x.len())
    }
}

fn workload(n: usize) -> Workload {
    Workload::new([n]).flops(2 * n).bytes(8 * n)
}

/// Adds in eight lanes.
#[inline]
fn lanes(x: &[f32], y: &[f32]) -> f32 {
    let (xs, x_rest) = x.as_chunks::<8>();
    let (ys, y_rest) = y.as_chunks::<8>();
    let mut sums = [0.0f32; 8];
    for (a, b) in xs.iter().zip(ys) {
        for i in 0..8 {
            sums[i] += a[i] * b[i];
        }
    }
    let rest: f32 = x_rest.iter().zip(y_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

/// The same sixteen times over: slower in every build and on every machine, so that nobody can be in
/// doubt.
#[inline(never)]
fn belabored(x: &[f32], y: &[f32]) -> f32 {
    (0..16).fold(0.0, |_, _| lanes(black_box(x), black_box(y)))
}

/// The direct call: one call instruction, the same code behind it as behind the selector.
#[inline(never)]
fn direct(x: &[f32], y: &[f32]) -> f32 {
    lanes(x, y)
}

/// The vectors as slices that the compiler knows nothing about: neither address nor length. Hidden once
/// and not on every call: they would go through memory, where the processor waits for what was written
/// in two pieces and is read as one, and that is nobody's price.
fn opaque<'a>(x: &'a [f32], y: &'a [f32]) -> (&'a [f32], &'a [f32]) {
    (black_box(x), black_box(y))
}

fn selector(seed: u64) -> Result<Selector, BuildError> {
    let builder = Selector::builder().in_memory().ignore_environment();
    builder.seed(seed).build()
}

/// The op, settled on the variant that the direct call is.
///
/// The clock ticks in tens of nanoseconds, and a call may be disturbed at any time. What is measured
/// here is what a choice costs, not whether it is right: an op that settles on the other variant
/// is dropped for a new one.
fn settled_op(x: &[f32], y: &[f32]) -> Result<Handle<Dot>, OverheadError> {
    let mut seed = 0;
    loop {
        let op: Handle<Dot> = selector(seed)?
            .op(Dot)
            .reference("belabored", Backend::Scalar, |(x, y)| belabored(x, y))
            .variant("lanes", Backend::Simd, |(x, y)| lanes(x, y))
            .build()?;
        for variant in CANDIDATES.iter().filter_map(|name| op.variant(name)) {
            (0..WARM_UP).for_each(|_| _ = black_box(variant.run((x, y))));
        }
        let run = || _ = black_box(op.run((x, y)));
        seed += 1;
        match settle(run, || Some(op.explain(workload(LENGTH)))) {
            Ok(()) => return Ok(op),
            Err(OverheadError::Unsettled(_)) if seed < MAX_OPS => {}
            Err(error) => return Err(error),
        }
    }
}

/// The same choice for a caller who runs the work himself.
struct ByName<'a> {
    selector: Selector,
    x: &'a [f32],
    y: &'a [f32],
}

impl<'a> ByName<'a> {
    fn settled(x: &'a [f32], y: &'a [f32]) -> Result<Self, OverheadError> {
        let selector = selector(0)?;
        let by_name = ByName { selector, x, y };
        let explain = || {
            let selector = &by_name.selector;
            selector.explain(OP, &workload(LENGTH), &CANDIDATES)
        };
        settle(|| by_name.call(), explain)?;
        Ok(by_name)
    }

    /// Decides, runs and reports. What is reported is fixed: reading a clock is the caller's.
    #[inline]
    fn call(&self) {
        let (x, y) = (self.x, self.y);
        let features = workload(x.len());
        let decision = self
            .selector
            .decide(black_box(OP), &features, black_box(&CANDIDATES));
        let (result, ns) = match decision.index() {
            0 => (belabored(x, y), 200),
            _ => (direct(x, y), 10),
        };
        black_box(result);
        let outcome = Outcome::took(Duration::from_nanos(black_box(ns)));
        self.selector.record(&decision, outcome);
    }
}

/// Calls until the choice is published, so that all but a few calls read one word.
fn settle(call: impl Fn(), explain: impl Fn() -> Option<Explanation>) -> Result<(), OverheadError> {
    let mut before = 0;
    let mut last = None;
    for _ in 0..MAX_PROBES {
        (0..PROBE).for_each(|_| call());
        let Some(explanation) = explain() else {
            continue;
        };
        let samples = samples(&explanation);
        let rare = samples - before < PROBE as u64 / 64;
        if rare && is_settled(&explanation) {
            return Ok(());
        }
        before = samples;
        last = Some(explanation);
    }
    match last {
        Some(explanation) => Err(OverheadError::Unsettled(Box::new(explanation))),
        None => Err(OverheadError::NoRounds),
    }
}

fn is_settled(explanation: &Explanation) -> bool {
    explanation.chosen == FASTEST && explanation.reason == Reason::Historical
}

/// Measurements accepted in the cell: how many calls the learner has seen.
fn samples(explanation: &Explanation) -> u64 {
    explanation.variants.iter().map(|v| v.samples).sum()
}

impl Overhead {
    /// Measures everything in one run; 1,000 rounds take some 2 s on a quiet machine.
    ///
    /// A run in which the op changed its mind compares different things: it is repeated, a few
    /// times at most.
    pub fn measure(rounds: u32) -> Result<Overhead, OverheadError> {
        if rounds == 0 {
            return Err(OverheadError::NoRounds);
        }
        let mut runs = 1;
        loop {
            match Self::measure_once(rounds) {
                Err(OverheadError::Unsettled(_)) if runs < MAX_RUNS => runs += 1,
                done => return done,
            }
        }
    }

    fn measure_once(count: u32) -> Result<Overhead, OverheadError> {
        let (x, y) = (vec![1.5f32; LENGTH], vec![0.5f32; LENGTH]);
        let (x, y) = opaque(&x, &y);
        let args = || (x, y);
        let took = black_box(Duration::from_nanos(10));

        let op = settled_op(x, y)?;
        let plan = op.plan(workload(LENGTH));
        let explain = || op.explain(workload(LENGTH));

        let direct = Contestant::new(|| {
            let (x, y) = args();
            black_box(direct(x, y));
        });
        let looked = Contestant::new(|| {
            let (x, y) = args();
            traced::look();
            black_box(self::direct(x, y));
        });
        let op_run = Contestant::new(|| _ = black_box(op.run(args())));
        let plan_run = Contestant::new(|| _ = black_box(plan.run(args())));

        let by_name = ByName::settled(x, y)?;
        let decide_record = Contestant::new(|| by_name.call());

        let history = filled_history();
        let select = || history.select(black_box(OP), black_box(LENGTH));
        let history_select = Contestant::new(|| _ = black_box(select()));
        let history_record = Contestant::new(|| {
            history.record(
                black_box(OP),
                black_box(LENGTH),
                history::Backend::Simd,
                took,
            );
        });
        let history_both = Contestant::new(|| {
            let backend = select();
            history.record(black_box(OP), black_box(LENGTH), backend, took);
        });

        let registry = filled_registry();
        let [_, kernel, _] = registry::dots();
        let features = black_box(["sse2", "avx2", "fma"]);
        let select = || registry.select(black_box(OP), black_box(LENGTH), &features);
        let registry_select = Contestant::new(|| _ = black_box(select()));
        let registry_record = Contestant::new(|| registry.record(&kernel, took));
        let registry_both = Contestant::new(|| {
            if let Some(selection) = select() {
                registry.record(&black_box(selection).kernel, took);
            }
        });

        let [direct_took, plan_took, run_took, name_took, hs, hr, rs, rr] = rounds(
            [
                &direct,
                &plan_run,
                &op_run,
                &decide_record,
                &history_select,
                &history_record,
                &registry_select,
                &registry_record,
            ],
            count,
        );
        let op_run_ns = median_excess(&run_took, &direct_took);
        let counted = [&plan_run, &op_run, &decide_record];
        let allocations = counted
            .iter()
            .map(|c| c.allocations(COUNTED))
            .fold(0.0, f64::max);
        let traced = traced::measure(&direct, &looked, &op_run, count)?;
        let overhead = Overhead {
            direct_ns: median(direct_took.clone()),
            plan_run_ns: median_excess(&plan_took, &direct_took),
            op_run_ns,
            decide_record_ns: median_excess(&name_took, &direct_took),
            sampled_ns: sampled_ns(count, op_run_ns)?,
            new_cell_ns: new_cell_ns()?,
            two_thread_ratio: two_thread_ratio(&op_run, count.div_ceil(4)),
            two_thread_ratio_by_name: two_thread_ratio(&decide_record, count.div_ceil(4)),
            two_thread_ratio_direct: two_thread_ratio(&direct, count.div_ceil(4)),
            trace_off_ns: traced.off_ns,
            trace_hot_ns: traced.hot_ns,
            trace_slow_share: traced.slow_share,
            allocations_per_call: allocations,
            rivals: Rivals {
                history: Rival {
                    select_ns: median(hs),
                    record_ns: median(hr),
                    two_thread_ratio: two_thread_ratio(&history_both, count.div_ceil(4)),
                },
                registry: Rival {
                    select_ns: median(rs),
                    record_ns: median(rr),
                    two_thread_ratio: two_thread_ratio(&registry_both, count.div_ceil(4)),
                },
            },
        };
        // The direct call was compared with the same variant throughout.
        let explanation = explain();
        if is_settled(&explanation) {
            Ok(overhead)
        } else {
            Err(OverheadError::Unsettled(Box::new(explanation)))
        }
    }
}

fn filled_history() -> History {
    let history = History::default();
    for _ in 0..200 {
        for (backend, ns) in [
            (history::Backend::Scalar, 50),
            (history::Backend::Simd, 10),
            (history::Backend::Gpu, 20_000),
        ] {
            history.record(OP, LENGTH, backend, Duration::from_nanos(ns));
        }
    }
    history
}

fn filled_registry() -> Registry {
    let registry = Registry::default();
    for kernel in registry::dots() {
        (0..500).for_each(|_| registry.record(&kernel, Duration::from_nanos(10)));
        registry.register(OP, kernel);
    }
    registry
}

/// Calls one of the steady ways so many times: `direct`, `plan`, `run` or `by_name`. For counting
/// instructions, which no other load on the machine disturbs.
#[doc(hidden)]
pub fn call(what: &str, calls: u64) -> Result<(), OverheadError> {
    let (x, y) = (vec![1.5f32; LENGTH], vec![0.5f32; LENGTH]);
    let (x, y) = opaque(&x, &y);
    let args = || (x, y);
    let op = settled_op(x, y)?;
    let plan = op.plan(workload(LENGTH));
    let by_name = ByName::settled(x, y)?;
    let call: &dyn Fn() = match what {
        "direct" => &|| _ = black_box(direct(args().0, args().1)),
        "plan" => &|| _ = black_box(plan.run(args())),
        "run" => &|| _ = black_box(op.run(args())),
        _ => &|| by_name.call(),
    };
    counted_calls(call, calls);
    let explanation = op.explain(workload(LENGTH));
    if !is_settled(&explanation) {
        return Err(OverheadError::Unsettled(Box::new(explanation)));
    }
    Ok(())
}

/// What `callgrind --toggle-collect` looks for.
#[inline(never)]
fn counted_calls(call: &dyn Fn(), calls: u64) {
    (0..calls).for_each(|_| call());
}

/// The system's clock with a part that can be moved on.
#[derive(Clone, Default)]
struct SlowedClock(Arc<AtomicU64>);

impl Clock for SlowedClock {
    fn now_ns(&self) -> u64 {
        SystemClock.now_ns() + self.0.load(Relaxed)
    }

    fn unix_seconds(&self) -> u64 {
        SystemClock.unix_seconds()
    }
}

/// What a call through the learner costs beyond the direct one.
///
/// A settled op of 10 ns is looked at so rarely that nothing can be measured. So the op is made to
/// seem slow: each call moves the selector's clock on, which is also part of the direct call. Then
/// one call in eight is looked at, the most that a settled cell ever is. How many were is counted;
/// what they took is the rest after all calls have been charged the steady price.
fn sampled_ns(count: u32, op_run_ns: f64) -> Result<f64, OverheadError> {
    let (x, y) = (vec![1.5f32; LENGTH], vec![0.5f32; LENGTH]);
    let (x, y) = opaque(&x, &y);
    let args = || (x, y);
    let clock = SlowedClock::default();
    let [slow, fast, bare] = [3 * SLOWED_NS, SLOWED_NS, SLOWED_NS].map(|ns| {
        let clock = clock.clone();
        move || _ = clock.0.fetch_add(ns, Relaxed)
    });
    let selector = Selector::builder()
        .in_memory()
        .ignore_environment()
        .clock(clock)
        .build()?;
    let op = selector
        .op(Dot)
        .reference("belabored", Backend::Scalar, move |(x, y)| {
            slow();
            belabored(x, y)
        })
        .variant("lanes", Backend::Simd, move |(x, y)| {
            fast();
            lanes(x, y)
        })
        .build()?;
    let run = || _ = black_box(op.run(args()));
    let explain = || op.explain(workload(LENGTH));
    // Never as rare as in `settle`: one call in eight is the rarest here.
    (0..PROBE).for_each(|_| run());
    if !is_settled(&explain()) {
        return Err(OverheadError::Unsettled(Box::new(explain())));
    }
    let op_run = Contestant::new(run);
    let direct = Contestant::new(|| {
        bare();
        let (x, y) = args();
        black_box(direct(x, y));
    });
    let mut per_sample = Vec::new();
    for _ in 0..count {
        let before = samples(&explain());
        let [run_took, direct_took] = rounds([&op_run, &direct], 1);
        let seen = samples(&explain()) - before;
        let steady = direct_took[0] + op_run_ns;
        let learning = (run_took[0] - steady) * f64::from(op_run.calls());
        if seen > 0 {
            per_sample.push(op_run_ns + learning / seen as f64);
        }
    }
    Ok(median(per_sample))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_variants_agree() {
        for n in [0, 1, 7, 8, 9, LENGTH, 100] {
            let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
            let sum: f32 = x.iter().map(|x| x * x).sum(); // whole numbers below 2^24: exact
            assert_eq!((belabored(&x, &x), lanes(&x, &x)), (sum, sum), "{n}");
        }
    }

    #[test]
    fn a_short_run_measures_everything() {
        let overhead = Overhead::measure(3).unwrap();
        assert!(overhead.direct_ns > 0.0 && overhead.sampled_ns.is_finite());
        assert_eq!(overhead.allocations_per_call, 0.0);
        assert!(
            overhead.rivals.registry.select_ns > 0.0 && overhead.rivals.history.select_ns > 0.0
        );
        assert!(matches!(Overhead::measure(0), Err(OverheadError::NoRounds)));
    }
}
