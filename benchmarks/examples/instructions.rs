//! Calls one thing many times, for a count of instructions: see `benchmarks/README.md`.
#![forbid(unsafe_code)]

use pointsman_benchmarks::call;

fn main() {
    let mut args = std::env::args().skip(1);
    let what = args.next().unwrap_or_default();
    let calls = args
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(1_000_000);
    if let Err(error) = call(&what, calls) {
        panic!("{error}");
    }
}
