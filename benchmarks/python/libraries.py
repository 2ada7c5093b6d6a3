"""A mixed stream of calls over NumPy, Numba, JAX, PyTorch (where installed) and pointsman.ops.

    python benchmarks/python/libraries.py [--calls N] [--seed N] [--budget SHARE] [--settle N] [--without NAME] [--json]

On each call the contestants run in random order: the op, as a program would call it, and each library by
itself. The op starts knowing nothing, and its trials count. The oracle takes the library with the lowest median
for each shape; hindsight takes the one whose calls took least in all, spikes included, which is what nobody could
know. Every library compiles for every shape before the clock runs; pointsman.ops, which learns as well, is called often
enough to be as finished as the others; and every contestant finds its arguments in the caches, as far as they fit.

Of the first few hundred calls of a process many take several times as long as later, whoever serves. The stream begins
after so many calls of the libraries alone (--settle), so that it is choosing that is measured; with --settle 0 it begins at
once.
"""

import argparse
import json
import os
import random
import statistics
import time

os.environ.setdefault("POINTSMAN_STORE", "memory")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np  # noqa: E402

import pointsman  # noqa: E402
from pointsman import ops  # noqa: E402


def have(name, without):
    if name in without:
        return None
    try:
        return __import__(name)
    except ImportError:
        print(f"{name} is not installed and takes no part")
        return None


COMPILED, LEARNED = 2, 100
NO_LIBRARY = ("pointsman", "pointsman_late", "oracle", "oracle_late", "hindsight")


def libraries(without=()):
    """For each op its functions by library."""
    numba, jax, torch = (have(name, without) for name in ("numba", "jax", "torch"))
    found = {
        "dot": {"numpy": np.dot, "ops": ops.dot},
        "matmul": {"numpy": np.matmul, "ops": ops.matmul},
        "exp": {"numpy": np.exp, "ops": ops.exp},
        "gelu": {"numpy": lambda x: 0.5 * x * (1 + np.tanh(0.79788456 * (x + 0.044715 * x * x * x)))},
    }
    if numba:

        @numba.njit(fastmath=True)
        def dot_numba(x, y):
            total = np.float32(0)
            for i in range(x.size):
                total += x[i] * y[i]
            return total

        @numba.njit(fastmath=True)
        def exp_numba(x):
            y = np.empty_like(x)
            for i in range(x.size):
                y[i] = np.exp(x[i])
            return y

        @numba.njit(fastmath=True)
        def gelu_numba(x):
            y = np.empty_like(x)
            for i in range(x.size):
                v = x[i]
                y[i] = 0.5 * v * (1 + np.tanh(0.79788456 * (v + 0.044715 * v * v * v)))
            return y

        @numba.njit(fastmath=True)
        def matmul_numba(a, b):
            c = np.zeros((a.shape[0], b.shape[1]), a.dtype)
            for i in range(a.shape[0]):
                for k in range(a.shape[1]):
                    for j in range(b.shape[1]):
                        c[i, j] += a[i, k] * b[k, j]
            return c

        found["dot"]["numba"], found["exp"]["numba"] = dot_numba, exp_numba
        found["gelu"]["numba"], found["matmul"]["numba"] = gelu_numba, matmul_numba
    if jax:
        import jax.numpy as jnp

        def as_numpy(f):
            f = jax.jit(f)
            return lambda *args: np.asarray(f(*args))

        found["dot"]["jax"] = as_numpy(jnp.dot)
        found["matmul"]["jax"] = as_numpy(jnp.matmul)
        found["exp"]["jax"] = as_numpy(jnp.exp)
        found["gelu"]["jax"] = as_numpy(jax.nn.gelu)
    if torch:
        # With threads of its own beside those of the others, on two cores, one of its calls in three took a hundred times as long.
        torch.set_num_threads(1)
        of = torch.from_numpy
        found["dot"]["torch"] = lambda x, y: torch.dot(of(x), of(y)).item()
        found["matmul"]["torch"] = lambda a, b: torch.matmul(of(a), of(b)).numpy()
        found["exp"]["torch"] = lambda x: torch.exp(of(x)).numpy()
        found["gelu"]["torch"] = lambda x: torch.nn.functional.gelu(of(x), approximate="tanh").numpy()
    return found


def arguments(name, size, rng):
    """Arguments whose largest array has about so many elements."""
    if name == "matmul":
        n = max(int(size**0.5), 1)
        return tuple(rng.standard_normal((n, n)).astype(np.float32) for _ in range(2))
    count = 2 if name == "dot" else 1
    return tuple(rng.standard_normal(size).astype(np.float32) for _ in range(count))


def play(calls, seed, budget, settle, without):
    rng, order = np.random.default_rng(seed), random.Random(seed)
    selector = pointsman.Selector(store="memory", environment=False, budget=budget)
    cases = []
    for name, functions in libraries(without).items():
        op = pointsman.op(functions["numpy"], name=name, selector=selector, reference="numpy")
        for library, function in functions.items():
            if library != "numpy":
                op.variant(library, function, backend=library if library != "ops" else "simd")
        most = 18 if name == "matmul" else 20
        for size in np.unique(np.geomspace(16, 2**most, 10).astype(int)):
            args = arguments(name, size, rng)
            for library, function in functions.items():
                for _ in range(LEARNED if library == "ops" else COMPILED):
                    function(*args)
            cases.append((name, op, functions, args, {k: [] for k in functions}, []))
    clock = time.perf_counter_ns

    def timed(function, args):
        for array in args:
            array.sum()  # whoever runs first would fetch the arguments into the caches for the others
        start = clock()
        function(*args)
        return clock() - start

    for _ in range(settle):
        _, _, functions, args, _, _ = order.choice(cases)
        for function in functions.values():
            timed(function, args)
    for _ in range(calls):
        name, op, functions, args, alone, own = order.choice(cases)
        contestants = [("op", op), *functions.items()]
        order.shuffle(contestants)
        for who, function in contestants:
            (own if who == "op" else alone[who]).append(timed(function, args))
    return cases, selector


def late(times):
    """The second half of them: shapes are met all along, so it is the same time for everybody."""
    return times[len(times) // 2 :]


def total(cases):
    """Nanoseconds of the op, of the oracle, in hindsight and of each library wherever it takes part; of the former two also
    in the second half of each shape's calls."""
    sums = dict.fromkeys(NO_LIBRARY, 0)
    for _, _, functions, _, alone, own in cases:
        if not own:
            continue
        best = min(functions, key=lambda k: statistics.median(alone[k]))
        sums["pointsman"] += sum(own)
        sums["pointsman_late"] += sum(late(own))
        sums["oracle"] += sum(alone[best])
        sums["oracle_late"] += sum(late(alone[best]))
        sums["hindsight"] += min(sum(times) for times in alone.values())
        for library in {k for case in cases for k in case[2]}:
            # Where a library has no variant, NumPy stands in.
            sums[library] = sums.get(library, 0) + sum(alone.get(library, alone["numpy"]))
    return sums


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--calls", type=int, default=100_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--budget", type=float, default=0.01, help="share of the time that trials may cost")
    options.add_argument("--settle", type=int, default=1_000, help="calls of the libraries alone, before the stream")
    options.add_argument(
        "--without", action="append", default=[], choices=["numba", "jax", "torch"], help="a library that takes no part"
    )
    options.add_argument("--json", action="store_true")
    options = options.parse_args()
    cases, _ = play(options.calls, options.seed, options.budget, options.settle, options.without)
    groups = {"all": cases}
    for case in cases:
        groups.setdefault(case[0], []).append(case)
    figures = {}
    for group, members in groups.items():
        sums = total(members)
        figures[group] = {k: v / sums["oracle"] for k, v in sums.items()}
    if options.json:
        print(json.dumps(figures))
        return
    print(f"{options.calls} calls, {len(cases)} shapes; total time ÷ oracle")
    for group, ratios in figures.items():
        fixed = ", ".join(f"{k} {v:.2f}" for k, v in sorted(ratios.items()) if k not in NO_LIBRARY)
        late = ratios["pointsman_late"] / ratios["oracle_late"]
        best = ratios["pointsman"] / ratios["hindsight"]
        print(
            f"  {group:8} pointsman {ratios['pointsman']:.3f}, second half {late:.3f}, ÷ hindsight {best:.3f}"
            f"    always {fixed}"
        )
    best = min(v for k, v in figures["all"].items() if k not in NO_LIBRARY)
    met = figures["all"]["pointsman"] <= 1.05
    print(f"bar 1.05: {'met' if met else 'missed'}; the best fixed choice takes {best:.2f}")


if __name__ == "__main__":
    main()
