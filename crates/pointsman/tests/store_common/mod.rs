//! What the store's tests share.
#![allow(dead_code)] // each test file uses a part

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use pointsman::store::{Account, Costs, Entry, Fact, Knowledge, MachineRecord, Stated};
use pointsman::{Backend, Cell, Cost, DType, Workload};

/// A private directory, in memory where the system has one: the sweeps make thousands of files.
pub(crate) fn directory() -> tempfile::TempDir {
    let fast = Path::new("/dev/shm");
    if fast.is_dir() {
        tempfile::tempdir_in(fast)
    } else {
        tempfile::tempdir()
    }
    .unwrap()
}

pub(crate) fn costs(count: u64, recent: &[u64]) -> Fact {
    Fact::Costs(Costs {
        count,
        failures: count / 3,
        recent: recent
            .iter()
            .map(|ns| Cost::from_ns(*ns).unwrap())
            .collect(),
        flops: count.saturating_mul(64),
        bytes: 0,
    })
}

pub(crate) fn entry(op: &str, size: usize, updated: u64, fact: Fact) -> Entry {
    Entry {
        machine: 0xfeed_0000_0000_0001,
        op: op.into(),
        variant: "avx2".into(),
        revision: 3,
        cell: Workload::new([size, 7]).dtype(DType::F32).cell(),
        updated,
        fact,
    }
}

/// An account of so many calls, some of which were judged.
pub(crate) fn account(op: &str, calls: u64) -> Entry {
    let mut account = Account {
        calls,
        served_ns: 1000 * calls,
        trials: calls / 2,
        ..Account::default()
    };
    account.stated[8] = Stated {
        judged: calls,
        right: calls / 2,
        sum: 850 * calls,
    };
    Entry {
        cell: Cell::whole(),
        ..entry(op, 1, 5, Fact::Account(Box::new(account)))
    }
}

pub(crate) fn machine(fingerprint: u64) -> MachineRecord {
    MachineRecord {
        fingerprint,
        text: "Some CPU, 8 cores\nSome GPU, driver 1.2".into(),
        numbers: vec![1.5, 1e9, f64::MIN_POSITIVE],
    }
}

/// A little of everything, in the order in which stores load it.
pub(crate) fn sample() -> Knowledge {
    let mut entries = vec![
        entry("dot_f32", 1, 1_700_000_000, costs(1, &[250])),
        entry("dot_f32", 1, 1_700_000_000, Fact::Agreed),
        entry(
            "dot_f32",
            4096,
            1_700_000_100,
            costs(100, &[9, 8, 7, 6, 5, 4, 3, 2, 1]),
        ),
        entry("größe", 0, u64::MAX, Fact::Disagreed),
    ];
    entries.push(Entry {
        machine: 2,
        revision: u32::MAX,
        cell: Workload::new([1e30, -5.0])
            .codes([1, u32::MAX])
            .located(Backend::Gpu(1))
            .gradient(true)
            .cell(),
        ..entry("spmv", 0, 0, costs(u64::MAX, &[86_400_000_000_000]))
    });
    let mut store = pointsman::store::MemoryStore::new();
    let unsorted = Knowledge {
        entries,
        machines: vec![machine(0xfeed_0000_0000_0001), machine(2)],
    };
    pointsman::store::Store::merge(&mut store, &unsorted).unwrap();
    pointsman::store::Store::load(&mut store).unwrap()
}

/// The same and an account, which the first format did not have.
pub(crate) fn sample_with_account() -> Knowledge {
    let mut store = pointsman::store::MemoryStore::new();
    let more = Knowledge {
        entries: vec![account("dot_f32", 7)],
        machines: Vec::new(),
    };
    for knowledge in [sample(), more] {
        pointsman::store::Store::merge(&mut store, &knowledge).unwrap();
    }
    pointsman::store::Store::load(&mut store).unwrap()
}

/// Whether all that was loaded is something that was stored.
pub(crate) fn is_part_of(loaded: &Knowledge, stored: &Knowledge) -> bool {
    loaded
        .entries
        .iter()
        .all(|entry| stored.entries.contains(entry))
        && loaded
            .machines
            .iter()
            .all(|machine| stored.machines.contains(machine))
}

/// Runs something and gives its warnings, one a line.
pub(crate) fn warnings<T>(run: impl FnOnce() -> T) -> (T, Vec<String>) {
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);
    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .finish();
    let done = tracing::subscriber::with_default(subscriber, run);
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    (done, text.lines().map(str::to_owned).collect())
}

/// This test program again, running only the test `name` with a role: see [`role`].
pub(crate) fn child(name: &str, role: &str, path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    command
        .env("POINTSMAN_TEST_ROLE", role)
        .env("POINTSMAN_TEST_PATH", path);
    command
}

/// What this process is to do if it is a child: its role and the path it works on.
pub(crate) fn role() -> Option<(String, PathBuf)> {
    Some((
        std::env::var("POINTSMAN_TEST_ROLE").ok()?,
        std::env::var_os("POINTSMAN_TEST_PATH")?.into(),
    ))
}

/// Most memory this process ever took, in bytes.
#[cfg(target_os = "linux")]
pub(crate) fn peak_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap();
    let kilobytes: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes * 1024
}

/// A small generator for the tests' own choices.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}
