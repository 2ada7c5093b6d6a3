//! f38, the end of a process: what a user loses if this fails is the exit code of a short program, and perhaps
//! its last output, to a driver that crashes when it is taken down while it compiles.

mod common;

use std::process::Command;
use std::time::Duration;

use common::gpu;

/// When the child is to end: at the very beginning of compiling, or in the middle of it.
const AFTER_MS: &str = "POINTSMAN_TEST_END_AFTER_MS";

fn main() {
    if let Ok(after) = std::env::var(AFTER_MS) {
        return ends(after.parse().unwrap());
    }
    for after in (0..60).step_by(4) {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.env(AFTER_MS, after.to_string());
        // Kernels that were compiled before would be loaded, which is over too soon.
        child.env("MESA_SHADER_CACHE_DISABLE", "true");
        let output = child.output().unwrap();
        assert!(
            output.status.success(),
            "ended after {after} ms: {}, {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

fn ends(after_ms: u64) {
    let Some(gpu) = gpu(Duration::from_secs(30)) else {
        return;
    };
    for kernel in pointsman_gpu::kernels::all() {
        gpu.prepared(kernel).is_ready();
    }
    std::thread::sleep(Duration::from_millis(after_ms));
}
