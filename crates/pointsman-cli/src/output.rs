//! What every subcommand does at its end: print a result, or complain in one line.

use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;

use serde::Serialize;

/// Exit code of a command that worked and found something wrong.
pub(crate) const FOUND_WRONG: u8 = 1;

/// Exit code of a command that could not do what it was asked.
const FAILED: u8 = 2;

/// Why a command could not do what it was asked: one line that says what would be right.
#[derive(Debug)]
pub struct Failure(String);

impl Failure {
    pub(crate) fn new(why: impl fmt::Display) -> Self {
        Failure(why.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl From<clap::Error> for Failure {
    /// The first paragraph of clap's message and its tip, on one line.
    fn from(error: clap::Error) -> Self {
        let message = error.to_string();
        let mut paragraphs = message.trim_end().split("\n\n");
        let first = paragraphs.next().unwrap_or_default();
        let tip = paragraphs.find(|p| p.trim_start().starts_with("tip:"));
        let first = first.strip_prefix("error: ").unwrap_or(first);
        let told = [Some(first), tip, Some("--help shows what there is")];
        let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let told: Vec<String> = told.into_iter().flatten().map(one_line).collect();
        Failure(told.join("; "))
    }
}

/// Prints a result. A reader that has seen enough and closed the pipe is no error.
pub(crate) fn print(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    let written = writeln!(out, "{}", text.trim_end()).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            complain(&Failure::new(format!("cannot write the result: {error}")))
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Prints a result for people, or with `json` for programs.
pub(crate) fn report<T: Serialize + fmt::Display>(
    result: &T,
    json: bool,
) -> Result<ExitCode, Failure> {
    if !json {
        return Ok(print(&result.to_string()));
    }
    let text = serde_json::to_string_pretty(result).map_err(Failure::new)?;
    Ok(print(&text))
}

pub(crate) fn complain(failure: &Failure) -> ExitCode {
    // Nobody is left to hear that standard error is closed.
    let _ = writeln!(io::stderr(), "pointsman: {failure}");
    ExitCode::from(FAILED)
}

/// Tells the user something beside the result.
pub(crate) fn note(text: &str) {
    // As above.
    let _ = writeln!(io::stderr(), "pointsman: note: {text}");
}
