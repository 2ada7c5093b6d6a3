//! How good the choices of a replay were.

use std::fmt;

use serde::Serialize;

use pointsman::Reason;

use super::drive::Run;
use super::stream::Order;
use super::table::Table;

/// A choice counts as right if its true cost is within this factor of the best.
const RIGHT: f64 = 1.05;

/// What is replayed.
#[derive(Clone, Debug, Serialize)]
pub struct Subject {
    /// The table.
    pub table: String,
    /// The policy.
    pub policy: String,
    /// The order of the calls.
    pub order: Order,
    /// The seed of the stream and of the policy.
    pub seed: u64,
    /// Share of the time that trials may cost.
    pub budget: f64,
}

/// The figures of one replay. Regret is in true costs, so that noise cancels; every call counts,
/// trials and first tries too.
#[derive(Clone, Debug, Serialize)]
pub struct Score {
    /// What was replayed.
    #[serde(flatten)]
    pub subject: Subject,
    /// How many calls.
    pub calls: usize,
    /// Time of the choices ÷ time of the oracle.
    pub total: f64,
    /// Geometric mean of the ratios to the oracle, call by call.
    pub geomean: f64,
    /// `total` of the second half of the calls.
    pub late_total: f64,
    /// `geomean` of the second half of the calls.
    pub late_geomean: f64,
    /// The ratio to the oracle that 95 % of the calls do not exceed.
    pub p95: f64,
    /// What trials took beyond the best ÷ the time of all calls, as drawn.
    pub trial_share: f64,
    /// The same of first tries, which no budget bounds.
    pub first_try_share: f64,
    /// Share of the calls whose choice is within 5 % of the best.
    pub right_share: f64,
    /// How often the choice changed from call to call of a workload, trials aside; per workload.
    pub flips: f64,
    /// The variant that would have been the best to use always.
    pub best_fixed: String,
    /// Its time ÷ time of the oracle. Where it cannot run, it takes the median of those who can.
    pub best_fixed_total: f64,
    /// Geometric mean of its ratios to the oracle.
    pub best_fixed_geomean: f64,
    /// Calls per second of real time that choosing and recording allow.
    pub calls_per_s: f64,
}

/// Scores a replay of at least one call.
pub fn score(table: &Table, subject: Subject, run: &Run) -> Score {
    let calls = run.served.len();
    let best: Vec<f64> = table.cases.iter().map(|case| case.best()).collect();
    let mut ratios = Vec::with_capacity(calls);
    let (mut all, mut late) = (Sum::default(), Sum::default());
    let (mut time, mut trials, mut first_tries) = (0.0, 0.0, 0.0);
    let mut last: Vec<Option<u32>> = vec![None; table.cases.len()];
    let mut counts = vec![0u64; table.cases.len()];
    let mut flips = 0u64;
    for (at, served) in run.served.iter().enumerate() {
        let case = served.case as usize;
        let truth = table.cases[case].choices[served.choice as usize].truth;
        all.add(truth, best[case], 1.0);
        if at >= calls / 2 {
            late.add(truth, best[case], 1.0);
        }
        ratios.push(truth / best[case]);
        time += served.seconds;
        let excess = (served.seconds - best[case]).max(0.0);
        match served.reason {
            Reason::Trial => trials += excess,
            Reason::FirstTry => first_tries += excess,
            _ => {}
        }
        counts[case] += 1;
        if !served.is_trial() {
            let before = last[case].replace(served.choice);
            flips += u64::from(before.is_some_and(|choice| choice != served.choice));
        }
    }
    let right = ratios.iter().filter(|ratio| **ratio <= RIGHT).count();
    let rank = (calls * 95).div_ceil(100) - 1;
    let (_, p95, _) = ratios.select_nth_unstable_by(rank, f64::total_cmp);
    let called = counts.iter().filter(|count| **count > 0).count();
    let (best_fixed, fixed) = best_fixed(table, &counts, &best);
    Score {
        subject,
        calls,
        total: all.total(),
        geomean: all.geomean(),
        late_total: late.total(),
        late_geomean: late.geomean(),
        p95: *p95,
        trial_share: trials / time,
        first_try_share: first_tries / time,
        right_share: right as f64 / calls as f64,
        flips: flips as f64 / called as f64,
        best_fixed: table.variants[best_fixed].clone(),
        best_fixed_total: fixed.total(),
        best_fixed_geomean: fixed.geomean(),
        calls_per_s: calls as f64 / run.elapsed.as_secs_f64().max(1e-9),
    }
}

/// True costs of choices beside those of the oracle.
#[derive(Clone, Copy, Default)]
struct Sum {
    calls: f64,
    truth: f64,
    best: f64,
    logs: f64,
}

impl Sum {
    fn add(&mut self, truth: f64, best: f64, calls: f64) {
        self.calls += calls;
        self.truth += calls * truth;
        self.best += calls * best;
        self.logs += calls * (truth / best).ln();
    }

    fn total(&self) -> f64 {
        self.truth / self.best
    }

    fn geomean(&self) -> f64 {
        (self.logs / self.calls).exp()
    }
}

/// The variant with the lowest total over these numbers of calls per case.
fn best_fixed(table: &Table, counts: &[u64], best: &[f64]) -> (usize, Sum) {
    let mut sums = vec![Sum::default(); table.variants.len()];
    for ((case, count), best) in table.cases.iter().zip(counts).zip(best) {
        if *count == 0 {
            continue;
        }
        let mut truths = vec![case.middle(); sums.len()];
        for choice in &case.choices {
            truths[choice.variant] = choice.truth;
        }
        for (sum, truth) in sums.iter_mut().zip(truths) {
            sum.add(truth, *best, *count as f64);
        }
    }
    let lowest = |a: &(usize, Sum), b: &(usize, Sum)| a.1.truth.total_cmp(&b.1.truth);
    sums.into_iter()
        .enumerate()
        .min_by(lowest)
        .unwrap_or_default()
}

/// Scores of several replays; prints as a table for people.
#[derive(Serialize)]
#[serde(transparent)]
pub struct Scores(pub Vec<Score>);

/// The figures of a line, as a person reads them.
const HEADINGS: [&str; 11] = [
    "total", "geomean", "late", "late gm", "p95", "trials", "first", "right", "flips", "fixed",
    "calls/s",
];

/// The largest number is the worst, except where more is better.
const MORE_IS_BETTER: [usize; 2] = [7, 10];

impl Score {
    fn figures(&self) -> [f64; HEADINGS.len()] {
        [
            self.total,
            self.geomean,
            self.late_total,
            self.late_geomean,
            self.p95,
            self.trial_share,
            self.first_try_share,
            self.right_share,
            self.flips,
            self.best_fixed_total,
            self.calls_per_s,
        ]
    }
}

impl fmt::Display for Scores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wide = |text: fn(&Subject) -> &str, least: usize| {
            let widths = self.0.iter().map(|s| text(&s.subject).chars().count());
            widths.max().unwrap_or(0).max(least)
        };
        let (table, policy) = (wide(|s| &s.table, 5), wide(|s| &s.policy, 6));
        write!(
            f,
            "{:table$}  {:policy$}  {:>6} {:>8}",
            "table", "policy", "seed", "calls"
        )?;
        HEADINGS
            .iter()
            .try_for_each(|heading| write!(f, " {heading:>8}"))?;
        writeln!(f)?;
        let line = |f: &mut fmt::Formatter<'_>, of: &Score, seed: &str, figures| {
            let Subject {
                table: name,
                policy: by,
                ..
            } = &of.subject;
            write!(f, "{name:table$}  {by:policy$}  {seed:>6} {:>8}", of.calls)?;
            write_figures(f, figures)
        };
        let same = |a: &Score, b: &Score| {
            (&a.subject.table, &a.subject.policy) == (&b.subject.table, &b.subject.policy)
        };
        for seeds in self.0.chunk_by(same) {
            for score in seeds {
                line(f, score, &score.subject.seed.to_string(), score.figures())?;
            }
            if seeds.len() > 1 {
                line(f, &seeds[0], "mean", mean(seeds))?;
                line(f, &seeds[0], "worst", worst(seeds))?;
            }
        }
        Ok(())
    }
}

fn mean(scores: &[Score]) -> [f64; HEADINGS.len()] {
    std::array::from_fn(|at| {
        let sum: f64 = scores.iter().map(|score| score.figures()[at]).sum();
        sum / scores.len() as f64
    })
}

fn worst(scores: &[Score]) -> [f64; HEADINGS.len()] {
    std::array::from_fn(|at| {
        let figures = scores.iter().map(|score| score.figures()[at]);
        if MORE_IS_BETTER.contains(&at) {
            figures.fold(f64::INFINITY, f64::min)
        } else {
            figures.fold(0.0, f64::max)
        }
    })
}

fn write_figures(f: &mut fmt::Formatter<'_>, figures: [f64; HEADINGS.len()]) -> fmt::Result {
    for (at, figure) in figures.into_iter().enumerate() {
        let text = match HEADINGS[at] {
            "trials" | "first" | "right" => format!("{:.2} %", 100.0 * figure),
            "flips" => format!("{figure:.2}"),
            "calls/s" => format!("{figure:.0}"),
            _ => format!("{figure:.4}"),
        };
        write!(f, " {text:>8}")?;
    }
    writeln!(f)
}
