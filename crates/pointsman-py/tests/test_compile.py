"""Compilation is warm-up: never a measurement, and only where it is worth it."""

import functools
import sys
import time

import numpy as np
import pytest

import pointsman

jax = pytest.importorskip("jax")
numba = pytest.importorskip("numba")
import jax.numpy as jnp  # noqa: E402


this = sys.modules[__name__]


def rejected(op):
    return op.stats().rejected.get("warm_up", 0)


def test_a_new_shape_is_no_measurement_of_a_compiled_variant(selector, clock):
    """By the fake clock a compilation takes a second, a call a microsecond."""
    compiled = set()

    def body(x):
        if x.shape not in compiled:
            compiled.add(x.shape)
            clock.advance(1.0)
        clock.advance(1e-6)
        return x

    def reference(x):
        clock.advance(1e-3)
        return x

    op = pointsman.op(reference, name="op", selector=selector)
    op.variant("compiled", body, compiles="shapes")
    x = np.ones((64, 64))
    for _ in range(200):
        op(x)
    told = op.explain(x)
    assert told.chosen == "compiled"
    assert told.variants[1]["predicted"]["ns"] < 5_000
    # Shapes of the same cell that never come again are not worth a compilation.
    for n in range(64, 72):
        for m in range(64, 72):
            op(np.ones((n, m)))
    assert len(compiled) == 1, compiled
    # One that does is, once its calls took as long as compiling does.
    y = np.ones((65, 65))
    for _ in range(900):
        op(y)
    assert len(compiled) == 1
    assert "compile" in op.explain(y).variants[1]["why_not"]
    for _ in range(300):
        op(y)
    assert len(compiled) == 2
    assert op.explain(y).chosen == "compiled"
    assert told.variants[1]["predicted"]["ns"] < 5_000


def test_what_was_compiled_before_is_measured_at_once():
    """JAX counts its compilations: a shape that it knows already is no warm-up."""
    selector = pointsman.Selector(store="memory", environment=False)
    twice = jax.jit(lambda x: x + x)
    shapes = [(n,) for n in range(1, 40)]
    for shape in shapes:
        twice(np.ones(shape, np.float32))
    op = pointsman.op(lambda x: x + x, name="op", selector=selector)
    op.variant("jax", twice)
    for shape in shapes:
        op(np.ones(shape, np.float32))
    stats = op.stats()
    tried = next(v for v in stats.variants if v["name"] == "jax")
    assert tried["samples"] > 0
    # The first use in the process, of each of the two.
    assert rejected(op) <= 2, stats


def test_a_quick_first_call_was_no_compilation(selector, clock):
    def quick(x):
        clock.advance(1e-5)
        return x

    def reference(x):
        clock.advance(1e-3)
        return x

    op = pointsman.op(reference, name="op", selector=selector)
    op.variant("quick", quick, compiles="shapes")
    for n in range(1, 200):
        op(np.ones((n, 7)))
    assert rejected(op) <= 2, op.stats()
    assert op.explain(np.ones((200, 7))).chosen == "quick"


def test_numba_compiles_for_new_types_and_that_does_not_count():
    selector = pointsman.Selector(store="memory", environment=False)

    @pointsman.op(name="op", selector=selector)
    def total(x):
        return float(np.sum(x))

    @total.variant("numba")
    @numba.njit
    def total_numba(x):
        s = 0.0
        for v in x:
            s += v
        return s

    for dtype in ["float64", "float32", "int64"]:
        x = np.ones(10, dtype)
        for _ in range(60):
            assert total(x) == 10
        told = {v["name"]: v for v in total.explain(x).variants}
        if told["numba"]["samples"]:
            # A compilation takes 50 ms at least.
            assert told["numba"]["predicted"]["ns"] < 10e6
    assert total_numba.signatures
    assert rejected(total) >= len(total_numba.signatures)


def test_numba_inside_a_plain_function_is_found():
    selector = pointsman.Selector(store="memory", environment=False)

    @numba.njit
    def kernel(x):
        return x * 2

    @pointsman.op(name="op", selector=selector)
    def twice(x):
        return x * 2

    @twice.variant("numba")
    def twice_numba(x):
        return kernel(x)

    for x in [2, 2.0, np.ones(3)]:
        for _ in range(60):
            twice(x)
        told = twice.explain(x).variants[1]
        assert not told["samples"] or told["predicted"]["ns"] < 10e6, told
    assert rejected(twice) >= 1


@numba.njit
def doubled(x):
    return x * 2


@numba.vectorize
def doubled_each(x):
    return x * 2


class Model:
    def __init__(self):
        self.kernel = numba.njit(lambda x: x * 2)

    def method(self, x):
        return self.kernel(x)

    def __call__(self, x):
        return self.kernel(x)


@functools.wraps(doubled)
def around(x):
    return doubled(x)


@pytest.mark.parametrize(
    "body",
    [
        doubled_each,
        functools.partial(doubled),
        functools.partial(functools.partial(doubled)),
        around,
        lambda x: this.doubled(x),
        Model().method,
        Model(),
        lambda x: {"y": [jnp.asarray(x) * 2]},
    ],
    ids=["vectorize", "partial", "partial of partial", "wrapped", "of a module", "of an object", "callable", "in a dictionary"],
)
def test_compilers_are_found_wherever_they_are_named(body):
    selector = pointsman.Selector(store="memory", environment=False, force="compiled")
    op = pointsman.op(lambda x: x * 2, name="op", selector=selector)
    op.variant("compiled", body)
    x = np.ones(77, np.int16)
    op(x)
    op(x)
    assert rejected(op) == 1, "the first call compiled"


def test_another_dtype_is_compiled_for_anew(selector, clock):
    compiled = set()

    def body(x):
        if x.dtype not in compiled:
            compiled.add(x.dtype)
            clock.advance(0.1)
        clock.advance(1e-6)
        return x

    for compiles in ["types", "shapes"]:
        compiled.clear()
        op = pointsman.op(lambda x: clock.advance(1e-3), name=compiles, selector=selector)
        op.variant("compiled", body, compiles=compiles)
        for dtype in ["float64", "float32"]:
            x = np.ones(100, dtype)
            for _ in range(2500):
                op(x)
            told = op.explain(x).variants[1]
            assert told["samples"] > 0 and told["predicted"]["ns"] < 5_000, (compiles, dtype)


def test_numbers_that_change_are_no_reason_to_compile():
    """JAX takes them as they are; those that are static to a function compile, which its own count tells."""
    selector = pointsman.Selector(store="memory", environment=False)

    def slow(x, rate):
        time.sleep(2e-3)
        return x * rate

    op = pointsman.op(slow, name="op", selector=selector)
    op.variant("jax", jax.jit(lambda x, rate: x * rate))
    x = np.ones(10, np.float32)
    for i in range(300):
        assert np.allclose(op(x, 1 + i / 300), 1 + i / 300)
    assert op.explain(x, 0.5).chosen == "jax"

    power = jax.jit(lambda x, n: x**n, static_argnums=1)
    op = pointsman.op(slow, name="static", selector=selector)
    op.variant("jax", lambda x, n: power(x, n))
    for i in range(100):
        op(x, 3)
    assert op.explain(x, 3).chosen == "jax"
    for n in range(4, 40):
        op(x, n)
    assert power._cache_size() < 10, "numbers that come once are not compiled for"


def test_a_list_that_holds_itself_is_waited_for_once():
    x = jax.jit(lambda x: x @ x)(jnp.ones((300, 300)))
    again = [x]
    again += [again] * 1000
    op = pointsman.op(lambda x: x, name="op", selector=pointsman.Selector(store="memory", environment=False))
    for _ in range(20):
        op(again)
    assert x.is_ready() and op.stats().samples > 0


@pytest.mark.parametrize("jit", [True, False])
def test_jax_is_waited_for_and_its_compilations_do_not_count(jit):
    selector = pointsman.Selector(store="memory", environment=False)

    @pointsman.op(name=f"op{jit}", selector=selector)
    def square(x):
        return x @ x

    body = (lambda x: jnp.asarray(x) @ jnp.asarray(x)) if not jit else jax.jit(lambda x: x @ x)
    square.variant("jax", body)
    for n in [8, 9, 10]:
        x = np.ones((n, n), np.float32)
        for _ in range(60):
            assert np.asarray(square(x))[0, 0] == n
        told = square.explain(x).variants[1]
        if told["samples"]:
            assert told["predicted"]["ns"] < 10e6, told


def test_asynchronous_results_are_waited_for_before_the_clock_is_read(selector, clock):
    """Stands for a device: the work is done when somebody waits for it."""
    waited = []

    class Pending:
        pass

    def wait(result):
        waited.append(result)
        clock.advance(1e-2)

    def reference(x):
        clock.advance(1e-3)
        return Pending()

    op = pointsman.op(reference, name="op", selector=selector)
    op.variant("async", lambda x: Pending(), wait=wait)
    for _ in range(300):
        op(1)
    assert waited
    assert op.explain(1).chosen == "reference", "the device is slower, only its call returns at once"


def test_the_arguments_of_others_are_waited_for():
    x = jax.jit(lambda x: x @ x)(jnp.ones((1500, 1500)))
    selector = pointsman.Selector(store="memory", environment=False)
    op = pointsman.op(lambda x: x.shape, name="op", selector=selector)
    op(x)
    assert x.is_ready()


def test_jax_arrays_give_their_features():
    op = pointsman.op(lambda x: x, name="op", selector=pointsman.Selector(store="memory"))
    w = op.workload(jnp.ones((3, 4), jnp.float32))
    assert (w.features, w.dtype, w.requires_grad, w.device) == ((3, 4), "f32", False, "scalar")
    assert op.workload(np.ones((3, 4), np.float32)) != w, "another library costs other conversions"


def test_gradients_through_an_op_are_served_by_what_jax_can_follow():
    selector = pointsman.Selector(store="memory", environment=False)

    @pointsman.op(name="op", selector=selector, reference="numpy", requires_grad=False)
    def square(x):
        return np.square(np.asarray(x))

    square.variant("jax", lambda x: jnp.square(x))
    for _ in range(50):
        square(3.0)
    calls = square.stats().calls
    assert float(jax.grad(lambda x: square(x))(3.0)) == 6.0
    assert float(jax.jit(square)(3.0)) == 9.0
    assert np.allclose(jax.vmap(square)(jnp.arange(3.0)), [0, 1, 4])
    assert square.stats().calls == calls, "nothing is learned from tracing"
    assert square.stats().failures == 0

    inside = pointsman.op(lambda p: np.square(np.asarray(p["w"])), name="inside", selector=selector, requires_grad=False)
    inside.variant("jax", lambda p: jnp.square(p["w"]))
    assert float(jax.grad(inside)({"w": 3.0})["w"]) == 6.0
    assert (inside.stats().calls, inside.stats().failures) == (0, 0)
    for beside in [lambda w: {"data": [0.0] * 1000, "w": w}, lambda w: {"w": w, "data": [[0.0] * 300] * 100}]:
        assert float(jax.grad(lambda w: inside(beside(w)))(3.0)) == 6.0
    assert (inside.stats().calls, inside.stats().failures) == (0, 0)


def test_a_call_that_needs_gradients_and_finds_none_is_an_error():
    selector = pointsman.Selector(store="memory", environment=False)
    op = pointsman.op(lambda x: x, name="op", selector=selector, requires_grad=False)
    op.variant("other", lambda x: x, requires_grad=False)
    with pytest.raises(pointsman.NoVariantError, match="gives no gradients"):
        jax.grad(op)(1.0)
    needs = pointsman.Workload("op", 1, requires_grad=True)
    told = pointsman.op(lambda x: x, name="t", requires_grad=False, selector=selector, workload=lambda x: needs)
    with pytest.raises(pointsman.NoVariantError):
        told(1)


def test_f05_gradients_are_exact_whatever_was_learned(selector, takes):
    grad = [False]
    needs = {g: pointsman.Workload("op", 100, requires_grad=g) for g in [False, True]}
    op = pointsman.op(
        takes("slow", 1e-2), name="op", selector=selector, workload=lambda x: needs[grad[0]]
    )
    op.variant("quick", takes("quick", 1e-6), requires_grad=False)
    for i in range(2000):
        grad[0] = i % 3 == 0
        before = takes.calls["quick"]
        op(1)
        assert not (grad[0] and takes.calls["quick"] > before)
    assert takes.calls["quick"] > 1200
