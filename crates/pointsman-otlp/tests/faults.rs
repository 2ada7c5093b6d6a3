//! Row 43 of the table of faults: a collector that is down, slow, refusing or silent costs spans, which
//! are counted, and nothing else.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use pointsman::{Backend, Selector, Workload};
use pointsman_otlp::{Config, Error, Guard, Protocol, Stats, start};
use tracing_subscriber::layer::SubscriberExt as _;

const BOTH: [Protocol; 2] = [Protocol::Grpc, Protocol::Http];

/// Longer than any deadline here by far, and short enough to tell a hang.
const HANGS: Duration = Duration::from_secs(8);

fn config(port: u16, protocol: Protocol) -> Config {
    Config {
        endpoint: Some(format!("http://127.0.0.1:{port}")),
        protocol: Some(protocol),
        shutdown_within: Duration::from_millis(500),
        ..Config::default()
    }
}

/// A port that nobody listens on.
fn dead_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A server that does this with every connection, for as long as the test runs.
fn server(with: impl Fn(TcpStream) + Send + Sync + Clone + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let with = with.clone();
            std::thread::spawn(move || with(stream));
        }
    });
    port
}

/// Accepts, reads and never answers.
fn black_hole() -> u16 {
    server(|mut stream| {
        let mut buffer = [0; 4096];
        while stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
    })
}

/// Answers everything with an error. To gRPC it is no answer at all.
fn refusing() -> u16 {
    server(|mut stream| {
        let mut buffer = [0; 65536];
        while stream.read(&mut buffer).is_ok_and(|read| read > 0) {
            let answer = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    })
}

/// Makes so many traced calls: two spans each. All of them return what they should.
fn call(guard: &Guard, calls: u64) {
    let selector = Selector::builder()
        .in_memory()
        .ignore_environment()
        .trace_share(1.0)
        .trace_hot_above(f64::INFINITY)
        .build()
        .unwrap();
    guard.watch(&selector);
    let op = selector
        .function("double", |n: &u64| Workload::new([*n]))
        .reference("add", Backend::Scalar, |n| **n + **n)
        .variant("shift", Backend::Simd, |n| **n << 1)
        .build()
        .unwrap();
    let subscriber = tracing_subscriber::registry().with(guard.layer());
    tracing::subscriber::with_default(subscriber, || {
        for n in 0..calls {
            assert_eq!(op.run(&n), 2 * n);
        }
    });
    assert_eq!(op.stats().calls, calls);
}

fn total(stats: Stats) -> u64 {
    stats.exported + stats.failed + stats.dropped + stats.waiting
}

#[test]
fn f43_no_collector_costs_spans_and_nothing_else() {
    for protocol in BOTH {
        let guard = start(&config(dead_port(), protocol)).unwrap();
        call(&guard, 3_000);
        let _ = guard.flush(Duration::from_secs(5));
        let stats = guard.stats();
        assert_eq!(total(stats), 6_000, "{protocol}: {stats:?}");
        assert_eq!(stats.exported, 0, "{protocol}");
        assert!(stats.failed + stats.dropped > 0, "{protocol}: {stats:?}");
        let begin = Instant::now();
        drop(guard);
        assert!(begin.elapsed() < HANGS, "{protocol}");
    }
}

#[test]
fn f43_a_silent_collector_holds_up_neither_calls_nor_the_end() {
    let port = black_hole();
    for protocol in BOTH {
        let guard = start(&config(port, protocol)).unwrap();
        call(&guard, 5_000);
        let stats = guard.stats();
        assert_eq!(total(stats), 10_000, "{protocol}: {stats:?}");
        assert_eq!(stats.exported, 0, "{protocol}");
        // Memory is bounded: whatever does not fit the queue is gone.
        assert!(stats.waiting <= 2_048, "{protocol}: {stats:?}");
        assert!(stats.dropped >= 10_000 - 2_048, "{protocol}: {stats:?}");
        let begin = Instant::now();
        let error = guard.shutdown().unwrap_err();
        assert!(begin.elapsed() < HANGS, "{protocol}");
        assert!(matches!(error, Error::Unsent { .. }), "{protocol}: {error}");
    }
}

#[test]
fn f43_a_collector_that_refuses_is_counted() {
    let port = refusing();
    for protocol in BOTH {
        let mut config = config(port, protocol);
        config.timeout = Some(Duration::from_millis(300));
        let guard = start(&config).unwrap();
        call(&guard, 50);
        let _ = guard.flush(Duration::from_secs(5));
        let stats = guard.stats();
        assert_eq!(
            (stats.exported, stats.failed),
            (0, 100),
            "{protocol}: {stats:?}"
        );
    }
}

#[test]
fn f43_the_queue_is_as_long_as_it_was_set() {
    let config = Config {
        queue: Some(10),
        ..config(black_hole(), Protocol::Http)
    };
    let guard = start(&config).unwrap();
    call(&guard, 500);
    let stats = guard.stats();
    assert_eq!(stats.waiting, 10, "{stats:?}");
    assert_eq!(stats.dropped, 990, "{stats:?}");
}

#[test]
fn f43_it_begins_and_ends_inside_another_runtime_too() {
    let port = black_hole();
    for protocol in BOTH {
        let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
        runtime.block_on(async {
            let guard = start(&config(port, protocol)).unwrap();
            call(&guard, 10);
            drop(guard);
        });
    }
}

#[test]
fn a_selector_that_is_watched_still_goes_when_the_program_lets_it_go() {
    let guard = start(&config(dead_port(), Protocol::Http)).unwrap();
    let selector = Selector::builder()
        .in_memory()
        .ignore_environment()
        .build()
        .unwrap();
    guard.watch(&selector);
    let gone = selector.downgrade();
    drop(selector);
    assert!(gone.upgrade().is_none());
}

#[test]
fn a_bad_address_is_an_error_before_anything_starts() {
    let mut config = config(1, Protocol::Http);
    config.endpoint = Some("collector:4318".to_owned());
    let error = start(&config).unwrap_err();
    assert_eq!(
        error.to_string(),
        "endpoint = \"collector:4318\": it must be http://HOST:PORT"
    );
}
