"""The native part of `pointsman`; see the package itself."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, final, Generic, Literal, overload, ParamSpec, TypeVar

from . import ops as ops

_P = ParamSpec("_P")
_R = TypeVar("_R")
_F = TypeVar("_F", bound=Callable[..., Any])

__version__: str

class NoVariantError(RuntimeError):
    """No variant may serve this call."""

class StoreError(RuntimeError):
    """What was learned could not be saved, read or forgotten."""

@final
class Workload:
    """The features of one call."""

    def __new__(
        cls,
        op: str,
        shape: float | Iterable[float] | None = None,
        *,
        dtype: Any = None,
        requires_grad: bool = False,
        iterative: bool = False,
        flops: float | None = None,
        bytes: float | None = None,
        memory: float | None = None,
        device: str | None = None,
    ) -> Workload: ...
    @property
    def op(self) -> str: ...
    @property
    def memory(self) -> int: ...
    @property
    def features(self) -> tuple[float, ...]: ...
    @property
    def size(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def requires_grad(self) -> bool: ...
    @property
    def iterative(self) -> bool: ...
    @property
    def flops(self) -> float: ...
    @property
    def bytes(self) -> float: ...
    @property
    def device(self) -> str: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

class _Report:
    def as_dict(self) -> dict[str, Any]: ...
    def __getattr__(self, name: str) -> Any: ...

@final
class Explanation(_Report):
    """Who serves a workload, and why. Prints as a table."""

    @property
    def op(self) -> str: ...
    @property
    def chosen(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def confidence(self) -> float: ...
    @property
    def mode(self) -> str: ...
    @property
    def policy(self) -> str: ...
    @property
    def variants(self) -> list[dict[str, Any]]: ...

@final
class Stats(_Report):
    """What choosing has cost so far, and what it was worth. Prints as a table."""

    @property
    def op(self) -> str: ...
    @property
    def calls(self) -> int: ...
    @property
    def samples(self) -> int: ...
    @property
    def trials(self) -> int: ...
    @property
    def failures(self) -> int: ...
    @property
    def quarantines(self) -> int: ...
    @property
    def checks(self) -> int: ...
    @property
    def variants(self) -> list[dict[str, Any]]: ...
    @property
    def recent(self) -> list[dict[str, Any]]: ...

@final
class Variant:
    """One implementation of an op."""

    @property
    def name(self) -> str: ...
    @property
    def backend(self) -> str: ...
    @property
    def requires_grad(self) -> bool: ...
    @property
    def function(self) -> Callable[..., Any]: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

@final
class Plan(Generic[_P, _R]):
    """An op for calls of one workload."""

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...

@final
class Op(Generic[_P, _R]):
    """An operation with several implementations."""

    __name__: str
    __wrapped__: Callable[_P, _R]
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    def __get__(self, object: Any, owner: Any = None, /) -> Callable[..., _R]: ...
    @overload
    def variant(
        self,
        name: str,
        function: None = None,
        *,
        backend: str | None = None,
        when: Callable[..., bool] | None = None,
        requires_grad: bool = True,
        min_size: int | None = None,
        max_size: int | None = None,
        dtypes: Iterable[Any] | None = None,
        memory: float | Callable[..., float] | None = None,
        wait: Literal["auto"] | Callable[[Any], Any] | None = "auto",
        compiles: Literal["auto", "types", "shapes"] | None = "auto",
        revision: int = 0,
    ) -> Callable[[_F], _F]: ...
    @overload
    def variant(
        self,
        name: str,
        function: _F,
        *,
        backend: str | None = None,
        when: Callable[..., bool] | None = None,
        requires_grad: bool = True,
        min_size: int | None = None,
        max_size: int | None = None,
        dtypes: Iterable[Any] | None = None,
        memory: float | Callable[..., float] | None = None,
        wait: Literal["auto"] | Callable[[Any], Any] | None = "auto",
        compiles: Literal["auto", "types", "shapes"] | None = "auto",
        revision: int = 0,
    ) -> _F: ...
    def explain(self, *args: _P.args, **kwargs: _P.kwargs) -> Explanation: ...
    def stats(self) -> Stats: ...
    def plan(self, *args: _P.args, **kwargs: _P.kwargs) -> Plan[_P, _R]: ...
    def workload(self, *args: _P.args, **kwargs: _P.kwargs) -> Workload: ...
    def measure(self, *args: Any, repeat: int = 10, **kwargs: Any) -> dict[str, dict[str, float]]: ...
    def reset(self) -> None: ...
    @property
    def variants(self) -> dict[str, Variant]: ...
    @property
    def name(self) -> str: ...
    @property
    def selector(self) -> Selector: ...

@overload
def op(function: Callable[_P, _R]) -> Op[_P, _R]: ...
@overload
def op(
    function: Callable[_P, _R],
    *,
    name: str | None = None,
    reference: str = "reference",
    backend: str | None = None,
    workload: Callable[..., Workload | float | Sequence[float]] | None = None,
    selector: Selector | None = None,
    requires_grad: bool = True,
    check: bool | Callable[[Any, Any], bool] | None = None,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    sample: Callable[[Workload], Any] | None = None,
    wait: Literal["auto"] | Callable[[Any], Any] | None = "auto",
    compiles: Literal["auto", "types", "shapes"] | None = "auto",
    revision: int = 0,
) -> Op[_P, _R]: ...
@overload
def op(
    function: None = None,
    *,
    name: str | None = None,
    reference: str = "reference",
    backend: str | None = None,
    workload: Callable[..., Workload | float | Sequence[float]] | None = None,
    selector: Selector | None = None,
    requires_grad: bool = True,
    check: bool | Callable[[Any, Any], bool] | None = None,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    sample: Callable[[Workload], Any] | None = None,
    wait: Literal["auto"] | Callable[[Any], Any] | None = "auto",
    compiles: Literal["auto", "types", "shapes"] | None = "auto",
    revision: int = 0,
) -> Callable[[Callable[_P, _R]], Op[_P, _R]]: ...

@final
class FakeClock:
    """A clock that moves only when it is told to: for tests."""

    def __new__(cls) -> FakeClock: ...
    def advance(self, seconds: float) -> None: ...

@final
class Decision:
    """A choice for a caller who runs the work and reports what happened, once."""

    @property
    def backend(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def confidence(self) -> float: ...
    @property
    def timed(self) -> bool: ...
    def took(self, seconds: float) -> None: ...
    def warm_up(self) -> None: ...
    def failed(self, why: str = ...) -> None: ...
    def cancel(self) -> None: ...

@final
class Selector:
    """Chooses backends, learns which are fastest, and keeps what it learned."""

    learning: bool
    def __new__(
        cls,
        *,
        store: str | os.PathLike[str] | None = None,
        mode: Literal["learn", "frozen", "reference"] | None = None,
        backends: Iterable[str] | Mapping[str, bool] | None = None,
        policy: str | None = None,
        budget: float | None = None,
        seed: int | None = None,
        memory: Callable[[str], float | None] | None = None,
        memory_reserve: float | None = None,
        force: str | None = None,
        disable: str | None = None,
        save_every: float | None = None,
        clock: FakeClock | None = None,
        environment: bool = True,
    ) -> Selector: ...
    def select(self, workload: Workload, preferred: str | None = None) -> str: ...
    def decide(self, workload: Workload, preferred: str | None = None) -> Decision: ...
    def run_with_fallback(
        self,
        workload: Workload,
        functions: dict[str, Callable[..., _R]],
        *args: Any,
        preferred: str | None = None,
        **kwargs: Any,
    ) -> _R: ...
    def record(self, workload: Workload, backend: str, seconds: float) -> None: ...
    def explain(self, workload: Workload, preferred: str | None = None) -> Explanation: ...
    def stats(self) -> list[Stats]: ...
    def summary(self) -> dict[str, Any]: ...
    def reset(self, op: str | None = None) -> None: ...
    def forget(self, op: str | None = None, *, timeout: float = 5.0) -> None: ...
    def flush(self, *, timeout: float = 5.0) -> None: ...
    def export_to(self, path: str | os.PathLike[str], *, timeout: float = 5.0) -> int: ...
    def import_from(self, path: str | os.PathLike[str], *, timeout: float = 5.0) -> int: ...
    def free_memory(self, backend: str) -> int | None: ...
    @property
    def mode(self) -> str: ...
    @property
    def policy(self) -> str: ...
    @property
    def store(self) -> str: ...
    @property
    def backends(self) -> list[str]: ...

def default_selector() -> Selector: ...
def select_backend(
    op: str,
    shape: float | Iterable[float],
    requires_grad: bool = False,
    *,
    dtype: Any = None,
    preferred: str | None = None,
) -> str: ...
def before_fork() -> None: ...
def after_fork_in_parent() -> None: ...
def after_fork_in_child() -> None: ...
def flush_all(seconds: float) -> None: ...
def say_warnings() -> None: ...
