import os
import pathlib

import pytest
from hypothesis import settings

# The same cases in every run, so that a failure can be repeated; `--hypothesis-profile=default` draws others.
settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")

# Nothing of the user's is read or written.
for name in list(os.environ):
    if name.startswith("POINTSMAN_") and not name.startswith("POINTSMAN_TEST_"):
        del os.environ[name]
os.environ["POINTSMAN_STORE"] = "memory"
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import pointsman  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture
def clock():
    return pointsman.FakeClock()


@pytest.fixture
def selector(clock):
    return pointsman.Selector(store="memory", environment=False, clock=clock)


class Timed:
    """Makes functions that take a given time by the fake clock and count their calls."""

    def __init__(self, clock):
        self.clock = clock
        self.calls = {}

    def __call__(self, name, seconds, result=None, first=None):
        def run(*args, **kwargs):
            n = self.calls[name] = self.calls.get(name, 0) + 1
            self.clock.advance(first if first and n == 1 else seconds)
            return args[0] if result is None and args else result

        run.__name__ = name
        self.calls[name] = 0
        return run


@pytest.fixture
def takes(clock):
    return Timed(clock)


def pytest_terminal_summary(terminalreporter):
    try:
        import torch  # noqa: F401
    except ImportError:
        terminalreporter.write_line(
            "SKIPPED: PyTorch is not installed, so nothing of it was tested (pip install torch)",
            red=True,
        )
