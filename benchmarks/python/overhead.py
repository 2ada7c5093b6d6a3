"""What choosing costs from Python: nanoseconds per call beyond the direct call.

    python benchmarks/python/overhead.py [--rounds N] [--cold] [--json]

All contestants run in interleaved rounds of batches; a figure is the median, over the rounds, of what
a contestant took beyond the direct call of the same round. `usual` is the usual selector in pure Python,
written for this comparison: a dictionary of measurements per operation and size behind a lock, and the
lowest mean serves.

With --cold other work has used up the caches before each call, as between the calls of a real program: then it counts how
much code and memory a call touches. Beside it stands a function in Python that does nothing but call another.
"""

import argparse
import collections
import json
import os
import statistics
import threading
import time

os.environ.setdefault("POINTSMAN_STORE", "memory")

import numpy as np  # noqa: E402

import pointsman  # noqa: E402

BATCH, COLD_BATCH = 2000, 50


class Usual:
    """The usual selector: history per (operation, size, backend), lowest mean, one lock."""

    def __init__(self, backends):
        self.lock = threading.Lock()
        self.backends = backends
        self.history = {}
        self.recent = collections.deque(maxlen=1000)

    def select(self, op, shape, requires_grad=False):
        with self.lock:
            best, lowest = self.backends[0], float("inf")
            for backend in self.backends:
                if requires_grad and backend in ("numpy", "numba"):
                    continue
                total, count = self.history.get((op, shape, backend), (0.0, 0))
                if count >= 5 and total / count < lowest:
                    best, lowest = backend, total / count
            self.recent.append((op, best))
            return best

    def record(self, op, shape, backend, seconds):
        with self.lock:
            total, count = self.history.get((op, shape, backend), (0.0, 0))
            self.history[op, shape, backend] = (total + seconds, count + 1)

    def call(self, op, functions, x):
        backend = self.select(op, x.shape)
        start = time.perf_counter()
        result = functions[backend](x)
        self.record(op, x.shape, backend, time.perf_counter() - start)
        return result


def loop(body):
    """A batch of calls, timed."""
    names = {"body": body, "clock": time.perf_counter_ns}
    code = f"def run():\n s = clock()\n for _ in range({BATCH}):\n  body()\n return (clock() - s) / {BATCH}"
    exec(code, names)
    return names["run"]


def cold_loop(body):
    """The same between calls of something that needs the caches: the median."""
    elsewhere = np.ones(2**20, np.float32)
    clock = time.perf_counter_ns

    def run():
        took = []
        for _ in range(COLD_BATCH):
            elsewhere.sum()
            start = clock()
            body()
            took.append(clock() - start)
        return statistics.median(took)

    return run


def contestants():
    x = np.ones(32, np.float32)
    selector = pointsman.Selector(store="memory", environment=False)

    def first(x):
        return x

    def second(x):
        return [v + 0 for v in x] and x

    op = pointsman.op(first, name="bench", selector=selector, reference="first")
    op.variant("second", second)
    two = pointsman.op(lambda x, y: x, name="bench2", selector=selector)
    two.variant("second", lambda x, y: second(x))
    for _ in range(20_000):
        op(x)
        two(x, x)
    assert op.explain(x).chosen == "first"
    plan = op.plan(x)
    for _ in range(2_000):
        plan(x)
    w = pointsman.Workload("matmul", (64, 64), dtype="float32")
    usual = Usual(["numpy", "numba", "torch", "jax"])
    functions = dict.fromkeys(usual.backends, first)
    for backend in usual.backends:
        for _ in range(10):
            usual.record("bench", x.shape, backend, 1e-6)
            selector.record(w, "numpy", 1e-6)
    select = selector.select
    for _ in range(2_000):
        select(w)
        pointsman.select_backend("matmul", (64, 64))
    names = {"first": first, "op": op, "two": two, "plan": plan, "x": x, "w": w}
    names |= {"around": lambda x: first(x), "select": select, "usual": usual, "functions": functions, "pointsman": pointsman}

    def body(code):
        return eval(f"lambda: {code}", names)

    return {
        "direct": body("first(x)"),
        "a function around it": body("around(x)"),
        "op(x)": body("op(x)"),
        "op(x, y)": body("two(x, x)"),
        "plan(x)": body("plan(x)"),
        "usual: call": body("usual.call('bench', functions, x)"),
        "nothing": body("w"),
        "select(w)": body("select(w)"),
        "select_backend(op, shape)": body("pointsman.select_backend('matmul', (64, 64))"),
        "usual: select": body("usual.select('bench', x.shape)"),
    }


BARS = {"op(x)": 400, "op(x, y)": 400, "select(w)": 150}


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=100)
    options.add_argument("--cold", action="store_true", help="between calls that use the caches up")
    options.add_argument("--json", action="store_true")
    options = options.parse_args()
    make = cold_loop if options.cold else loop
    loops = {name: make(body) for name, body in contestants().items()}
    names = list(loops)
    beyond = {name: [] for name in names}
    base = {name: "direct" for name in names}
    base |= dict.fromkeys(names[names.index("nothing") :], "nothing")
    for turn in range(options.rounds):
        order = names[turn % len(names) :] + names[: turn % len(names)]
        took = {name: loops[name]() for name in order}
        for name in names:
            beyond[name].append(took[name] - (took[base[name]] if name != base[name] else 0))
    figures = {name: statistics.median(values) for name, values in beyond.items()}
    if options.json:
        print(json.dumps(figures))
        return
    print(f"nanoseconds per call beyond the direct call, median of {options.rounds} rounds")
    for name, ns in figures.items():
        if name == "nothing":
            continue
        bar = None if options.cold else BARS.get(name)
        note = "" if bar is None else f"  bar {bar}: {'met' if ns <= bar else 'missed'}"
        print(f"  {name:28} {ns:8.0f}{note}")


if __name__ == "__main__":
    main()
