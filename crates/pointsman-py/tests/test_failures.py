"""Variants that fail, are stopped or give wrong results."""

import traceback

import numpy as np
import pytest

import pointsman


def settled(op, *args, calls=200):
    for _ in range(calls):
        op(*args)


def test_a_failing_variant_gives_way_within_the_call(selector, takes):
    op = pointsman.op(takes("reference", 1e-3), name="op", selector=selector)
    fails = {"n": 0}

    @op.variant("bad")
    def bad(x):
        fails["n"] += 1
        raise RuntimeError("no device")

    for _ in range(100):
        assert op(5) == 5
    assert 0 < fails["n"] <= 8, "two failures in a row quarantine it"
    stats = op.stats()
    assert stats.failures == fails["n"] and stats.quarantines >= 1
    assert "quarantined" in str(op.explain(5)) and "no device" in str(op.explain(5))


def test_a_quarantine_ends(selector, takes, clock):
    op = pointsman.op(takes("reference", 1e-3), name="op", selector=selector)
    broken = [True]

    @op.variant("mended")
    def mended(x):
        if broken[0]:
            raise RuntimeError("not yet")
        clock.advance(1e-6)
        return x

    settled(op, 5)
    broken[0] = False
    clock.advance(7200)
    settled(op, 5, calls=400)
    assert op.explain(5).chosen == "mended"


def test_a_settled_variant_that_fails_gives_way_too(selector, takes):
    op = pointsman.op(takes("reference", 1e-3), name="op", selector=selector)
    broken = [False]
    quick = takes("quick", 1e-6)

    @op.variant("quick")
    def run(x):
        if broken[0]:
            raise OSError("lost")
        return quick(x)

    settled(op, 5, calls=500)
    broken[0] = True
    assert [op(5) for _ in range(20)] == [5] * 20
    assert op.stats().calls == 520


def test_f28_the_error_of_the_reference_reaches_the_caller_unchanged(selector):
    error = ValueError("the argument is bad")

    @pointsman.op(name="op", selector=selector)
    def deep(x):
        def inner():
            raise error

        inner()

    for _ in range(20):
        with pytest.raises(ValueError) as caught:
            deep(1)
        assert caught.value is error
    frames = [f.name for f in traceback.extract_tb(caught.value.__traceback__)]
    assert frames[-2:] == ["deep", "inner"]
    assert not getattr(error, "__notes__", [])


def test_what_the_reference_refuses_too_is_the_callers_mistake(selector, takes):
    op = pointsman.op(name="op", selector=selector)(lambda x: 1 / x)
    quick = takes("quick", 1e-9, result=7)

    @op.variant("quick")
    def run(x):
        if x == 0:
            raise TypeError("quick refuses")
        return quick(x)

    settled(op, 5)
    for _ in range(30):
        with pytest.raises(ZeroDivisionError) as caught:
            op(0)
    assert any("quick refuses" in note for note in caught.value.__notes__)
    assert op.stats().quarantines == 0
    settled(op, 5, calls=5)
    assert not any(v["quarantined"] for v in op.explain(5).variants)


def test_notes_are_attached_with_learning_off_too(clock):
    selector = pointsman.Selector(store="memory", environment=False, clock=clock, force="bad")

    @pointsman.op(name="op", selector=selector)
    def op(x):
        raise KeyError("the reference")

    @op.variant("bad")
    def bad(x):
        raise ValueError("bad too")

    for learning in [True, False]:
        selector.learning = learning
        with pytest.raises(KeyError, match="the reference") as caught:
            op(1)
        assert any("bad too" in note for note in caught.value.__notes__), learning


def test_with_learning_off_who_fails_is_left_alone_too(selector, takes, clock):
    op = pointsman.op(takes("reference", 1e-3), name="op", selector=selector)
    ran, broken = [], []

    @op.variant("quick")
    def quick(x):
        ran.append(x)
        clock.advance(1e-6)
        if broken:
            raise RuntimeError("no driver")
        return x

    for _ in range(100):
        op(1)
    before = op.stats()
    selector.learning = False
    broken.append(True)
    ran.clear()
    for _ in range(100):
        assert op(1) == 1
    assert len(ran) == 2, "two failures in a row"
    after = op.stats()
    assert (after.calls, after.samples, after.failures) == (before.calls, before.samples, 2)
    broken.clear()
    clock.advance(3600)
    op(1)
    assert len(ran) == 3, "and back again"


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_requests_to_stop_pass_through_and_count_for_nothing(selector, takes, stop):
    op = pointsman.op(takes("reference", 1e-3), name="op", selector=selector)

    @op.variant("stopped")
    def stopped(x):
        raise stop()

    stops = 0
    for _ in range(50):
        try:
            op(1)
        except stop:
            stops += 1
    assert stops > 0
    assert op.stats().failures == 0
    assert op.stats().calls == takes.calls["reference"] == 50 - stops
    for hook in ["when", "memory"]:

        def interrupt(x):
            raise stop()

        other = pointsman.op(lambda x: x, name=hook, selector=selector)
        other.variant("v", lambda x: x, **{hook: interrupt})
        with pytest.raises(stop):
            other(1)


def test_no_memory_rules_out_the_size_only(selector, takes):
    op = pointsman.op(takes("reference", 1e-3), name="op", selector=selector)
    quick = takes("quick", 1e-6)

    @op.variant("quick")
    def run(x):
        if len(x) > 1000:
            raise MemoryError("full")
        return quick(x)

    small, large = np.ones(100), np.ones(10_000)
    for _ in range(300):
        op(large)
        op(small)
    assert op.explain(small).chosen == "quick"
    assert op.explain(large).chosen == "reference"


def test_f27_a_wrong_variant_never_serves(selector, takes):
    quick, slow = takes("quick", 1e-6), takes("slow", 1e-3)
    op = pointsman.op(lambda x: slow(x) + 1, name="op", selector=selector, check=True)
    op.variant("wrong", lambda x: quick(x) + 2)
    op.variant("right", lambda x: 1 + quick(x))
    for n in range(1, 2000):
        assert np.array_equal(op(np.ones(n % 50 + 1)), np.full(n % 50 + 1, 2.0))
    told = {v["name"]: v for v in op.explain(np.ones(3)).variants}
    assert told["wrong"]["quarantined"] and "another result" in told["wrong"]["why_not"]
    assert told["right"]["checked"]
    assert op.stats().checks >= 2
    op.selector.reset()
    assert op.explain(np.ones(3)).variants[1]["quarantined"], "forgetting does not make it right"


def test_checks_use_samples_of_the_users(selector, clock):
    """A variant that is wrong at odd sizes is found although all calls are of even size."""
    made = []

    def sample(workload):
        (n,) = workload.features
        made.append(n)
        return (np.arange(n, dtype=float),)

    def reference(x):
        clock.advance(1e-3)
        return x.sum()

    @pointsman.op(name="op", selector=selector, check=True, sample=sample)
    def total(x):
        return reference(x)

    @total.variant("pairs")
    def pairs(x):
        clock.advance(1e-6)
        return x[: len(x) // 2 * 2].sum()

    x = np.arange(700, dtype=float)
    assert all(total(x) == x.sum() for _ in range(200))
    assert set(made) >= {512, 513}
    assert total.explain(x).variants[1]["quarantined"]


def test_a_comparison_of_the_users(selector, takes):
    op = pointsman.op(
        lambda x: takes("r", 1e-3)() or "a", name="op", selector=selector, check=lambda e, g: e.lower() == g.lower()
    )
    op.variant("upper", lambda x: takes("u", 1e-6)() or "A")
    op.variant("other", lambda x: takes("o", 1e-9)() or "B")
    assert {op(1) for _ in range(100)} == {"a", "A"}
    broken = pointsman.op(lambda x: x, name="broken", selector=selector, check=lambda e, g: 1 / 0)
    broken.variant("v", lambda x: -x)
    assert all(broken(1) == 1 for _ in range(50)), "what cannot be compared does not serve"


@pytest.mark.parametrize(
    "expected, got, same",
    [
        (1.0, 1.0 + 1e-9, True),
        (1.0, 1.001, False),
        (np.ones(3), np.ones(4), False),
        (np.ones(3), [1, 1, 1], True),
        ((1, np.ones(2)), (1, np.ones(2)), True),
        ((1, 2), (1,), False),
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1}, {"b": 1}, False),
        (float("nan"), float("nan"), True),
        ("word", "word", True),
        ("word", "other", False),
        (None, None, True),
        (None, 3, False),
    ],
)
def test_tolerances(expected, got, same):
    from pointsman._agree import within

    assert within(1e-5, 1e-8)(expected, got) is same


def test_f37_exceptions_reach_their_own_threads(selector):
    import threading

    op = pointsman.op(lambda x: {}[x], name="op", selector=selector)
    op.variant("other", lambda x: [][x])
    wrong = []

    def work(i):
        for _ in range(300):
            try:
                op(i)
                wrong.append("no error")
            except KeyError as error:
                if error.args != (i,):
                    wrong.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    [t.start() for t in threads]
    [t.join(60) for t in threads]
    assert not wrong and not any(t.is_alive() for t in threads)


def test_an_error_at_the_bottom_of_a_recursion_is_raised_at_once(selector):
    """Each level would ask all those below it twice."""
    asked = []

    @pointsman.op(name="depth", selector=selector)
    def depth(t):
        asked.append(t)
        return depth(t[0]) + 1 if isinstance(t, list) else t + 0

    @depth.variant("other")
    def other(t):
        asked.append(t)
        return 1 + depth(t[0]) if isinstance(t, list) else t + 0

    def nest(levels, leaf):
        for _ in range(levels):
            leaf = [leaf]
        return leaf

    for _ in range(100):
        assert depth(nest(10, 0)) == 10
    for _ in range(3):
        asked.clear()
        with pytest.raises(TypeError) as caught:
            depth(nest(40, "x"))
        assert len(asked) <= 2 * 41 and "str" in str(caught.value)
    endless = pointsman.op(lambda n: endless(n), name="endless", selector=selector)
    endless.variant("other", lambda n: endless(n))
    with pytest.raises(RecursionError):
        endless(1)
    assert depth(nest(10, 0)) == 10


def test_the_same_exception_raised_again_is_another_failure(selector, takes):
    """An op that gave up on an exception inside of another call does not when it is raised in the next."""
    error, broken = ValueError("cached"), [True]

    @pointsman.op(name="inner", selector=selector)
    def inner(n):
        if broken:
            raise error
        return n

    @inner.variant("same")
    def same(n):
        raise error

    outer = pointsman.op(lambda n: inner(n), name="outer", selector=selector)
    for _ in range(20):
        with pytest.raises(ValueError, match="cached"):
            outer(1)
    broken.clear()
    assert [inner(1) for _ in range(20)] == [1] * 20


def test_a_failure_during_a_check_is_not_for_long(selector, takes, clock):
    op = pointsman.op(takes("reference", 1e-3), name="op", selector=selector, check=True)
    calls = []

    @op.variant("quick")
    def quick(x):
        calls.append(x)
        clock.advance(1e-6)
        if len(calls) == 1:
            raise RuntimeError("busy, once")
        return x

    while not calls:
        op(1)
    assert "could not be checked: failed: RuntimeError: busy, once" in str(op.explain(1))
    for _ in range(2000):
        op(1)
    assert op.explain(1).chosen == "quick" and len(calls) > 500


def test_mistakes_in_what_a_user_passes_are_told(selector, takes, caplog):
    op = pointsman.op(takes("r", 1e-3), name="op", selector=selector, check=lambda expected, got: None)
    op.variant("same", takes("same", 1e-6))
    for _ in range(50):
        op(1)
    assert "check returned None" in str(op.explain(1))
    assert not op.explain(1).variants[1]["quarantined"]
    with pytest.raises(TypeError):
        pointsman.op(lambda x: x + 1, name="adds", selector=selector).measure("a")
    for memory in [lambda: 1, lambda b: "much", lambda b: float("nan"), lambda b: -1.0]:
        caplog.clear()
        s = pointsman.Selector(store="memory", environment=False, backends=["numpy", "gpu"], memory=memory)
        assert s.select(pointsman.Workload("op", 10)) == "numpy"
        assert "memory=" in caplog.text, memory

