//! The `pointsman` command; all of it is in the library beside, so that tests reach its parts.

use std::process::ExitCode;

fn main() -> ExitCode {
    quiet();
    pointsman_cli::main()
}

/// Where there is no display, Mesa complains on standard error that it cannot ask it which GPU to
/// prefer, which nobody here wants to know.
fn quiet() {
    if cfg!(target_os = "linux") && std::env::var_os("XDG_RUNTIME_DIR").is_none() {
        // SAFETY: this is the first thing that the process does; there is no other thread.
        unsafe { std::env::set_var("NODEVICE_SELECT", "1") };
    }
}
