"""Ready operations on NumPy arrays, each with several variants that are chosen by themselves.

Arrays are of float32 or float64 (for transforms also complex64 or complex128) and C-contiguous;
nothing is copied. Python's lock is released while they run.
"""

from . import _core

_ops = _core.ops

Csr = _ops.Csr
add = _ops.add
axpy = _ops.axpy
caputo_l1 = _ops.caputo_l1
conv2d = _ops.conv2d
dense = _ops.dense
dense_backward = _ops.dense_backward
dot = _ops.dot
exp = _ops.exp
explain = _ops.explain
fft = _ops.fft
fode = _ops.fode
grunwald_letnikov = _ops.grunwald_letnikov
ifft = _ops.ifft
matmul = _ops.matmul
matvec = _ops.matvec
names = _ops.names
norm = _ops.norm
relu = _ops.relu
scale = _ops.scale
sort = _ops.sort
spmv = _ops.spmv
stats = _ops.stats
sum = _ops.sum

__all__ = [
    "Csr",
    "add",
    "axpy",
    "caputo_l1",
    "conv2d",
    "dense",
    "dense_backward",
    "dot",
    "exp",
    "explain",
    "fft",
    "fode",
    "grunwald_letnikov",
    "ifft",
    "matmul",
    "matvec",
    "names",
    "norm",
    "relu",
    "scale",
    "sort",
    "spmv",
    "stats",
    "sum",
]
