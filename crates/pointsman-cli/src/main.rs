//! The `pointsman` command; all of it is in the library beside, so that tests reach its parts.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    pointsman_cli::main()
}
