//! `pointsman explain`: who would serve a call, and why.

use std::process::ExitCode;

use clap::Args;

use crate::catalogue::{Catalogue, Steer, shape};
use crate::output::{Failure, report};

#[derive(Args)]
pub(crate) struct Explain {
    /// An op: matmul, dot_f64
    op: String,
    /// The sizes of a call: 65536, 512x512x512
    shape: String,
    #[command(flatten)]
    steer: Steer,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Explain {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let shape = shape(&self.shape)?;
        let catalogue = Catalogue::looking(&self.steer)?;
        let explanation = catalogue.find(&self.op)?.explain(&shape);
        report(&explanation.map_err(Failure::new)?, self.json)
    }
}
