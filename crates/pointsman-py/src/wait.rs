//! Asynchronous devices: their work is done before a clock is read.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::kinds::{self, Kind};

/// Containers within containers that are looked into.
const DEEPEST: u8 = 4;

/// Waits until this value has been computed. What goes wrong with it is the computation's error.
pub(crate) fn until_ready(value: &Bound<'_, PyAny>) -> PyResult<()> {
    inside(value, DEEPEST)
}

fn inside(value: &Bound<'_, PyAny>, depth: u8) -> PyResult<()> {
    let py = value.py();
    match kinds::kind(value) {
        Kind::Jax => {
            value.call_method0(intern!(py, "block_until_ready"))?;
        }
        Kind::Torch => {
            let device = value.getattr(intern!(py, "device"))?;
            let kind: String = device.getattr(intern!(py, "type"))?.extract()?;
            match kind.as_str() {
                "cuda" => {
                    let cuda = py.import("torch.cuda")?;
                    cuda.call_method1("synchronize", (device,))?;
                }
                "mps" => {
                    py.import("torch.mps")?.call_method0("synchronize")?;
                }
                _ => {}
            }
        }
        Kind::CuPy => {
            let stream = py.import("cupy.cuda")?.call_method0("get_current_stream")?;
            stream.call_method0("synchronize")?;
        }
        Kind::Tuple | Kind::List | Kind::Dict if depth > 0 => {
            if let Ok(items) = value.cast::<PyTuple>() {
                return items.iter().try_for_each(|item| inside(&item, depth - 1));
            }
            if let Ok(items) = value.cast::<PyList>() {
                return items.iter().try_for_each(|item| inside(&item, depth - 1));
            }
            if let Ok(items) = value.cast::<PyDict>() {
                let mut values = items.iter().map(|(_, value)| value);
                return values.try_for_each(|item| inside(&item, depth - 1));
            }
        }
        _ => {}
    }
    Ok(())
}

/// Whether a value, or the first of several, is JAX's.
pub(crate) fn is_jax(value: &Bound<'_, PyAny>) -> bool {
    match kinds::kind(value) {
        Kind::Jax => true,
        Kind::Tuple | Kind::List => {
            let first = value.get_item(0);
            first.is_ok_and(|first| kinds::kind(&first) == Kind::Jax)
        }
        _ => false,
    }
}
