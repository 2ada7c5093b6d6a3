//! `pointsman tune`: measures every variant over a range of sizes, learns and keeps it.

mod measure;
mod progress;
mod record;
mod refused;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::ProgressBar;
use pointsman::Backend;
use pointsman_ops::catalogue::Entry;
use serde::Serialize;

use self::measure::{Measured, Task};
use self::progress::Progress;
use self::record::Record;
use self::refused::{Lines, Refusal};
use crate::catalogue::{Catalogue, Steer};
use crate::gpu;
use crate::listen::Otlp;
use crate::map::Map;
use crate::output::{Failure, note, report};
use crate::sizes::Sizes;

/// How long saving may take at the end: a busy disk, not a hung one.
const SAVE_WITHIN: Duration = Duration::from_secs(10);

#[derive(Args)]
pub(crate) struct Tune {
    /// Ops; all of them if none is named
    ops: Vec<String>,
    /// How long to measure at most
    #[arg(long, default_value = "60s")]
    time: humantime::Duration,
    /// Sizes to go through: elements of the largest array
    #[arg(long, default_value = Sizes::DEFAULT)]
    sizes: Sizes,
    /// Backends to measure, separated by commas; all of them by default
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    backends: Vec<Backend>,
    #[command(flatten)]
    steer: Steer,
    /// Also write the times of one op as a table for `pointsman replay`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) otlp: Otlp,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What tuning did.
#[derive(Serialize)]
struct Tuned {
    seconds: f64,
    /// Measurements made, and sizes of ops they are spread over.
    measurements: u64,
    shapes: usize,
    /// Sizes of ops that the time was too short for.
    left_out: usize,
    interrupted: bool,
    store: String,
    /// Variants that failed somewhere or were measured nowhere, and why.
    refused: Vec<Refusal>,
    map: Map,
}

impl Tune {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let catalogue = Catalogue::learning(&self.steer)?;
        let entries = catalogue.chosen(&self.ops)?;
        self.backends_exist(&entries)?;
        let mut record = match (&self.record, &entries[..]) {
            (None, _) => None,
            (Some(path), [entry]) => Some(Record::new(path, *entry)?),
            (Some(_), _) => {
                let why = "--record writes the table of one op: name one, such as `tune matmul --record matmul.csv`";
                return Err(Failure::new(why));
            }
        };
        let tuned = self.measure(&catalogue, &entries, record.as_mut())?;
        if let Some(record) = record {
            record.finish()?;
        }
        report(&tuned, self.json)
    }

    /// A backend that no variant runs on is a mistake.
    fn backends_exist(&self, entries: &[&dyn Entry]) -> Result<(), Failure> {
        let mut known: Vec<String> = Vec::new();
        for entry in entries {
            for (_, backend) in entry.variants() {
                let name = backend.to_string();
                if !known.contains(&name) {
                    known.push(name);
                }
            }
        }
        let unknown = |b: &&Backend| !known.contains(&b.to_string());
        match self.backends.iter().find(unknown) {
            None => Ok(()),
            Some(backend) => Err(Failure::new(format!(
                "no variant of these ops runs on backend {backend}; there are {}",
                known.join(", ")
            ))),
        }
    }

    fn measure(
        &self,
        catalogue: &Catalogue,
        entries: &[&dyn Entry],
        mut record: Option<&mut Record>,
    ) -> Result<Tuned, Failure> {
        let stop = interruptible()?;
        self.compile();
        let start = Instant::now();
        let deadline = start + *self.time;
        let tasks = self.tasks(entries);
        let progress = Progress::new(tasks.len(), *self.time);
        let mut sum = Measured::default();
        let mut done = 0;
        for (at, task) in tasks.iter().enumerate() {
            let now = Instant::now();
            if stop.load(Relaxed) || now >= deadline {
                break;
            }
            progress.at(task, at);
            // What the small sizes leave over goes to the large ones.
            let slice = (deadline - now) / (tasks.len() - at) as u32 * 2;
            task.measure(slice, deadline, &stop, &mut sum, record.as_deref_mut())
                .map_err(Failure::new)?;
            done += 1;
        }
        progress.finish();
        if let Err(error) = catalogue.selector.flush(SAVE_WITHIN) {
            note(&format!("what was learned could not be saved: {error}"));
        }
        Ok(Tuned {
            seconds: start.elapsed().as_secs_f64(),
            measurements: sum.measurements,
            shapes: done,
            left_out: tasks.len() - done,
            interrupted: stop.load(Relaxed),
            store: catalogue.selector.store_name().to_owned(),
            refused: sum.refusals.told(),
            map: Map::new(entries, self.sizes).map_err(Failure::new)?,
        })
    }

    /// Kernels for GPUs first: who has to wait for one is not measured.
    fn compile(&self) {
        let wanted = |b: &Backend| matches!(b, Backend::Gpu(_));
        if !self.backends.is_empty() && !self.backends.iter().any(wanted) {
            return;
        }
        let bar = ProgressBar::new_spinner();
        let failed = gpu::prepare(|kernel| bar.set_message(format!("compiling {kernel}")));
        bar.finish_and_clear();
        failed.iter().for_each(|why| note(why));
    }

    /// All sizes of all ops, coarsely over the whole range first.
    fn tasks<'e>(&self, entries: &[&'e dyn Entry]) -> Vec<Task<'e>> {
        let mut tasks: Vec<Task<'e>> = Vec::new();
        for size in self.sizes.coarse_to_fine() {
            for entry in entries {
                let task = Task::new(*entry, size, &self.backends);
                if !tasks.iter().any(|t| t.is_same(&task)) {
                    tasks.push(task);
                }
            }
        }
        tasks
    }
}

/// A flag that Ctrl-C raises. The second Ctrl-C ends the process as usual.
fn interruptible() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let raised = stop.clone();
    let handler = move || {
        if raised.swap(true, Relaxed) {
            std::process::exit(130);
        }
    };
    ctrlc::set_handler(handler)
        .map_err(|error| Failure::new(format!("cannot listen for Ctrl-C: {error}")))?;
    Ok(stop)
}

impl std::fmt::Display for Tuned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}", self.map)?;
        let how = if self.interrupted {
            "Stopped after"
        } else {
            "Took"
        };
        writeln!(
            f,
            "{how} {:.0} s: {} measurements of {} shapes, kept in {}.",
            self.seconds, self.measurements, self.shapes, self.store
        )?;
        if self.left_out > 0 {
            writeln!(
                f,
                "{} shapes are left out; more --time measures them too.",
                self.left_out
            )?;
        }
        write!(f, "{}", Lines(&self.refused))
    }
}
