//! The times of one op as a table for `replay`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pointsman_ops::catalogue::Entry;

use crate::output::Failure;

/// A table in the making: a row per measurement, so that a shape has as many repeats.
pub(super) struct Record {
    path: PathBuf,
    variants: Vec<String>,
    out: csv::Writer<File>,
}

impl Record {
    pub(super) fn new(path: &Path, entry: &dyn Entry) -> Result<Self, Failure> {
        let variants: Vec<String> = entry.variants().into_iter().map(|(name, _)| name).collect();
        let mut record = Record {
            out: csv::Writer::from_path(path).map_err(|error| cannot(path, &error))?,
            path: path.to_owned(),
            variants,
        };
        let axes = entry.axes().iter().map(|axis| format!("x:{axis}"));
        let times = record.variants.iter().map(|name| format!("t:{name}"));
        let head: Vec<String> = axes.chain(times).collect();
        record
            .out
            .write_record(head)
            .map_err(|error| cannot(path, &error))?;
        Ok(record)
    }

    /// The times of the variants at a shape. What could not be measured stays blank.
    pub(super) fn add(
        &mut self,
        shape: &[usize],
        times: &[(String, Vec<Duration>)],
    ) -> Result<(), String> {
        let repeats = times.iter().map(|(_, t)| t.len()).min().unwrap_or(0);
        for repeat in 0..repeats {
            let time = |name: &String| {
                let (_, times) = times.iter().find(|(variant, _)| variant == name)?;
                Some(format!("{:e}", times[repeat].as_secs_f64()))
            };
            let sizes = shape.iter().map(usize::to_string);
            let cells = self.variants.iter().map(|v| time(v).unwrap_or_default());
            self.out
                .write_record(sizes.chain(cells))
                .map_err(|error| cannot(&self.path, &error).to_string())?;
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.out.flush().map_err(|error| cannot(&self.path, &error))
    }
}

fn cannot(path: &Path, error: &dyn std::error::Error) -> Failure {
    Failure::new(format!("cannot write {}: {error}", path.display()))
}
