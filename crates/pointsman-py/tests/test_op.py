"""The decorator: what a user declares and calls."""

import gc
import pickle
import subprocess
import sys
import textwrap
import threading
import weakref

import numpy as np
import pytest

import pointsman


def test_the_plain_decorator_keeps_name_and_doc():
    @pointsman.op
    def double(x):
        """Twice x."""
        return 2 * x

    assert double(21) == 42
    assert (double.__name__, double.__doc__) == ("double", "Twice x.")
    assert double.name.endswith("test_the_plain_decorator_keeps_name_and_doc.<locals>.double")
    assert list(double.variants) == ["reference"]
    assert double.__wrapped__(1) == 2


def test_the_fastest_variant_serves_and_the_slow_ones_hardly_ever(selector, takes):
    op = pointsman.op(takes("slow", 1e-3), name="op", selector=selector, reference="slow")
    op.variant("quick", takes("quick", 1e-5))
    op.variant("slower", takes("slower", 5e-3))
    x = np.ones(1000)
    for _ in range(2000):
        assert op(x) is x
    assert takes.calls["quick"] > 1900
    assert takes.calls["slower"] <= 4, "its first tries and no more"
    told = op.explain(x)
    assert (told.chosen, told.reason) == ("quick", "historical")
    assert told.confidence > 0.9
    assert "→" in str(told) and "quick" in str(told)
    stats = op.stats()
    assert stats.calls == 2000
    assert {v["name"] for v in stats.variants} == {"slow", "quick", "slower"}
    assert sum(v["calls"] for v in stats.as_dict()["variants"]) == 2000


def test_sizes_have_their_own_winner(selector, clock):
    def cost(fixed, each):
        def run(x):
            clock.advance(fixed + each * len(x))

        return run

    op = pointsman.op(cost(1e-6, 1e-7), name="op", selector=selector, reference="plain")
    op.variant("heavy", cost(1e-3, 1e-9))
    small, large = np.ones(16), np.ones(1_000_000)
    for _ in range(300):
        op(small)
        op(large)
    assert op.explain(small).chosen == "plain"
    assert op.explain(large).chosen == "heavy"


def test_numbers_of_either_sign_have_their_own_winner(selector, clock):
    def takes(up, down):
        def run(n):
            clock.advance(up if n > 0 else down)

        return run

    op = pointsman.op(takes(1e-4, 1e-3), name="signs", reference="up", selector=selector)
    op.variant("down", takes(1e-3, 1e-4))
    for _ in range(300):
        op(2), op(-2)
    before = {v["name"]: v["calls"] for v in op.stats().variants}
    for _ in range(100):
        op(2), op(-2)
    after = {v["name"]: v["calls"] for v in op.stats().variants}
    assert all(after[name] - before[name] >= 90 for name in after), (before, after)


def test_a_variant_can_be_called_by_itself_and_teaches_nothing(selector, takes):
    op = pointsman.op(takes("a", 1e-3), name="op", selector=selector, reference="a")

    @op.variant("b", backend="numba", requires_grad=False)
    def b(x):
        return "b"

    assert b(1) == "b", "the decorator gives the function back"
    assert op.variants["b"](1) == "b"
    assert op.variants["b"].function is b
    assert (op.variants["b"].backend, op.variants["b"].requires_grad) == ("numba", False)
    assert op.stats().calls == 0


def test_keyword_arguments_and_defaults_reach_the_variant(selector):
    @pointsman.op(name="op", selector=selector)
    def f(x, *, scale=1, mode="same"):
        return (x, scale, mode)

    f.variant("other", lambda x, scale=1, mode="same": (x, scale, mode))
    for _ in range(50):
        assert f(1) == (1, 1, "same")
        assert f(1, scale=3) == (1, 3, "same")
        assert f(x=1, mode="full") == (1, 1, "full")


def test_limits_and_conditions_are_exact_on_every_call(selector, takes):
    op = pointsman.op(takes("reference", 1e-3), name="op", selector=selector)
    op.variant("small", takes("small", 1e-6), max_size=100)
    op.variant("large", takes("large", 1e-6), min_size=1000)
    op.variant("single", takes("single", 1e-7), dtypes=["float32"])
    op.variant("even", takes("even", 1e-8), when=lambda x: len(x) % 2 == 0)
    op.variant("broken", takes("broken", 1e-9), when=lambda x: 1 / 0)
    for n in [10, 11, 500, 501, 5000, 5001]:
        for dtype in [np.float32, np.float64]:
            x = np.ones(n, dtype)
            before = dict(takes.calls)
            for _ in range(40):
                op(x)
            served = {name for name in before if takes.calls[name] > before[name]}
            assert "broken" not in served
            assert ("small" in served) <= (n <= 100)
            assert ("large" in served) <= (n >= 1000)
            assert ("single" in served) <= (dtype is np.float32)
            assert ("even" in served) <= (n % 2 == 0)
    why = {v["name"]: v["why_not"] for v in op.explain(np.ones(501)).variants}
    assert why["small"] == "size 501 is above 100"
    assert why["large"] == "size 501 is below 1000"
    assert why["single"] == "does not take dtype f64"
    assert why["even"] == "its condition says no"
    assert why["reference"] is None


def test_a_workload_function_says_what_matters(selector):
    seen = []

    def workload(x, n):
        seen.append(n)
        return n

    @pointsman.op(name="op", selector=selector, workload=workload)
    def f(x, n):
        return n

    assert f("ignored", 7) == 7 and seen == [7]
    assert f.workload("x", 7).features == (7,)
    for told, features in [((1, 2.5), (1, 2.5)), (pointsman.Workload("op", (3, 4)), (3, 4))]:
        g = pointsman.op(lambda x: x, name="g", selector=selector, workload=lambda x: told)
        assert g.workload(0).features == features
        assert g(0) == 0
    wrong = pointsman.op(lambda x: x, name="h", selector=selector, workload=lambda x: "many")
    with pytest.raises(TypeError, match="number"):
        wrong(0)
    fails = pointsman.op(lambda x: x, name="i", selector=selector, workload=lambda x: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fails(0)


def test_limits_are_about_the_arguments_whatever_the_workload_says(selector, takes):
    def work(x):
        return pointsman.Workload("op", (10,)) if x.ndim == 1 else 10

    op = pointsman.op(takes("reference", 1e-3), name="op", selector=selector, workload=work)
    op.variant("small", takes("small", 1e-6), max_size=100)
    op.variant("single", takes("single", 1e-5), dtypes=["float32"])
    for shape in [(1000,), (10, 100)]:
        for _ in range(50):
            op(np.ones(shape))
    assert takes.calls == {"reference": 100, "small": 0, "single": 0}
    for _ in range(50):
        op(np.ones(1000, np.float32))
    assert takes.calls["small"] == 0 and takes.calls["single"] > 0
    numbers = pointsman.op(takes("r", 1e-3), name="numbers", selector=selector, workload=lambda n: n)
    numbers.variant("few", takes("few", 1e-6), max_size=100)
    for n in [50, 5000] * 50:
        numbers(n)
    assert takes.calls["few"] > 0 and numbers.explain(5000).chosen == "reference"


@pytest.mark.parametrize("kind", ["async def f(x): pass", "def f(x): yield x", "async def f(x): yield x"])
def test_what_only_begins_its_work_is_refused(selector, kind):
    names = {}
    exec(kind, names)
    op = pointsman.op(lambda x: x, name="op", selector=selector)
    for declare in [lambda f: op.variant("f", f), lambda f: pointsman.op(f, name="f")]:
        with pytest.raises(TypeError, match="only begins its work"):
            declare(names["f"])


def test_learning_off_measures_and_learns_nothing(selector, takes):
    op = pointsman.op(takes("reference", 1e-3), name="op", selector=selector)
    op.variant("quick", takes("quick", 1e-6))
    selector.learning = False
    assert op.measure(1, repeat=5)["quick"]["average"] == pytest.approx(1e-6)
    assert op.explain(1).chosen == "reference"
    selector.learning = True
    op.measure(1, repeat=5)
    assert op.explain(1).chosen == "quick"


def test_a_plan_serves_like_the_op(selector, takes):
    op = pointsman.op(takes("slow", 1e-3), name="op", selector=selector)
    op.variant("quick", takes("quick", 1e-6))
    x = np.ones(100)
    plan = op.plan(x)
    for _ in range(500):
        assert plan(x) is x
    assert takes.calls["quick"] > 450
    assert op.stats().calls == 500


def test_measure_runs_everybody_and_decides(selector, takes):
    op = pointsman.op(takes("slow", 1e-3), name="op", selector=selector, reference="slow")
    op.variant("quick", takes("quick", 1e-5, first=1.0))
    told = op.measure(np.ones(10), repeat=5)
    assert told["slow"]["average"] == pytest.approx(1e-3)
    assert told["quick"]["max"] == pytest.approx(1e-5), "the first call is warm-up"
    assert told["quick"]["std"] == pytest.approx(0, abs=1e-9)
    assert op.explain(np.ones(10)).chosen == "quick"


def test_an_op_is_a_method_too(selector):
    class Model:
        def __init__(self, scale):
            self.scale = scale

        @pointsman.op(name="Model.run", selector=selector)
        def run(self, x):
            return self.scale * x

        @run.variant("other")
        def run_other(self, x):
            return x * self.scale

    assert [Model(3).run(2) for _ in range(20)] == [6] * 20
    assert Model.run.name == "Model.run"
    model = Model(3)
    assert model.run.workload(2) == Model.run.workload(model, 2)
    assert str(model.run.explain(2)) == str(Model.run.explain(model, 2))
    assert set(model.run.measure(2, repeat=2)) == {"reference", "other"}
    assert model.run.plan(2)(5) == 15
    assert model.run.stats().calls == Model.run.stats().calls
    assert model.run == model.run and model.run != Model(3).run and len({model.run, model.run}) == 1
    assert (model.run.__self__, model.run.__func__, model.run.__name__) == (model, Model.run, "run")
    model.kept = model.run
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_subclasses_and_foreign_byte_orders_are_other_calls(selector, takes):
    op = pointsman.op(lambda x: takes("r", 1e-3)() or float(np.sum(x)), name="op", selector=selector, check=True)
    op.variant("raw", lambda x: takes("raw", 1e-6)() or float(np.asarray(x).sum()))
    x = np.arange(64.0)
    for _ in range(100):
        op(x)
    assert op.explain(x).chosen == "raw"
    masked = np.ma.array(x, mask=x > 10)
    assert {op(masked) for _ in range(100)} == {55.0}
    kinds = [x, masked, x.view(np.matrix), x.astype(">f8")]
    codes = {repr(op.workload(k)) for k in kinds}
    assert len(codes) == len(kinds)


def test_variants_may_be_added_after_the_first_call(selector, takes):
    op = pointsman.op(takes("slow", 1e-3), name="op", selector=selector)
    x = np.ones(10)
    op(x)
    op.variant("quick", takes("quick", 1e-6))
    for _ in range(100):
        op(x)
    assert takes.calls["quick"] > 50


def test_reset_forgets(selector, takes):
    op = pointsman.op(takes("slow", 1e-3), name="op", selector=selector)
    op(1)
    op.reset()
    assert op.stats().calls == 0


@pytest.mark.parametrize(
    "declare, error, says",
    [
        (lambda op: op.variant("a", 3), TypeError, "not a function"),
        (lambda op: op.variant("reference", print), ValueError, "already"),
        (lambda op: op.variant("", print), ValueError, "1 to 128"),
        (lambda op: op.variant("a", print, memory=-1), ValueError, "number of bytes"),
        (lambda op: op.variant("a", print, memory="x"), TypeError, "number of bytes, or a function"),
        (lambda op: op.variant("a")(), TypeError, "the function that it decorates"),
        (lambda op: op.variant("a\n", print), ValueError, "control"),
        (lambda op: op.variant("é" * 65, print), ValueError, "128"),
        (lambda op: op.variant("a", print, backend="no such"), ValueError, "no such"),
        (lambda op: op.variant("a", print, backend="gpu:900"), ValueError, "gpu:255"),
        (lambda op: op.variant("a", print, when=1), TypeError, "when"),
        (lambda op: op.variant("a", print, min_size=3, max_size=2), ValueError, "above"),
        (lambda op: op.variant("a", print, min_size=-1), OverflowError, "negative"),
        (lambda op: op.variant("a", print, dtypes=["float33"]), ValueError, "float32"),
        (lambda op: op.variant("a", print, dtypes=[]), ValueError, "empty"),
        (lambda op: op.variant("a", print, compiles="often"), ValueError, "shapes"),
        (lambda op: op.variant("a", print, wait="forever"), TypeError, "auto"),
        (lambda op: pointsman.op(print, name=""), ValueError, "1 to 128"),
        (lambda op: pointsman.op(3), ValueError, "name"),
        (lambda op: pointsman.op(print, name="x", check="yes"), TypeError, "True"),
        (lambda op: pointsman.op(print, name="x", check=True, rtol=-1), ValueError, "rtol"),
        (lambda op: pointsman.op(print, name="x", check=True, atol=float("nan")), ValueError, "atol"),
        (lambda op: pointsman.op(print, name="x", workload=3), TypeError, "workload"),
        (lambda op: pointsman.op(print, name="x", selector="mine"), TypeError, "Selector"),
    ],
)
def test_bad_declarations_say_what_is_wrong(selector, declare, error, says):
    op = pointsman.op(lambda x: x, name="op", selector=selector)
    with pytest.raises(error, match=says):
        declare(op)
    assert op(1) == 1


def test_more_than_64_variants_are_refused(selector):
    op = pointsman.op(lambda x: x, name="op", selector=selector)
    for i in range(63):
        op.variant(f"v{i}", lambda x: x)
    with pytest.raises(ValueError, match="64"):
        op.variant("one more", lambda x: x)
    assert op(1) == 1


def test_unicode_names_are_fine(selector):
    op = pointsman.op(lambda x: x, name="größe 🚂", selector=selector, reference="標準")
    op.variant("схема", lambda x: x)
    assert all(op(1) == 1 for _ in range(20))
    assert {v["name"] for v in op.stats().variants} == {"標準", "схема"}


@pointsman.op(name="tests.picklable")
def picklable(x):
    return x + 1


def test_an_op_is_pickled_by_where_it_is_found():
    assert pickle.loads(pickle.dumps(picklable)) is picklable

    @pointsman.op
    def local(x):
        return x

    with pytest.raises(TypeError, match="top level"):
        pickle.dumps(local)


def test_a_variant_may_call_the_op_itself(selector):
    @pointsman.op(name="op", selector=selector)
    def factorial(n):
        return 1 if n == 0 else n * factorial(n - 1)

    factorial.variant("other", lambda n: 1 if n == 0 else factorial(n - 1) * n)
    assert all(factorial(20) == 2432902008176640000 for _ in range(50))


def test_threads_share_an_op(selector):
    calls = [0] * 8

    @pointsman.op(name="op", selector=selector)
    def f(x):
        return x

    f.variant("other", lambda x: x)

    def work(i):
        for _ in range(2000):
            assert f(i) == i
            calls[i] += 1

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    [t.start() for t in threads]
    [t.join(60) for t in threads]
    assert calls == [2000] * 8
    assert f.stats().calls == 16000


def test_results_and_arguments_are_not_kept_alive(selector):
    class Big:
        pass

    import weakref

    op = pointsman.op(lambda x: x, name="op", selector=selector)
    op.variant("other", lambda x: x)
    kept = []
    for _ in range(50):
        big = Big()
        kept.append(weakref.ref(big))
        op(big)
        del big
    gc.collect()
    assert not any(ref() for ref in kept)


def test_a_function_without_a_name_needs_one(selector):
    with pytest.raises(ValueError, match="give one with name="):
        pointsman.op(lambda x: x, selector=selector)


def test_functions_of_the_same_name_in_other_scripts_are_other_ops(tmp_path):
    """What was learned, and checked, of one says nothing about the other; processes that it starts are the same program."""
    code = """
        import multiprocessing, pointsman

        @pointsman.op
        def f(x):
            return x

        def name(queue):
            queue.put(f.name)

        if __name__ == "__main__":
            spawn = multiprocessing.get_context("spawn")
            queue = spawn.Queue()
            child = spawn.Process(target=name, args=(queue,))
            child.start()
            print(f.name, queue.get(timeout=60))
            child.join()
    """
    names = []
    for folder in ["one", "two"]:
        path = tmp_path / folder / "script.py"
        path.parent.mkdir()
        path.write_text(textwrap.dedent(code))
        done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        own, childs = done.stdout.split()
        assert own == childs and own.startswith("script-") and own.endswith(".f")
        names.append(own)
    assert names[0] != names[1]
    run = [sys.executable, "-m", "one.script"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["one.script.f"] * 2, done.stderr
