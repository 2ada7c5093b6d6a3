"""Dot and matrix products over NumPy, Numba, JAX, PyTorch and pointsman.ops: whichever are installed.

    python examples/python/libraries.py [--small]
"""

import sys

import numpy as np

import pointsman


def have(name):
    try:
        return __import__(name)
    except ImportError:
        return None


numba, jax, torch = have("numba"), have("jax"), have("torch")


@pointsman.op(name="example.dot", reference="numpy", check=True, rtol=1e-3, atol=1e-3)
def dot(x, y):
    return np.dot(x, y)


@pointsman.op(name="example.matmul", reference="numpy", check=True, rtol=1e-3, atol=1e-3)
def matmul(a, b):
    return a @ b


dot.variant("ops", pointsman.ops.dot)
matmul.variant("ops", pointsman.ops.matmul)

if numba:

    @dot.variant("numba", backend="numba")
    @numba.njit(fastmath=True)
    def dot_numba(x, y):
        total = 0.0
        for i in range(x.size):
            total += x[i] * y[i]
        return total


if jax:
    dot_jitted = jax.jit(lambda x, y: x @ y)
    matmul_jitted = jax.jit(lambda a, b: a @ b)

    @dot.variant("jax", backend="jax")
    def dot_jax(x, y):
        return np.asarray(dot_jitted(x, y))

    @matmul.variant("jax", backend="jax")
    def matmul_jax(a, b):
        return np.asarray(matmul_jitted(a, b))


if torch:

    @dot.variant("torch", backend="torch")
    def dot_torch(x, y):
        return torch.dot(torch.from_numpy(x), torch.from_numpy(y)).item()

    @matmul.variant("torch", backend="torch")
    def matmul_torch(a, b):
        return (torch.from_numpy(a) @ torch.from_numpy(b)).numpy()


def main(calls, sizes):
    random = np.random.default_rng(1)
    vectors = {n: random.standard_normal(n * n).astype(np.float32) for n in sizes}
    matrices = {n: x.reshape(n, n) for n, x in vectors.items()}
    for _ in range(calls):
        n = random.choice(sizes)
        dot(vectors[n], vectors[n])
        matmul(matrices[n], matrices[n])
    for n in sizes:
        print(dot.explain(vectors[n], vectors[n]))
        print(matmul.explain(matrices[n], matrices[n]))
    print(dot.stats())
    print(matmul.stats())


if __name__ == "__main__":
    if "--small" in sys.argv:
        main(200, [4, 32])
    else:
        main(5000, [4, 16, 64, 256, 512])
