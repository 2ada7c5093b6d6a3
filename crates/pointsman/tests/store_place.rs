//! Disks that fill up and places that are not safe. What a user loses if these fail: knowledge
//! that was already saved, or control of files they own.
#![cfg(all(unix, feature = "sqlite"))]
#![allow(clippy::print_stderr)] // what was measured, and what was skipped

mod store_common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use pointsman::store::{Knowledge, SqliteStore, Store, StoreError, export_to, import_from};
use store_common::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A change that needs some 60 kB of disk.
fn big(round: u64) -> Knowledge {
    let entries = (0..200).map(|n| entry(&format!("op{round}-{n}"), 1, round, costs(9, &[9; 9])));
    Knowledge {
        entries: entries.collect(),
        machines: vec![machine(round)],
    }
}

/// Saves until the disk refuses, then makes room and saves again.
fn fill_and_recover(path: &Path, make_room: impl FnOnce()) {
    let mut store = SqliteStore::open(path).unwrap();
    store.merge(&sample()).unwrap();
    let refused =
        (0..500).find_map(|round| store.merge(&big(round)).err().map(|error| (round, error)));
    let (round, error) = refused.expect("the disk is small");
    eprintln!("refused in round {round}: {error}");
    assert!(error.to_string().contains("knowledge.sqlite"), "{error}");
    assert!(std::error::Error::source(&error).is_some());
    assert!(store.merge(&big(round)).is_err(), "still full");
    make_room();
    let loaded = store.load().unwrap();
    assert!(
        is_part_of(&sample(), &loaded),
        "what was saved before is still there"
    );
    let of_round = |loaded: &Knowledge, round: u64| {
        loaded
            .entries
            .iter()
            .filter(|entry| entry.op.starts_with(&format!("op{round}-")))
            .count()
    };
    for done in 0..round {
        assert_eq!(of_round(&loaded, done), 200);
    }
    assert_eq!(
        of_round(&loaded, round),
        0,
        "a refused merge leaves nothing"
    );
    store.merge(&big(round)).unwrap();
    assert_eq!(
        of_round(&store.load().unwrap(), round),
        200,
        "and can be done again"
    );
}

#[test]
fn f11_disk_full() {
    const NAME: &str = "f11_disk_full";
    if let Some((_, path)) = role() {
        let filler = path.with_file_name("filler");
        fs::write(&filler, vec![1; 300_000]).unwrap();
        fill_and_recover(&path, || fs::remove_file(&filler).unwrap());
        let export = path.with_file_name("export");
        fs::write(&filler, vec![1; 4_000_000]).unwrap_err();
        assert!(export_to(&big(1), &export).is_err() && !export.exists());
        assert!(SqliteStore::open(path.with_file_name("another")).is_err());
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // A mount of its own, in a namespace that ends with the child.
    let script =
        "mount -t tmpfs -o size=1m,mode=700 tmpfs \"$0\" && touch \"$0/mounted\" && exec \"$@\"";
    let inner = child(NAME, "fill", &dir.path().join("knowledge.sqlite"));
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .arg(dir.path())
        .arg(inner.get_program())
        .args(inner.get_args())
        .envs(
            inner
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .output();
    let text = output.as_ref().map_or_else(
        |error| error.to_string(),
        |output| {
            [&*output.stdout, &*output.stderr]
                .map(String::from_utf8_lossy)
                .concat()
        },
    );
    if !text.contains("running 1 test") {
        eprintln!("SKIPPED {NAME}: no small tmpfs can be mounted here: {text}");
        return;
    }
    assert!(output.unwrap().status.success(), "{text}");
    assert!(text.contains("refused in round"), "{text}");
}

#[test]
fn f11_short_writes_at_a_file_size_limit() {
    const NAME: &str = "f11_short_writes_at_a_file_size_limit";
    if let Some((role, path)) = role() {
        if role == "fill" {
            fill_until_limit(&path);
        }
        return;
    }
    let dir = directory();
    let path = dir.path().join("knowledge.sqlite");
    let inner = child(NAME, "fill", &path);
    // 512-byte blocks in sh. The signal that comes with the limit is ignored, so that writes fail.
    let script = "trap '' XFSZ; ulimit -f 600; exec \"$0\" \"$@\"";
    let status = Command::new("sh")
        .args(["-c", script])
        .arg(inner.get_program())
        .args(inner.get_args())
        .envs(
            inner
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .status()
        .unwrap();
    assert!(status.success());
    // Without the limit all that was acknowledged is there, and there is room again.
    let acknowledged: u64 = fs::read_to_string(path.with_extension("rounds"))
        .unwrap()
        .parse()
        .unwrap();
    let mut store = SqliteStore::open(&path).unwrap();
    let loaded = store.load().unwrap();
    assert_eq!(loaded.entries.len() as u64, 200 * acknowledged);
    store.merge(&big(acknowledged)).unwrap();
    assert_eq!(
        store.load().unwrap().entries.len() as u64,
        200 * (acknowledged + 1)
    );
}

fn fill_until_limit(path: &Path) {
    let mut store = SqliteStore::open(path).unwrap();
    let refused = (0..500)
        .find(|round| store.merge(&big(*round)).is_err())
        .expect("the limit is low");
    assert!(store.merge(&big(refused)).is_err());
    fs::write(path.with_extension("rounds"), refused.to_string()).unwrap();
}

#[test]
fn f12_missing_directories_are_made_for_us_alone() {
    let dir = directory();
    let path = dir.path().join("a/b/knowledge.sqlite");
    let mut store = SqliteStore::open(&path).unwrap();
    store.merge(&sample()).unwrap();
    assert_eq!(mode(&dir.path().join("a")), 0o700);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    for file in fs::read_dir(path.parent().unwrap()).unwrap() {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
    }
}

#[test]
fn f12_places_that_cannot_be_written_are_errors() {
    for path in [
        "/proc/pointsman/knowledge.sqlite",
        "/proc/knowledge.sqlite",
        "/dev/null/knowledge.sqlite",
        "/",
    ] {
        let error = SqliteStore::open(path).unwrap_err();
        assert!(
            error
                .to_string()
                .contains(path.trim_end_matches("/knowledge.sqlite")),
            "{error}"
        );
    }
    let dir = directory();
    let path = dir.path().join("k.sqlite");
    set_mode(dir.path(), 0o500);
    if fs::write(dir.path().join("probe"), "").is_ok() {
        eprintln!("SKIPPED a read-only directory: this user may write it all the same");
    } else {
        let error = SqliteStore::open(&path).unwrap_err();
        assert!(matches!(error, StoreError::Io { .. }), "{error}");
    }
    set_mode(dir.path(), 0o700);
}

/// Opening must fail, name the path and the reason, and change nothing.
fn refused(path: &Path, reason: &str) {
    let names = |dir: &Path| fs::read_dir(dir).map(|files| files.count()).unwrap_or(0);
    let before = names(path.parent().unwrap());
    let error = SqliteStore::open(path).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, StoreError::Refused { .. }), "{text}");
    assert!(
        text.contains(reason) && text.contains(&*path.parent().unwrap().to_string_lossy()),
        "{text}"
    );
    assert_eq!(names(path.parent().unwrap()), before, "nothing was made");
}

#[test]
fn f13_links_and_things_that_are_no_files_are_refused() {
    let dir = directory();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("target"), "precious").unwrap();
    symlink(at("target"), at("link")).unwrap();
    refused(&at("link"), "symbolic link");
    assert_eq!(fs::read(at("target")).unwrap(), b"precious");
    symlink(at("nowhere"), at("dangling")).unwrap();
    refused(&at("dangling"), "symbolic link");
    assert!(!at("nowhere").exists());
    fs::create_dir(at("directory")).unwrap();
    refused(&at("directory"), "regular file");
    assert!(
        Command::new("mkfifo")
            .arg(at("fifo"))
            .status()
            .unwrap()
            .success()
    );
    refused(&at("fifo"), "regular file");
}

#[test]
fn f13_what_every_user_may_write_is_refused() {
    let dir = directory();
    let path = dir.path().join("k.sqlite");
    SqliteStore::open(&path).unwrap().merge(&sample()).unwrap();
    set_mode(&path, 0o606);
    refused(&path, "every user may write this file");
    set_mode(&path, 0o600);
    for open in [0o777, 0o1777] {
        set_mode(dir.path(), open);
        refused(&path, "every user may write this directory");
        refused(
            &dir.path().join("new.sqlite"),
            "every user may write this directory",
        );
    }
    set_mode(dir.path(), 0o755);
    assert_eq!(SqliteStore::open(&path).unwrap().load().unwrap(), sample());
    if mode(Path::new("/tmp")) & 0o002 != 0 {
        refused(
            Path::new("/tmp/pointsman-test-never-made.sqlite"),
            "every user",
        );
    }
}

#[test]
fn f13_a_place_that_becomes_unsafe_is_refused_from_then_on() {
    let dir = directory();
    let path = dir.path().join("k.sqlite");
    let mut store = SqliteStore::open(&path).unwrap();
    store.merge(&sample()).unwrap();
    set_mode(&path, 0o666);
    assert!(matches!(
        store.merge(&sample()),
        Err(StoreError::Refused { .. })
    ));
    set_mode(&path, 0o600);
    assert_eq!(store.load().unwrap(), sample());
}

#[test]
fn f13_what_belongs_to_another_user_is_refused() {
    let dir = directory();
    let path = dir.path().join("k.sqlite");
    SqliteStore::open(&path).unwrap();
    if chown(&path, Some(12345), None).is_err() {
        eprintln!("SKIPPED f13 for other owners: only root may give files away");
        return;
    }
    refused(&path, "belongs to user 12345");
    chown(&path, Some(0), None).unwrap();
    chown(dir.path(), Some(12345), None).unwrap();
    refused(&path, "belongs to user 12345");
    chown(dir.path(), Some(0), None).unwrap();
    SqliteStore::open(&path).unwrap();
}

#[test]
fn a_linked_directory_is_followed_once_it_is_safe() {
    let dir = directory();
    fs::create_dir(dir.path().join("real")).unwrap();
    set_mode(&dir.path().join("real"), 0o700);
    symlink(dir.path().join("real"), dir.path().join("home")).unwrap();
    let path = dir.path().join("home/k.sqlite");
    SqliteStore::open(&path).unwrap().merge(&sample()).unwrap();
    assert_eq!(SqliteStore::open(&path).unwrap().load().unwrap(), sample());
    let export = dir.path().join("home/export");
    export_to(&sample(), &export).unwrap();
    assert_eq!(import_from(&export).unwrap(), sample());
}
