"""Ready operations on NumPy arrays, each with several variants that are chosen by themselves."""

from collections.abc import Callable, Sequence
from typing import Any, final, Literal, overload, TypeVar

import numpy as np
from numpy.typing import NDArray

from ._core import Explanation, Stats

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

_T = TypeVar("_T", np.float32, np.float64)
_Activation = Literal["identity", "relu"] | None

@final
class Csr:
    """A sparse matrix."""

    def __new__(
        cls,
        shape: tuple[int, int],
        offsets: Sequence[int] | NDArray[np.integer[Any]],
        indices: Sequence[int] | NDArray[np.integer[Any]],
        values: NDArray[np.float32] | NDArray[np.float64],
        *,
        padded: bool = True,
    ) -> Csr: ...
    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def nonzeros(self) -> int: ...

def add(x: NDArray[_T], y: NDArray[_T]) -> NDArray[_T]: ...
def axpy(a: float, x: NDArray[_T], y: NDArray[_T]) -> None: ...
def caputo_l1(order: float, step: float, x: NDArray[_T]) -> NDArray[_T]: ...
def conv2d(x: NDArray[_T], filters: NDArray[_T], *, stride: int = 1, padding: int = 0) -> NDArray[_T]: ...
@overload
def dense(
    x: NDArray[_T], w: NDArray[_T], b: NDArray[_T], activation: _Activation = None, *, sums: Literal[False] = False
) -> NDArray[_T]: ...
@overload
def dense(
    x: NDArray[_T], w: NDArray[_T], b: NDArray[_T], activation: _Activation = None, *, sums: Literal[True]
) -> tuple[NDArray[_T], NDArray[_T]]: ...
def dense_backward(
    x: NDArray[_T], w: NDArray[_T], sums: NDArray[_T], dy: NDArray[_T], activation: _Activation = None
) -> tuple[NDArray[_T], NDArray[_T], NDArray[_T]]: ...
def dot(x: NDArray[_T], y: NDArray[_T]) -> float: ...
def exp(x: NDArray[_T]) -> NDArray[_T]: ...
def explain(name: str, shape: Sequence[int]) -> Explanation: ...
def fft(x: NDArray[Any]) -> NDArray[Any]: ...
def fode(
    rhs: Callable[[float, float], float], order: float, start: Sequence[float], step: float, n: int
) -> NDArray[np.float64]: ...
def grunwald_letnikov(order: float, step: float, x: NDArray[_T]) -> NDArray[_T]: ...
def ifft(x: NDArray[Any]) -> NDArray[Any]: ...
def matmul(a: NDArray[_T], b: NDArray[_T]) -> NDArray[_T]: ...
def matvec(a: NDArray[_T], x: NDArray[_T]) -> NDArray[_T]: ...
def names() -> list[str]: ...
def norm(x: NDArray[_T]) -> float: ...
def relu(x: NDArray[_T]) -> NDArray[_T]: ...
def scale(a: float, x: NDArray[_T]) -> None: ...
def sort(x: NDArray[_T]) -> NDArray[_T]: ...
def spmv(a: Csr, x: NDArray[_T]) -> NDArray[_T]: ...
def stats(name: str) -> Stats: ...
def sum(x: NDArray[_T]) -> float: ...
