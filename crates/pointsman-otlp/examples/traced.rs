//! Calls of an op inside requests, with their spans and metrics sent to a collector:
//! `cargo run --release -p pointsman-otlp --example traced`. Where to: `OTEL_EXPORTER_OTLP_ENDPOINT`,
//! `http://localhost:4318` if nothing is said.
#![allow(clippy::print_stdout)]

use std::time::Duration;

use pointsman::{Backend, Selector, Workload};
use pointsman_otlp::Config;

/// How often each number from 0 to 255 comes; one pass, or one for each half on a thread of its own.
fn histogram(bytes: &[u8]) -> Vec<u32> {
    let mut counts = vec![0; 256];
    bytes.iter().for_each(|b| counts[usize::from(*b)] += 1);
    counts
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let guard = pointsman_otlp::install(&Config {
        service_name: Some("pointsman-example".to_owned()),
        ..Config::default()
    })?;
    let selector = Selector::builder().in_memory().build()?;
    guard.watch(&selector);
    let op = selector
        .function("histogram_u8", |x: &[u8]| {
            Workload::new([x.len()]).bytes(x.len())
        })
        .reference("one_pass", Backend::Scalar, |x| histogram(x))
        .variant("halves", Backend::Threads, |x| {
            let (a, b) = x.split_at(x.len() / 2);
            std::thread::scope(|scope| {
                let a = scope.spawn(|| histogram(a));
                let b = histogram(b);
                let a = a.join().unwrap_or_else(|_| vec![0; 256]);
                a.iter().zip(&b).map(|(a, b)| a + b).collect()
            })
        })
        .build()?;
    let bytes: Vec<u8> = (0..1 << 22)
        .map(|i: u32| (i.wrapping_mul(i) >> 7) as u8)
        .collect();
    for request in 0..40 {
        let _request = tracing::info_span!("request", number = request).entered();
        for size in [1 << 12, 1 << 18, 1 << 22] {
            let counts = op.run(&bytes[..size]);
            assert_eq!(counts.iter().sum::<u32>() as usize, size);
        }
    }
    let flushed = guard.flush(Duration::from_secs(10));
    println!("{}{:?}", op.stats(), guard.stats());
    // Not every collector takes metrics.
    if let Err(error) = flushed.and(guard.shutdown()) {
        println!("{error}");
    }
    Ok(())
}
