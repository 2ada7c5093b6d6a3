//! Free memory of a GPU, and where the figure comes from.

use std::fmt;
use std::sync::OnceLock;

use nvml_wrapper::Nvml;
use pointsman::{Backend, HostMemory, Memory};
use serde::Serialize;

use crate::device::Gpu;
use crate::found::Gpus;
use crate::info::{Info, Kind};

/// Where a figure about memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// NVIDIA's management library: what is free on the card now.
    Nvml,
    /// Vulkan's memory budget: what this process may still use.
    VulkanBudget,
    /// The GPU works on the host's memory; what is free there.
    Host,
    /// Nobody says: the largest buffer that the device allows.
    DeviceLimit,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Nvml => "free, by NVML",
            Source::VulkanBudget => "free, by Vulkan's memory budget",
            Source::Host => "free on the host, whose memory it uses",
            Source::DeviceLimit => "the largest buffer; the driver does not say what is free",
        })
    }
}

/// Free memory of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Free {
    /// Bytes.
    pub bytes: u64,
    /// Where that comes from.
    pub source: Source,
}

impl Gpu {
    /// Free memory now.
    pub fn free(&self) -> Free {
        let told = |bytes: Option<u64>, source| bytes.map(|bytes| Free { bytes, source });
        let info = self.info();
        told(by_nvml(info), Source::Nvml)
            .or_else(|| told(by_budget(&self.inner.adapter), Source::VulkanBudget))
            .or_else(|| told(of_host(info), Source::Host))
            .unwrap_or(Free {
                bytes: info.max_buffer_bytes,
                source: Source::DeviceLimit,
            })
    }
}

fn by_nvml(info: &Info) -> Option<u64> {
    static NVML: OnceLock<Option<Nvml>> = OnceLock::new();
    if info.bus.is_empty() {
        return None;
    }
    let nvml = NVML.get_or_init(|| Nvml::init().ok()).as_ref()?;
    let card = nvml.device_by_pci_bus_id(info.bus.as_str()).ok()?;
    card.memory_info().ok().map(|memory| memory.free)
}

/// Integrated and software devices share the host's memory; a limit on buffers holds all the same.
fn of_host(info: &Info) -> Option<u64> {
    match info.kind {
        Kind::Integrated | Kind::Software => HostMemory.free_bytes(Backend::Scalar),
        _ => None,
    }
}

#[cfg(any(target_os = "macos", target_os = "ios"))]
fn by_budget(_adapter: &wgpu::Adapter) -> Option<u64> {
    None
}

/// What Vulkan says this process may still use of the heaps on the device.
#[cfg(not(any(target_os = "macos", target_os = "ios")))]
fn by_budget(adapter: &wgpu::Adapter) -> Option<u64> {
    use ash::vk;
    // SAFETY: the adapter is only asked, and nothing of it outlives the guard.
    let adapter = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
    let has = adapter
        .physical_device_capabilities()
        .supports_extension(ash::ext::memory_budget::NAME);
    if !has {
        return None;
    }
    let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let mut asked = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
    let instance = adapter.shared_instance().raw_instance();
    // SAFETY: the physical device is one of this instance, which has Vulkan 1.1 or later, as wgpu
    // demands of devices with this extension; both structures live until the call returns.
    unsafe {
        instance.get_physical_device_memory_properties2(adapter.raw_physical_device(), &mut asked);
    }
    let heaps = asked.memory_properties;
    let free = heaps.memory_heaps[..heaps.memory_heap_count as usize]
        .iter()
        .zip(budget.heap_budget.iter().zip(&budget.heap_usage))
        .filter(|(heap, _)| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL))
        .map(|(_, (budget, usage))| budget.saturating_sub(*usage))
        .sum();
    Some(free)
}

/// The memory of GPUs and of the host, for [`SelectorBuilder::memory`].
///
/// [`SelectorBuilder::memory`]: pointsman::SelectorBuilder::memory
#[derive(Clone, Debug)]
pub struct GpuMemory(Vec<Gpu>);

impl From<&Gpus> for GpuMemory {
    fn from(gpus: &Gpus) -> Self {
        GpuMemory(gpus.found.clone())
    }
}

impl Memory for GpuMemory {
    fn free_bytes(&self, backend: Backend) -> Option<u64> {
        match backend {
            Backend::Gpu(_) => {
                let gpu = self.0.iter().find(|gpu| gpu.backend() == backend)?;
                Some(gpu.free().bytes)
            }
            other => HostMemory.free_bytes(other),
        }
    }
}
