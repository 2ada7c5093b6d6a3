//! `pointsman replay`: how well policies would have chosen on recorded times.
//!
//! [`table`] reads what each variant took, [`stream`] says what is called, [`drive`] lets a selector
//! serve it, [`score`] compares that with an oracle, [`plot`] draws it.

mod columns;
pub mod drive;
mod lines;
mod log;
pub mod plot;
pub mod score;
pub mod seeds;
pub mod stream;
pub mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use pointsman::FakeClock;

use self::drive::Run;
use self::plot::{Curve, Panel};
use self::score::{Scores, Subject};
use self::seeds::Seeds;
use self::stream::Order;
use self::table::Table;
use crate::listen::{self, Otlp};
use crate::output::{Failure, note, report};

/// Most calls of a replay: some 500 MB.
const MAX_CALLS: u64 = 10_000_000;

/// Replays policies on timing tables.
#[derive(Args)]
pub struct Replay {
    /// CSV files with columns x:NAME, c:NAME, t:VARIANT and m:VARIANT; see docs/replay.md
    #[arg(required = true, value_name = "TABLE")]
    tables: Vec<PathBuf>,
    /// Policies, separated by commas; `all` for every one
    #[arg(long, default_value = "adaptive")]
    policy: String,
    /// Calls of a zipf replay
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=MAX_CALLS))]
    calls: u64,
    /// Which workloads are called
    #[arg(long, value_enum, default_value_t = Order::Zipf)]
    order: Order,
    /// Seeds of stream and policy: one, several as 1,2,3, or all of 1..5 (both ends count)
    #[arg(long, default_value = "1")]
    seed: Seeds,
    /// Noise on the time of a workload with a single row: standard deviation of its log, 0 to 1
    #[arg(long, default_value_t = 0.03, value_parser = share)]
    noise: f64,
    /// Only variants that need at most this workspace
    #[arg(long, value_name = "BYTES")]
    memory_cap: Option<u64>,
    /// Share of the time that trials may cost, 0 to 1
    #[arg(long, default_value_t = 0.01, value_parser = share)]
    budget: f64,
    /// Write every call to this file, as CSV; for one table, policy and seed
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Draw the time beyond the oracle's over the calls into this file, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) otlp: Otlp,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Replay {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let policies = self.policies()?;
        let runs = [self.tables.len(), policies.len(), self.seed.len()];
        if self.log.is_some() && runs != [1; 3] {
            return Err(Failure::new(format!(
                "--log needs exactly one table, one policy and one seed; these are {}, {} and {}",
                runs[0], runs[1], runs[2]
            )));
        }
        let tables = self.read_tables()?;
        let mut scores = Vec::new();
        let mut panels = Vec::new();
        for table in &tables {
            let mut curves = Vec::new();
            for policy in &policies {
                let mut curve = Curve::new(policy);
                for seed in self.seed.iter() {
                    let run = self.replay(table, policy, seed)?;
                    curve.add(table, &run);
                    scores.push(score::score(table, self.subject(table, policy, seed), &run));
                }
                curves.push(curve);
            }
            panels.push(Panel {
                title: table.name.clone(),
                curves,
            });
        }
        if let Some(path) = &self.svg {
            plot::draw(path, &panels)?;
        }
        report(&Scores(scores), self.json)
    }

    fn replay(&self, table: &Table, policy: &str, seed: u64) -> Result<Run, Failure> {
        let clock = FakeClock::new();
        let selector = drive::selector(policy, seed, self.budget, clock.clone())?;
        listen::watch(&selector);
        let calls = stream::stream(
            table.cases.len(),
            self.order,
            self.calls as usize,
            self.noise,
            seed,
        );
        let run = drive::drive(table, &calls, &selector, &clock);
        if let Some(path) = &self.log {
            log::write(path, table, &run)?;
        }
        Ok(run)
    }

    fn subject(&self, table: &Table, policy: &str, seed: u64) -> Subject {
        Subject {
            table: table.name.clone(),
            policy: policy.to_owned(),
            order: self.order,
            seed,
            budget: self.budget,
        }
    }

    /// The policies asked for, each of them known.
    fn policies(&self) -> Result<Vec<String>, Failure> {
        if self.policy.trim() == "all" {
            return Ok(drive::policies().into_iter().map(str::to_owned).collect());
        }
        let names = split(&self.policy);
        for name in &names {
            drive::selector(name, 0, self.budget, FakeClock::new())?;
        }
        Ok(names)
    }

    fn read_tables(&self) -> Result<Vec<Table>, Failure> {
        for written in self.log.iter().chain(&self.svg) {
            if self.tables.iter().any(|table| is_same(table, written)) {
                return Err(Failure::new(format!(
                    "{}: is one of the tables, and would be overwritten; name another file",
                    written.display()
                )));
            }
        }
        let mut tables = Vec::new();
        for path in &self.tables {
            let mut table = Table::open(path)?;
            table.name = self.name(path);
            if let Some(cap) = self.memory_cap {
                table = capped(table, cap)?;
            }
            tables.push(table);
        }
        Ok(tables)
    }

    /// A table's file name without its ending, or its path where that would be ambiguous.
    fn name(&self, path: &Path) -> String {
        let twins = self
            .tables
            .iter()
            .filter(|p| p.file_stem() == path.file_stem());
        let name = match path.file_stem() {
            Some(stem) if twins.count() == 1 => Path::new(stem).display(),
            _ => path.display(),
        };
        table::shown(&name.to_string(), 400)
    }
}

fn capped(table: Table, cap: u64) -> Result<Table, Failure> {
    if !table.knows_memory {
        note(&format!(
            "{}: no column m:…, so --memory-cap changes nothing",
            table.name
        ));
    }
    let (table, left_out) = table.within(cap)?;
    if left_out > 0 {
        note(&format!(
            "{}: {left_out} of {} workloads are left out: no variant in them needs as little as {cap} bytes",
            table.name,
            left_out + table.cases.len()
        ));
    }
    Ok(table)
}

/// Whether both name one file that exists.
fn is_same(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// The parts between commas, except for commas in parentheses.
fn split(list: &str) -> Vec<String> {
    let mut depth = 0;
    let parts = list.split(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth <= 0
    });
    parts.map(|part| part.trim().to_owned()).collect()
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("it is a number from 0 to 1".to_owned()),
    }
}
