//! SQLite files, damaged in every way. What a user loses if these fail: wrong costs after a disk
//! fault, a panic at start, or a program that never again keeps what it learns.
#![cfg(feature = "sqlite")]
#![allow(clippy::print_stderr)] // what was measured, and what was skipped

mod store_common;

use std::fs;
use std::path::{Path, PathBuf};

use pointsman::store::{Knowledge, SqliteStore, Store, StoreError};
use rusqlite::Connection;
use store_common::*;

/// A store in one file, without a log beside it.
fn make(dir: &Path, knowledge: &Knowledge) -> PathBuf {
    let path = dir.join("knowledge.sqlite");
    SqliteStore::open(&path).unwrap().merge(knowledge).unwrap();
    checkpoint(&path);
    path
}

fn checkpoint(path: &Path) {
    let db = Connection::open(path).unwrap();
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
    drop(db);
    remove_log(path);
}

fn log_of(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}-wal", path.display()))
}

fn remove_log(path: &Path) {
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{suffix}", path.display()));
    }
}

/// Damages the file in each of the numbered ways, on all cores, and checks that what is loaded
/// was stored, and that knowledge can be stored again afterwards unless an error says why not.
fn sweep(bytes: &[u8], ways: usize, damage: impl Fn(usize, &mut Vec<u8>) + Sync) -> (usize, usize) {
    let (whole, stored) = (sample(), sample());
    let change = Knowledge {
        entries: vec![entry("new", 1, 5, costs(1, &[1]))],
        machines: vec![],
    };
    let run = |worker: usize| {
        let dir = directory();
        let path = dir.path().join("knowledge.sqlite");
        let (mut complete, mut refused) = (0, 0);
        for way in (worker..ways).step_by(2) {
            let mut damaged = bytes.to_vec();
            damage(way, &mut damaged);
            remove_log(&path);
            fs::write(&path, &damaged).unwrap();
            match SqliteStore::open(&path).and_then(|mut store| Ok((store.load()?, store))) {
                Ok((loaded, mut store)) => {
                    assert!(is_part_of(&loaded, &stored), "way {way}: {loaded:?}");
                    complete += usize::from(loaded == whole);
                    if way % 8 > 1 {
                        continue; // a quarter of the merges finds what all would, in half the time
                    }
                    match store.merge(&change) {
                        Ok(()) => {
                            let after = store.load().unwrap();
                            assert!(after.entries.contains(&change.entries[0]), "way {way}");
                        }
                        Err(error) => {
                            eprintln!("way {way}: {error}");
                            refused += 1;
                        }
                    }
                }
                Err(error) => {
                    eprintln!("way {way}: {error}");
                    refused += 1;
                }
            }
        }
        (complete, refused)
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| run(1));
        let (a, b) = run(0);
        let (c, d) = other.join().unwrap();
        (a + c, b + d)
    })
}

#[test]
fn f01_truncated_at_any_byte() {
    let dir = directory();
    let bytes = fs::read(make(dir.path(), &sample())).unwrap();
    let (complete, refused) = sweep(&bytes, bytes.len() + 1, |length, bytes| {
        bytes.truncate(length)
    });
    eprintln!(
        "{} lengths: {complete} complete, {refused} refused",
        bytes.len() + 1
    );
    assert!(
        complete >= 1 && refused == 0,
        "a cut file is never a reason to stop keeping knowledge"
    );
}

#[test]
fn f01_log_truncated_at_any_byte() {
    let dir = directory();
    let path = make(dir.path(), &Knowledge::default());
    SqliteStore::open(&path).unwrap().merge(&sample()).unwrap();
    let (file, log) = (fs::read(&path).unwrap(), fs::read(log_of(&path)).unwrap());
    for length in 0..=log.len() {
        remove_log(&path);
        fs::write(&path, &file).unwrap();
        fs::write(log_of(&path), &log[..length]).unwrap();
        let loaded = SqliteStore::open(&path).unwrap().load().unwrap();
        assert!(
            loaded == Knowledge::default() || loaded == sample(),
            "{length}: {loaded:?}"
        );
        assert!(length < log.len() || loaded == sample());
    }
}

#[test]
fn f02_any_byte_with_a_bit_flipped() {
    let dir = directory();
    let bytes = fs::read(make(dir.path(), &sample())).unwrap();
    let mut random = Random(2);
    let bits: Vec<u8> = bytes.iter().map(|_| 1 << (random.next() % 8)).collect();
    let (complete, refused) = sweep(&bytes, bytes.len(), |at, bytes| bytes[at] ^= bits[at]);
    eprintln!(
        "{} flips: {complete} complete, {refused} refused",
        bytes.len()
    );
    // Only the few bytes of the header that say whose file it is and how to read it may refuse.
    assert!(
        refused <= 16,
        "{refused} flips stop the store from keeping knowledge"
    );
}

#[test]
fn f03_random_files_are_put_aside() {
    let dir = directory();
    let bytes = fs::read(make(dir.path(), &sample())).unwrap();
    let mut random = Random(3);
    let noise: Vec<u8> = (0..bytes.len()).map(|_| random.next() as u8).collect();
    // Noise from the start, and noise behind a good header or a good first page.
    let (complete, refused) = sweep(&bytes, 300, |way, bytes| {
        let from = [0, 16, 100, 4096][way % 4];
        for (i, byte) in bytes.iter_mut().enumerate().skip(from) {
            *byte = noise[(i + 31 * way) % noise.len()];
        }
    });
    eprintln!("complete {complete}, refused {refused}");
    assert_eq!(complete, 0);
    assert!(
        refused <= 75,
        "only a header of noise may refuse: {refused}"
    );
}

#[test]
fn a_damaged_file_is_kept_aside_with_one_warning() {
    let dir = directory();
    let path = make(dir.path(), &sample());
    fs::write(
        &path,
        b"this is not a database, but it is long enough to look like one",
    )
    .unwrap();
    let (_, lines) = warnings(|| {
        let mut store = SqliteStore::open(&path).unwrap();
        assert_eq!(store.load().unwrap(), Knowledge::default());
        store.merge(&sample()).unwrap();
        assert_eq!(store.load().unwrap(), sample());
    });
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains(".damaged") && lines[0].contains("knowledge.sqlite"),
        "{lines:?}"
    );
    let aside = fs::read(format!("{}.damaged", path.display())).unwrap();
    assert!(aside.starts_with(b"this is not"));
}

#[test]
fn a_file_that_never_was_a_store_is_left_as_it_is() {
    let dir = directory();
    let path = dir.path().join("table.csv");
    let aside = dir.path().join("table.csv.damaged");
    let table =
        "a table that somebody named by mistake, and longer than the head of a store".repeat(3);
    fs::write(&path, &table).unwrap();
    fs::write(&aside, "an older one").unwrap();
    let error = SqliteStore::open(&path)
        .and_then(|mut store| store.merge(&sample()))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("table.csv is not a store of pointsman; it is left as it is"),
        "{error}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), table);

    // What was one is put aside, but not onto a file that was not.
    fs::remove_file(&path).unwrap();
    fs::rename(make(dir.path(), &sample()), &path).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes.truncate(4096 + 100);
    fs::write(&path, &bytes).unwrap();
    remove_log(&path);
    assert!(
        SqliteStore::open(&path)
            .and_then(|mut store| store.merge(&sample()))
            .is_err()
    );
    assert_eq!(fs::read_to_string(&aside).unwrap(), "an older one");
    fs::remove_file(&aside).unwrap();
    let mut store = SqliteStore::open(&path).unwrap();
    store.merge(&sample()).unwrap();
    assert_eq!(store.load().unwrap(), sample());
}

#[test]
fn f02_damaged_records_are_skipped_then_removed_with_one_warning() {
    let dir = directory();
    let path = make(dir.path(), &sample());
    let db = Connection::open(&path).unwrap();
    db.execute(
        "UPDATE records SET updated = updated + 1 WHERE op = 'spmv'",
        [],
    )
    .unwrap();
    db.execute(
        "UPDATE records SET machine = 77, value = zeroblob(1000000) WHERE op = 'größe'",
        [],
    )
    .unwrap();
    drop(db);
    let (_, lines) = warnings(|| {
        let mut store = SqliteStore::open(&path).unwrap();
        let loaded = store.load().unwrap();
        assert!(is_part_of(&loaded, &sample()));
        assert_eq!(loaded.entries.len(), sample().entries.len() - 2);
        assert_eq!(store.load().unwrap(), loaded);
        store.merge(&Knowledge::default()).unwrap();
        assert_eq!(store.load().unwrap(), loaded);
    });
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("records=2"), "{lines:?}");
    let (_, lines) = warnings(|| SqliteStore::open(&path).unwrap().load().unwrap());
    assert!(lines.is_empty(), "{lines:?}");
}

#[test]
fn a_merge_replaces_a_damaged_record() {
    let dir = directory();
    let path = make(dir.path(), &sample());
    Connection::open(&path)
        .unwrap()
        .execute("UPDATE records SET sum = sum + 1", [])
        .unwrap();
    let mut store = SqliteStore::open(&path).unwrap();
    store.merge(&sample()).unwrap();
    assert_eq!(store.load().unwrap(), sample(), "not twice the sample");
}

/// Everything about the file as it lies on the disk.
fn contents(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}

#[test]
fn f04_a_newer_format_is_left_alone() {
    let dir = directory();
    let path = make(dir.path(), &sample());
    Connection::open(&path)
        .unwrap()
        .execute_batch("PRAGMA user_version = 3")
        .unwrap();
    checkpoint(&path);
    let before = contents(&path);
    let error = SqliteStore::open(&path).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::NewerFormat {
                found: 3,
                known: 2,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("knowledge.sqlite"), "{error}");
    assert_eq!(contents(&path), before);
    assert_eq!(
        fs::read_dir(&dir)
            .unwrap()
            .filter(|f| f.as_ref().unwrap().path() != path)
            .filter(|f| f
                .as_ref()
                .unwrap()
                .file_name()
                .to_string_lossy()
                .contains("damaged"))
            .count(),
        0
    );
}

#[test]
fn f04_a_format_that_becomes_newer_while_open_is_left_alone() {
    let dir = directory();
    let path = make(dir.path(), &sample());
    let mut store = SqliteStore::open(&path).unwrap();
    Connection::open(&path)
        .unwrap()
        .execute_batch("PRAGMA user_version = 3")
        .unwrap();
    assert!(matches!(
        store.merge(&sample()),
        Err(StoreError::NewerFormat { .. })
    ));
    assert!(matches!(
        store.forget(None),
        Err(StoreError::NewerFormat { .. })
    ));
    let rows =
        |db: Connection| db.query_row("SELECT count(*) FROM records", [], |r| r.get::<_, i64>(0));
    assert_eq!(rows(Connection::open(&path).unwrap()).unwrap(), 7);
}

#[test]
fn f05_what_the_first_format_held_is_kept() {
    let dir = directory();
    let path = make(dir.path(), &sample());
    let version = |db: &Connection| db.query_row("PRAGMA user_version", [], |r| r.get::<_, i64>(0));
    let db = Connection::open(&path).unwrap();
    db.execute_batch("PRAGMA user_version = 1").unwrap();
    let (_, lines) = warnings(|| {
        assert!(SqliteStore::examine(&path).unwrap().is_empty());
        let mut store = SqliteStore::open(&path).unwrap();
        assert_eq!(store.load().unwrap(), sample());
        assert_eq!(version(&db).unwrap(), 1, "looking changes nothing");
        let entries = vec![account("dot_f32", 7)];
        store
            .merge(&Knowledge {
                entries,
                ..Knowledge::default()
            })
            .unwrap();
        assert_eq!(store.load().unwrap().entries.len(), 6);
    });
    assert_eq!(lines, [""; 0]);
    assert_eq!(version(&db).unwrap(), 2, "older builds leave it alone");
}

#[test]
fn f05_an_older_format_is_dropped_with_one_warning() {
    let dir = directory();
    let path = make(dir.path(), &sample());
    let db = Connection::open(&path).unwrap();
    db.execute_batch(
        "DROP TABLE records; CREATE TABLE \"old \"\"one\" (x); PRAGMA user_version = 0",
    )
    .unwrap();
    drop(db);
    let (_, lines) = warnings(|| {
        let mut store = SqliteStore::open(&path).unwrap();
        assert_eq!(store.load().unwrap(), Knowledge::default());
        store.merge(&sample()).unwrap();
        assert_eq!(store.load().unwrap(), sample());
    });
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("older format"), "{lines:?}");
}

#[test]
fn a_database_of_another_program_is_left_alone() {
    let dir = directory();
    let path = dir.path().join("precious.sqlite");
    Connection::open(&path)
        .unwrap()
        .execute_batch("CREATE TABLE precious (x); INSERT INTO precious VALUES (1)")
        .unwrap();
    let before = contents(&path);
    let error = SqliteStore::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::NotOurs { .. }), "{error}");
    assert_eq!(contents(&path), before);
}

#[test]
fn triggers_and_views_in_the_file_never_run() {
    let dir = directory();
    let path = make(dir.path(), &sample());
    let db = Connection::open(&path).unwrap();
    db.execute_batch("CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END")
        .unwrap();
    drop(db);
    let mut store = SqliteStore::open(&path).unwrap();
    store.merge(&Knowledge::default()).unwrap();
    assert_eq!(
        store.load().unwrap(),
        sample(),
        "what is whole was carried over"
    );
}

#[test]
fn all_that_find_the_damage_replace_it_once() {
    let dir = directory();
    let path = make(dir.path(), &sample());
    for round in 0..200 {
        remove_log(&path);
        fs::write(&path, [round; 5000]).unwrap();
        std::thread::scope(|scope| {
            for n in 0..4 {
                let path = &path;
                scope.spawn(move || {
                    let change = Knowledge {
                        entries: vec![entry(&format!("op{n}"), 1, 5, costs(1, &[1]))],
                        machines: vec![],
                    };
                    SqliteStore::open(path)
                        .and_then(|mut store| store.merge(&change))
                        .unwrap();
                });
            }
        });
        assert_eq!(
            SqliteStore::open(&path)
                .unwrap()
                .load()
                .unwrap()
                .entries
                .len(),
            4,
            "round {round}"
        );
    }
}

#[test]
fn a_file_removed_while_in_use_comes_back() {
    let dir = directory();
    let path = make(dir.path(), &sample());
    let mut store = SqliteStore::open(&path).unwrap();
    fs::remove_dir_all(dir.path()).unwrap();
    store.merge(&sample()).unwrap();
    assert_eq!(store.load().unwrap(), sample());
}

#[cfg(target_os = "linux")]
#[test]
fn f03_a_hostile_database_takes_less_than_16_mb() {
    const NAME: &str = "f03_a_hostile_database_takes_less_than_16_mb";
    if let Some((_, path)) = role() {
        let before = peak_memory();
        let mut store = SqliteStore::open(&path).unwrap();
        let loaded = store.load().unwrap();
        assert!(is_part_of(&sample(), &loaded));
        store.merge(&Knowledge::default()).unwrap();
        let taken = peak_memory() - before;
        eprintln!(
            "{} entries loaded with {taken} bytes of memory",
            loaded.entries.len()
        );
        assert!(taken < 16_000_000, "{taken} bytes");
        assert!(
            is_part_of(&sample(), &store.load().unwrap()),
            "the save kept what is whole"
        );
        return;
    }
    let dir = directory();
    let path = make(dir.path(), &sample());
    let db = Connection::open(&path).unwrap();
    let rows = "INSERT INTO records SELECT machine + ?1, op, variant, revision, kind, cell, updated, value, sum FROM records LIMIT 1";
    db.execute(rows, [1]).unwrap();
    db.execute(
        "UPDATE records SET value = zeroblob(50000000) WHERE machine % 2 = 1 AND op = 'spmv'",
        [],
    )
    .unwrap();
    let long = "INSERT INTO records VALUES (?1, replace(hex(zeroblob(20000000)), '0', 'x'), 'v', 0, 1, x'', 0, x'', 0)";
    db.execute(long, [1]).unwrap();
    let many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150000)
                INSERT INTO records SELECT i, 'o', 'v', i, 1, x'00', 0, zeroblob(50), 0 FROM n";
    db.execute(many, []).unwrap();
    drop(db);
    checkpoint(&path);
    assert!(child(NAME, "load", &path).status().unwrap().success());
}
