//! The report as a command: what it says, what it refuses, and how it is served.

mod common;

use std::fs;
use std::time::{Duration, Instant};

use common::known::*;
use common::{is_refused, json, pointsman, prepared, text};
use pointsman::store::{self, Knowledge, SqliteStore};
use serde_json::Value;

fn page(home: &std::path::Path) -> String {
    let output = pointsman(&["report", "-o", "-"], home, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn op<'d>(data: &'d Value, name: &str) -> &'d Value {
    let ops = data["ops"].as_array().unwrap();
    ops.iter().find(|op| op["op"] == name).unwrap()
}

#[test]
fn the_page_shows_what_the_store_holds_and_needs_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    add(home.path(), &known());
    let file = home.path().join("page.html");
    let told = pointsman(&["report", "-o", file.to_str().unwrap()], home.path(), &[]);
    assert!(told.status.success(), "{}", text(&told.stderr));
    assert!(
        text(&told.stdout).contains("2 ops"),
        "{}",
        text(&told.stdout)
    );
    let html = fs::read_to_string(&file).unwrap();
    assert_eq!(html.matches("<circle class=\"point ").count(), POINTS);
    // Nothing is fetched from anywhere.
    for outside in ["http:", "https:", "src=", "@import", "url("] {
        assert!(!html.contains(outside), "{outside}");
    }
    for told in ["own_op", "own_matmul", "id=\"op-own_op\"", "Calibration"] {
        assert!(html.contains(told), "{told}");
    }
    let data = json(&pointsman(&["report", "--json"], home.path(), &[]));
    assert_eq!(data["totals"]["points"], POINTS);
    let own = op(&data, "own_op");
    let spans = own["spans"].as_array().unwrap();
    assert_eq!(
        (&spans[0]["variant"], &spans[1]["variant"]),
        (&"slow".into(), &"fast".into())
    );
    // 10 n = 2000 + n at 222.
    let over = spans[1]["from"].as_f64().unwrap();
    assert!((128.0..=320.0).contains(&over), "{over}");
    // Against the choice, over all 13 cells: the geometric mean of their ratios.
    let choice = |n: f64| (10.0 * n).min(2000.0 + n);
    let ratio = |time: fn(f64) -> f64| {
        let logs = (4..=16)
            .map(|e| f64::from(1 << e))
            .map(|n| (time(n) / choice(n)).ln());
        (logs.sum::<f64>() / 13.0).exp()
    };
    for (name, expected) in [
        ("slow", ratio(|n| 10.0 * n)),
        ("fast", ratio(|n| 2000.0 + n)),
    ] {
        let fixed = own["worth"]["fixed"].as_array().unwrap();
        let fixed = fixed.iter().find(|f| f["variant"] == name).unwrap();
        assert_eq!(fixed["cells"], 13);
        let found = fixed["ratio"].as_f64().unwrap();
        assert!(
            (found / expected - 1.0).abs() < 1e-9,
            "{name}: {found}, {expected}"
        );
    }
    // By name, nobody says which variant is the reference, nor where it runs.
    assert_eq!(own["variants"][0]["reference"], Value::Null);
    assert_eq!(own["variants"][0]["backend"], Value::Null);
    assert_eq!(data["totals"]["over_reference"], Value::Null);
    let off: Vec<_> = op(&data, "own_matmul")["cells"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|cell| cell["on_line"] == false)
        .map(|cell| cell["cell"].clone())
        .collect();
    assert_eq!(off, ["1,024–1,151 × 32–35 × 1"]);
}

#[test]
fn accounts_failures_and_confidence_are_those_of_the_store() {
    let home = tempfile::tempdir().unwrap();
    add(home.path(), &known());
    let data = json(&pointsman(&["report", "--json"], home.path(), &[]));
    let spent = &data["totals"]["spent"];
    assert_eq!(
        (&spent["calls"], &spent["trials"]),
        (&1234.into(), &20.into())
    );
    assert_eq!(data["stated"][9]["judged"], 50);
    assert_eq!(data["stated"][9]["right"], 48);
    let held: u64 = data["held_out"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tenth| tenth["judged"].as_u64().unwrap())
        .sum();
    assert_eq!(
        held, 13,
        "cells of own_op; the others have too few measurements"
    );
    let html = page(home.path());
    // 10 ms of 2 s.
    assert!(html.contains("1,234 calls took 2.00 s to serve. 20 trials took 30.0 ms, of which 10.0 ms beyond the best known variant: 0.50 %"), "budget");
    assert!(html.contains("3 in 1 cell"), "failures");
    assert!(
        html.contains("disagrees with the reference"),
        "wrong results"
    );
    // Without accounts nothing is made up.
    let bare = tempfile::tempdir().unwrap();
    let mut known = known();
    known
        .entries
        .retain(|e| !matches!(e.fact, store::Fact::Account(_)));
    add(bare.path(), &known);
    let html = page(bare.path());
    assert!(html.contains("keeps no accounts") && html.contains("not kept"));
    let data = json(&pointsman(&["report", "--json"], bare.path(), &[]));
    assert_eq!(data["totals"]["spent"], Value::Null);
}

#[test]
fn an_op_of_this_build_is_told_with_its_backends_and_its_reference() {
    let home = tempfile::tempdir().unwrap();
    let tuned = pointsman(&["tune", "dot", "--sizes", "64..256"], home.path(), &[]);
    assert!(tuned.status.success(), "{}", text(&tuned.stderr));
    let data = json(&pointsman(&["report", "--json"], home.path(), &[]));
    assert_eq!(data["machine"]["this_machine"], true);
    let dot = op(&data, "dot_f32");
    assert_eq!(dot["in_this_build"], true);
    let scalar = &dot["variants"][0];
    assert_eq!(
        (&scalar["name"], &scalar["reference"]),
        (&"scalar".into(), &true.into())
    );
    assert_eq!(scalar["backend"], "scalar");
    // Measuring is neither calls nor trials.
    assert!(scalar["account"]["served_ns"].as_u64().unwrap() > 0);
    assert_eq!(
        (&scalar["account"]["calls"], &scalar["account"]["trials"]),
        (&0.into(), &0.into())
    );
    assert!(page(home.path()).contains("<small>reference</small>"));
}

#[test]
fn what_programs_without_gpus_learn_here_is_shown() {
    let home = tempfile::tempdir().unwrap();
    let mut known = known();
    let here = pointsman::Machine::detect().fingerprint();
    known.entries.iter_mut().for_each(|e| e.machine = here);
    add(home.path(), &known);
    let data = json(&pointsman(&["report", "--json"], home.path(), &[]));
    assert_eq!(data["machine"]["this_machine"], true);
    assert_eq!(data["totals"]["points"], POINTS);
    assert_eq!(data["elsewhere"], serde_json::json!([]));
}

#[test]
fn names_that_came_with_an_import_are_text() {
    let home = tempfile::tempdir().unwrap();
    let (op, one, other) = (
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(2)>",
        "</title></svg><b>'`",
    );
    let known = Knowledge {
        entries: crossing(op, one, other),
        machines: Vec::new(),
    };
    let file = home.path().join("hostile.pointsman");
    store::export_to(&known, &file).unwrap();
    let output = pointsman(
        &["store", "import", file.to_str().unwrap()],
        home.path(),
        &[],
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let html = page(home.path());
    assert_eq!(html.matches("<script").count(), 1, "the page's own");
    for raw in ["<img", "<b>'", "onerror=alert(2)>", "</title></svg>"] {
        assert!(!html.contains(raw), "{raw}");
    }
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    let data = json(&pointsman(&["report", "--json"], home.path(), &[]));
    assert_eq!(data["ops"][0]["op"], op, "JSON keeps the name as it is");
}

#[test]
fn what_cannot_be_reported_is_one_line() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let report = |args: &[&str], env: &[(&str, &str)]| {
        let mut all = vec!["report"];
        all.extend(args);
        prepared(&all, home, env)
            .current_dir(home)
            .output()
            .unwrap()
    };
    is_refused(&report(&[], &[]), &["not there yet", "pointsman tune"]);
    is_refused(&report(&[], &[("POINTSMAN_STORE", "memory")]), &["memory"]);
    assert!(!home.join("report.html").exists());
    // There and empty: nothing is wrong, and the page says so.
    SqliteStore::open(place(home)).unwrap();
    let output = report(&[], &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let html = fs::read_to_string(home.join("report.html")).unwrap();
    assert!(html.contains("Nothing is known yet"));
    add(home, &known());
    is_refused(&report(&["-o", "."], &[]), &["directory"]);
    is_refused(
        &report(&["-o", "no/such/place.html"], &[]),
        &["no/such/place.html"],
    );
    is_refused(&report(&["--json", "--serve"], &[]), &["--serve"]);
    assert!(
        report(&[], &[]).status.success(),
        "an older report is replaced"
    );
    let html = fs::read_to_string(home.join("report.html")).unwrap();
    assert!(html.contains("own_op"));
    // Damage is left as it is.
    let junk = home.join("junk.sqlite");
    fs::write(&junk, "this is not a database").unwrap();
    let junk = junk.to_str().unwrap();
    is_refused(
        &report(&[], &[("POINTSMAN_STORE", junk)]),
        &["junk.sqlite", "cannot be read"],
    );
    assert_eq!(fs::read(junk).unwrap(), b"this is not a database");
}

#[test]
fn only_browsers_of_this_machine_are_served() {
    let home = tempfile::tempdir().unwrap();
    add(home.path(), &known());
    for (address, words) in [
        ("0.0.0.0:0", ["loopback", "0.0.0.0"]),
        ("example.org:80", ["no address", "127.0.0.1"]),
    ] {
        let output = pointsman(&["report", "--serve", address], home.path(), &[]);
        is_refused(&output, &words);
    }
    let served = Served::start(home.path());
    let taken = served.address.to_string();
    let output = pointsman(&["report", "--serve", &taken], home.path(), &[]);
    is_refused(&output, &["taken", &taken]);

    let html = served.get("/", "");
    assert!(html.starts_with("HTTP/1.1 200 OK\r\n"), "{}", &html[..60]);
    assert!(html.contains("<!DOCTYPE html>") && html.contains("own_op"));
    let data = served.get("/data.json", "");
    let body = data.split_once("\r\n\r\n").unwrap().1;
    let data: Value = serde_json::from_str(body).unwrap();
    assert_eq!(data["totals"]["points"], POINTS);

    let host = served.address;
    let long = format!(
        "GET / HTTP/1.1\r\nHost: {host}\r\nX: {}\r\n\r\n",
        "x".repeat(50_000)
    );
    for (request, status) in [
        (format!("POST / HTTP/1.1\r\nHost: {host}\r\n\r\n"), "405"),
        (
            "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_owned(),
            "403",
        ),
        (
            format!(
                "GET / HTTP/1.1\r\nHost: evil.example:{}\r\n\r\n",
                host.port()
            ),
            "403",
        ),
        (
            format!("GET /../etc/passwd HTTP/1.1\r\nHost: {host}\r\n\r\n"),
            "404",
        ),
        ("\u{0}\u{1}\u{2}\r\n\r\n".to_owned(), "400"),
        ("GET".to_owned(), "400"),
        (String::new(), "400"),
        (long, "431"),
    ] {
        let answer = served.send(request.as_bytes());
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request:.40?}: {answer:.80?}"
        );
    }
    let mut random = [0u8; 4096];
    random
        .iter_mut()
        .enumerate()
        .for_each(|(i, b)| *b = (i * 151 + i / 7) as u8);
    served.send(&random);
    assert!(
        served.get("/", "").starts_with("HTTP/1.1 200"),
        "still there"
    );
}

#[test]
fn a_served_page_follows_the_store() {
    let home = tempfile::tempdir().unwrap();
    // Nobody has learned anything yet: the page waits.
    let mut served = Served::start(home.path());
    assert!(served.get("/", "").contains("Nothing is known yet"));
    add(home.path(), &known());
    let until = |wanted: &str| {
        let end = Instant::now() + Duration::from_secs(120);
        loop {
            let answer = served.get("/content", "");
            if answer.contains(wanted) {
                return answer;
            }
            assert!(Instant::now() < end, "{wanted} does not come");
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    let answer = until("own_matmul");
    let tag = answer
        .lines()
        .find_map(|l| l.strip_prefix("ETag: "))
        .unwrap()
        .to_owned();
    let same = served.get("/content", &format!("If-None-Match: {tag}\r\n"));
    assert!(same.starts_with("HTTP/1.1 304"), "{same:.60}");
    let more = Knowledge {
        entries: crossing("later_op", "a", "b"),
        machines: Vec::new(),
    };
    add(home.path(), &more);
    until("later_op");
    // Damage is told, and does not end it.
    let log = home.path().join("cache/pointsman/knowledge.sqlite-wal");
    let _ = fs::remove_file(log);
    fs::write(place(home.path()), [7; 5000]).unwrap();
    assert!(until("cannot be read").starts_with("HTTP/1.1 503"));

    #[cfg(unix)]
    {
        use rustix::process::{Pid, Signal, kill_process};
        let pid = Pid::from_raw(served.child.id() as i32).unwrap();
        kill_process(pid, Signal::INT).unwrap();
        assert_eq!(served.child.wait().unwrap().code(), Some(0));
    }
}
