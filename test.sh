#!/usr/bin/env bash
# Installs what is missing, then runs every check of the project.
set -euo pipefail
cd "$(dirname "$0")"

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }

say "tools"
if ! command -v cargo >/dev/null; then
    echo "cargo is missing: install Rust 1.89 or newer (https://rustup.rs)" >&2
    exit 1
fi
if ! command -v cc >/dev/null; then # for SQLite, which is built from source
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq && apt-get install -y -qq --no-install-recommends build-essential
    else
        echo "a C compiler is missing: install gcc or clang" >&2
        exit 1
    fi
fi
skipped=""
# Mesa's driver that computes on the CPU is a GPU for tests, wherever they run.
if compgen -G '/usr/share/vulkan/icd.d/lvp_icd*.json' >/dev/null; then
    export POINTSMAN_TEST_GPU=required
elif [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null &&
    apt-get update -qq && apt-get install -y -qq --no-install-recommends mesa-vulkan-drivers; then
    export POINTSMAN_TEST_GPU=required
else
    skipped="GPU tests: no Vulkan driver (apt-get install mesa-vulkan-drivers)"
    echo "SKIPPED $skipped" >&2
fi
# A browser looks at the page that `pointsman report` writes.
if command -v chromium >/dev/null || command -v google-chrome >/dev/null; then
    export POINTSMAN_TEST_BROWSER=required
elif [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null &&
    apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; then
    export POINTSMAN_TEST_BROWSER=required
else
    skipped="${skipped:+$skipped; }browser tests: no Chromium (apt-get install chromium)"
    echo "SKIPPED ${skipped##*; }" >&2
fi
cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
cargo clippy --version >/dev/null 2>&1 || rustup component add clippy
cargo --version

# Tests use stores of their own; nothing of the user's is read or written.
unset POINTSMAN_FORCE POINTSMAN_DISABLE POINTSMAN_MODE POINTSMAN_POLICY POINTSMAN_SEED
POINTSMAN_STORE=memory
export POINTSMAN_STORE

say "format"
cargo fmt --all -- --check

say "clippy"
cargo clippy --workspace --all-targets --quiet -- -D warnings
cargo clippy -p pointsman --no-default-features --quiet -- -D warnings

say "tests, and each benchmark once as one"
cargo test --workspace --all-targets --quiet

say "doc tests"
cargo test --workspace --doc --quiet

say "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet

say "model of the published choices (loom)"
RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom \
    cargo test -p pointsman --no-default-features --lib --release --quiet f46

say "dependencies"
if cargo deny --version >/dev/null 2>&1; then
    # It reads the crates of every platform, so not --offline: this build has fetched its own only.
    # No advisories: they come from GitHub and change while we do not.
    cargo deny --locked check bans licenses sources
else
    skipped="${skipped:+$skipped; }dependencies: cargo-deny is not installed (cargo install --locked cargo-deny)"
    echo "SKIPPED ${skipped##*; }" >&2
fi

if [ -n "$skipped" ]; then
    say "passed, but SKIPPED $skipped"
else
    say "all passed"
fi
