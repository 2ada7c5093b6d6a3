//! The GPUs of this machine, as far as this build knows of them.

use pointsman::{Machine, SelectorBuilder};
use serde::Serialize;

/// A GPU as `doctor` shows it.
#[derive(Serialize)]
pub(crate) struct Device {
    pub(crate) backend: String,
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) api: String,
    pub(crate) driver: String,
    /// Free bytes, and where the figure comes from.
    pub(crate) free_bytes: u64,
    pub(crate) free_from: String,
    pub(crate) max_buffer_bytes: u64,
    pub(crate) max_binding_bytes: u64,
    pub(crate) max_invocations: u32,
    pub(crate) max_shared_bytes: u32,
}

#[cfg(feature = "gpu")]
pub(crate) use with::{announce, devices, machine, missing, prepare};
#[cfg(not(feature = "gpu"))]
pub(crate) use without::{announce, devices, machine, missing, prepare};

#[cfg(feature = "gpu")]
mod with {
    use super::*;
    use pointsman_ops::gpu;
    use pointsman_ops::gpu::devices::gpus;

    pub(crate) fn announce(builder: SelectorBuilder) -> SelectorBuilder {
        gpu::announce(builder)
    }

    pub(crate) fn machine() -> Machine {
        gpu::machine()
    }

    /// Compiles all kernels; says what could not be.
    pub(crate) fn prepare(tick: impl FnMut(&str)) -> Vec<String> {
        gpu::prepare(tick)
    }

    pub(crate) fn devices() -> Vec<Device> {
        let described = |gpu: &gpu::devices::Gpu| {
            let (info, free) = (gpu.info(), gpu.free());
            Device {
                backend: gpu.backend().to_string(),
                name: info.name.clone(),
                kind: info.kind.to_string(),
                api: info.api.clone(),
                driver: info.driver.clone(),
                free_bytes: free.bytes,
                free_from: free.source.to_string(),
                max_buffer_bytes: info.max_buffer_bytes,
                max_binding_bytes: info.max_binding_bytes,
                max_invocations: info.max_invocations,
                max_shared_bytes: info.max_shared_bytes,
            }
        };
        gpus().found.iter().map(described).collect()
    }

    /// Why there are no more.
    pub(crate) fn missing() -> Vec<String> {
        gpus().missing.clone()
    }
}

#[cfg(not(feature = "gpu"))]
mod without {
    use super::*;

    const WHY: &str = "this build has no feature `gpu`";

    pub(crate) fn announce(builder: SelectorBuilder) -> SelectorBuilder {
        builder
    }

    pub(crate) fn machine() -> Machine {
        Machine::detect().no_more_gpus(WHY)
    }

    pub(crate) fn prepare(_tick: impl FnMut(&str)) -> Vec<String> {
        Vec::new()
    }

    pub(crate) fn devices() -> Vec<Device> {
        Vec::new()
    }

    pub(crate) fn missing() -> Vec<String> {
        vec![WHY.to_owned()]
    }
}
