//! `pointsman store`: looks after what was learned.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use pointsman::Selector;
use pointsman::store::{self, Fact, Knowledge, SqliteStore, Store as _};
use serde::Serialize;

use crate::kept::Kept;
use crate::output::{FOUND_WRONG, Failure, report};

/// How long a change of the store may take: others may be at work on it.
const WITHIN: Duration = Duration::from_secs(30);

#[derive(Args)]
#[command(arg_required_else_help = false)]
pub(crate) struct Store {
    #[command(subcommand)]
    what: What,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum What {
    /// Show what is known, op by op
    Show {
        /// Ops; all of them if none is named
        ops: Vec<String>,
    },
    /// Look for damage; exit code 1 if there is any
    Check,
    /// Write all knowledge to a file
    Export {
        /// The file to write
        file: PathBuf,
    },
    /// Read an exported file as the knowledge of another machine: it informs first guesses
    Import {
        /// The file to read
        file: PathBuf,
    },
    /// Add the knowledge of other stores or exported files as it is, machine by machine
    Merge {
        /// The files to read; measurements of one that is merged twice count twice
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Forget an op, or everything
    Forget {
        /// The op, with its type: matmul_f32
        #[arg(conflicts_with = "all")]
        op: Option<String>,
        /// Forget everything
        #[arg(long)]
        all: bool,
    },
}

impl Store {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self.what {
            What::Show { ops } => report(&Shown::new(Kept::look(), &ops)?, self.json),
            What::Check => check(self.json),
            What::Export { file } => {
                let known = Kept::look().knowledge()?;
                store::export_to(&known, &file).map_err(Failure::new)?;
                report(&Moved::new("exported", &known, &file), self.json)
            }
            What::Import { file } => {
                let path = path()?;
                let selector = Selector::builder()
                    .ignore_environment()
                    .store_file(&path)
                    .build()
                    .map_err(Failure::new)?;
                let entries = selector.import_from(&file, WITHIN).map_err(Failure::new)?;
                let moved = Moved {
                    done: "imported",
                    entries,
                    from_or_to: file,
                };
                report(&moved, self.json)
            }
            What::Merge { files } => merge(&files, self.json),
            What::Forget {
                op: None,
                all: false,
            } => Err(Failure::new(
                "name the op to forget, or --all for everything",
            )),
            What::Forget { op, .. } => forget(op.as_deref(), self.json),
        }
    }
}

fn path() -> Result<PathBuf, Failure> {
    Ok(Kept::look().path()?.to_owned())
}

/// What was taken from a file, or written to one.
#[derive(Serialize)]
struct Moved {
    done: &'static str,
    entries: usize,
    from_or_to: PathBuf,
}

impl Moved {
    fn new(done: &'static str, known: &Knowledge, file: &Path) -> Self {
        Moved {
            done,
            entries: known.entries.len(),
            from_or_to: file.to_owned(),
        }
    }
}

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Moved { done, entries, .. } = self;
        write!(f, "{done} {entries} entries: {}", self.from_or_to.display())
    }
}

#[derive(Serialize)]
struct Checked {
    path: PathBuf,
    there: bool,
    problems: Vec<String>,
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        if !self.there {
            return write!(f, "{path} is not there yet");
        }
        if self.problems.is_empty() {
            return write!(f, "{path} is well");
        }
        writeln!(f, "{path} is damaged:")?;
        for problem in &self.problems {
            writeln!(f, "  {problem}")?;
        }
        write!(
            f,
            "The next program that uses it keeps what is whole and puts the file aside."
        )
    }
}

fn check(json: bool) -> Result<ExitCode, Failure> {
    // Not `Kept::look`, which would open a damaged file and so replace it.
    let path = Kept::place()?;
    let there = path.exists();
    let problems = match there {
        true => SqliteStore::examine(&path).map_err(Failure::new)?,
        false => Vec::new(),
    };
    let damaged = !problems.is_empty();
    let checked = Checked {
        path,
        there,
        problems,
    };
    let printed = report(&checked, json)?;
    Ok(match damaged {
        true => ExitCode::from(FOUND_WRONG),
        false => printed,
    })
}

fn merge(files: &[PathBuf], json: bool) -> Result<ExitCode, Failure> {
    let mut ours = SqliteStore::open(path()?).map_err(Failure::new)?;
    // All are read before anything is changed.
    let read: Result<Vec<Knowledge>, Failure> = files.iter().map(|f| read(f)).collect();
    let mut sum = Knowledge::default();
    for known in read? {
        sum.entries.extend(known.entries);
        sum.machines.extend(known.machines);
    }
    ours.merge(&sum).map_err(Failure::new)?;
    report(&Moved::new("merged", &sum, ours.path()), json)
}

/// The knowledge of a store or of an exported file. That a variant agreed with its reference is left
/// out: it is checked again where it serves.
fn read(file: &Path) -> Result<Knowledge, Failure> {
    let wrong = |error: &dyn fmt::Display| Failure::new(format!("{}: {error}", file.display()));
    let head = std::fs::File::open(file).and_then(|mut file| {
        let mut head = [0; 16];
        std::io::Read::read_exact(&mut file, &mut head).map(|()| head)
    });
    let known = match head.map_err(|error| wrong(&error))? {
        head if head == *b"SQLite format 3\0" => {
            SqliteStore::open(file).and_then(|mut store| store.load())
        }
        _ => store::import_from(file),
    };
    let mut known = known.map_err(|error| wrong(&error))?;
    known.entries.retain(|e| e.fact != Fact::Agreed);
    Ok(known)
}

#[derive(Serialize)]
struct Forgotten {
    forgotten: Option<String>,
    entries: usize,
}

impl fmt::Display for Forgotten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.forgotten.as_deref().unwrap_or("everything");
        write!(f, "forgot {what}: {} entries", self.entries)
    }
}

fn forget(op: Option<&str>, json: bool) -> Result<ExitCode, Failure> {
    let kept = Kept::look();
    let path = kept.path()?.to_owned();
    let known = kept.knowledge()?;
    let about = |e: &&store::Entry| op.is_none_or(|op| *e.op == *op);
    let entries = known.entries.iter().filter(about).count();
    if let (Some(op), 0) = (op, entries) {
        return Err(unknown(op, &known));
    }
    if path.exists() {
        let forgotten = SqliteStore::open(&path).and_then(|mut store| store.forget(op));
        forgotten.map_err(Failure::new)?;
    }
    let forgotten = Forgotten {
        forgotten: op.map(str::to_owned),
        entries,
    };
    report(&forgotten, json)
}

fn unknown(op: &str, known: &Knowledge) -> Failure {
    let mut ops: Vec<&str> = known.entries.iter().map(|e| &*e.op).collect();
    ops.sort_unstable();
    ops.dedup();
    Failure::new(match &ops[..] {
        [] => format!("nothing is known of {op:?}, nor of any other op"),
        ops => format!("nothing is known of {op:?}; there are {}", ops.join(", ")),
    })
}

/// What is known, op by op.
#[derive(Serialize)]
struct Shown {
    store: String,
    variants: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    op: String,
    variant: String,
    /// In hexadecimal: more digits than a JSON number is sure to keep.
    machine: String,
    this_machine: bool,
    cells: usize,
    measurements: u64,
    failures: u64,
    /// Blocks of cells in which it agreed with the reference.
    agreed: usize,
    /// Whether it ever disagreed.
    disagreed: bool,
    /// Seconds since 1970 when something was last added.
    updated: u64,
}

impl Shown {
    fn new(kept: Kept, ops: &[String]) -> Result<Self, Failure> {
        let store = kept.describe();
        let known = kept.knowledge()?;
        for op in ops {
            if known.entries.iter().all(|e| *e.op != **op) {
                return Err(unknown(op, &known));
            }
        }
        let here = crate::gpu::machine().fingerprint();
        let mut lines: BTreeMap<_, Line> = BTreeMap::new();
        for entry in &known.entries {
            if !ops.is_empty() && ops.iter().all(|op| *entry.op != **op) {
                continue;
            }
            let key = (
                &entry.op,
                entry.machine != here,
                entry.machine,
                &entry.variant,
            );
            let line = lines.entry(key).or_insert_with(|| Line {
                op: entry.op.to_string(),
                variant: entry.variant.to_string(),
                machine: format!("{:016x}", entry.machine),
                this_machine: entry.machine == here,
                cells: 0,
                measurements: 0,
                failures: 0,
                agreed: 0,
                disagreed: false,
                updated: 0,
            });
            line.updated = line.updated.max(entry.updated);
            match &entry.fact {
                Fact::Costs(costs) => {
                    line.cells += 1;
                    line.measurements = line.measurements.saturating_add(costs.count);
                    line.failures = line.failures.saturating_add(costs.failures);
                }
                Fact::Agreed => line.agreed += 1,
                Fact::Disagreed => line.disagreed = true,
                Fact::Account(_) => {}
            }
        }
        Ok(Shown {
            store,
            variants: lines.into_values().collect(),
        })
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.store)?;
        if self.variants.is_empty() {
            return write!(f, "Nothing is known yet: `pointsman tune` measures.");
        }
        let widest = |text: fn(&Line) -> &str| {
            let widths = self.variants.iter().map(|l| text(l).chars().count());
            widths.max().unwrap_or(0).max(7)
        };
        let (op, variant) = (widest(|l| &l.op), widest(|l| &l.variant));
        writeln!(
            f,
            "{:<op$}  {:<variant$}  {:<16}  {:>6}  {:>12}  {:>8}  checked",
            "op", "variant", "machine", "cells", "measurements", "failures"
        )?;
        for l in &self.variants {
            let machine = if l.this_machine { "this" } else { &l.machine };
            let checked = match (l.disagreed, l.agreed) {
                (true, _) => "gave wrong results".to_owned(),
                (false, 0) => "–".to_owned(),
                (false, blocks) => format!("agreed in {blocks}"),
            };
            writeln!(
                f,
                "{:<op$}  {:<variant$}  {machine:<16}  {:>6}  {:>12}  {:>8}  {checked}",
                l.op, l.variant, l.cells, l.measurements, l.failures
            )?;
        }
        Ok(())
    }
}
