//! Running the command in tests.
#![allow(dead_code, reason = "each test uses some of it")]

pub(crate) mod known;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Runs the command with a home of its own, and without the user's settings.
pub(crate) fn pointsman(args: &[&str], home: &Path, env: &[(&str, &str)]) -> Output {
    prepared(args, home, env).output().unwrap()
}

/// The same, not yet run.
pub(crate) fn prepared(args: &[&str], home: &Path, env: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pointsman"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("POINTSMAN_") {
            command.env_remove(name);
        }
    }
    command
        .args(args)
        .env("HOME", home)
        .env("XDG_CACHE_HOME", home.join("cache"))
        .envs(env.iter().copied());
    command
}

pub(crate) fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Exit code 2, nothing on standard output and one line on standard error that holds these words.
pub(crate) fn is_refused(output: &Output, words: &[&str]) {
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(output.stdout.is_empty());
    assert_eq!(told.lines().count(), 1, "{told}");
    for word in words {
        assert!(told.contains(word), "{word:?} is missing: {told}");
    }
}
