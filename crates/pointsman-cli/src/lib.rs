//! The `pointsman` command. One file per subcommand; here they are only named.
#![forbid(unsafe_code)]

mod bench;
mod doctor;
mod output;
pub mod replay;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use crate::output::Failure;
use crate::output::{complain, print};

/// Sends each call of an operation to its fastest implementation, and can say why.
#[derive(Parser)]
#[command(
    name = "pointsman",
    version,
    disable_help_subcommand = true,
    arg_required_else_help = false
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure what choosing costs on this machine
    Bench(bench::Bench),
    /// Show the machine, its calibration and the state of the store
    Doctor(doctor::Doctor),
    /// Replay policies on timing tables and compare them with an oracle
    Replay(replay::Replay),
}

/// Does what the arguments of the process ask for.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => return complain(&Failure::from(error)),
        Err(help) => return print(&help.to_string()),
    };
    let done = match cli.command {
        Command::Bench(bench) => bench.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Replay(replay) => replay.run(),
    };
    done.unwrap_or_else(|failure| complain(&failure))
}
