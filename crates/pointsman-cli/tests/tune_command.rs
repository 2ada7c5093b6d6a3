//! Tuning, and looking at what it learned.

mod common;

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{is_refused, json, pointsman, prepared, text};
use serde_json::Value;

/// Tunes one op over a few sizes.
fn tuned(home: &Path, args: &[&str]) -> Value {
    let all = [&["tune", "dot", "--sizes", "16..1024", "--json"], args].concat();
    let output = pointsman(&all, home, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    json(&output)
}

#[test]
fn tuning_is_kept_and_map_and_explain_know_it() {
    let home = tempfile::tempdir().unwrap();
    let told = tuned(home.path(), &[]);
    assert_eq!((&told["shapes"], &told["left_out"]), (&7.into(), &0.into()));
    assert!(told["measurements"].as_u64().unwrap() > 7 * 2 * 3, "{told}");
    let op = &told["map"][0];
    assert_eq!(op["op"], "dot_f32");
    assert_eq!(op["points"].as_array().unwrap().len(), 7);

    // Another process knows the same, and the spans cover the whole range without a gap.
    let output = pointsman(&["map", "--sizes", "16..1024", "--json"], home.path(), &[]);
    let map = json(&output);
    assert_eq!(map.as_array().unwrap().len(), 1, "only what is known");
    let spans = map[0]["spans"].as_array().unwrap();
    assert_eq!(spans[0]["from"], 16);
    assert_eq!(spans[spans.len() - 1]["to"], 1024);
    for pair in spans.windows(2) {
        let next = pair[0]["to"].as_u64().unwrap() + 1;
        assert_eq!(pair[1]["from"].as_u64().unwrap(), next);
        assert_ne!(pair[0]["variant"], pair[1]["variant"]);
    }
    assert!(map[0]["over_reference"].as_f64().unwrap() > 0.9);
    assert!(map[0]["best_fixed"]["over"].as_f64().unwrap() > 0.9);

    let output = pointsman(&["explain", "dot", "1024", "--json"], home.path(), &[]);
    let told = json(&output);
    assert_eq!(told["chosen"], map[0]["points"][6]["chosen"]);
    let scalar = &told["variants"][0];
    assert!(scalar["samples"].as_u64().unwrap() >= 9, "{told}");
    let text_of = pointsman(&["explain", "dot", "1024"], home.path(), &[]);
    assert!(text(&text_of.stdout).contains("reference"));
}

#[test]
fn the_map_is_drawn() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("map.svg");
    let draw = ["map", "--svg", path.to_str().unwrap()];
    is_refused(
        &pointsman(&draw, home.path(), &[]),
        &["nothing is known", "tune"],
    );
    tuned(home.path(), &[]);
    let output = pointsman(&draw, home.path(), &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let svg = fs::read_to_string(&path).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("dot_f32") && svg.contains("</svg>"));
}

#[test]
fn looking_makes_no_store() {
    let home = tempfile::tempdir().unwrap();
    let output = pointsman(&["map"], home.path(), &[]);
    assert!(text(&output.stdout).contains("Nothing is known"));
    let output = pointsman(&["explain", "axpy_f64", "100"], home.path(), &[]);
    assert!(output.status.success());
    assert!(!home.path().join("cache/pointsman").exists());
}

#[test]
fn what_is_disabled_or_not_forced_is_not_chosen() {
    let home = tempfile::tempdir().unwrap();
    tuned(home.path(), &[]);
    // The backend of who is chosen: where the CPU has AVX-512, two variants are of `simd`.
    let chosen = |args: &[&str], env: &[(&str, &str)]| {
        let all = [&["explain", "dot", "1024", "--json"], args].concat();
        let told = json(&pointsman(&all, home.path(), env));
        variant(&told, told["chosen"].as_str().unwrap())["backend"].clone()
    };
    assert_eq!(chosen(&["--force", "scalar"], &[]), "scalar");
    assert_eq!(chosen(&["--force", "dot_f32=simd"], &[]), "simd");
    assert_eq!(chosen(&["--disable", "simd"], &[]), "scalar");
    assert_eq!(chosen(&[], &[("POINTSMAN_FORCE", "scalar")]), "scalar");
    assert_eq!(chosen(&[], &[("POINTSMAN_DISABLE", "scalar")]), "simd");
    let output = pointsman(
        &["explain", "dot", "8", "--force", "warp"],
        home.path(),
        &[],
    );
    is_refused(&output, &["warp", "scalar"]);
}

/// What a command says of one variant.
fn variant<'v>(told: &'v Value, name: &str) -> &'v Value {
    let all = told["variants"].as_array().unwrap();
    all.iter().find(|v| v["name"] == name).unwrap()
}

#[test]
fn explain_and_map_name_nobody_whose_condition_the_shape_does_not_meet() {
    let home = tempfile::tempdir().unwrap();
    let tune = ["tune", "conv2d", "--sizes", "256..1024", "--json"];
    let output = pointsman(&tune, home.path(), &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let explained = |shape: &str| {
        let args = [
            "explain",
            "conv2d",
            shape,
            "--force",
            "conv2d_f32=winograd",
            "--json",
        ];
        json(&pointsman(&args, home.path(), &[]))
    };
    let three = explained("1x16x8x8x16x3");
    if variant(&three, "winograd")["why_not"].is_string() {
        return; // a machine without the instructions: forcing it was refused
    }
    assert_eq!(three["chosen"], "winograd");
    assert_eq!(variant(&three, "winograd")["assumed"], false);
    // Next to it, and as well known.
    let two = explained("1x16x8x8x16x2");
    assert_ne!(two["chosen"], "winograd");
    assert_eq!(
        variant(&two, "winograd")["why_not"],
        "its condition says no"
    );
    // Nobody makes gigabytes to ask a condition; it says so instead.
    let huge = ["explain", "fft", "8x100000000"];
    let output = pointsman(&huge, home.path(), &[]);
    assert!(text(&output.stdout).contains("if its condition holds"));

    let output = pointsman(&["map", "conv2d", "--json"], home.path(), &[]);
    let points = json(&output)[0]["points"].clone();
    for point in points.as_array().unwrap() {
        let predicted = point["predicted_ns"].as_object().unwrap();
        assert!(predicted.contains_key("winograd"), "{point}");
        assert!(
            !predicted.contains_key("fft"),
            "its filters are too small: {point}"
        );
    }
    assert_eq!(points.as_array().unwrap().len(), 3);
}

#[test]
fn tuning_tells_who_was_not_measured_and_why() {
    let home = tempfile::tempdir().unwrap();
    let told = tuned(home.path(), &[]);
    let refused = told["refused"].as_array().unwrap();
    let of = |name: &str| refused.iter().find(|r| r["variant"] == name);
    let threads = of("threads").unwrap();
    assert_eq!(
        (&threads["op"], &threads["failed"]),
        (&"dot_f32".into(), &false.into())
    );
    assert_eq!(threads["why"], "size 16 is below 4096");
    assert_eq!(threads["shapes"], 7);
    assert!(of("scalar").is_none(), "it was measured: {told}");

    let args = ["tune", "dot", "--sizes", "16..64", "--disable", "simd"];
    let output = pointsman(&args, home.path(), &[]);
    let lines = text(&output.stdout);
    assert!(
        lines.contains("dot_f32 threads: not measured at 3 shapes: size 16"),
        "{lines}"
    );
    assert!(
        lines.contains("dot_f32 simd: not measured at 3 shapes: disabled"),
        "{lines}"
    );
}

#[test]
fn only_the_backends_asked_for_are_measured() {
    let home = tempfile::tempdir().unwrap();
    tuned(home.path(), &["--backends", "scalar"]);
    let told = json(&pointsman(
        &["explain", "dot", "256", "--json"],
        home.path(),
        &[],
    ));
    let samples = |name: &str| {
        let all = told["variants"].as_array().unwrap();
        let found = all.iter().find(|v| v["name"] == name).unwrap();
        found["samples"].as_u64().unwrap()
    };
    assert!(samples("scalar") > 0 && samples("simd") == 0);
}

#[test]
fn a_recorded_table_can_be_replayed() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("dot.csv");
    let file = path.to_str().unwrap();
    tuned(home.path(), &["--record", file]);
    let table = fs::read_to_string(&path).unwrap();
    assert!(table.starts_with("x:n,t:scalar,t:simd,"), "{table}");
    let output = pointsman(
        &["replay", file, "--calls", "200", "--json"],
        home.path(),
        &[],
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(json(&output)[0]["table"], "dot");
    let both = ["tune", "dot", "axpy", "--record", file];
    is_refused(&pointsman(&both, home.path(), &[]), &["one op"]);
}

#[test]
fn bad_input_is_refused_in_one_helpful_line() {
    let home = tempfile::tempdir().unwrap();
    let refused =
        |args: &[&str], words: &[&str]| is_refused(&pointsman(args, home.path(), &[]), words);
    refused(&["tune", "dott"], &["dott", "dot_f32", "axpy_f64"]);
    refused(&["tune", "--time", "soon"], &["soon", "--time"]);
    refused(&["tune", "--sizes", "9..8"], &["9 is above 8"]);
    refused(&["tune", "--backends", "warp:1"], &["warp"]);
    refused(
        &["tune", "dot", "--backends", "gpu:7"],
        &["gpu:7", "scalar"],
    );
    refused(&["explain", "dot", "12y"], &["12y", "512x512x512"]);
    refused(&["explain", "dot", "12x3"], &["dot_f32", "(n)", "12x3"]);
    refused(&["map", "nosuch"], &["nosuch", "dot_f32"]);
}

/// Ctrl-C in the middle: what was learned until then is kept, and the map is printed.
#[cfg(unix)]
#[test]
fn an_interrupt_keeps_what_was_learned() {
    use rustix::process::{Pid, Signal, kill_process};

    let home = tempfile::tempdir().unwrap();
    let args = [
        "tune",
        "dot",
        "--time",
        "1h",
        "--sizes",
        "16..16777216",
        "--json",
    ];
    // Without GPUs, whose kernels are compiled and measured before anything is learned.
    let mut child = prepared(&args, home.path(), &[("POINTSMAN_DISABLE", "gpu")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let store = home.path().join("cache/pointsman/knowledge.sqlite");
    let patience = Instant::now() + Duration::from_secs(60);
    while !store.exists() {
        assert!(Instant::now() < patience, "no store after a minute");
        std::thread::sleep(Duration::from_millis(10));
    }
    // The handler is set right after the store was made.
    std::thread::sleep(Duration::from_millis(500));
    let pid = Pid::from_raw(child.id() as i32).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let mut told = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut told)
        .unwrap();
    assert!(child.wait().unwrap().success());
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["interrupted"], true);
    assert!(told["left_out"].as_u64().unwrap() > 0);
    let output = pointsman(&["store", "show", "--json"], home.path(), &[]);
    let shown = json(&output);
    assert!(!shown["variants"].as_array().unwrap().is_empty(), "{shown}");
}
