//! `cargo bench -p pointsman-benchmarks --bench oracle`: the adaptive policy beside an oracle on
//! real ops. With `-- --test`, a few calls that only have to work.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use pointsman_benchmarks::Stream;

fn main() -> ExitCode {
    let mut stream = Stream::default();
    if pointsman_benchmarks::only_has_to_work() {
        stream.calls = 100;
        stream.sizes.1 = 1 << 10;
    }
    match stream.play(|_| {}, |_| {}) {
        Ok(oracle) => {
            println!("{oracle}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
