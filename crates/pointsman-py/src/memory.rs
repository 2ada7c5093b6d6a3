//! Free memory of the host and of GPUs.

use nvml_wrapper::Nvml;
use pointsman::{Backend, HostMemory, Memory};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Asks the user's function, or the operating system and whoever knows the GPUs.
pub(crate) struct Free {
    pub(crate) asked: Option<Py<PyAny>>,
}

impl Memory for Free {
    fn free_bytes(&self, backend: Backend) -> Option<u64> {
        Python::attach(|py| match (&self.asked, backend) {
            (Some(asked), backend) => {
                let told = asked.bind(py).call1((backend.to_string(),));
                let told = told.and_then(|told| told.extract::<Option<f64>>());
                let told = told.map_err(|error| {
                    if error.is_instance_of::<PyKeyboardInterrupt>(py) {
                        return interrupt(py);
                    }
                    tracing::warn!(target: "pointsman", %backend, %error, "memory= failed: nothing fits there");
                });
                match told.ok()?? {
                    bytes if bytes >= 0.0 => Some(bytes as u64),
                    bytes => {
                        tracing::warn!(target: "pointsman", %backend, bytes, "memory= gave no number of bytes: nothing fits there");
                        None
                    }
                }
            }
            (None, Backend::Gpu(n)) => gpu(py, n),
            // NumPy, Numba and the like work on the host's memory.
            (None, _) => HostMemory.free_bytes(Backend::Scalar),
        })
    }
}

/// A request to stop that came while memory was asked for is made once more, for the caller: here nobody could answer it.
fn interrupt(py: Python<'_>) {
    let thread = py.import("_thread");
    // It has been there as long as Python has threads.
    let _ = thread.and_then(|thread| thread.call_method0("interrupt_main"));
}

/// Free memory of a GPU, from the first who knows: PyTorch or JAX if the program uses them, because
/// their pools count as used for everybody else, then NVIDIA's library.
fn gpu(py: Python<'_>, n: u8) -> Option<u64> {
    let loaded = py.import("sys").and_then(|sys| sys.getattr("modules"));
    let loaded = loaded.ok()?.cast_into::<PyDict>().ok()?;
    let module = |name: &str| loaded.get_item(name).ok().flatten();
    let torch = module("torch").and_then(|torch| torch_free(&torch, n).ok());
    torch
        .or_else(|| module("jax").and_then(|jax| jax_free(&jax, n).ok()))
        .or_else(|| nvidia_free(n))
}

fn torch_free(torch: &Bound<'_, PyAny>, n: u8) -> PyResult<u64> {
    let cuda = torch.getattr("cuda")?;
    let (free, _all): (u64, u64) = cuda.call_method1("mem_get_info", (n,))?.extract()?;
    Ok(free)
}

fn jax_free(jax: &Bound<'_, PyAny>, n: u8) -> PyResult<u64> {
    let device = jax.call_method1("devices", ("gpu",))?.get_item(n)?;
    let stats = device.call_method0("memory_stats")?;
    let limit: u64 = stats.get_item("bytes_limit")?.extract()?;
    let used: u64 = stats.get_item("bytes_in_use")?.extract()?;
    Ok(limit.saturating_sub(used))
}

/// NVIDIA's library counts all GPUs of the machine, a process those that it may see.
fn nvidia_free(n: u8) -> Option<u64> {
    let nvml = Nvml::init().ok()?;
    let device = match std::env::var("CUDA_VISIBLE_DEVICES") {
        Err(_) => nvml.device_by_index(u32::from(n)),
        Ok(visible) => {
            let name = visible.split(',').nth(usize::from(n))?.trim();
            match name.parse() {
                Ok(index) => nvml.device_by_index(index),
                Err(_) => nvml.device_by_uuid(name), // -1 and an empty name are none
            }
        }
    };
    Some(device.ok()?.memory_info().ok()?.free)
}
