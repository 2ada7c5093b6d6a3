"""Warnings of the library reach Python's logging."""

import logging
import os
import subprocess
import sys
import textwrap

import pytest

import pointsman


def program(code, **env):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "POINTSMAN_STORE": "memory", **env},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done


def warnings(caplog):
    return [r for r in caplog.records if r.name == "pointsman"]


def test_a_quarantine_is_logged_with_its_reason(selector, takes, caplog):
    op = pointsman.op(takes("reference", 1e-3), name="logged", selector=selector)

    @op.variant("bad")
    def bad(x):
        raise RuntimeError("no device")

    for _ in range(100):
        op(5)
    told = warnings(caplog)
    assert told and all(r.levelno == logging.WARNING for r in told)
    text = told[0].getMessage()
    assert "variant quarantined" in text
    assert "op: logged" in text and "variant: bad" in text and "no device" in text


def test_a_store_that_cannot_be_used_is_said_without_any_setup(tmp_path):
    file = tmp_path / "file"
    file.write_text("not a directory")
    said = program(
        "import pointsman; pointsman.Selector().select(pointsman.Workload('op', 3))",
        POINTSMAN_STORE=str(file / "knowledge.sqlite"),
    ).stderr
    assert said.count("the store cannot be used") == 1, said


def test_programs_can_turn_it_off(tmp_path):
    file = tmp_path / "file"
    file.write_text("not a directory")
    code = """
        import logging, pointsman
        logging.getLogger("pointsman").setLevel(logging.LEVEL)
        pointsman.Selector().select(pointsman.Workload("op", 3))
    """
    store = str(file / "knowledge.sqlite")
    assert program(code.replace("LEVEL", "WARNING"), POINTSMAN_STORE=store).stderr != ""
    assert program(code.replace("LEVEL", "ERROR"), POINTSMAN_STORE=store).stderr == ""


def test_what_a_handler_raises_does_not_reach_the_program(selector, takes):
    class Bad(logging.Filter):
        def filter(self, record):
            raise ValueError("a bad filter")

    logger, bad_filter = logging.getLogger("pointsman"), Bad()
    op = pointsman.op(takes("reference", 1e-3), name="op", selector=selector)
    op.variant("bad", lambda x: 1 / 0)
    op.variant("worse", lambda x: 1 / 0)
    unraised, hook = [], sys.unraisablehook
    sys.unraisablehook = unraised.append
    logger.addFilter(bad_filter)
    try:
        for _ in range(100):
            assert op(5) == 5
    finally:
        logger.removeFilter(bad_filter)
        sys.unraisablehook = hook
    # One of each warning: the first does not keep the next from being said.
    assert len(unraised) >= 2
    assert all("a bad filter" in str(u.exc_value) for u in unraised)


def test_a_request_to_stop_in_a_handler_passes_through(selector, takes):
    class Stop(logging.Filter):
        def filter(self, record):
            raise KeyboardInterrupt

    logger, stop = logging.getLogger("pointsman"), Stop()
    op = pointsman.op(takes("reference", 1e-3), name="op", selector=selector)
    op.variant("bad", lambda x: 1 / 0)
    logger.addFilter(stop)
    try:
        with pytest.raises(KeyboardInterrupt):
            for _ in range(100):
                op(5)
    finally:
        logger.removeFilter(stop)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_f36_a_child_says_its_own_warnings():
    code = """
        import os, pointsman, sys
        def fails(name):
            clock = pointsman.FakeClock()
            s = pointsman.Selector(clock=clock)
            def reference(x):
                clock.advance(1e-3)
                return x
            op = pointsman.op(reference, name=name, selector=s)
            op.variant("bad", lambda x: 1 / 0)
            for _ in range(100):
                op(5)
        fails("before")
        pid = os.fork()
        if pid == 0:
            fails("in_child")
            sys.exit(0)
        os.waitpid(pid, 0)
        fails("in_parent")
    """
    said = program(code).stderr.splitlines()
    for name in ["before", "in_child", "in_parent"]:
        assert any("op: " + name in line for line in said), said


def test_what_waits_at_a_fork_is_said_by_the_parent_alone(tmp_path):
    code = """
        import os, pathlib, time
        import pointsman

        selector = pointsman.Selector()
        workload = pointsman.Workload("op", (10,))
        selector.record(workload, "numpy", 1e-5)
        selector.flush()
        store = pathlib.Path(os.environ["POINTSMAN_STORE"])
        for file in store.parent.iterdir():
            file.write_bytes(b"x" * 100_000)
        selector.record(workload, "numpy", 1e-5)
        # The thread that saves finds out, which takes five seconds, and has nobody to tell.
        end = time.monotonic() + 60
        while not any("damaged" in file.name for file in store.parent.iterdir()):
            assert time.monotonic() < end
            time.sleep(0.1)
        time.sleep(1)
        child = os.fork()
        if child == 0:
            selector.select(workload)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        selector.select(workload)
        """
    said = program(code, POINTSMAN_STORE=str(tmp_path / "knowledge.sqlite")).stderr
    assert said.count("the store is damaged") == 1, said
