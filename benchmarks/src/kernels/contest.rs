//! Contestants that take turns.

use std::thread;
use std::time::{Duration, Instant};

use pointsman_ops::catalogue::{Call, Entry};

use super::Reached;

/// Rounds in which everybody runs once: the best of them counts, since noise only adds.
const ROUNDS: usize = 15;

/// Short calls are repeated until a turn takes this many seconds, well above what a clock sees.
const TURN: f64 = 200e-6;

/// Pause after a rival: threads of OpenBLAS spin for some 25 ms after a call, at the cost of whoever
/// comes next.
const SETTLE: Duration = Duration::from_millis(40);

type Body<'c> = Box<dyn FnMut() + 'c>;

struct Contestant<'c> {
    who: String,
    rival: bool,
    body: Body<'c>,
    best_s: f64,
}

/// One op at one shape, with rivals.
pub(super) struct Contest<'c> {
    op: String,
    shape: String,
    contestants: Vec<Contestant<'c>>,
}

impl<'c> Contest<'c> {
    /// All variants that may serve the shape, but for the ones that are left out as too slow.
    pub(super) fn new(
        entries: &[Box<dyn Entry>],
        op: &str,
        shape: &[usize],
        without: &[&str],
    ) -> Self {
        let numbers: Vec<String> = shape.iter().map(usize::to_string).collect();
        let mut contest = Contest {
            op: op.to_owned(),
            shape: numbers.join("x"),
            contestants: Vec::new(),
        };
        let Some(entry) = entries.iter().find(|e| e.name() == op) else {
            return contest;
        };
        let told = entry.explain(shape).map(|told| told.variants);
        for variant in told.unwrap_or_default() {
            if !variant.eligible() || without.contains(&variant.name.as_str()) {
                continue;
            }
            let Ok(mut call) = entry.call(shape, 1) else {
                continue;
            };
            // A condition on the arguments may refuse it.
            if call.run_variant(&variant.name).is_err() {
                continue;
            }
            let name = variant.name.clone();
            let body = move || run(&mut *call, &name);
            contest.add(variant.name, false, Box::new(body));
        }
        contest
    }

    pub(super) fn rival(&mut self, who: &str, body: impl FnMut() + 'c) {
        self.add(who.to_owned(), true, Box::new(body));
    }

    fn add(&mut self, who: String, rival: bool, body: Body<'c>) {
        self.contestants.push(Contestant {
            who,
            rival,
            body,
            best_s: f64::INFINITY,
        });
    }

    /// Runs all of them in turns. `work` is what one call does, in units a second would be filled
    /// with.
    pub(super) fn hold(mut self, work: f64, unit: &'static str, test: bool) -> Vec<Reached> {
        for round in 0..if test { 1 } else { ROUNDS } {
            // Another one begins each time: nobody always runs after the same.
            let first = round % self.contestants.len().max(1);
            self.contestants.rotate_left(first);
            for contestant in &mut self.contestants {
                let start = Instant::now();
                let mut calls = 0;
                while calls == 0 || (!test && start.elapsed().as_secs_f64() < TURN) {
                    (contestant.body)();
                    calls += 1;
                }
                let took = start.elapsed().as_secs_f64() / f64::from(calls);
                contestant.best_s = contestant.best_s.min(took);
                if contestant.rival && !test {
                    thread::sleep(SETTLE);
                }
            }
        }
        let (op, shape) = (self.op, self.shape);
        let reached = |c: Contestant<'c>| Reached {
            op: op.clone(),
            shape: shape.clone(),
            who: c.who,
            rival: c.rival,
            ns: c.best_s * 1e9,
            rate: work / c.best_s,
            unit,
        };
        let mut results: Vec<Reached> = self.contestants.into_iter().map(reached).collect();
        results.sort_by(|a, b| a.ns.total_cmp(&b.ns));
        results
    }
}

fn run(call: &mut dyn Call, variant: &str) {
    // It served the same call a moment ago.
    let _ = call.run_variant(variant);
}
