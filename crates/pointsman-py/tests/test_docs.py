"""What the documentation and the examples show is run."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

import pointsman
from conftest import ROOT

PAGES = ["docs/python.md", "docs/coming-from.md", "README.md", "crates/pointsman-py/README.md"]


def blocks(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_run_from_top_to_bottom(page):
    found = blocks(page)
    assert found, f"{page} has no Python"
    names = {"__name__": "page"}
    for i, block in enumerate(found):
        exec(compile(block, f"{page}, block {i + 1}", "exec"), names)


@pytest.mark.parametrize(
    "script",
    [
        "examples/python/libraries.py --small",
        "examples/python/training.py --small",
        "examples/python/server.py --small",
        "benchmarks/python/overhead.py --rounds 2",
        "benchmarks/python/overhead.py --rounds 2 --cold",
        "benchmarks/python/libraries.py --calls 100 --settle 20",
    ],
)
def test_scripts_run(script):
    name, *options = script.split()
    env = {**os.environ, "POINTSMAN_STORE": "memory"}
    done = subprocess.run(
        [sys.executable, str(ROOT / name), *options], env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_server_answers_everything_through_an_outage():
    env = {**os.environ, "POINTSMAN_STORE": "memory"}
    command = [sys.executable, str(ROOT / "examples/python/server.py"), "--small"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert "300 of 300 requests answered" in done.stdout


def test_the_stubs_say_what_there_is(tmp_path):
    """Names, parameters and defaults, as mypy compares them with the package itself."""
    pytest.importorskip("mypy")
    allowed = tmp_path / "allowed"
    # What is looked up by name; what the native part exports is the package's to say.
    allowed.write_text("pointsman\\._core\\.(Explanation|Stats)\\.\\w+\npointsman\\._core\\.(__all__|Method\\.__getattr__)\n")
    command = [sys.executable, "-m", "mypy.stubtest", "pointsman", "--allowlist", str(allowed)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    op = pointsman.op(abs, name="op", selector=pointsman.Selector(store="memory"))
    stub = pathlib.Path(pointsman.__file__).with_name("_core.pyi").read_text(encoding="utf-8")
    for report in [op.explain(1), op.stats()]:
        told = stub.split(f"class {type(report).__name__}(_Report)")[1].split("@final")[0]
        for field in re.findall(r"def (\w+)\(self\)", told):
            assert field in report.as_dict(), field
    assert pathlib.Path(pointsman.__file__).with_name("py.typed").exists()


def test_the_doctest_of_the_package():
    import doctest

    assert doctest.testmod(pointsman).failed == 0
