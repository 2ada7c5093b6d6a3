//! The subcommand.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::picture;
use crate::catalogue::{Catalogue, Steer};
use crate::output::{Failure, report};
use crate::sizes::Sizes;

#[derive(Args)]
pub(crate) struct Map {
    /// Ops; all that something is known of if none is named
    ops: Vec<String>,
    /// Sizes to look at
    #[arg(long, default_value = Sizes::DEFAULT)]
    sizes: Sizes,
    /// Draw the map
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    steer: Steer,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Map {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let catalogue = Catalogue::looking(&self.steer)?;
        let entries = catalogue.chosen(&self.ops)?;
        let mut map = super::Map::new(&entries, self.sizes).map_err(Failure::new)?;
        if self.ops.is_empty() {
            map.ops.retain(|op| !op.spans.is_empty());
        }
        if let Some(path) = &self.svg {
            picture::draw(&map, path)?;
        }
        report(&map, self.json)
    }
}
