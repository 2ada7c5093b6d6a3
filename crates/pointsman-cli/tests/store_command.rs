//! Looking after the store.

mod common;

use std::fs;
use std::path::Path;

use common::{is_refused, json, pointsman, text};

const STORE: &str = "cache/pointsman/knowledge.sqlite";

fn tune(home: &Path, op: &str) {
    let output = pointsman(&["tune", op, "--sizes", "64..256"], home, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// Measurements of an op that a home knows, on any machine.
fn known(home: &Path, op: &str) -> u64 {
    let shown = json(&pointsman(&["store", "show", "--json"], home, &[]));
    let lines = shown["variants"].as_array().unwrap().iter();
    let of_op = lines.filter(|line| line["op"] == op);
    of_op.map(|l| l["measurements"].as_u64().unwrap()).sum()
}

#[test]
fn knowledge_moves_between_homes() {
    let [one, other, third] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    tune(one.path(), "dot");
    let measurements = known(one.path(), "dot_f32");
    assert!(measurements > 0);

    let file = one.path().join("learned.pointsman");
    let file = file.to_str().unwrap();
    let output = pointsman(&["store", "export", file], one.path(), &[]);
    assert!(text(&output.stdout).starts_with("exported"));

    // As another machine's.
    let output = pointsman(&["store", "import", file, "--json"], other.path(), &[]);
    assert!(json(&output)["entries"].as_u64().unwrap() > 0);
    let shown = json(&pointsman(&["store", "show", "--json"], other.path(), &[]));
    let lines = shown["variants"].as_array().unwrap();
    assert!(
        lines.iter().all(|line| line["this_machine"] == false),
        "{shown}"
    );

    // As it is: from the exported file, and from the store itself.
    tune(third.path(), "axpy");
    let store = one.path().join(STORE);
    for from in [file, store.to_str().unwrap()] {
        let output = pointsman(&["store", "merge", from], third.path(), &[]);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    assert_eq!(known(third.path(), "dot_f32"), 2 * measurements);
    let told = json(&pointsman(
        &["explain", "dot", "256", "--json"],
        third.path(),
        &[],
    ));
    assert!(told["variants"][0]["samples"].as_u64().unwrap() > 0);
}

#[test]
fn forgetting_one_op_leaves_the_others() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    tune(home, "dot");
    tune(home, "axpy");
    is_refused(&pointsman(&["store", "forget"], home, &[]), &["--all"]);
    is_refused(
        &pointsman(&["store", "forget", "dot"], home, &[]),
        &["dot_f32"],
    );
    let output = pointsman(&["store", "forget", "dot_f32"], home, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(known(home, "dot_f32"), 0);
    assert!(known(home, "axpy_f32") > 0);
    let output = pointsman(&["store", "forget", "--all"], home, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(known(home, "axpy_f32"), 0);
}

#[test]
fn check_finds_damage_and_leaves_it() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join(STORE);
    let check = || pointsman(&["store", "check", "--json"], home.path(), &[]);
    assert_eq!(json(&check())["there"], false);
    tune(home.path(), "dot");
    assert!(check().status.success());
    let mut bytes = fs::read(&path).unwrap();
    bytes[..100].fill(7);
    // The latest pages are in the log, which would stand in for the damaged ones.
    fs::remove_file(home.path().join(format!("{STORE}-wal"))).unwrap();
    fs::write(&path, &bytes).unwrap();
    let output = check();
    assert_eq!(output.status.code(), Some(1));
    assert!(!json(&output)["problems"].as_array().unwrap().is_empty());
    assert_eq!(fs::read(&path).unwrap(), bytes, "looked at, not changed");
}

#[test]
fn bad_files_are_refused_and_nothing_changes() {
    let home = tempfile::tempdir().unwrap();
    tune(home.path(), "dot");
    let before = known(home.path(), "dot_f32");
    let junk = home.path().join("junk");
    fs::write(&junk, "this is not an exported file, whatever it says").unwrap();
    let junk = junk.to_str().unwrap();
    for args in [["store", "import", junk], ["store", "merge", junk]] {
        is_refused(&pointsman(&args, home.path(), &[]), &["junk"]);
    }
    let gone = home.path().join("gone");
    is_refused(
        &pointsman(
            &["store", "merge", gone.to_str().unwrap()],
            home.path(),
            &[],
        ),
        &["gone"],
    );
    assert_eq!(known(home.path(), "dot_f32"), before);
    let memory = [("POINTSMAN_STORE", "memory")];
    is_refused(
        &pointsman(&["store", "check"], home.path(), &memory),
        &["memory"],
    );
}
