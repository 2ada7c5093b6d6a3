//! What tests of GPUs share.

use pointsman::{Checks, Selector, SelectorBuilder};
use pointsman_ops::gpu;
use pointsman_ops::gpu::devices::gpus;

/// A selector with the GPUs of this machine.
pub(crate) fn builder() -> SelectorBuilder {
    let builder = Selector::builder()
        .in_memory()
        .ignore_environment()
        .checks(Checks::Inline);
    gpu::announce(builder)
}

/// Whether there is a GPU; said aloud if not, and a failure if there must be one.
#[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
pub(crate) fn ready() -> bool {
    if !gpus().found.is_empty() {
        let failed = gpu::prepare(|_| {});
        assert!(failed.is_empty(), "{failed:?}");
        return true;
    }
    let required = std::env::var("POINTSMAN_TEST_GPU").is_ok_and(|v| v == "required");
    assert!(!required, "no GPU: {:?}", gpus().missing);
    println!("SKIPPED, no GPU: {:?}", gpus().missing);
    false
}
