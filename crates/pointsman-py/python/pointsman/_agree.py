"""Whether two results are the same within rounding, whichever library they come from."""

import numpy as np


def within(rtol, atol):
    """A comparison with these tolerances, relative and absolute."""

    def agrees(expected, got):
        if isinstance(expected, (tuple, list)):
            if not isinstance(got, (tuple, list)) or len(expected) != len(got):
                return False
            return all(agrees(e, g) for e, g in zip(expected, got))
        if isinstance(expected, dict):
            if not isinstance(got, dict) or expected.keys() != got.keys():
                return False
            return all(agrees(expected[key], got[key]) for key in expected)
        e, g = _array(expected), _array(got)
        if e.shape != g.shape:
            return False
        if e.dtype.kind in "biufc" and g.dtype.kind in "biufc":
            return bool(np.allclose(g, e, rtol=rtol, atol=atol, equal_nan=True))
        return bool(np.all(e == g))

    return agrees


def _array(value):
    """A value as a NumPy array; PyTorch's may be on a device and carry gradients, and small floats are not NumPy's own."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if str(value.dtype).startswith(("torch.bfloat", "torch.float8")):
            value = value.float()
    elif type(value).__module__.startswith("cupy"):
        value = value.get()
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.name.startswith(("bfloat", "float8")) else array
