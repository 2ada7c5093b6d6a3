//! `pointsman report`: all that the store knows, as one page.

mod cells;
mod chart;
mod colours;
mod confidence;
mod data;
mod line;
mod machine;
mod op;
mod ops;
mod page;
mod reliability;
mod request;
mod scale;
mod sections;
mod serve;
mod text;
mod write;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pointsman::store::{Knowledge, SqliteStore, Store as _};

use self::data::{Cache, Report};
use self::page::Kind;
use crate::kept::Kept;
use crate::output::{Failure, print};

#[derive(Args)]
pub(crate) struct Command {
    /// The file to write; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    /// Serve the page on this machine and keep it up to date, instead of writing it
    #[arg(
        long,
        value_name = "ADDRESS",
        num_args = 0..=1,
        default_missing_value = serve::DEFAULT,
        conflicts_with_all = ["output", "json"]
    )]
    serve: Option<String>,
    /// Print what the page shows as JSON, instead of writing it
    #[arg(long, conflicts_with = "output")]
    json: bool,
}

impl Command {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if let Some(address) = &self.serve {
            return serve::serve(address);
        }
        let path = Kept::place()?;
        let known = read(&path)?.ok_or_else(|| {
            Failure::new(format!(
                "the store {} is not there yet: `pointsman tune` makes it, or POINTSMAN_STORE names another",
                path.display()
            ))
        })?;
        let report = Report::new(&path, &known, &mut Cache::default())?;
        if self.json {
            let text = serde_json::to_string_pretty(&report).map_err(Failure::new)?;
            return Ok(print(&text));
        }
        let page = page::page(&report, Kind::File);
        if self.output.as_os_str() == "-" {
            return Ok(print(&page));
        }
        write::replace(&self.output, page.as_bytes())?;
        Ok(print(&format!(
            "wrote {}: {} in {}",
            self.output.display(),
            text::counted(report.totals.measurements, "measurement", "measurements"),
            text::counted(report.ops.len() as u64, "op", "ops")
        )))
    }
}

/// What a store holds; `None` if there is none. A damaged one is left as it is.
fn read(path: &std::path::Path) -> Result<Option<Knowledge>, Failure> {
    if !path.exists() {
        return Ok(None);
    }
    if let Some(problem) = SqliteStore::examine(path).map_err(Failure::new)?.first() {
        return Err(Failure::new(format!(
            "the store {} cannot be read: {problem}; `pointsman store check` says what is wrong",
            path.display()
        )));
    }
    let loaded = SqliteStore::open(path).and_then(|mut store| store.load());
    loaded.map(Some).map_err(Failure::new)
}
