"""What the documentation and the examples show is run."""

import ast
import os
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


def stub(name):
    path = os.path.join(os.path.dirname(pointsman.__file__), name)
    with open(path, encoding="utf-8") as file:
        return ast.parse(file.read())


def public(tree):
    named = (ast.ClassDef, ast.FunctionDef)
    names = {node.name for node in tree.body if isinstance(node, named)}
    return names | {n.target.id for n in tree.body if isinstance(n, ast.AnnAssign)}


def test_the_stubs_name_what_there_is():
    assert set(pointsman.__all__) - {"ops"} <= public(stub("_core.pyi"))
    assert set(pointsman.ops.__all__) == public(stub("ops.pyi"))
    for node in stub("_core.pyi").body:
        if isinstance(node, ast.ClassDef) and hasattr(pointsman, node.name):
            real = getattr(pointsman, node.name)
            for member in node.body:
                if isinstance(member, ast.FunctionDef) and not member.name.startswith("__"):
                    assert hasattr(real, member.name), f"{node.name}.{member.name}"
            told = {m.name for m in node.body if isinstance(m, ast.FunctionDef)}
            told |= {m.target.id for m in node.body if isinstance(m, ast.AnnAssign)}
            methods = {m for m in vars(real) if not m.startswith("_")}
            assert methods <= told | {"as_dict"}, f"{node.name} lacks {methods - told}"
    assert os.path.exists(os.path.join(os.path.dirname(pointsman.__file__), "py.typed"))


def test_the_doctest_of_the_package():
    import doctest

    assert doctest.testmod(pointsman).failed == 0
