"""Sends each call to the fastest of several implementations, and learns from the calls.

>>> import numpy as np, pointsman
>>> @pointsman.op(name="doctest.total")
... def total(x):
...     return np.sum(x)
>>> @total.variant("builtin")
... def total_builtin(x):
...     return sum(x)
>>> float(total(np.ones(3)))
3.0
"""

import atexit as _atexit
import logging as _logging
import os as _os

from . import _core, ops
from ._core import (
    Decision,
    Explanation,
    FakeClock,
    Method,
    NoVariantError,
    Op,
    Plan,
    Selector,
    Stats,
    StoreError,
    Variant,
    Workload,
    __version__,
    default_selector,
    op,
    select_backend,
)

__all__ = [
    "Decision",
    "Explanation",
    "FakeClock",
    "Method",
    "NoVariantError",
    "Op",
    "Plan",
    "Selector",
    "Stats",
    "StoreError",
    "Variant",
    "Workload",
    "__version__",
    "default_selector",
    "op",
    "ops",
    "select_backend",
]

# What the last save at the end of a process may take, in seconds.
_LAST_SAVE = 1.0


def _save_at_exit():
    try:
        _core.flush_all(_LAST_SAVE)
    except StoreError as error:  # a program's end is no place to raise
        _logging.getLogger("pointsman").warning("what was learned last is not saved: %s", error)
    _core.say_warnings()


_atexit.register(_save_at_exit)
if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(
        before=_core.before_fork,
        after_in_parent=_core.after_fork_in_parent,
        after_in_child=_core.after_fork_in_child,
    )
