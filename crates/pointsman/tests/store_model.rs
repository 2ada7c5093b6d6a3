//! The SQLite store does what the store in memory does. What a user loses if these fail: knowledge
//! that depends on where it is kept, or a file that grows without end.
#![cfg(feature = "sqlite")]

mod store_common;

use pointsman::store::{Entry, Fact, Knowledge, MemoryStore, SqliteStore, Store, StoreError};
use proptest::prelude::*;
use store_common::*;

#[derive(Clone, Debug)]
enum Step {
    Merge(Vec<Entry>, Vec<u64>),
    Forget(Option<String>),
    Reopen,
}

fn any_entry() -> impl Strategy<Value = Entry> {
    let fact = prop_oneof![
        3 => (0..5u64, 1..100u64).prop_map(|(count, ns)| costs(count, &vec![ns; count as usize])),
        1 => Just(Fact::Agreed),
        1 => Just(Fact::Disagreed),
        1 => (0..9u64).prop_map(|calls| account("any", calls).fact),
    ];
    (
        0..3u8,
        0..4usize,
        0..4u64,
        prop_oneof![Just(1), Just(u64::MAX)],
        fact,
    )
        .prop_map(|(op, size, updated, machine, fact)| Entry {
            machine,
            ..entry(&format!("op{op}"), size, updated, fact)
        })
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (prop::collection::vec(any_entry(), 0..12), prop::collection::vec(0..4u64, 0..2))
            .prop_map(|(entries, machines)| Step::Merge(entries, machines)),
        1 => (0..4u8).prop_map(|op| Step::Forget(Some(format!("op{op}")))),
        1 => Just(Step::Forget(None)),
        1 => Just(Step::Forget(Some(String::new()))),
        2 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]
    #[test]
    fn sqlite_does_what_memory_does(steps in prop::collection::vec(any_step(), 1..12), limit in 8..40usize) {
        let dir = directory();
        let path = dir.path().join("k.sqlite");
        let open = || SqliteStore::open(&path).unwrap().with_limit(limit);
        let (mut model, mut store) = (MemoryStore::new().with_limit(limit), open());
        for step in steps {
            match step {
                Step::Merge(entries, machines) => {
                    let change = Knowledge { entries, machines: machines.into_iter().map(machine).collect() };
                    model.merge(&change).unwrap();
                    store.merge(&change).unwrap();
                }
                Step::Forget(op) => {
                    model.forget(op.as_deref()).unwrap();
                    store.forget(op.as_deref()).unwrap();
                }
                Step::Reopen => (model, store) = (model.clone(), open()),
            }
            let loaded = store.load().unwrap();
            prop_assert!(loaded.entries.len() <= limit);
            prop_assert_eq!(loaded, model.load().unwrap());
        }
    }
}

#[test]
fn what_cannot_be_read_back_is_not_stored() {
    let dir = directory();
    let mut stores: [Box<dyn Store>; 2] = [
        Box::new(MemoryStore::new()),
        Box::new(SqliteStore::open(dir.path().join("k")).unwrap()),
    ];
    for store in &mut stores {
        store.merge(&sample()).unwrap();
        let good = entry("good", 1, 1, Fact::Agreed);
        for bad in [
            entry("", 1, 1, Fact::Agreed),
            entry("a\u{7}", 1, 1, Fact::Agreed),
            entry("a", 1, 1, costs(1, &[1, 2])),
        ] {
            let change = Knowledge {
                entries: vec![good.clone(), bad],
                machines: vec![],
            };
            assert!(
                matches!(store.merge(&change), Err(StoreError::Invalid { .. })),
                "{change:?}"
            );
        }
        for number in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
            let mut bad = machine(9);
            bad.numbers.push(number);
            let change = Knowledge {
                entries: vec![good.clone()],
                machines: vec![bad],
            };
            assert!(
                matches!(store.merge(&change), Err(StoreError::Invalid { .. })),
                "f18: {number}"
            );
        }
        assert_eq!(
            store.load().unwrap(),
            sample(),
            "nothing of a refused change is stored"
        );
    }
}

#[test]
fn f39_the_file_stays_bounded() {
    const LIMIT: u64 = 400;
    const ADDED: u64 = 50;
    // A row takes up to 200 bytes for an entry here and 150 for a machine; a merge holds ADDED (and
    // one machine) more than stay. Pages of a B-tree are at least half full; three are fixed.
    const DATABASE: u64 = 2 * ((LIMIT + ADDED) * 200 + 65 * 150) + 3 * 4096;
    // The length from which a merge moves the log into the database.
    const LOG: u64 = 256 * 1024;
    let dir = directory();
    let path = dir.path().join("k.sqlite");
    let mut store = SqliteStore::open(&path).unwrap().with_limit(LIMIT as usize);
    let size = |suffix: &str| {
        std::fs::metadata(format!("{}{suffix}", path.display())).map_or(0, |file| file.len())
    };
    for round in 0..1_000 {
        let one = |n| entry(&format!("op{round}-{n}"), 1, round, costs(9, &[9; 9]));
        let entries = (0..ADDED).map(one).collect();
        store
            .merge(&Knowledge {
                entries,
                machines: vec![machine(round)],
            })
            .unwrap();
        assert!(
            size("") <= DATABASE,
            "round {round}: {} of {DATABASE} bytes",
            size("")
        );
        assert!(
            size("-wal") <= LOG,
            "round {round}: a log of {} bytes",
            size("-wal")
        );
    }
    let loaded = store.load().unwrap();
    assert!(
        (350..=400).contains(&loaded.entries.len()),
        "{}",
        loaded.entries.len()
    );
    assert!(
        loaded.entries.iter().all(|entry| entry.updated > 990),
        "the newest stay"
    );
    assert_eq!(loaded.machines.len(), 64);
    store.forget(None).unwrap();
    assert_eq!(store.load().unwrap(), Knowledge::default());
}

#[test]
fn a_store_filled_from_the_future_still_takes_news() {
    let dir = directory();
    let mut stores: [Box<dyn Store>; 2] = [
        Box::new(MemoryStore::new().with_limit(16)),
        Box::new(
            SqliteStore::open(dir.path().join("k"))
                .unwrap()
                .with_limit(16),
        ),
    ];
    for store in &mut stores {
        let entries = (0..16)
            .map(|n| entry(&format!("future{n}"), 1, u64::MAX, Fact::Agreed))
            .collect();
        store
            .merge(&Knowledge {
                entries,
                machines: vec![],
            })
            .unwrap();
        let news = entry("news", 1, 1_700_000_000, Fact::Agreed);
        store
            .merge(&Knowledge {
                entries: vec![news.clone()],
                machines: vec![],
            })
            .unwrap();
        assert!(store.load().unwrap().entries.contains(&news));
    }
}

#[test]
fn stores_say_what_they_are() {
    let dir = directory();
    let path = dir.path().join("k.sqlite");
    let store = SqliteStore::open(&path).unwrap();
    assert!(store.describe().contains("k.sqlite"));
    assert_eq!(store.path(), path);
    assert!(MemoryStore::new().describe().contains("memory"));
}
