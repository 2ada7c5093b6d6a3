//! The command as a user meets it: what it prints, where, and with which exit code.

mod common;

use common::{is_refused, json, pointsman, text};
use serde_json::Value;

#[test]
fn bad_input_is_refused_in_one_helpful_line() {
    let home = tempfile::tempdir().unwrap();
    let refused =
        |args: &[&str], words: &[&str]| is_refused(&pointsman(args, home.path(), &[]), words);
    refused(&[], &["subcommand", "bench", "doctor"]);
    refused(&["docter"], &["docter", "doctor"]);
    refused(&["bench"], &["subcommand", "overhead"]);
    refused(
        &["bench", "overhead", "--rounds", "0"],
        &["--rounds", "0", "1..=1000000"],
    );
    refused(
        &["bench", "overhead", "--rounds", "many"],
        &["many", "--rounds"],
    );
    refused(&["bench", "overhead", "--jsn"], &["--jsn", "--json"]);
}

#[test]
fn a_bad_environment_is_refused_with_the_valid_values() {
    let home = tempfile::tempdir().unwrap();
    let output = pointsman(&["doctor"], home.path(), &[("POINTSMAN_MODE", "fast")]);
    is_refused(
        &output,
        &["POINTSMAN_MODE", "fast", "learn, frozen, reference"],
    );
}

#[test]
fn help_and_version_are_no_errors() {
    let home = tempfile::tempdir().unwrap();
    let version = pointsman(&["--version"], home.path(), &[]);
    assert!(version.status.success());
    assert_eq!(
        text(&version.stdout).trim(),
        concat!("pointsman ", env!("CARGO_PKG_VERSION"))
    );
    let help = pointsman(&["--help"], home.path(), &[]);
    assert!(help.status.success() && text(&help.stdout).contains("doctor"));
}

#[test]
fn bench_overhead_gives_every_figure_as_json() {
    let home = tempfile::tempdir().unwrap();
    let output = pointsman(
        &["bench", "overhead", "--json", "--rounds", "2"],
        home.path(),
        &[],
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let figures = json(&output);
    for name in [
        "direct_ns",
        "plan_run_ns",
        "op_run_ns",
        "decide_record_ns",
        "sampled_ns",
        "allocations_per_call",
    ] {
        assert!(figures[name].is_number(), "{name}: {figures}");
    }
    for name in ["two_thread_ratio", "two_thread_ratio_by_name"] {
        assert!(figures.get(name).is_some(), "{name}"); // null on a single core
    }
    for rival in ["history", "registry"] {
        assert!(figures["rivals"][rival]["select_ns"].is_number());
        assert!(figures["rivals"][rival]["record_ns"].is_number());
    }
}

#[test]
fn bench_oracle_gives_every_figure_as_json() {
    let home = tempfile::tempdir().unwrap();
    let args = "bench oracle --calls 50 --sizes 16..1024 --json".split(' ');
    let args: Vec<&str> = args.collect();
    let output = pointsman(&args, home.path(), &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let figures = json(&output);
    for name in ["adaptive", "oracle_s", "trial_share"] {
        assert!(figures[name].as_f64().unwrap() >= 0.0, "{name}: {figures}");
    }
    let fixed = figures["fixed"].as_object().unwrap();
    assert!(fixed["scalar"].as_f64().unwrap() > 0.0 && fixed.contains_key("simd"));
}

#[test]
fn bench_ops_names_every_contestant_and_says_who_is_missing() {
    let home = tempfile::tempdir().unwrap();
    let output = pointsman(&["bench", "ops", "--test", "--json"], home.path(), &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let figures = json(&output);
    let results = figures["results"].as_array().unwrap();
    let took_part = |op: &str, who: &str| {
        let found = |r: &&Value| r["op"] == op && r["who"] == who;
        results
            .iter()
            .find(found)
            .is_some_and(|r| r["ns"].as_f64() > Some(0.0))
    };
    assert!(took_part("dot_f32", "simd") && took_part("dot_f32", "read, one thread"));
    assert!(took_part("matmul_f32", "matrixmultiply"));
    let missing = figures["missing"].as_array().unwrap();
    let absent = |rival: &str| missing.iter().any(|m| m.as_str().unwrap().contains(rival));
    assert_ne!(
        absent("OpenBLAS"),
        took_part("matmul_f32", "OpenBLAS, one thread")
    );
}

#[test]
fn doctor_describes_the_machine_and_makes_no_store() {
    let home = tempfile::tempdir().unwrap();
    let output = pointsman(&["doctor", "--json"], home.path(), &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = json(&output);
    assert!(report["machine"]["cpu"].is_string());
    assert!(report["machine"]["features"].is_array());
    assert!(report["machine"]["cores"].as_u64().unwrap() >= 1);
    assert!(
        report["calibration"]["backends"]["scalar"]["flops_per_s"]
            .as_f64()
            .unwrap()
            > 0.0
    );
    assert_eq!(report["calibration_from"], "measured_now");
    assert_eq!(report["store"]["health"], "absent");
    let path = home.path().join("cache/pointsman/knowledge.sqlite");
    assert_eq!(report["store"]["path"], path.to_str().unwrap());
    assert!(!path.exists());
    assert!(!home.path().join("cache/pointsman").exists());
}

#[test]
fn doctor_tells_a_good_store_from_one_that_cannot_be_used() {
    use pointsman::store::{Knowledge, SqliteStore, Store as _};
    use pointsman::{Calibration, Machine};

    let home = tempfile::tempdir().unwrap();
    let good = home.path().join("good.sqlite");
    let calibration = Calibration::measure();
    let mut store = SqliteStore::open(&good).unwrap();
    let change = Knowledge {
        machines: vec![Machine::detect().record(&calibration)],
        ..Knowledge::default()
    };
    store.merge(&change).unwrap();
    // Without GPUs, so that the machine is the one above.
    let env = [
        ("POINTSMAN_STORE", good.to_str().unwrap()),
        ("POINTSMAN_DISABLE", "gpu"),
    ];
    let output = pointsman(&["doctor", "--json"], home.path(), &env);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = json(&output);
    assert_eq!(report["store"]["health"], "well");
    assert_eq!(report["store"]["knows_this_machine"], true);
    assert_eq!(report["calibration_from"], "store");
    let stored = serde_json::to_string(&calibration).unwrap();
    assert_eq!(
        report["calibration"],
        serde_json::from_str::<Value>(&stored).unwrap()
    );
    assert_eq!(
        report["environment"]["POINTSMAN_STORE"],
        good.to_str().unwrap()
    );

    // A directory is no store: found, said, and told by the exit code, but the report is whole.
    let env = [("POINTSMAN_STORE", home.path().to_str().unwrap())];
    let output = pointsman(&["doctor", "--json"], home.path(), &env);
    assert_eq!(output.status.code(), Some(1));
    let report = json(&output);
    assert_eq!(report["store"]["health"], "unusable");
    assert!(report["store"]["problem"].is_string());
    assert!(report["machine"]["cpu"].is_string());

    let output = pointsman(&["doctor"], home.path(), &[("POINTSMAN_STORE", "memory")]);
    assert!(output.status.success());
    assert!(text(&output.stdout).contains("in memory"));
}

#[cfg(feature = "otlp")]
#[test]
fn f45_a_bad_address_of_a_collector_is_refused_in_one_line() {
    let home = tempfile::tempdir().unwrap();
    for url in ["localhost:4318", "ftp://localhost", ""] {
        for command in [["tune", "dot"], ["replay", "no.csv"], ["bench", "overhead"]] {
            let args = [command[0], command[1], "--otlp", url];
            let output = pointsman(&args, home.path(), &[]);
            is_refused(&output, &["--otlp", "http://HOST:PORT"]);
        }
    }
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[cfg(feature = "otlp")]
#[test]
fn f43_a_collector_that_is_not_there_is_noted_and_no_failure() {
    let home = tempfile::tempdir().unwrap();
    let table = home.path().join("t.csv");
    std::fs::write(&table, "x:n,t:a,t:b\n1,500000,900000\n2,500000,900000\n").unwrap();
    let table = table.to_str().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let url = format!("http://127.0.0.1:{port}");
    let args = ["replay", table, "--calls", "50", "--otlp", &url];
    let output = pointsman(&args, home.path(), &[]);
    let told = text(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("--otlp"), "{told}");
}
