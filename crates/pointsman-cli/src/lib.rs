//! The `pointsman` command. One file per subcommand; here they are only named.
#![forbid(unsafe_code)]

mod bench;
mod catalogue;
mod doctor;
mod explain;
mod gpu;
mod kept;
mod listen;
mod map;
mod output;
pub mod replay;
mod report;
mod sizes;
mod store;
mod tune;

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
    /// Show who would serve a call of an op, and why
    Explain(explain::Explain),
    /// Show which variant serves at which size, from what is known
    Map(map::Command),
    /// Replay policies on timing tables and compare them with an oracle
    Replay(replay::Replay),
    /// Write what is known as one page, or serve it while programs learn
    Report(report::Command),
    /// Look after what was learned
    Store(store::Store),
    /// Measure every variant of every op on this machine, and keep what was learned
    Tune(tune::Tune),
}

/// Does what the arguments of the process ask for.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => return complain(&Failure::from(error)),
        Err(help) => return print(&help.to_string()),
    };
    if let Err(failure) = listen::begin(cli.command.otlp()) {
        return complain(&failure);
    }
    let done = match cli.command {
        Command::Bench(bench) => bench.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Explain(explain) => explain.run(),
        Command::Map(map) => map.run(),
        Command::Replay(replay) => replay.run(),
        Command::Report(report) => report.run(),
        Command::Store(store) => store.run(),
        Command::Tune(tune) => tune.run(),
    };
    listen::end();
    done.unwrap_or_else(|failure| complain(&failure))
}

impl Command {
    /// Where spans and metrics are to be sent.
    fn otlp(&self) -> Option<&str> {
        match self {
            Command::Bench(bench) => bench.otlp.url(),
            Command::Replay(replay) => replay.otlp.url(),
            Command::Tune(tune) => tune.otlp.url(),
            Command::Doctor(_)
            | Command::Explain(_)
            | Command::Map(_)
            | Command::Report(_)
            | Command::Store(_) => None,
        }
    }
}
