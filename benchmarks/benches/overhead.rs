//! `cargo bench -p pointsman-benchmarks`: the table. With `-- --test`, one short round that only
//! has to work.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use pointsman_benchmarks::Overhead;

fn main() -> ExitCode {
    let test = pointsman_benchmarks::only_has_to_work();
    match Overhead::measure(if test { 1 } else { 1000 }) {
        Ok(overhead) => {
            println!("{overhead}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
