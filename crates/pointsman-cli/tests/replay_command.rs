//! `pointsman replay` as a user meets it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Runs the command in a directory of its own. The environment may say what it likes: a replay
/// does not listen.
fn replay(args: &[&str], at: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pointsman"))
        .arg("replay")
        .args(args)
        .current_dir(at)
        .env("POINTSMAN_FORCE", "a")
        .env("POINTSMAN_MODE", "reference")
        .env("POINTSMAN_SEED", "77")
        .env("POINTSMAN_STORE", at.join("store.sqlite"))
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn json(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn is_refused(output: &Output, words: &[&str]) {
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(output.stdout.is_empty());
    assert_eq!(told.lines().count(), 1, "{told}");
    for word in words {
        assert!(told.contains(word), "{word:?} is missing: {told}");
    }
}

/// Two variants that cross, and one that needs memory.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut table = "x:n,c:kind,t:a,t:b,t:c,m:c\n".to_owned();
    for n in 1..40 {
        let (a, b, c) = (n * 10, 150 + n * 2, 100 + n);
        table += &format!("{n},k{},{a}e-6,{b}e-6,{c}e-6,{}\n", n % 2, n * 1000);
    }
    fs::write(folder.path().join("cross.csv"), table).unwrap();
    fs::write(folder.path().join("bad.csv"), "x:n,t:a,t:b\n1,1,soon\n").unwrap();
    fs::write(
        folder.path().join("other.csv"),
        "x:n,t:a,t:b\n1,1e-3,2e-3\n",
    )
    .unwrap();
    folder
}

#[test]
fn json_has_every_figure_of_every_table_and_seed() {
    let folder = folder();
    let rows = json(&replay(
        &[
            "cross.csv",
            "other.csv",
            "--seed",
            "1..2,7",
            "--calls",
            "500",
            "--json",
        ],
        folder.path(),
    ));
    let found: Vec<(&str, u64)> = rows
        .iter()
        .map(|row| {
            (
                row["table"].as_str().unwrap(),
                row["seed"].as_u64().unwrap(),
            )
        })
        .collect();
    let expected = ["cross", "other"].map(|table| [1, 2, 7].map(|seed| (table, seed)));
    assert_eq!(found, expected.concat());
    let mut keys = vec![
        "table",
        "policy",
        "order",
        "seed",
        "calls",
        "total",
        "geomean",
        "late_total",
        "late_geomean",
        "p95",
        "trial_share",
        "right_share",
        "flips",
        "best_fixed_total",
        "calls_per_s",
        "best_fixed",
        "best_fixed_geomean",
        "first_try_share",
        "budget",
    ];
    keys.sort_unstable();
    for row in &rows {
        let mut found: Vec<&str> = row.as_object().unwrap().keys().map(|k| &**k).collect();
        found.sort_unstable();
        assert_eq!(found, keys);
        assert_eq!(
            (&row["policy"], &row["order"]),
            (&"adaptive".into(), &"zipf".into())
        );
        assert_eq!(row["calls"], 500);
        assert!(row["total"].as_f64().unwrap() >= 1.0);
    }
    assert!(!folder.path().join("store.sqlite").exists());
}

#[test]
fn a_seed_gives_the_same_figures_alone_and_in_company() {
    let folder = folder();
    let figures = |args: &[&str]| {
        let mut row = json(&replay(args, folder.path())).pop().unwrap();
        row.as_object_mut().unwrap().remove("calls_per_s");
        row
    };
    let alone = figures(&["cross.csv", "--seed", "2", "--json"]);
    assert_eq!(
        alone,
        figures(&["other.csv", "cross.csv", "--seed", "1..2", "--json"])
    );
    assert_ne!(alone, figures(&["cross.csv", "--seed", "3", "--json"]));
}

#[test]
fn the_text_has_a_line_a_seed_and_their_mean_and_worst() {
    let folder = folder();
    let output = replay(
        &["cross.csv", "--seed", "1,2", "--calls", "300"],
        folder.path(),
    );
    let seeds: Vec<&str> = text(&output.stdout)
        .lines()
        .map(|line| line.split_whitespace().nth(2).unwrap())
        .collect();
    assert_eq!(seeds, ["seed", "1", "2", "mean", "worst"]);
    let output = replay(&["cross.csv", "--order", "once"], folder.path());
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1].split_whitespace().nth(3), Some("39")); // calls: one a workload
}

#[test]
fn the_log_says_what_was_served_and_is_the_same_every_time() {
    let folder = folder();
    let log = |name: &str| {
        let args = [
            "cross.csv",
            "--seed",
            "4",
            "--noise",
            "0",
            "--calls",
            "3000",
            "--json",
            "--log",
            name,
        ];
        let rows = json(&replay(&args, folder.path()));
        (fs::read_to_string(folder.path().join(name)).unwrap(), rows)
    };
    let (first, rows) = log("first.csv");
    assert_eq!(first, log("second.csv").0);
    let mut lines = first.lines();
    assert_eq!(
        lines.next(),
        Some("call,workload,variant,seconds,trial,confidence")
    );
    let (mut calls, mut time, mut oracle, mut trials) = (0, 0.0, 0.0, 0);
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields[0], calls.to_string());
        let n = fields[1].parse::<f64>().unwrap() + 1.0; // the first row is workload 0
        let costs = [n * 10.0, 150.0 + n * 2.0, 100.0 + n].map(|us| us * 1e-6);
        let variant = ["a", "b", "c"]
            .iter()
            .position(|v| *v == fields[2])
            .unwrap();
        let seconds: f64 = fields[3].parse().unwrap();
        assert!((seconds / costs[variant] - 1.0).abs() < 1e-12, "{line}");
        let confidence: f64 = fields[5].parse().unwrap();
        assert!((0.0..=1.0).contains(&confidence));
        trials += fields[4].parse::<u32>().unwrap();
        time += seconds;
        oracle += costs.iter().copied().fold(f64::INFINITY, f64::min);
        calls += 1;
    }
    assert_eq!(calls, 3000);
    assert!(trials > 0);
    assert!((rows[0]["total"].as_f64().unwrap() / (time / oracle) - 1.0).abs() < 1e-9);
}

#[test]
fn a_log_is_of_one_table_policy_and_seed() {
    let folder = folder();
    let refused = |args: &[&str], words: &[&str]| is_refused(&replay(args, folder.path()), words);
    refused(
        &["cross.csv", "other.csv", "--log", "l"],
        &["--log", "exactly one", "2, 1 and 1"],
    );
    refused(
        &["cross.csv", "--seed", "1,2", "--log", "l"],
        &["--log", "1, 1 and 2"],
    );
    refused(
        &["cross.csv", "--policy", "adaptive,adaptive", "--log", "l"],
        &["1, 2 and 1"],
    );
    refused(
        &["cross.csv", "--log", "./cross.csv"],
        &["cross.csv", "overwritten"],
    );
    refused(
        &["cross.csv", "--svg", "cross.csv"],
        &["cross.csv", "overwritten"],
    );
    refused(
        &["cross.csv", "--log", "no/where.csv"],
        &["no/where.csv", "cannot be written"],
    );
    refused(
        &["cross.csv", "--svg", "no/where.svg"],
        &["no/where.svg", "cannot be written"],
    );
    assert!(!folder.path().join("l").exists());
}

#[test]
fn bad_input_is_refused_in_one_line_with_its_place() {
    let folder = folder();
    fs::create_dir(folder.path().join("folder")).unwrap();
    let refused = |args: &[&str], words: &[&str]| is_refused(&replay(args, folder.path()), words);
    refused(&[], &["TABLE"]);
    refused(&["none.csv"], &["none.csv", "cannot be read"]);
    refused(&["folder"], &["folder", "is a directory"]);
    refused(
        &["cross.csv", "bad.csv"],
        &["bad.csv: line 2: column 3 (t:b): \"soon\""],
    );
    refused(&["cross.csv", "--policy", "magic"], &["magic", "adaptive"]);
    refused(
        &["cross.csv", "--policy", "adaptive,"],
        &["policy = :", "adaptive"],
    );
    refused(
        &["cross.csv", "--order", "twice"],
        &["twice", "zipf", "once"],
    );
    refused(&["cross.csv", "--calls", "0"], &["--calls", "1..="]);
    refused(&["cross.csv", "--noise", "-1"], &["-1"]);
    refused(&["cross.csv", "--noise", "nan"], &["nan", "0 to 1"]);
    refused(&["cross.csv", "--budget", "2"], &["2", "0 to 1"]);
    refused(&["cross.csv", "--seed", "x"], &["x", "1..5"]);
    refused(&["cross.csv", "--seed", "5..1"], &["5..1", "smaller seed"]);
    refused(
        &["cross.csv", "--seed", "0..18446744073709551615"],
        &["1000 seeds"],
    );
    refused(
        &["other.csv", "--memory-cap", "much"],
        &["much", "--memory-cap"],
    );
}

#[test]
fn a_budget_bounds_what_trials_cost() {
    let folder = folder();
    let share = |budget: &str| {
        let args = ["cross.csv", "--budget", budget, "--calls", "5000", "--json"];
        json(&replay(&args, folder.path()))[0]["trial_share"]
            .as_f64()
            .unwrap()
    };
    assert_eq!(share("0"), 0.0);
    assert!(share("0.2") > share("0.002"));
}

#[test]
fn a_memory_cap_changes_who_may_serve_and_says_what_it_leaves_out() {
    let folder = folder();
    let cost = |args: &[&str]| {
        let args = [&["cross.csv", "--calls", "2000", "--json"], args].concat();
        let output = replay(&args, folder.path());
        (
            json(&output)[0]["best_fixed"].clone(),
            text(&output.stderr).to_owned(),
        )
    };
    let log = |cap: &str| {
        let name = format!("{cap}.log");
        cost(&["--memory-cap", cap, "--log", &name]);
        fs::read_to_string(folder.path().join(name)).unwrap()
    };
    assert!(log("40000").contains(",c,"));
    assert!(!log("10").contains(",c,"));
    let output = replay(
        &["other.csv", "--memory-cap", "5", "--calls", "10"],
        folder.path(),
    );
    assert!(output.status.success());
    assert!(text(&output.stderr).contains("no column m:"));
    let hungry = "x:n,t:a,t:b,m:a,m:b\n1,1,2,10,20\n2,1,2,30,40\n";
    fs::write(folder.path().join("hungry.csv"), hungry).unwrap();
    let output = replay(
        &["hungry.csv", "--memory-cap", "25", "--calls", "10"],
        folder.path(),
    );
    assert!(output.status.success());
    assert!(
        text(&output.stderr).contains("1 of 2 workloads"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_picture_is_drawn() {
    let folder = folder();
    let args = [
        "cross.csv",
        "other.csv",
        "--seed",
        "1..2",
        "--calls",
        "200",
        "--svg",
        "p.svg",
    ];
    assert!(replay(&args, folder.path()).status.success());
    let picture = fs::read_to_string(folder.path().join("p.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("cross") && picture.contains("other"));
}
