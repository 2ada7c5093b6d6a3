"""Choosing for callers who give a workload: the selector, its settings, memory and environment."""

import gc
import os
import signal
import subprocess
import sys
import types
import weakref

import pytest

import pointsman
from pointsman import Selector, Workload


@pytest.fixture
def chooser(clock):
    backends = {"numpy": False, "numba": False, "torch": True, "jax": True}
    return Selector(store="memory", environment=False, clock=clock, backends=backends)


TOOK = {"numpy": 1e-3, "numba": 1e-5, "torch": 2e-4, "jax": 5e-3}


def learn(selector, workload, calls=200):
    for _ in range(calls):
        decision = selector.decide(workload)
        decision.took(TOOK[decision.backend])


def test_what_is_reported_decides(chooser):
    w = Workload("matmul", (64, 64), dtype="float32")
    learn(chooser, w)
    assert chooser.select(w) == "numba"
    assert chooser.select(Workload("matmul", (64, 64), dtype="float32", requires_grad=True)) in (
        "torch",
        "jax",
    )
    assert chooser.select(w, preferred="jax") == "jax"
    with pytest.raises(ValueError, match="numpy, numba, torch, jax"):
        chooser.select(w, preferred="cuda")
    told = chooser.explain(w)
    assert (told.chosen, told.reason) == ("numba", "historical")
    assert chooser.explain(w, preferred="torch").reason == "forced"


def test_gradients_are_exact_whatever_was_learned(chooser):
    w = Workload("op", 100)
    learn(chooser, w)
    needs = Workload("op", 100, requires_grad=True)
    for _ in range(300):
        decision = chooser.decide(needs)
        assert decision.backend in ("torch", "jax")
        decision.took(TOOK[decision.backend])
    assert chooser.select(needs) == "torch"
    assert chooser.select(needs, preferred="numba") != "numba"
    assert chooser.explain(needs).variants[1]["why_not"] == "gives no gradients"


def test_stats_depend_on_the_size(chooser):
    """10 µs at n = 64 does not decide n = 1e9."""
    small, large = Workload("op", 64, memory=0), Workload("op", 10**9, memory=0)
    for _ in range(200):
        for w, times in [(small, TOOK), (large, {"numpy": 1, "numba": 9, "torch": 0.1, "jax": 5})]:
            d = chooser.decide(w)
            d.took(times[d.backend])
    assert (chooser.select(small), chooser.select(large)) == ("numba", "torch")


def test_select_tries_nothing_and_changes_nothing(chooser):
    w = Workload("op", 100)
    assert {chooser.select(w) for _ in range(200)} == {"numpy"}
    assert chooser.summary()["total_calls"] == 0


def test_run_with_fallback_runs_each_backends_own_function(chooser, clock):
    ran = []

    def fails(x):
        ran.append("numba")
        raise RuntimeError("no llvm")

    def works(x):
        ran.append("numpy")
        clock.advance(1e-3)
        return x + 1

    w = Workload("op", 10)
    functions = {"numba": fails, "numpy": works}
    for _ in range(60):
        assert chooser.run_with_fallback(w, functions, 1) == 2
    assert ran.count("numpy") == 60
    assert 1 <= ran.count("numba") < 20, "who fails is left alone for a while"
    account = chooser.summary()["ops"]["op"]
    assert account["numba"]["failures"] == ran.count("numba")
    assert account["numpy"]["count"] == 60
    assert account["numpy"]["average_seconds"] == pytest.approx(1e-3)
    assert account["numpy"]["total_seconds"] == pytest.approx(60e-3)


def test_who_fails_is_left_alone_wherever_it_is_listed(chooser, clock):
    """None of a caller's functions is the reference."""
    ran = []

    def fails():
        ran.append("torch")
        raise RuntimeError("no driver")

    def works():
        clock.advance(1e-3)
        return 1

    w = Workload("op", 10)
    for _ in range(60):
        assert chooser.run_with_fallback(w, {"torch": fails, "numpy": works}) == 1
    assert 1 <= len(ran) < 20
    assert chooser.summary()["ops"]["op"]["torch"]["in_quarantine"]
    first = chooser.backends[0]
    for _ in range(2):
        chooser.decide(Workload("other", 10), preferred=first).failed("no driver")
    assert chooser.select(Workload("other", 10)) != first


@pytest.mark.parametrize("names", [("numpy", "torch"), ("scipy", "jax"), ("own", "gpu:0")])
def test_only_who_is_known_to_give_gradients_serves_where_they_are_needed(names):
    without, gives = names
    s = Selector(store="memory", environment=False, backends=["numba"], memory=lambda b: 2**40)
    w = Workload("op", 1, requires_grad=True)
    for _ in range(20):
        assert s.run_with_fallback(w, {without: lambda: without, gives: lambda: gives}) == gives
    with pytest.raises(pointsman.NoVariantError, match=f"{without}: gives no gradients"):
        s.run_with_fallback(w, {without: lambda: 1})
    own = Selector(store="memory", environment=False, backends={without: True})
    assert own.run_with_fallback(w, {without: lambda: 1}) == 1


def test_a_request_to_stop_while_memory_is_asked_for_is_not_lost():
    def interrupted(backend):
        raise KeyboardInterrupt

    s = Selector(store="memory", environment=False, backends=["numpy", "gpu"], memory=interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            s.select(Workload("op", 10))
            sum(range(1000))
    finally:
        signal.signal(signal.SIGINT, before)


def test_if_all_fail_the_first_error_is_raised_with_the_others(chooser):
    def fail(error):
        def run(x):
            raise error

        return run

    first, second = KeyError("first"), ValueError("second")
    functions = {"numpy": fail(first), "torch": fail(second)}
    w = Workload("op", 10)
    with pytest.raises(KeyError) as caught:
        chooser.run_with_fallback(w, functions, 1, preferred="numpy")
    assert caught.value is first
    assert any("torch" in note and "second" in note for note in first.__notes__)
    with pytest.raises(KeyboardInterrupt):
        chooser.run_with_fallback(w, {"jax": fail(KeyboardInterrupt())}, 1)


def test_run_with_fallback_learns_who_is_fastest(chooser, clock):
    def taking(name):
        return lambda x, scale=1: clock.advance(TOOK[name]) or name

    functions = {name: taking(name) for name in TOOK}
    w = Workload("op", 10)
    served = [chooser.run_with_fallback(w, functions, 1, scale=2) for _ in range(300)]
    assert served.count("numba") > 250
    needs = Workload("op", 10, requires_grad=True)
    assert chooser.run_with_fallback(needs, functions, 1) in ("torch", "jax")
    # The functions of another call are run, not those of the first.
    assert chooser.run_with_fallback(w, {n: lambda x: "other" for n in TOOK}, 1) == "other"


def test_measurements_of_the_callers_own(chooser):
    w = Workload("op", 20_000)
    for _ in range(8):
        for name, seconds in TOOK.items():
            chooser.record(w, name, seconds)
    assert chooser.select(w) == "numba"
    near = Workload("op", 20_001)
    assert chooser.select(near) == "numba", "nearby sizes inform each other"
    for bad in [-1.0, float("nan"), float("inf")]:
        with pytest.raises(ValueError):
            chooser.record(w, "numpy", bad)
    with pytest.raises(ValueError, match="valid are"):
        chooser.record(w, "abacus", 1.0)


def test_summary_reset_and_learning(chooser):
    w = Workload("op", 100)
    learn(chooser, w, 50)
    summary = chooser.summary()
    assert summary["total_calls"] == 50 and summary["total_seconds"] > 0
    assert summary["recent"] and {"op", "backend", "reason", "seconds"} <= summary["recent"][-1].keys()
    assert chooser.learning
    chooser.learning = False
    chooser.record(w, "jax", 1e-9)
    for _ in range(50):
        chooser.run_with_fallback(w, {"jax": lambda: 1, "numba": lambda: 1})
    assert chooser.summary()["total_calls"] == 50
    assert chooser.select(w) == "numba"
    assert {chooser.decide(w).backend for _ in range(200)} == {"numba"}, "nothing is tried"
    assert not chooser.decide(w).timed
    chooser.reset()
    learn(chooser, w, 50)
    chooser.learning = True
    chooser.reset()
    learn(chooser, w, 50)
    chooser.reset("other")
    assert chooser.summary()["total_calls"] == 50
    chooser.reset()
    assert chooser.summary()["total_calls"] == 0


def test_learning_off_serves_the_best_known(selector, takes):
    op = pointsman.op(takes("slow", 1e-3), name="op", selector=selector)
    op.variant("quick", takes("quick", 1e-6))
    for _ in range(200):
        op(1)
    samples = op.stats().samples
    selector.learning = False
    before = takes.calls["quick"]
    for _ in range(100):
        op(1)
    assert takes.calls["quick"] == before + 100
    assert op.stats().samples == samples


def test_reports_count_once(chooser):
    decision = chooser.decide(Workload("op", 1))
    for _ in range(5):
        decision.took(1e-3)
    decision.failed()
    assert chooser.summary()["failures"] == 0 and chooser.summary()["total_calls"] == 1
    failed = chooser.decide(Workload("op", 1))
    failed.failed("broken")
    assert chooser.summary()["failures"] == 1
    chooser.decide(Workload("op", 1)).cancel()
    chooser.decide(Workload("op", 1)).warm_up()
    assert chooser.summary()["total_calls"] == 2


def test_memory_is_exact_and_no_gpu_means_no(clock):
    free = {"gpu:0": 1000, "scalar": 10**12}
    asked = []

    def memory(backend):
        asked.append(backend)
        return free.get(backend)

    s = Selector(store="memory", environment=False, clock=clock, memory=memory, backends=["numpy", "gpu:0", "gpu:1"])
    fits, not_fits = Workload("op", 10, memory=700), Workload("op", 10, memory=701)
    for _ in range(300):
        d = s.decide(fits)
        d.took({"numpy": 1e-3, "gpu:0": 1e-6, "gpu:1": 1e-9}[d.backend])
    assert s.select(fits) == "gpu:0", "gpu:1 is not there, so nothing fits"
    assert s.select(not_fits) == "numpy", "30 % are left alone"
    assert "701 bytes do not fit" in str(s.explain(not_fits))
    assert asked.count("gpu:0") == 1, "asked once a minute"
    free["gpu:0"] = 10_000
    clock.advance(61)
    assert s.select(not_fits) == "gpu:0"
    assert Selector(store="memory", environment=False).free_memory("gpu:7") is None
    assert Selector(store="memory", environment=False).free_memory("numpy") > 1 << 20


def test_a_missing_gpu_serves_nothing_wherever_it_is_listed(clock):
    for free in [None, 10]:
        s = Selector(store="memory", environment=False, backends=["gpu", "numpy"], memory=lambda b: free if b != "scalar" else 2**40)
        w = Workload("m", (64, 64))
        assert s.select(w) == "numpy"
        assert s.run_with_fallback(w, {"gpu": lambda: 1 / 0, "numpy": lambda: "numpy"}) == "numpy"
        assert s.summary()["failures"] == 0
    nowhere = Selector(store="memory", environment=False, backends=["gpu", "numpy"], memory=lambda b: 0)
    assert nowhere.select(Workload("m", (10_000, 10_000))) == "numpy", "somebody must"
    for backends in [["numpy", "gpu"], ["gpu"]]:
        s = Selector(store="memory", environment=False, backends=backends, memory=lambda b: None)
        w = Workload("m", (64, 64), requires_grad=True)
        for ask in [s.select, s.decide, lambda w: s.run_with_fallback(w, {"gpu": lambda: 1, "numpy": lambda: 1})]:
            with pytest.raises(pointsman.NoVariantError, match="gpu: 98304 bytes do not fit: nobody knows"):
                ask(w)
        assert s.explain(w).chosen == ""
    flags = types.MappingProxyType({"numpy": False, "own": True})
    assert Selector(store="memory", backends=flags).select(Workload("m", (4,), requires_grad=True)) == "own"


def test_the_need_of_memory_counts_the_real_dtype():
    assert Workload("op", (10, 10), dtype="float32").memory == 3 * 400
    assert Workload("op", (10, 10), dtype="complex128").memory == 3 * 1600
    assert Workload("op", (10, 10), memory=5).memory == 5


def test_memory_of_a_variant(clock, takes):
    s = Selector(store="memory", environment=False, clock=clock, memory=lambda b: 1000 if b == "gpu:0" else None)
    op = pointsman.op(takes("host", 1e-3), name="op", selector=s)
    op.variant("fits", takes("fits", 1e-6), backend="cuda", memory=lambda x: 100 * x)
    op.variant("nowhere", takes("nowhere", 1e-9), backend="cuda:1", memory=1)
    op.variant("broken", takes("broken", 1e-9), backend="cuda", memory=lambda x: 1 / 0)
    op.variant("negative", takes("negative", 1e-9), backend="cuda", memory=lambda x: -1)
    for _ in range(200):
        op(7)
        op(8)
    assert takes.calls["nowhere"] == takes.calls["broken"] == takes.calls["negative"] == 0
    assert op.explain(7).chosen == "fits"
    why = [v["why_not"] for v in op.explain(8).variants]
    assert why[1] == "needs 800 bytes, 700 may be used"
    assert why[2] == "needs 1 bytes, free memory of its backend is unknown"


@pytest.mark.parametrize(
    "make, says",
    [
        (lambda: Selector(mode="fast"), "learn, frozen or reference"),
        (lambda: Selector(policy="ucb2"), "ucb1"),
        (lambda: Selector(budget=2.0), "0 to 1"),
        (lambda: Selector(budget=float("nan")), "0 to 1"),
        (lambda: Selector(memory_reserve=-1.0), "0 to 1"),
        (lambda: Selector(save_every=-1.0), "save_every=-1: .*not below 0"),
        (lambda: pointsman.FakeClock().advance(-1), "seconds=-1: .*not below 0"),
        (lambda: Selector(save_every=0.0), "positive"),
        (lambda: Selector(force="a,,b"), "op=variant"),
        (lambda: Selector(backends=[]), "1 to 64"),
        (lambda: Selector(backends=[f"b{i}" for i in range(65)]), "1 to 64"),
        (lambda: Selector(backends=["numpy", "numpy"]), "numpy.* twice"),
        (lambda: Selector(backends=["a b"]), "a b"),
        (lambda: Workload("op", [1] * 17), "at most 16"),
        (lambda: Workload("op", 1, flops=-1), "flops"),
        (lambda: Workload("op", 1, bytes=float("nan")), "bytes"),
        (lambda: Workload("op", 1, dtype="float33"), "float32"),
    ],
)
def test_bad_settings_say_what_would_be_right(make, says):
    with pytest.raises(ValueError, match=says):
        make()


def test_bad_types_are_type_errors():
    for make in [
        lambda: Selector(memory=3),
        lambda: Selector(backends="numpy"),
        lambda: Workload("op", "many"),
        lambda: Workload(3),
        lambda: Selector(store="memory").select("matmul"),
        lambda: Selector(store="memory").run_with_fallback(Workload("op"), {"numpy": 3}),
    ]:
        with pytest.raises(TypeError):
            make()
    with pytest.raises(ValueError, match="no functions"):
        Selector(store="memory").run_with_fallback(Workload("op"), {})


def test_workloads_show_what_they_are():
    w = Workload("conv", (2, 3.5), dtype="float32", requires_grad=True, iterative=True, flops=10, bytes=20, device="cuda:1")
    assert (w.op, w.features, w.size, w.dtype) == ("conv", (2, 3.5), 7, "f32")
    assert (w.requires_grad, w.iterative, w.flops, w.bytes, w.device) == (True, True, 10, 20, "gpu:1")
    assert "conv" in repr(w)
    assert w == w and w != Workload("conv", (2, 3)) and w != 3
    assert len({Workload("op", 1), Workload("op", 1), Workload("op", 2)}) == 2
    import numpy as np

    assert Workload("op", np.ones((3, 4)).shape, dtype=np.float32) == Workload("op", (3, 4), dtype=np.dtype("float32"))
    for shape in [0, (), (0,), 2**63, 1e308, float("inf")]:
        pointsman.default_selector().select(Workload("odd", shape, memory=0))


def test_more_ops_than_there_is_room_for_are_refused():
    s = Selector(store="memory", environment=False)
    with pytest.raises(ValueError, match="1024"):
        for i in range(1100):
            s.select(Workload(f"op{i}", 1))


def test_a_selector_that_nobody_uses_any_more_is_gone_and_has_saved(tmp_path):
    path, w = tmp_path / "store", Workload("product", (64, 64))

    def use():
        selector = Selector(store=path, environment=False, backends=["numpy", "jax"])
        for _ in range(10):
            selector.record(w, "numpy", 1e-3)
            selector.record(w, "jax", 1e-6)
        assert selector.select(w) == "jax"
        assert selector.run_with_fallback(w, {"numpy": abs, "jax": abs}, -1) == 1
        op = pointsman.op(abs, name="abs", selector=selector)
        assert op(-1) == 1
        return selector.decide(w), weakref.ref(selector)

    decision, gone = use()
    gc.collect()
    assert gone() is None
    decision.took(1e-6)  # what it has decided can still be reported
    del decision
    gc.collect()
    again = Selector(store=path, environment=False, backends=["numpy", "jax"])
    assert again.select(w) == "jax"


def test_one_call_on_the_shared_selector():
    assert pointsman.default_selector() is pointsman.default_selector()
    assert pointsman.select_backend("tests.one_call", (64, 64)) == "numpy"
    assert pointsman.select_backend("tests.one_call", 100, True) in ("torch", "jax")
    assert pointsman.select_backend("tests.one_call", (3,), dtype="float32", preferred="jax") == "jax"
    with pytest.raises(TypeError):
        pointsman.select_backend("tests.one_call", "large")


def run(code, **env):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("POINTSMAN_")}
    env = {"POINTSMAN_STORE": "memory", **env}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**clean, **env}, capture_output=True, text=True, timeout=120
    )
    return done.stdout + done.stderr


OP = """
import pointsman
op = pointsman.op(lambda x: "plain", name="op", reference="plain")
op.variant("other", lambda x: "other", backend="numba")
print({op(1) for _ in range(50)}, op.selector.mode, op.selector.policy)
"""


def test_f44_environment_variables_are_obeyed():
    assert run(OP, POINTSMAN_FORCE="other").startswith("{'other'}")
    assert run(OP, POINTSMAN_FORCE="op=other").startswith("{'other'}")
    assert run(OP, POINTSMAN_FORCE="numba").startswith("{'other'}")
    assert run(OP, POINTSMAN_DISABLE="numba").startswith("{'plain'}")
    assert run(OP, POINTSMAN_DISABLE="gpu,jax").startswith("{'")
    assert "reference" in run(OP, POINTSMAN_MODE="reference")
    assert "ucb1" in run(OP, POINTSMAN_POLICY="ucb1")
    for variable, value, valid in [
        ("POINTSMAN_FORCE", "abacus", "plain, other"),
        ("POINTSMAN_MODE", "fast", "learn, frozen, reference"),
        ("POINTSMAN_SEED", "-1", "whole number"),
        ("POINTSMAN_POLICY", "best", "ucb1"),
    ]:
        said = run(OP, **{variable: value})
        assert "ValueError" in said and variable in said and value in said and valid in said


def test_the_gpu_can_be_disabled_by_name():
    code = """
import pointsman
s = pointsman.Selector(backends=["numpy", "gpu"], memory=lambda b: 10**12)
w = pointsman.Workload("op", 1)
for _ in range(200):
    d = s.decide(w)
    d.took(1e-3 if d.backend == "numpy" else 1e-6)
print(s.select(w))
"""
    assert run(code).strip() == "gpu"
    assert run(code, POINTSMAN_DISABLE="gpu").strip() == "numpy"
