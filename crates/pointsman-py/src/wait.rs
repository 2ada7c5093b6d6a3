//! Asynchronous devices: their work is done before a clock is read.

use std::ops::ControlFlow;

use pyo3::intern;
use pyo3::prelude::*;

use crate::contents;
use crate::kinds::{self, Kind};

/// Waits until this value, or what is in it, has been computed. What goes wrong with it is the computation's error.
pub(crate) fn until_ready(value: &Bound<'_, PyAny>) -> PyResult<()> {
    one(kinds::kind(value), value)?;
    let failed = contents::each(value, 0, |kind, item| match one(kind, item) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    });
    failed.map_or(Ok(()), Err)
}

fn one(kind: Kind, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = value.py();
    match kind {
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
        _ => {}
    }
    Ok(())
}

/// Whether a value, or one in it, is JAX's.
pub(crate) fn is_jax(value: &Bound<'_, PyAny>) -> bool {
    let found = |kind, _: &Bound<'_, PyAny>| match kind {
        Kind::Jax => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    kinds::kind(value) == Kind::Jax || contents::each(value, 0, found).is_some()
}
