"""The ready operations on NumPy arrays."""

import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pointsman import ops

FLOATS = [np.float32, np.float64]
rng = np.random.default_rng(1)


def tolerance(dtype, n):
    """Of sums of n terms of order one."""
    return 4 * max(n, 1) * np.finfo(dtype).eps


@given(st.sampled_from(FLOATS), st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_products_of_matrices(dtype, m, k, n):
    a = rng.standard_normal((m, k)).astype(dtype)
    b = rng.standard_normal((k, n)).astype(dtype)
    x = rng.standard_normal(k).astype(dtype)
    got = ops.matmul(a, b)
    assert got.dtype == dtype and got.shape == (m, n)
    np.testing.assert_allclose(got, a @ b, atol=16 * tolerance(dtype, k))
    np.testing.assert_allclose(ops.matvec(a, x), a @ x, atol=16 * tolerance(dtype, k))


@given(st.sampled_from(FLOATS), st.lists(st.integers(0, 9), min_size=0, max_size=4))
@settings(max_examples=60, deadline=None)
def test_element_by_element_in_any_shape(dtype, shape):
    x = rng.uniform(-1, 1, shape).astype(dtype)
    y = rng.uniform(-1, 1, shape).astype(dtype)
    x, y = np.asarray(x), np.asarray(y)
    np.testing.assert_array_equal(ops.add(x, y), x + y)
    np.testing.assert_array_equal(ops.relu(x), np.maximum(x, 0))
    np.testing.assert_allclose(ops.exp(x), np.exp(x), rtol=8 * np.finfo(dtype).eps)
    assert ops.sum(x) == pytest.approx(float(x.sum()), abs=float(tolerance(dtype, x.size)))
    assert ops.norm(x) == pytest.approx(float(np.linalg.norm(x)), abs=float(tolerance(dtype, x.size)))
    z = y.copy()
    assert ops.axpy(2.0, x, z) is None
    np.testing.assert_allclose(z, y + 2 * x, atol=8 * np.finfo(dtype).eps)
    ops.scale(0.5, z)
    np.testing.assert_allclose(z, (y + 2 * x) / 2, atol=8 * np.finfo(dtype).eps)


@given(st.sampled_from(FLOATS), st.lists(st.floats(width=32), max_size=60))
@settings(max_examples=60, deadline=None)
def test_sorting(dtype, values):
    x = np.array(values, dtype)
    x = x[~np.isnan(x)]
    np.testing.assert_array_equal(ops.sort(x), np.sort(x))


@pytest.mark.parametrize("dtype", FLOATS)
def test_dot(dtype):
    for n in [0, 1, 17, 1000, 100_000]:
        x, y = rng.uniform(-1, 1, (2, n)).astype(dtype)
        assert ops.dot(x, y) == pytest.approx(float(np.dot(x, y)), abs=float(tolerance(dtype, n)))


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1,), (16,), (100,), (3, 60), (2, 3, 8)])
def test_transforms_follow_numpy(dtype, shape):
    x = rng.standard_normal(shape).astype(dtype)
    if np.iscomplexobj(x):
        x = x + 1j * rng.standard_normal(shape).astype(x.real.dtype)
        x = x.astype(dtype)
    eps = np.finfo(dtype).eps
    got = ops.fft(x)
    assert got.dtype == np.result_type(dtype, np.complex64)
    np.testing.assert_allclose(got, np.fft.fft(x), atol=200 * eps * shape[-1])
    np.testing.assert_allclose(ops.ifft(got), x, atol=200 * eps)


def test_fractional_derivatives():
    """The half derivative of t is 2 √(t / π)."""
    h = 1e-3
    t = np.arange(1001) * h
    exact = 2 * np.sqrt(t / np.pi)
    for derive in [ops.grunwald_letnikov, ops.caputo_l1]:
        got = derive(0.5, h, t)
        np.testing.assert_allclose(got[1:], exact[1:], atol=1e-2)
    with pytest.raises(ValueError, match="order 2.5"):
        ops.grunwald_letnikov(2.5, h, t)
    with pytest.raises(ValueError, match="step"):
        ops.caputo_l1(0.5, float("nan"), t)


def test_fractional_equations():
    """Order 1 is an ordinary equation: y' = -y."""
    y = ops.fode(lambda t, y: -y, 1.0, [1.0], 0.01, 101)
    np.testing.assert_allclose(y, np.exp(-0.01 * np.arange(101)), atol=1e-3)

    def broken(t, y):
        raise RuntimeError("rhs fails")

    with pytest.raises(RuntimeError, match="rhs fails"):
        ops.fode(broken, 0.5, [1.0], 0.01, 50)
    with pytest.raises(TypeError):
        ops.fode(3, 0.5, [1.0], 0.01, 50)
    with pytest.raises(ValueError):
        ops.fode(lambda t, y: y, 0.5, [], 0.01, 50)


@pytest.mark.parametrize("dtype", FLOATS)
def test_layers_forward_and_backward(dtype):
    x, w, b = (rng.standard_normal(s).astype(dtype) for s in [(5, 7), (7, 3), (3,)])
    y, sums = ops.dense(x, w, b, "relu", sums=True)
    np.testing.assert_allclose(sums, x @ w + b, atol=100 * np.finfo(dtype).eps)
    np.testing.assert_allclose(y, np.maximum(sums, 0))
    np.testing.assert_allclose(ops.dense(x, w, b), x @ w + b, atol=100 * np.finfo(dtype).eps)
    dy = rng.standard_normal((5, 3)).astype(dtype)
    dx, dw, db = ops.dense_backward(x, w, sums, dy, "relu")
    ds = dy * (sums > 0)
    np.testing.assert_allclose(dx, ds @ w.T, atol=100 * np.finfo(dtype).eps)
    np.testing.assert_allclose(dw, x.T @ ds, atol=100 * np.finfo(dtype).eps)
    np.testing.assert_allclose(db, ds.sum(0), atol=100 * np.finfo(dtype).eps)
    with pytest.raises(ValueError, match="relu"):
        ops.dense(x, w, b, "tanh")


def test_convolutions():
    x = rng.standard_normal((2, 3, 8, 9)).astype(np.float32)
    f = rng.standard_normal((4, 3, 3, 3)).astype(np.float32)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    expected = np.zeros((2, 4, 4, 5), np.float32)
    for i in range(4):
        for j in range(5):
            patch = padded[:, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3]
            expected[:, :, i, j] = np.einsum("ncrs,kcrs->nk", patch, f)
    got = ops.conv2d(x, f, stride=2, padding=1)
    np.testing.assert_allclose(got, expected, atol=1e-4)
    with pytest.raises(ValueError, match=r"\(2, 3, 8, 9\) and \(4, 2, 3, 3\)"):
        ops.conv2d(x, np.ones((4, 2, 3, 3), np.float32))
    with pytest.raises(ValueError, match="stride 0"):
        ops.conv2d(x, f, stride=0)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("padded", [True, False])
def test_sparse_matrices(dtype, padded):
    dense = np.where(rng.random((6, 5)) < 0.4, rng.standard_normal((6, 5)), 0).astype(dtype)
    rows, columns = np.nonzero(dense)
    offsets = np.searchsorted(rows, np.arange(7))
    a = ops.Csr((6, 5), offsets, columns, dense[rows, columns], padded=padded)
    assert a.shape == (6, 5) and a.nonzeros == len(rows)
    x = rng.standard_normal(5).astype(dtype)
    np.testing.assert_allclose(ops.spmv(a, x), dense @ x, atol=100 * np.finfo(dtype).eps)
    with pytest.raises(ValueError, match=r"\(6, 5\) and \(4,\)"):
        ops.spmv(a, np.ones(4, dtype))
    with pytest.raises(ValueError):
        ops.Csr((6, 5), [0, 9], [0], np.ones(1, dtype))


BAD = [
    (lambda: ops.matmul([[1.0]], np.ones((1, 1))), TypeError, "matmul: a is of type list"),
    (lambda: ops.matmul(np.ones((1, 1)), [[1.0]]), TypeError, "matmul: b is of type list"),
    (lambda: ops.matmul(np.ones((1, 1), int), np.ones((1, 1))), TypeError, "int64"),
    (lambda: ops.matmul(np.ones((1, 1)), np.ones((1, 1), np.float32)), TypeError, "float32.*float64"),
    (lambda: ops.matmul(np.ones((2, 3)), np.ones((4, 5))), ValueError, r"\(2, 3\) and \(4, 5\)"),
    (lambda: ops.matmul(np.ones(3), np.ones((3, 3))), ValueError, "2 dimensions"),
    (lambda: ops.matmul(np.ones((3, 3)).T[:, :2], np.ones((2, 3))), ValueError, "contiguous"),
    (lambda: ops.matmul(np.asfortranarray(np.ones((3, 4))), np.ones((4, 3))), ValueError, "contiguous"),
    (lambda: ops.dot(np.ones(3), np.ones(4)), ValueError, r"\(3,\) and y \(4,\)"),
    (lambda: ops.dot(np.ones((2, 2)), np.ones((2, 2))), ValueError, "1 dimensions"),
    (lambda: ops.add(np.ones(3), np.ones((3, 1))), ValueError, r"\(3,\) and y \(3, 1\)"),
    (lambda: ops.add(np.ones(3, ">f8"), np.ones(3)), TypeError, ">f8"),
    (lambda: ops.exp(np.ones(3, "O")), TypeError, "object"),
    (lambda: ops.exp(None), TypeError, "NoneType"),
    (lambda: ops.exp(3.0), TypeError, "float"),
    (lambda: ops.fft(np.ones(0)), ValueError, "no elements"),
    (lambda: ops.fft(np.ones(3, int)), TypeError, "complex64"),
    (lambda: ops.axpy("a", np.ones(3), np.ones(3)), TypeError, ""),
    (lambda: ops.stats("abacus"), ValueError, "abacus"),
    (lambda: ops.explain("matmul_f32", [1, 2]), ValueError, "m"),
]


@pytest.mark.parametrize("call, error, says", BAD, ids=range(len(BAD)))
def test_wrong_arguments_say_what_is_wrong(call, error, says):
    with pytest.raises(error, match=says or None):
        call()


def test_nothing_that_must_not_be_written_is():
    y = np.ones(3)
    y.flags.writeable = False
    with pytest.raises(ValueError):
        ops.axpy(1.0, np.ones(3), y)
    x = np.ones(3)
    with pytest.raises(ValueError):
        ops.axpy(1.0, x, x)
    assert (x == 1).all()


def test_inputs_are_not_copied():
    """A view of contiguous rows is read where it is."""
    x = np.arange(12.0).reshape(3, 4)
    assert ops.sum(x[1:2]) == 22
    x[1] = 0
    assert ops.sum(x[1:2]) == 0


def test_they_explain_and_count():
    before = ops.stats("dot_f64").calls
    ops.dot(np.ones(8), np.ones(8))
    assert ops.stats("dot_f64").calls == before + 1
    told = ops.explain("dot_f64", [1000])
    assert told.op == "dot_f64" and told.chosen in {v["name"] for v in told.variants}
    assert "matmul_f32" in ops.names() and len(ops.names()) == len(set(ops.names()))


def test_f37_the_lock_is_released_while_they_run():
    """Another thread runs Python while an op computes: it sees the op begun and not ended."""
    x = np.ones(30_000)
    running, seen = threading.Event(), []
    done = threading.Event()

    def other():
        running.wait(60)
        while not done.is_set():
            seen.append(1)

    thread = threading.Thread(target=other)
    thread.start()
    running.set()
    before = len(seen)
    for _ in range(200):
        ops.grunwald_letnikov(0.5, 0.1, x)
        if len(seen) > before + 1000:
            break
    done.set()
    thread.join(60)
    assert len(seen) > before + 1000


def test_threads_run_them_together():
    a = rng.standard_normal((60, 60))
    expected = a @ a
    wrong = []

    def work():
        for _ in range(100):
            if not np.allclose(ops.matmul(a, a), expected):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(6)]
    [t.start() for t in threads]
    [t.join(120) for t in threads]
    assert not wrong and not any(t.is_alive() for t in threads)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ops.matmul(np.ones((10**7, 0)), np.ones((0, 10**7))),
        lambda: ops.dense(np.ones((10**7, 0)), np.ones((0, 10**7)), np.ones(10**7)),
        lambda: ops.conv2d(np.ones((1, 1, 4, 4)), np.ones((1, 1, 3, 3)), padding=10**7),
        lambda: ops.matvec(np.broadcast_to(np.ones((1, 0)), (10**13, 0)), np.ones(0)),
        lambda: ops.fode(lambda t, y: -y, 0.5, [1.0], 0.1, 10**13),
        lambda: ops.fode(lambda t, y: -y, 0.5, [1.0], 0.1, 2**63),
    ],
)
def test_results_that_fit_nowhere_are_errors(call):
    with pytest.raises(MemoryError, match="no room for a result of shape"):
        call()


def test_masks_are_not_ignored():
    with pytest.raises(TypeError, match="MaskedArray"):
        ops.sum(np.ma.array([1.0, 100.0], mask=[0, 1]))
    assert ops.sum(np.ones((2, 2)).view(np.matrix)) == 4


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("call", ["exp(x)", "relu(x)", "sort(x)", "add(x, x)", "fft(x)", "grunwald_letnikov(0.5, 0.1, x)", "caputo_l1(0.5, 0.1, x)"])
def test_results_for_which_there_is_no_memory_left_are_errors(call):
    code = f"""
import resource, numpy as np
from pointsman import ops
small = np.ones(100, np.float32)
x = np.ones(100_000_000, np.float32)
ops.exp(small)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 100_000_000, used + 100_000_000))
try:
    ops.{call}
except MemoryError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "no room for a result of shape (100000000,)" in done.stdout


def test_long_sums_in_single_precision_do_not_stop():
    ones = np.ones(20_000_000, np.float32)
    assert {ops.sum(ones) for _ in range(4)} == {20e6}
    assert {ops.dot(ones, ones) for _ in range(4)} == {20e6}
    assert abs(ops.norm(ones) - 20e6**0.5) < 1e-2
    assert ops.matvec(ones.reshape(1, -1), ones)[0] == 20e6


def test_empty_sums_are_zero_and_not_a_number_comes_last():
    empty = np.ones(0)
    for value in [ops.sum(empty), ops.dot(empty, empty), ops.norm(empty)]:
        assert value == 0 and not np.signbit(value)
    x = np.array([3.0, np.inf, -1.0, np.nan, -np.inf])
    with np.errstate(invalid="ignore"):
        x[1] -= np.inf  # a negative one, on x86
    assert np.array_equal(ops.sort(x), np.sort(x), equal_nan=True)


def test_what_cannot_be_used_in_place_says_why():
    z = np.ones(10)
    with pytest.raises(ValueError, match="y shares memory with another argument"):
        ops.axpy(1.0, z, z)
    with pytest.raises(ValueError, match="x is not C-contiguous, and nothing is copied unasked$"):
        ops.scale(2.0, z[::2])
    with pytest.raises(ValueError, match="pass numpy.array"):
        ops.sum(z[::2])
    odd = np.frombuffer(bytes(33), np.uint8)[1:].view(np.float64)
    with pytest.raises(ValueError, match="x is not aligned in memory.*pass numpy.array"):
        ops.sum(odd)
    assert ops.sum(np.array(odd, order="C")) == 0
    z.flags.writeable = False
    with pytest.raises(ValueError, match="x may not be written to"):
        ops.scale(2.0, z)
