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
# A collector of OpenTelemetry that prints what it receives, in an environment of its own.
collector() {
    compgen -G 'target/venv-otlp/lib/python*/site-packages/rotel/rotel-agent' >/dev/null && return
    command -v python3 >/dev/null || return
    if ! python3 -m venv target/venv-otlp 2>/dev/null; then # Debian packs it apart
        [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return
        apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv || return
        python3 -m venv target/venv-otlp || return
    fi
    target/venv-otlp/bin/pip install -q rotel
}
if collector; then
    export POINTSMAN_TEST_OTLP=required
else
    missing="OTLP end to end: no collector (python3 -m venv target/venv-otlp && target/venv-otlp/bin/pip install rotel)"
    skipped="${skipped:+$skipped; }$missing"
    echo "SKIPPED $missing" >&2
fi
cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
cargo clippy --version >/dev/null 2>&1 || rustup component add clippy
cargo --version

# Tests use stores of their own; nothing of the user's is read or written.
unset OTEL_EXPORTER_OTLP_ENDPOINT OTEL_EXPORTER_OTLP_PROTOCOL OTEL_SERVICE_NAME RUST_LOG
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

say "Python package"
# Its environment is kept in target/: the second run installs nothing.
venv=$PWD/target/venv-py
if [ ! -x "$venv/bin/pip" ] && ! python3 -m venv "$venv" 2>/dev/null &&
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && apt-get install -y -qq --no-install-recommends python3 python3-venv
    python3 -m venv "$venv"
fi
if [ -x "$venv/bin/pip" ] && "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
    "$venv/bin/pip" install --quiet --disable-pip-version-check \
        numpy numba jax pytest hypothesis 'maturin>=1.9.4,<2'
    rm -rf target/wheels-py
    # Optimised as the tests above are, so that most of it is built already.
    (cd crates/pointsman-py && CARGO_PROFILE_DEV_OPT_LEVEL=1 "$venv/bin/maturin" build --quiet \
        --interpreter "$venv/bin/python" --out ../../target/wheels-py)
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --force-reinstall target/wheels-py/*.whl
    (cd crates/pointsman-py && "$venv/bin/python" -m pytest)
    if ! "$venv/bin/python" -c 'import torch' 2>/dev/null; then
        skipped="${skipped:+$skipped; }PyTorch tests: it is not installed (target/venv-py/bin/pip install torch)"
        echo "SKIPPED ${skipped##*; }" >&2
    fi
else
    skipped="${skipped:+$skipped; }Python package: no Python 3.10 or newer with venv"
    echo "SKIPPED ${skipped##*; }" >&2
fi

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
