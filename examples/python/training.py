"""A training loop whose batches change in size: a layer's forward and backward pass are ops.

    python examples/python/training.py [--small]
"""

import sys

import numpy as np

import pointsman
from pointsman import ops


@pointsman.op(name="example.forward", reference="numpy", check=True, rtol=1e-3, atol=1e-4)
def forward(x, w, b):
    sums = x @ w + b
    return np.maximum(sums, 0), sums


@forward.variant("ops")
def forward_ops(x, w, b):
    return ops.dense(x, w, b, "relu", sums=True)


@pointsman.op(name="example.backward", reference="numpy", check=True, rtol=1e-3, atol=1e-4)
def backward(x, w, sums, dy):
    ds = dy * (sums > 0)
    return ds @ w.T, x.T @ ds, ds.sum(0)


@backward.variant("ops")
def backward_ops(x, w, sums, dy):
    return ops.dense_backward(x, w, sums, dy, "relu")


def main(steps, width):
    """Fits a layer to the absolute values of its inputs' sums."""
    random = np.random.default_rng(1)
    w = random.standard_normal((width, 8)).astype(np.float32) / 8
    b = np.zeros(8, np.float32)
    losses = []
    for _ in range(steps):
        batch = int(2 ** random.uniform(0, 8))
        x = random.standard_normal((batch, width)).astype(np.float32)
        target = np.abs(x.sum(1, keepdims=True)).repeat(8, 1)
        y, sums = forward(x, w, b)
        dy = 2 * (y - target) / batch
        _, dw, db = backward(x, w, sums, dy.astype(np.float32))
        w -= np.float32(0.002) * dw
        b -= np.float32(0.002) * db
        losses.append(float(np.mean((y - target) ** 2)))
    tenth = max(steps // 10, 1)
    print(f"loss {np.mean(losses[:tenth]):.2f} → {np.mean(losses[-tenth:]):.2f}")
    print(forward.stats())
    print(backward.stats())


if __name__ == "__main__":
    main(300, 16) if "--small" in sys.argv else main(5000, 64)
