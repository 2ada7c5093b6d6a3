//! `pointsman bench`: what choosing costs here, and what it is worth.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use pointsman_benchmarks::{Kernels, Overhead, Stream};

use crate::listen::{self, Otlp};
use crate::output::{Failure, report};
use crate::sizes::Sizes;

#[derive(Args)]
#[command(arg_required_else_help = false)]
pub(crate) struct Bench {
    #[command(flatten)]
    pub(crate) otlp: Otlp,
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
    /// The ops beside what a user would call instead
    Ops {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// One short round that only has to work
        #[arg(long)]
        test: bool,
    },
    /// A mixed stream of real calls: adaptive, every fixed backend and an oracle
    Oracle {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Calls
        #[arg(long, default_value_t = Stream::default().calls as u32, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
        calls: u32,
        /// Seed of the stream
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Sizes of the calls: elements of the largest array
        #[arg(long, default_value = "16..1048576")]
        sizes: Sizes,
        /// Let GPUs take part
        #[arg(long)]
        gpu: bool,
    },
}

impl Bench {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self.what {
            What::Overhead { json, rounds } => {
                let overhead = Overhead::measure(rounds).map_err(Failure::new)?;
                report(&overhead, json)
            }
            What::Ops { json, test } => {
                let bar = ProgressBar::new_spinner();
                let kernels = Kernels::measure(test, |op| bar.set_message(op.to_owned()));
                bar.finish_and_clear();
                report(&kernels.map_err(Failure::new)?, json)
            }
            What::Oracle {
                json,
                calls,
                seed,
                sizes,
                gpu,
            } => {
                let stream = Stream {
                    calls: calls as usize,
                    seed,
                    sizes: sizes.ends(),
                    gpu,
                };
                let bar = ProgressBar::new(u64::from(calls));
                let oracle = stream.play(listen::watch, |done| bar.set_position(done as u64));
                bar.finish_and_clear();
                report(&oracle.map_err(Failure::new)?, json)
            }
        }
    }
}
