//! `pointsman doctor`: what the library sees here, and whether its store is well.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use pointsman::store::Knowledge;
use pointsman::{Calibration, Machine, Mode, Selector};
use serde::Serialize;

use crate::gpu::{self, Device};
use crate::kept::{Kept, STORE};
use crate::output::{FOUND_WRONG, Failure, report};

#[derive(Args)]
pub(crate) struct Doctor {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The environment variables that the library obeys.
const VARIABLES: [&str; 6] = [
    "POINTSMAN_FORCE",
    "POINTSMAN_DISABLE",
    "POINTSMAN_MODE",
    "POINTSMAN_POLICY",
    STORE,
    "POINTSMAN_SEED",
];

#[derive(Serialize)]
struct Report {
    version: &'static str,
    mode: Mode,
    machine: Machine,
    gpus: Vec<Device>,
    /// Why there are no more GPUs.
    no_more_gpus: Vec<String>,
    /// In hexadecimal: more digits than a JSON number is sure to keep.
    fingerprint: String,
    calibration: Calibration,
    calibration_from: From,
    store: Store,
    environment: BTreeMap<&'static str, String>,
}

/// Where a calibration comes from.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum From {
    Store,
    MeasuredNow,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Health {
    /// It can be read, and holds this.
    Well,
    /// There is none yet; the first program that learns makes it.
    Absent,
    /// Knowledge is kept in memory, because the environment says so.
    Memory,
    /// It cannot be used; programs learn in memory.
    Unusable,
}

#[derive(Serialize)]
struct Store {
    path: Option<PathBuf>,
    health: Health,
    /// What is wrong.
    problem: Option<String>,
    bytes: Option<u64>,
    entries: usize,
    ops: usize,
    machines: usize,
    /// Whether it knows this machine.
    knows_this_machine: bool,
}

impl Doctor {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let report = Report::new()?;
        let printed = self::report(&report, self.json)?;
        Ok(match report.store.health {
            Health::Unusable => ExitCode::from(FOUND_WRONG),
            _ => printed,
        })
    }
}

impl Report {
    fn new() -> Result<Self, Failure> {
        let machine = gpu::machine();
        let (store, stored) = Store::examine(&machine);
        let calibration_from = match stored {
            Some(_) => From::Store,
            None => From::MeasuredNow,
        };
        // The environment is read as any program reads it, except for the store: looking must
        // neither make nor change one.
        let mut builder = gpu::announce(Selector::builder())
            .in_memory()
            .environment(|name| std::env::var(name).ok().filter(|_| name != STORE));
        if let Some(calibration) = stored {
            builder = builder.calibration(calibration);
        }
        let selector = builder.build().map_err(Failure::new)?;
        let set = |name| Some((name, std::env::var(name).ok()?));
        Ok(Report {
            version: env!("CARGO_PKG_VERSION"),
            mode: selector.mode(),
            fingerprint: format!("{:016x}", machine.fingerprint()),
            machine,
            gpus: gpu::devices(),
            no_more_gpus: gpu::missing(),
            calibration: selector.calibration().clone(),
            calibration_from,
            store,
            environment: VARIABLES.into_iter().filter_map(set).collect(),
        })
    }
}

impl Store {
    /// The store that programs would use, and the calibration it keeps of this machine.
    fn examine(machine: &Machine) -> (Self, Option<Calibration>) {
        match Kept::look() {
            Kept::Memory => (Store::without(Health::Memory), None),
            Kept::Absent(path) => {
                let mut store = Store::without(Health::Absent);
                store.path = Some(path);
                (store, None)
            }
            Kept::Known(path, knowledge) => Store::well(path, &knowledge, machine),
            Kept::Unusable(path, why) => (Store::unusable(path, why), None),
        }
    }

    fn without(health: Health) -> Self {
        Store {
            path: None,
            health,
            problem: None,
            bytes: None,
            entries: 0,
            ops: 0,
            machines: 0,
            knows_this_machine: false,
        }
    }

    fn unusable(path: Option<PathBuf>, why: String) -> Self {
        Store {
            path,
            problem: Some(why),
            ..Store::without(Health::Unusable)
        }
    }

    fn well(path: PathBuf, known: &Knowledge, machine: &Machine) -> (Self, Option<Calibration>) {
        let fingerprint = machine.fingerprint();
        let record = known.machines.iter().find(|m| m.fingerprint == fingerprint);
        let ops: BTreeSet<&str> = known.entries.iter().map(|e| &*e.op).collect();
        let store = Store {
            bytes: size(&path),
            entries: known.entries.len(),
            ops: ops.len(),
            machines: known.machines.len(),
            knows_this_machine: record.is_some(),
            path: Some(path),
            ..Store::without(Health::Well)
        };
        (store, record.and_then(Calibration::from_record))
    }
}

/// The file with the log beside it, in which the latest changes lie.
fn size(path: &Path) -> Option<u64> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let bytes = |path: &Path| std::fs::metadata(path).ok().map(|file| file.len());
    Some(bytes(path)? + bytes(Path::new(&log)).unwrap_or(0))
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Bytes as a person writes them.
fn human_bytes(bytes: Option<u64>) -> String {
    match bytes {
        None => "unknown".to_owned(),
        Some(b) if b >= 10 << 20 => format!("{} MiB", b >> 20),
        Some(b) if b >= 10 << 10 => format!("{} KiB", b >> 10),
        Some(b) => format!("{b} bytes"),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let m = &self.machine;
        let features: Vec<String> = m.features.iter().map(|cap| cap.to_string()).collect();
        let caches: Vec<String> = [m.l1d_bytes, m.l2_bytes, m.l3_bytes]
            .into_iter()
            .map(human_bytes)
            .collect();
        writeln!(f, "pointsman {} ({} mode)\n", self.version, self.mode)?;
        writeln!(f, "machine      {}, {} {}", m.cpu, m.os, m.arch)?;
        writeln!(f, "fingerprint  {}", self.fingerprint)?;
        writeln!(f, "cores        {}", m.cores)?;
        writeln!(f, "features     {}", features.join(" "))?;
        writeln!(f, "caches       L1d, L2, L3: {}", caches.join(", "))?;
        for gpu in &self.gpus {
            gpu.fmt(f)?;
        }
        for why in &self.no_more_gpus {
            writeln!(f, "no more GPUs {why}")?;
        }
        let from = match self.calibration_from {
            From::Store => "from the store",
            From::MeasuredNow => "measured now",
        };
        let clock = self.calibration.clock_ns();
        writeln!(
            f,
            "\ncalibration  {from}; timing a call takes {clock:.0} ns"
        )?;
        writeln!(
            f,
            "{:<13}{:>14}{:>12}{:>10}{:>16}",
            "", "launch", "GFLOP/s", "GB/s", "GB/s over bus"
        )?;
        for (name, cost) in self.calibration.backends() {
            let (flops, bytes) = (cost.flops_per_s / 1e9, cost.bytes_per_s / 1e9);
            write!(
                f,
                "  {name:<11}{:>11.0} ns{flops:>12.1}{bytes:>10.1}",
                cost.launch_ns
            )?;
            match cost.transfer_bytes_per_s {
                Some(rate) => writeln!(f, "{:>16.1}", rate / 1e9)?,
                None => writeln!(f)?,
            }
        }
        writeln!(f)?;
        self.store.fmt(f)?;
        for (name, value) in &self.environment {
            write!(f, "\n{name}={value}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<13}{}, {}, {}, {}",
            self.backend, self.name, self.kind, self.api, self.driver
        )?;
        writeln!(
            f,
            "             memory {} ({})",
            human_bytes(Some(self.free_bytes)),
            self.free_from
        )?;
        writeln!(
            f,
            "             limits: a buffer {}, of which a kernel sees {}; a workgroup {} invocations, {} shared",
            human_bytes(Some(self.max_buffer_bytes)),
            human_bytes(Some(self.max_binding_bytes)),
            self.max_invocations,
            human_bytes(Some(self.max_shared_bytes.into()))
        )
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            writeln!(f, "store        {}", path.display())?;
        }
        let problem = self.problem.as_deref().unwrap_or_default();
        match self.health {
            Health::Well => writeln!(
                f,
                "             well: {} of {} from {}{}, {}",
                counted(self.entries, "entry", "entries"),
                counted(self.ops, "op", "ops"),
                counted(self.machines, "machine", "machines"),
                if self.knows_this_machine {
                    ", this one too"
                } else {
                    ""
                },
                human_bytes(self.bytes)
            ),
            Health::Absent => writeln!(
                f,
                "             not there yet: made when something is learned"
            ),
            Health::Memory => writeln!(f, "store        in memory, as {STORE} says"),
            Health::Unusable => writeln!(f, "             cannot be used: {problem}"),
        }
    }
}
