//! `pointsman bench`: what choosing costs here.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use pointsman_benchmarks::Overhead;

use crate::output::{Failure, report};

#[derive(Args)]
#[command(arg_required_else_help = false)]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Nanoseconds beyond the direct call, and what the usual designs take
    Overhead {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Rounds whose median counts; 1000 take some seconds
        #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        rounds: u32,
    },
}

impl Bench {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let What::Overhead { json, rounds } = self.what;
        let overhead = Overhead::measure(rounds).map_err(Failure::new)?;
        report(&overhead, json)
    }
}
