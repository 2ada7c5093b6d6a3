//! The log of a replay: one line per call.

use std::path::Path;

use super::drive::Run;
use super::table::Table;
use crate::output::Failure;

/// Writes `call,workload,variant,seconds,trial,confidence`. Calls count from 0; a workload is named
/// by its first data row, from 0.
pub(super) fn write(path: &Path, table: &Table, run: &Run) -> Result<(), Failure> {
    let wrong =
        |why: csv::Error| Failure::new(format!("{}: cannot be written: {why}", path.display()));
    let mut out = csv::Writer::from_path(path).map_err(wrong)?;
    let header = [
        "call",
        "workload",
        "variant",
        "seconds",
        "trial",
        "confidence",
    ];
    out.write_record(header).map_err(wrong)?;
    for (at, served) in run.served.iter().enumerate() {
        let case = &table.cases[served.case as usize];
        let variant = case.choices[served.choice as usize].variant;
        let trial = if served.is_trial() { "1" } else { "0" };
        out.write_record([
            &*at.to_string(),
            &case.row.to_string(),
            &table.variants[variant],
            &served.seconds.to_string(),
            trial,
            &format!("{:.4}", served.confidence),
        ])
        .map_err(wrong)?;
    }
    out.flush().map_err(|why| wrong(why.into()))
}
