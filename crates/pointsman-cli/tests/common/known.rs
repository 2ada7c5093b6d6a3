//! Stores with known contents, and the live report.
#![allow(dead_code, reason = "each test uses some of it")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use pointsman::store::{
    Account, Costs, Entry, Fact, Knowledge, MachineRecord, SqliteStore, Stated, Store as _,
};
use pointsman::{Calibration, Cell, Cost, Machine, Workload};

use super::prepared;

/// A machine that is not this one.
pub(crate) const ELSEWHERE: u64 = 7;

pub(crate) fn place(home: &Path) -> PathBuf {
    home.join("cache/pointsman/knowledge.sqlite")
}

pub(crate) fn add(home: &Path, known: &Knowledge) {
    let mut store = SqliteStore::open(place(home)).unwrap();
    store.merge(known).unwrap();
}

pub(crate) fn entry(op: &str, variant: &str, cell: Cell, fact: Fact) -> Entry {
    Entry {
        machine: ELSEWHERE,
        op: op.into(),
        variant: variant.into(),
        revision: 2,
        cell,
        updated: 1_790_000_000,
        fact,
    }
}

pub(crate) fn costs(ns: &[u64]) -> Fact {
    Fact::Costs(Costs {
        count: 100,
        recent: ns.iter().map(|ns| Cost::from_ns(*ns).unwrap()).collect(),
        ..Costs::default()
    })
}

/// `slow` takes 10 ns an element, `fast` 2 µs and 1 ns an element, at powers of two from 16 to 65,536.
pub(crate) fn crossing(op: &str, slow: &str, fast: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    for n in (4..=16).map(|e| 1u64 << e) {
        let cell = Workload::new([n]).cell();
        let near = |ns: u64| costs(&[ns - ns / 50, ns, ns, ns + ns / 50, ns]);
        entries.push(entry(op, slow, cell, near(10 * n)));
        entries.push(entry(op, fast, cell, near(2000 + n)));
    }
    entries
}

pub(crate) fn account(op: &str, variant: &str) -> Entry {
    let mut account = Account {
        calls: 1234,
        served_ns: 2_000_000_000,
        trials: 20,
        trial_ns: 30_000_000,
        trial_excess_ns: 10_000_000,
        first_tries: 3,
        first_try_ns: 900_000,
        first_try_excess_ns: 600_000,
        quarantines: 2,
        ..Account::default()
    };
    account.stated[9] = Stated {
        judged: 50,
        right: 48,
        sum: 48_500,
    };
    let fact = Fact::Account(Box::new(account));
    entry(op, variant, Cell::whole(), fact)
}

/// An op with two variants, one of three features, an account, and trouble.
pub(crate) fn known() -> Knowledge {
    let mut entries = crossing("own_op", "slow", "fast");
    entries.push(account("own_op", "fast"));
    for (i, n) in [8u64, 16, 32, 64].into_iter().enumerate() {
        let cell = Workload::new([n, n, n]).cell();
        entries.push(entry(
            "own_matmul",
            "naive",
            cell,
            costs(&[n * n * n, n * n * n + 9]),
        ));
        entries.push(entry(
            "own_matmul",
            "tiled",
            cell,
            costs(&[900 + n * n * n / 4]),
        ));
        if i == 2 {
            // One shape that is not on the diagonal.
            let thin = Workload::new([n * n, n, 1]).cell();
            entries.push(entry("own_matmul", "naive", thin, costs(&[3 * n * n * n])));
        }
    }
    let failed = Fact::Costs(Costs {
        count: 4,
        failures: 3,
        recent: vec![Cost::from_ns(700).unwrap()],
        ..Costs::default()
    });
    let cell = Workload::new([8, 8, 8]).cell();
    entries.push(entry("own_matmul", "shaky", cell, failed));
    entries.push(entry("own_matmul", "wrong", cell, Fact::Disagreed));
    let record = Machine::detect().record(&Calibration::nominal());
    Knowledge {
        entries,
        machines: vec![MachineRecord {
            fingerprint: ELSEWHERE,
            ..record
        }],
    }
}

/// Medians that the charts of [`known`] show as points.
pub(crate) const POINTS: usize = 13 * 2 + 4 * 2 + 1 + 1;

/// A report that is being served.
pub(crate) struct Served {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
}

impl Served {
    pub(crate) fn start(home: &Path) -> Self {
        let mut child = prepared(&["report", "--serve", "127.0.0.1:0"], home, &[])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = child.stdout.as_mut().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let address = line
            .split("http://")
            .nth(1)
            .and_then(|l| l.split('/').next());
        let address = address
            .unwrap_or_else(|| panic!("{line:?}"))
            .parse()
            .unwrap();
        Served { child, address }
    }

    /// Sends bytes and gives the answer, as text.
    pub(crate) fn send(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8(answer).unwrap()
    }

    pub(crate) fn get(&self, path: &str, more: &str) -> String {
        let host = self.address;
        self.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n").as_bytes())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
