//! A GPU for tests, and processes of their own.

#![allow(dead_code, reason = "no test uses all of it")]

use std::process::{Command, Output};
use std::time::Duration;

use pointsman_gpu::{Gpu, open};

/// A GPU of this machine with devices of its own. `None`, said aloud, where there is none; a
/// failure if `POINTSMAN_TEST_GPU=required` says that there must be one.
#[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
pub(crate) fn gpu(patience: Duration) -> Option<Gpu> {
    let gpus = open(patience);
    if let Some(gpu) = gpus.found.first() {
        return Some(gpu.clone());
    }
    let required = std::env::var("POINTSMAN_TEST_GPU").is_ok_and(|v| v == "required");
    assert!(!required, "no GPU: {:?}", gpus.missing);
    println!("SKIPPED, no GPU: {:?}", gpus.missing);
    None
}

/// Runs an ignored test of this file in a process of its own.
pub(crate) fn alone(test: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--ignored", "--nocapture"]);
    command.envs(variables.iter().copied());
    command.output().unwrap()
}

pub(crate) fn passed(output: &Output) {
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
