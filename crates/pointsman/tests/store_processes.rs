//! Several processes on one store, some of them killed. What a user loses if these fail: half a
//! save, lost measurements, or a program that waits for a dead one.
#![cfg(all(unix, feature = "sqlite"))]
#![allow(clippy::print_stderr)] // what was measured, and what was skipped

mod store_common;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use pointsman::store::{Fact, Knowledge, SqliteStore, Store, export_to, import_from};
use store_common::*;

/// A change of two records that must always appear together, and one measurement in each.
fn pair(size: usize) -> Knowledge {
    let one = |op: &str| entry(op, size, 1, costs(1, &[5]));
    Knowledge {
        entries: vec![one("left"), one("right")],
        machines: vec![],
    }
}

fn count(knowledge: &Knowledge, op: &str) -> u64 {
    let of = |fact: &Fact| {
        if let Fact::Costs(costs) = fact {
            costs.count
        } else {
            0
        }
    };
    knowledge
        .entries
        .iter()
        .filter(|entry| &*entry.op == op)
        .map(|entry| of(&entry.fact))
        .sum()
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{line}")
        .and_then(|()| out.flush())
        .unwrap();
}

fn start(name: &str, role: &str, path: &Path) -> Child {
    child(name, role, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Reads what a child says until it says this.
fn wait_for(child: &mut Child, line: &str) -> BufReader<impl Read + use<>> {
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut said = String::new();
    while said.trim_end() != line {
        said.clear();
        assert!(
            lines.read_line(&mut said).unwrap() > 0,
            "the child ended before it said {line:?}"
        );
    }
    lines
}

#[test]
fn f10_killed_while_saving() {
    const NAME: &str = "f10_killed_while_saving";
    const KILLS: u64 = 1_000;
    if let Some((_, path)) = role() {
        let mut store = SqliteStore::open(&path).unwrap();
        say("ready");
        for size in 0.. {
            store.merge(&pair(size % 40)).unwrap();
            say("saved");
            if size % 4 == 3 {
                export_to(&store.load().unwrap(), &path.with_extension("export")).unwrap();
            }
        }
    }
    let dir = directory();
    let path = dir.path().join("knowledge.sqlite");
    let mut random = Random(10);
    let (mut acknowledged, mut unacknowledged) = (0, 0);
    let began = Instant::now();
    for kill in 0..KILLS {
        let mut child = start(NAME, "save", &path);
        let mut lines = wait_for(&mut child, "ready");
        std::thread::sleep(Duration::from_micros(random.next() % 8_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let mut said = String::new();
        lines.read_to_string(&mut said).unwrap();
        acknowledged += said.lines().filter(|line| *line == "saved").count() as u64;

        let (loaded, lines) = warnings(|| SqliteStore::open(&path).unwrap().load().unwrap());
        assert!(lines.is_empty(), "kill {kill}: {lines:?}");
        let (left, right) = (count(&loaded, "left"), count(&loaded, "right"));
        assert_eq!(left, right, "kill {kill}: half of a save");
        assert!(
            left >= acknowledged,
            "kill {kill}: {acknowledged} were saved, {left} are there"
        );
        assert!(
            left - acknowledged <= kill + 1,
            "kill {kill}: at most one save a kill is not acknowledged"
        );
        unacknowledged = left - acknowledged;
        if let Ok(exported) = import_from(&path.with_extension("export")) {
            assert_eq!(count(&exported, "left"), count(&exported, "right"));
        } else {
            assert!(
                !path.with_extension("export").exists(),
                "kill {kill}: half an export"
            );
        }
    }
    eprintln!(
        "{KILLS} kills in {:?}: {acknowledged} saves, and {unacknowledged} done but not acknowledged",
        began.elapsed()
    );
}

#[test]
fn f14_eight_processes_lose_nothing() {
    const NAME: &str = "f14_eight_processes_lose_nothing";
    const MERGES: usize = 1_000;
    if let Some((_, path)) = role() {
        let mut store = SqliteStore::open(&path).unwrap();
        let longest = (0..MERGES).map(|n| {
            let began = Instant::now();
            // A busy machine may take longer than a merge waits; then nothing was stored.
            let tries = (0..20)
                .take_while(|_| store.merge(&pair(n % 5)).is_err())
                .count();
            assert!(tries < 20);
            began.elapsed()
        });
        say(&format!("longest merge: {:?}", longest.max()));
        return;
    }
    let dir = directory();
    let path = dir.path().join("knowledge.sqlite");
    let began = Instant::now();
    let children: Vec<Child> = (0..8)
        .map(|_| child(NAME, "merge", &path).spawn().unwrap())
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    eprintln!("8 processes, {MERGES} merges each: {:?}", began.elapsed());
    let (loaded, lines) = warnings(|| SqliteStore::open(&path).unwrap().load().unwrap());
    assert!(lines.is_empty(), "{lines:?}");
    assert_eq!(count(&loaded, "left"), 8 * MERGES as u64);
    assert_eq!(count(&loaded, "right"), 8 * MERGES as u64);
    assert_eq!(loaded.entries.len(), 10);
}

#[test]
fn f15_f38_a_lock_is_waited_for_a_bounded_time_and_ends_with_its_holder() {
    const NAME: &str = "f15_f38_a_lock_is_waited_for_a_bounded_time_and_ends_with_its_holder";
    if let Some((_, path)) = role() {
        let db = rusqlite::Connection::open(path).unwrap();
        db.execute_batch("BEGIN IMMEDIATE; DELETE FROM records")
            .unwrap();
        say("locked");
        std::thread::sleep(Duration::from_secs(60));
        return;
    }
    let dir = directory();
    let path = dir.path().join("knowledge.sqlite");
    let mut store = SqliteStore::open(&path).unwrap();
    store.merge(&sample()).unwrap();
    let mut holder = start(NAME, "hold", &path);
    let _lines = wait_for(&mut holder, "locked");

    let began = Instant::now();
    assert!(store.merge(&pair(1)).is_err());
    let waited = began.elapsed();
    assert!(
        waited > Duration::from_secs(1) && waited < Duration::from_secs(4),
        "{waited:?}"
    );
    assert_eq!(store.load().unwrap(), sample(), "readers do not wait");

    holder.kill().unwrap();
    holder.wait().unwrap();
    let began = Instant::now();
    store.merge(&pair(1)).unwrap();
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    let loaded = store.load().unwrap();
    assert!(
        is_part_of(&sample(), &loaded),
        "what the dead process deleted is still there"
    );
    assert_eq!(count(&loaded, "left"), 1);
}

#[test]
fn f15_waiting_for_a_lock_that_is_released() {
    let dir = directory();
    let path = dir.path().join("knowledge.sqlite");
    let mut store = SqliteStore::open(&path).unwrap();
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting = std::thread::spawn(move || store.merge(&pair(1)));
    std::thread::sleep(Duration::from_millis(300));
    db.execute_batch("COMMIT").unwrap();
    waiting.join().unwrap().unwrap();
}
