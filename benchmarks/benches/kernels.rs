//! `cargo bench -p pointsman-benchmarks --bench kernels`: the ops beside what a user would call
//! instead. With `-- --test`, one short round that only has to work.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use pointsman_benchmarks::Kernels;

fn main() -> ExitCode {
    let test = pointsman_benchmarks::only_has_to_work();
    match Kernels::measure(test, |_| {}) {
        Ok(kernels) => {
            println!("{kernels}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
