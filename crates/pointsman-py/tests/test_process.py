"""Processes: fork, spawn, what is kept, and programs in Rust that share it."""

import multiprocessing
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest

import pointsman
from conftest import ROOT

fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


def program(code, *, store, **env):
    """What a program of its own prints."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("POINTSMAN_")}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**clean, "POINTSMAN_STORE": str(store), **env},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


COUNT = """
import pointsman
s = pointsman.Selector()
w = pointsman.Workload("op", 100)
s.select(w)
print({v["name"]: v["samples"] for v in s.explain(w).variants}["numpy"])
"""


def samples(store):
    return int(program(COUNT, store=store))


@fork
def test_f36_a_child_works_and_saves_what_it_learned_itself(tmp_path):
    store = tmp_path / "knowledge.sqlite"
    code = """
        import os, pointsman
        s = pointsman.Selector(save_every=3600.0)
        w = pointsman.Workload("op", 100)
        def record(n):
            for _ in range(n):
                s.record(w, "numpy", 1e-3)
        record(11)      # the first is warm-up
        s.flush()
        record(5)
        pid = os.fork()
        if pid == 0:
            record(3)
            s.flush(timeout=10)
            s.flush(timeout=10)
            print("child", s.summary()["total_calls"], flush=True)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        record(2)
        s.flush()
        print("parent", s.summary()["total_calls"])
    """
    said = program(code, store=store)
    assert "child 19" in said and "parent 18" in said
    assert samples(store) == 10 + 5 + 3 + 2, "nothing lost, nothing saved twice"


@fork
def test_f36_forks_amid_saving_never_hang(tmp_path):
    """The thread that saves is busy nearly all the time, and other threads learn."""
    code = """
        import os, signal, sys, threading, numpy as np, pointsman
        from pointsman import ops
        s = pointsman.Selector(save_every=0.0005)
        op = pointsman.op(lambda x: x, name="op", selector=s)
        op.variant("other", lambda x: x)
        stop = threading.Event()
        def learn():
            i = 0
            while not stop.is_set():
                i += 1
                op(np.ones(i % 500 + 1))
                ops.dot(np.ones(5000), np.ones(5000))
        threads = [threading.Thread(target=learn) for _ in range(2)]
        [t.start() for t in threads]
        bad = 0
        for i in range(40):
            pid = os.fork()
            if pid == 0:
                signal.alarm(30)
                for n in range(20):
                    assert op(n) == n
                assert ops.dot(np.ones(5000), np.ones(5000)) == 5000
                a = np.ones((200, 200))
                assert (ops.matmul(a, a) == 200).all()
                if i % 4 == 0:
                    s.flush(timeout=20)
                os._exit(0)
            bad += os.waitpid(pid, 0)[1] != 0
        stop.set()
        [t.join(30) for t in threads]
        print("bad", bad)
    """
    assert program(code, store=tmp_path / "k.sqlite").strip() == "bad 0"


@fork
def test_f36_every_ready_operation_works_in_a_child(tmp_path):
    """Also those that call Python: their threads stayed behind with the parent's."""
    code = """
        import os, signal, numpy as np, pointsman
        from pointsman import ops
        def solve():
            return ops.fode(lambda t, y: -y, 1.0, [1.0], 1e-3, 4096)
        for _ in range(3):
            before = solve()
        assert ops.dot(np.ones(3_000_000), np.ones(3_000_000)) == 3_000_000  # with threads
        pid = os.fork()
        if pid == 0:
            signal.alarm(60)
            os.environ["POINTSMAN_FORCE"] = "fode_f64=threads"
            for _ in range(3):
                assert np.allclose(solve(), before)
            def fails(t, y):
                raise KeyError(t)
            try:
                ops.fode(fails, 1.0, [1.0], 1e-3, 4096)
            except KeyError:
                os._exit(0)
            os._exit(1)
        print("status", os.waitpid(pid, 0)[1])
    """
    said = program(code, store="memory", POINTSMAN_FORCE="dot_f64=threads")
    assert said.strip() == "status 0"


@fork
def test_a_child_of_a_child_works(tmp_path):
    code = """
        import os, signal, numpy as np, pointsman
        from pointsman import ops
        big = np.ones(2_000_000, np.float32)
        for _ in range(20): ops.sum(big)     # threads are tried
        def forked(depth):
            pid = os.fork()
            if pid == 0:
                signal.alarm(60)
                for _ in range(20): assert ops.sum(big) == 2_000_000
                if depth: forked(depth - 1)
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        forked(2)
        print("fine")
    """
    assert program(code, store=tmp_path / "k.sqlite").strip() == "fine"


@pointsman.op(name="tests.shared")
def shared(x):
    return x + 1


shared.variant("other", lambda x: 1 + x)


def work(n):
    return [shared(i) for i in range(n)]


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_multiprocessing(method):
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        result = pool.map_async(work, [50] * 4)
        assert result.get(120) == [list(range(1, 51))] * 4
        assert pool.apply_async(shared, (41,)).get(120) == 42, "an op travels by its name"


def test_what_was_learned_is_known_in_the_next_run(tmp_path):
    code = """
        import pointsman, sys
        clock = pointsman.FakeClock()
        s = pointsman.Selector(clock=clock)
        def taking(name, seconds):
            return lambda x: clock.advance(seconds) or name
        op = pointsman.op(taking("slow", 1e-3), name="op", selector=s, reference="slow")
        op.variant("quick", taking("quick", 1e-6))
        told = op.explain(1)
        for _ in range(100): op(1)
        print(told.chosen, s.store)
    """
    store = tmp_path / "k.sqlite"
    assert program(code, store=store).startswith("slow")
    second = program(code, store=store)
    assert second.startswith("quick"), "saved at the end of the process"
    assert str(store) in second
    frozen = program(code, store=store, POINTSMAN_MODE="frozen")
    assert frozen.startswith("quick")


def test_export_import_and_forget(tmp_path):
    def learned(path):
        s = pointsman.Selector(store=path, environment=False)
        w = pointsman.Workload("op", 100)
        for _ in range(20):
            s.record(w, "numpy", 1e-3)
        return s

    one = learned(tmp_path / "one.sqlite")
    file = tmp_path / "knowledge.pointsman"
    assert one.export_to(file) == 2  # the costs of a cell, and what choosing cost
    other = pointsman.Selector(store=tmp_path / "other.sqlite", environment=False)
    assert other.import_from(file) >= 1
    file.write_bytes(b"nonsense")
    with pytest.raises(pointsman.StoreError):
        other.import_from(file)
    with pytest.raises(pointsman.StoreError):
        other.import_from(tmp_path / "missing")
    one.forget("op")
    assert one.export_to(tmp_path / "empty.pointsman") == 0


def command():
    """The command `pointsman`, if it has been built."""
    found = os.environ.get("POINTSMAN_TEST_COMMAND")
    places = [found] if found else [ROOT / "target" / p / "pointsman" for p in ("debug", "release")]
    built = [p for p in places if p and pathlib.Path(p).exists()]
    return built[0] if built else shutil.which("pointsman")


@pytest.mark.skipif(command() is None, reason="the command pointsman has not been built")
def test_rust_and_python_share_a_store(tmp_path):
    store = tmp_path / "k.sqlite"
    s = pointsman.Selector(store=store, environment=False)
    w = pointsman.Workload("tests.from_python", 100)
    for _ in range(20):
        s.record(w, "numpy", 1e-3)
    s.flush()
    env = {k: v for k, v in os.environ.items() if not k.startswith("POINTSMAN_")}
    env["POINTSMAN_STORE"] = str(store)
    shown = subprocess.run([command(), "store", "show"], env=env, capture_output=True, text=True)
    assert "tests.from_python" in shown.stdout, shown.stdout + shown.stderr
    # And the other way round: what Rust's ops have learned, Python's read. A machine with a GPU that
    # the package does not know of would be another machine.
    env |= {"VK_ICD_FILENAMES": "/nowhere", "VK_DRIVER_FILES": "/nowhere"}
    tuned = [command(), "tune", "dot_f64", "--time", "2s"]
    subprocess.run(tuned, env=env, capture_output=True, text=True, timeout=120)
    code = """
        from pointsman import ops
        print(sum(v["samples"] for n in (64, 128, 256, 512, 1024, 2048, 4096) for v in ops.explain("dot_f64", [n]).variants))
    """
    assert int(program(code, store=store)) > 0


@fork
def test_an_interrupt_ends_a_program_in_good_time(tmp_path):
    code = """
        import os, signal, threading, time, pointsman
        signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
        op = pointsman.op(lambda x: time.sleep(0.001), name="op")
        op.variant("other", lambda x: time.sleep(0.001))
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            while True: op(1)
        except KeyboardInterrupt:
            print("failures", op.stats().failures)
    """
    assert program(code, store=tmp_path / "k.sqlite").strip() == "failures 0"
