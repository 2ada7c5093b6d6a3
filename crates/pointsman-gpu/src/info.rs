//! What a GPU is.

use std::fmt;

use serde::Serialize;

/// What kind of processor it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A card with memory of its own.
    Discrete,
    /// Part of the CPU, on the host's memory.
    Integrated,
    /// A share of one, in a virtual machine.
    Virtual,
    /// A driver that computes on the CPU, such as Mesa's lavapipe.
    Software,
    /// The driver does not say.
    Unknown,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Discrete => "discrete",
            Kind::Integrated => "integrated",
            Kind::Virtual => "virtual",
            Kind::Software => "software",
            Kind::Unknown => "unknown kind",
        })
    }
}

/// What is known of a GPU before a device is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Info {
    /// Its name.
    pub name: String,
    /// Discrete, integrated, software.
    pub kind: Kind,
    /// The driver and its version: another version may well be another speed.
    pub driver: String,
    /// The interface it is reached through: vulkan, metal, dx12.
    pub api: String,
    /// Its place on the PCI bus; empty where the driver does not say.
    pub bus: String,
    /// Bytes of the largest buffer.
    pub max_buffer_bytes: u64,
    /// Bytes of the largest buffer that a kernel can see.
    pub max_binding_bytes: u64,
    /// Invocations of a workgroup at most.
    pub max_invocations: u32,
    /// Bytes that a workgroup can share.
    pub max_shared_bytes: u32,
    /// Workgroups of a dispatch at most, in each dimension.
    pub max_groups: u32,
}

/// What the kernels need: the least that WebGPU promises of a device, except for bindings, of which
/// they take five.
const LEAST: (u32, u32, u32, u64) = (256, 16 << 10, 5, 128 << 20);

impl Info {
    pub(crate) fn of(adapter: &wgpu::Adapter) -> Self {
        let (info, limits) = (adapter.get_info(), adapter.limits());
        let driver = [info.driver.trim(), info.driver_info.trim()];
        let driver: Vec<&str> = driver.into_iter().filter(|s| !s.is_empty()).collect();
        Info {
            kind: match info.device_type {
                wgpu::DeviceType::DiscreteGpu => Kind::Discrete,
                wgpu::DeviceType::IntegratedGpu => Kind::Integrated,
                wgpu::DeviceType::VirtualGpu => Kind::Virtual,
                wgpu::DeviceType::Cpu => Kind::Software,
                wgpu::DeviceType::Other => Kind::Unknown,
            },
            driver: driver.join(" "),
            api: info.backend.to_string(),
            bus: info.device_pci_bus_id,
            name: info.name,
            max_buffer_bytes: limits.max_buffer_size,
            max_binding_bytes: limits.max_storage_buffer_binding_size,
            max_invocations: limits.max_compute_invocations_per_workgroup,
            max_shared_bytes: limits.max_compute_workgroup_storage_size,
            max_groups: limits.max_compute_workgroups_per_dimension,
        }
    }

    /// Why the kernels cannot run on it, if so.
    pub(crate) fn too_small(&self, limits: &wgpu::Limits) -> Option<String> {
        let bindings = limits.max_storage_buffers_per_shader_stage;
        let (invocations, shared, most_bindings, binding) = LEAST;
        let short = |what: &str, has: u64, needs: u64| {
            (has < needs).then(|| format!("{what}: it has {has}, {needs} are needed"))
        };
        short(
            "invocations of a workgroup",
            self.max_invocations.into(),
            invocations.into(),
        )
        .or_else(|| {
            short(
                "bytes shared by a workgroup",
                self.max_shared_bytes.into(),
                shared.into(),
            )
        })
        .or_else(|| {
            short(
                "storage buffers of a kernel",
                bindings.into(),
                most_bindings.into(),
            )
        })
        .or_else(|| short("bytes of a binding", self.max_binding_bytes, binding))
    }
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({}, {}, {})",
            self.name, self.kind, self.api, self.driver
        )
    }
}
