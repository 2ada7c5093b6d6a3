#!/usr/bin/env bash
# Installs what is missing, then runs every check of the project.
set -euo pipefail
cd "$(dirname "$0")"

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }

say "tools"
# Installs packages of Debian, where that can be done.
apt() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null &&
        apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@"
}
skipped=""
skip() {
    skipped="${skipped:+$skipped; }$*"
    echo "SKIPPED $*" >&2
}
if ! command -v cargo >/dev/null; then
    echo "cargo is missing: install Rust 1.89 or newer (https://rustup.rs)" >&2
    exit 1
fi
if ! command -v cc >/dev/null && ! apt build-essential; then # for SQLite, which is built from source
    echo "a C compiler is missing: install gcc or clang" >&2
    exit 1
fi
# Mesa's driver that computes on the CPU is a GPU for tests, wherever they run.
if compgen -G '/usr/share/vulkan/icd.d/lvp_icd*.json' >/dev/null || apt mesa-vulkan-drivers; then
    export POINTSMAN_TEST_GPU=required
else
    skip "GPU tests: no Vulkan driver (apt-get install mesa-vulkan-drivers)"
fi
# A browser looks at the page that `pointsman report` writes.
if command -v chromium >/dev/null || command -v google-chrome >/dev/null || apt chromium; then
    export POINTSMAN_TEST_BROWSER=required
else
    skip "browser tests: no Chromium (apt-get install chromium)"
fi
# Chromium brings a second driver that computes on the CPU.
swiftshader=/usr/lib/chromium/vk_swiftshader_icd.json
if [ -e "$swiftshader" ] && [ -n "${POINTSMAN_TEST_GPU:-}" ]; then
    export POINTSMAN_TEST_SWIFTSHADER=$swiftshader
else
    skip "two GPUs of different makers: no SwiftShader beside Mesa's driver (apt-get install chromium)"
fi
# An environment for Python packages, which Debian packs apart.
environment() {
    [ -x "$1/bin/pip" ] && return
    python3 -m venv "$1" 2>/dev/null && return
    apt python3 python3-venv && python3 -m venv "$1"
}
# A collector of OpenTelemetry that prints what it receives.
if compgen -G 'target/venv-otlp/lib/python*/site-packages/rotel/rotel-agent' >/dev/null ||
    { environment target/venv-otlp && target/venv-otlp/bin/pip install --quiet --disable-pip-version-check rotel; }; then
    export POINTSMAN_TEST_OTLP=required
else
    skip "OTLP end to end: no collector (python3 -m venv target/venv-otlp && target/venv-otlp/bin/pip install rotel)"
fi
cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
cargo clippy --version >/dev/null 2>&1 || rustup component add clippy
cargo --version

# Tests use stores of their own; nothing of the user's is read or written.
unset OTEL_EXPORTER_OTLP_ENDPOINT OTEL_EXPORTER_OTLP_PROTOCOL OTEL_SERVICE_NAME RUST_LOG
unset POINTSMAN_FORCE POINTSMAN_DISABLE POINTSMAN_MODE POINTSMAN_POLICY POINTSMAN_SEED
POINTSMAN_STORE=memory
export POINTSMAN_STORE
# The same cases of the property tests in every run, so that a failure can be repeated.
export PROPTEST_RNG_SEED="${PROPTEST_RNG_SEED:-1}"

say "format"
cargo fmt --all -- --check

say "clippy"
cargo clippy --workspace --all-targets --quiet -- -D warnings
cargo clippy -p pointsman --no-default-features --quiet -- -D warnings

say "tests, and each benchmark once as one"
cargo test --workspace --all-targets --quiet

say "variants by Trueno, which are not built by default"
cargo clippy -p pointsman-ops --features trueno --all-targets --quiet -- -D warnings
cargo test -p pointsman-ops --features trueno --quiet --test agree --test trueno

say "doc tests"
cargo test --workspace --doc --quiet

say "Python package"
# Its environment is kept in target/: the second run installs nothing.
venv=$PWD/target/venv-py
if environment "$venv" && "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
    "$venv/bin/pip" install --quiet --disable-pip-version-check \
        numpy numba jax pytest hypothesis mypy 'maturin>=1.9.4,<2'
    rm -rf target/wheels-py
    # Not optimised: quick to build, and the tests are about what it does, not how fast.
    (cd crates/pointsman-py && "$venv/bin/maturin" build --quiet \
        --interpreter "$venv/bin/python" --out ../../target/wheels-py)
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --force-reinstall target/wheels-py/*.whl
    (cd crates/pointsman-py && "$venv/bin/python" -m pytest)
    if ! "$venv/bin/python" -c 'import torch' 2>/dev/null; then
        skip "PyTorch tests: it is not installed (target/venv-py/bin/pip install torch)"
    fi
else
    skip "Python package: no Python 3.10 or newer with venv"
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
    skip "dependencies: cargo-deny is not installed (cargo install --locked cargo-deny)"
fi

if [ -n "$skipped" ]; then
    say "passed, but SKIPPED $skipped"
else
    say "all passed"
fi
