//! A GPU for tests.

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
