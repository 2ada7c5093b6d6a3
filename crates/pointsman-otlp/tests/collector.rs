//! End to end, against a real collector in a process of its own: `rotel`, which prints what it receives.
//! `test.sh` installs it; elsewhere: `python3 -m venv target/venv-otlp && target/venv-otlp/bin/pip install rotel`.
#![allow(clippy::print_stderr)]

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pointsman::{Backend, Machine, Selector, Workload};
use pointsman_otlp::{Config, Protocol, install, start};
use tracing_subscriber::layer::SubscriberExt as _;

/// Longest time to wait for a process that starts, or for something to be printed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where `pip install rotel` puts the collector.
fn rotel() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/venv-otlp/lib");
    let pythons = std::fs::read_dir(root).ok()?;
    pythons
        .flatten()
        .map(|python| python.path().join("site-packages/rotel/rotel-agent"))
        .find(|agent| agent.is_file())
}

struct Collector {
    process: Child,
    printed: PathBuf,
    grpc: u16,
    http: u16,
    _dir: tempfile::TempDir,
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

impl Collector {
    /// The collector, or `None` where it is not installed and need not be.
    fn start() -> Option<Self> {
        let Some(agent) = rotel() else {
            let required = std::env::var("POINTSMAN_TEST_OTLP").is_ok_and(|v| v == "required");
            assert!(
                !required,
                "rotel is not in target/venv-otlp, and is required"
            );
            eprintln!("SKIPPED: no collector; pip install rotel into target/venv-otlp");
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        let printed = dir.path().join("printed");
        let (grpc, http) = (free_port(), free_port());
        let out = File::create(&printed).unwrap();
        let process = Command::new(agent)
            .arg("start")
            .args(["--otlp-grpc-endpoint", &format!("127.0.0.1:{grpc}")])
            .args(["--otlp-http-endpoint", &format!("127.0.0.1:{http}")])
            .args(["--exporter", "blackhole"])
            .args(["--debug-log", "traces", "--debug-log", "metrics"])
            .args(["--debug-log-verbosity", "detailed"])
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .spawn()
            .unwrap();
        let collector = Collector {
            process,
            printed,
            grpc,
            http,
            _dir: dir,
        };
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", http)).is_err()
            || TcpStream::connect(("127.0.0.1", grpc)).is_err()
        {
            assert!(begin.elapsed() < PATIENCE, "{}", collector.text());
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(collector)
    }

    fn text(&self) -> String {
        let bytes = std::fs::read(&self.printed).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until it has printed all of these, and is not in the middle of a line.
    fn wait_for(&self, wanted: &[&str]) -> String {
        let begin = Instant::now();
        let mut before = String::new();
        loop {
            let text = self.text();
            match wanted.iter().find(|w| !text.contains(**w)) {
                None if text == before => return text,
                missing => assert!(begin.elapsed() < PATIENCE, "no {missing:?} in\n{text}"),
            }
            before = text;
            std::thread::sleep(Duration::from_millis(300));
        }
    }
}

/// A span as the collector prints it.
#[derive(Clone, Debug)]
struct Printed {
    id: String,
    parent: String,
    trace: String,
    name: String,
    start: u64,
    end: u64,
    text: String,
}

/// What follows a label, on its line.
fn after<'t>(text: &'t str, label: &str) -> &'t str {
    let line = text.lines().find(|l| l.trim_start().starts_with(label));
    let line = line.unwrap_or_else(|| panic!("no {label:?} in\n{text}"));
    line.split_once(": ").map_or("", |(_, value)| value.trim())
}

fn spans(text: &str) -> Vec<Printed> {
    let each = text.split("\nSpan #").skip(1);
    let mut spans: Vec<Printed> = each
        .map(|text| {
            let end = text.find("\nResourceSpans #").unwrap_or(text.len());
            let text = &text[..end];
            Printed {
                id: after(text, "ID  ").to_owned(),
                parent: after(text, "Parent ID").to_owned(),
                trace: after(text, "Trace ID").to_owned(),
                name: after(text, "Name").to_owned(),
                start: after(text, "Start time").parse().unwrap(),
                end: after(text, "End time").parse().unwrap(),
                text: text.to_owned(),
            }
        })
        .collect();
    spans.sort_by_key(|span| span.start);
    spans
}

#[test]
fn spans_and_metrics_arrive_whole_over_both_protocols() {
    let Some(collector) = Collector::start() else {
        return;
    };
    for protocol in [Protocol::Grpc, Protocol::Http] {
        let port = match protocol {
            Protocol::Grpc => collector.grpc,
            _ => collector.http,
        };
        let service = format!("end-to-end-{protocol}");
        let op_name = format!("dot_{}", protocol.to_string().replace('/', "_"));
        let guard = start(&Config {
            endpoint: Some(format!("http://127.0.0.1:{port}")),
            protocol: Some(protocol),
            service_name: Some(service.clone()),
            resource: vec![("deployment.environment".to_owned(), "test".to_owned())],
            shutdown_within: Duration::from_secs(20),
            ..Config::default()
        })
        .unwrap();
        let selector = Selector::builder()
            .in_memory()
            .ignore_environment()
            .machine(Machine::detect().with_gpu("scripted", "1"))
            .trace_slower_than(Duration::ZERO)
            .build()
            .unwrap();
        guard.watch(&selector);
        let wait = |ms: u64| std::thread::sleep(Duration::from_millis(ms));
        let op = selector
            .function(&op_name, |n: &u64| Workload::new([*n]))
            .reference("plain", Backend::Scalar, move |n| {
                wait(6);
                **n
            })
            .try_variant("wgsl", Backend::Gpu(0), move |n: &mut &u64| {
                wait(2);
                if **n == 13 { Err("no luck") } else { Ok(**n) }
            })
            .build()
            .unwrap();
        let subscriber = tracing_subscriber::registry().with(guard.layer());
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..12 {
                op.run(&64);
            }
            let _request = tracing::info_span!("request").entered();
            op.run(&64);
            op.run(&13);
        });
        let stats = guard.stats();
        guard.shutdown().unwrap();
        assert_eq!((stats.failed, stats.dropped), (0, 0));

        let selection = format!("backend_selection: {op_name}");
        let text = collector.wait_for(&[
            &format!("service.name: Str({service})"),
            "deployment.environment: Str(test)",
            "request",
            &selection,
            &format!("compute_block: {op_name}"),
            "pointsman.selections",
            "pointsman.failures",
            "pointsman.quarantines",
            "pointsman.trial.time",
            "pointsman.regret",
            "pointsman.otlp.spans.exported",
            "pointsman.otlp.spans.dropped",
            &format!("op: Str({op_name})"),
            "reason: Str(first_try)",
        ]);
        let spans = spans(&text);
        let about = format!("operation: Str({op_name})");
        let own: Vec<_> = spans.iter().filter(|s| s.text.contains(&about)).collect();
        let request = spans.iter().rfind(|s| s.name == "request").unwrap();
        let inside: Vec<_> = own.iter().filter(|s| s.parent == request.id).collect();

        // One call of two spans, and one or two attempts of two each.
        assert!((4..=6).contains(&inside.len()), "{inside:?}");
        assert!(inside.iter().all(|s| s.trace == request.trace));
        for pair in inside.chunks(2) {
            assert_eq!(pair[0].name, selection);
            assert_ne!(pair[1].name, selection);
            assert!(pair[0].end <= pair[1].start, "{pair:?}");
            assert!(pair[1].end - pair[1].start >= 2_000_000, "{pair:?}");
        }
        let first = &inside[0].text;
        for attribute in [
            "input_size: Int(64)",
            "workload: Str(64)",
            "selected_variant: Str(",
            "selected_backend: Str(",
            "has_history: Bool(true)",
            "decision_type: Str(",
            "reason: Str(",
            "confidence: Double(",
            "predicted_ns: Int(",
            "choice_ns: Int(",
        ] {
            assert!(first.contains(attribute), "no {attribute} in\n{first}");
        }
        let kernel = format!("gpu_kernel: {op_name}");
        assert!(own.iter().any(|s| s.name == kernel));
        assert!(
            own.iter()
                .any(|s| s.name == format!("compute_block: {op_name}"))
        );
    }
}

/// A program that says nothing in its code: run by the test below, in a process of its own, because
/// variables and the subscriber are the process's.
#[test]
#[ignore = "a program for another test"]
fn program_that_leaves_everything_to_the_environment() {
    let guard = match install(&Config::default()) {
        Ok(guard) => guard,
        Err(error) => panic!("refused: {error}"),
    };
    let selector = Selector::builder()
        .in_memory()
        .ignore_environment()
        .trace_share(1.0)
        .build()
        .unwrap();
    guard.watch(&selector);
    let op = selector
        .function("by_environment", |n: &u64| Workload::new([*n]))
        .reference("plain", Backend::Scalar, |n| **n)
        .variant("other", Backend::Simd, |n| **n)
        .build()
        .unwrap();
    for n in 1..=20 {
        assert_eq!(op.run(&n), n);
    }
    let flushed = guard.flush(PATIENCE);
    eprintln!("{:?} {flushed:?}", guard.stats());
}

/// Runs that program with these variables and no other of OpenTelemetry; what it wrote.
fn run_program(variables: &[(&str, &str)]) -> String {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--ignored", "--nocapture", "--exact"]);
    program.arg("program_that_leaves_everything_to_the_environment");
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("OTEL_")) {
        program.env_remove(name);
    }
    let done = program
        .env_remove("RUST_LOG")
        .envs(variables.iter().copied());
    String::from_utf8(done.output().unwrap().stderr).unwrap()
}

#[test]
fn the_environment_says_where_how_and_under_which_name() {
    let Some(collector) = Collector::start() else {
        return;
    };
    let (grpc, http) = (
        format!("http://127.0.0.1:{}", collector.grpc),
        format!("http://127.0.0.1:{}", collector.http),
    );
    // For all signals; and what is said for one of them wins.
    let told = run_program(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &http),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "20000"),
        ("OTEL_SERVICE_NAME", "named-by-environment"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=staging"),
    ]);
    assert!(told.contains("exported: 40, failed: 0"), "{told}");
    let told = run_program(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &grpc),
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", &grpc),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "service.name=named-by-attribute",
        ),
    ]);
    assert!(told.contains("exported: 40, failed: 0"), "{told}");
    let told = run_program(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "7"),
    ]);
    assert!(told.contains("exported: 0"), "{told}");
    assert!(!told.contains("dropped: 0,"), "{told}");
    let text = collector.wait_for(&[
        "service.name: Str(named-by-environment)",
        "deployment.environment: Str(staging)",
        "service.name: Str(named-by-attribute)",
        "backend_selection: by_environment",
        "pointsman.selections",
    ]);
    let begin = Instant::now();
    let mut arrived = spans(&text).len();
    while arrived < 80 && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(100));
        arrived = spans(&collector.text()).len();
    }
    assert_eq!(arrived, 80);
}

#[test]
fn a_variable_that_makes_no_sense_is_an_error_that_says_so() {
    for (name, value, said) in [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "nowhere", "http://HOST:PORT"),
        (
            "OTEL_EXPORTER_OTLP_PROTOCOL",
            "http/json",
            "grpc or http/protobuf",
        ),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon", "milliseconds"),
    ] {
        let told = run_program(&[(name, value)]);
        assert!(told.contains("refused: "), "{name}={value}: {told}");
        assert!(told.contains(value) && told.contains(said), "{told}");
    }
}
