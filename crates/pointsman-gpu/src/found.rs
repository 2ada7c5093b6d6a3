//! Which GPUs there are, looked at once per process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::time::Duration;

use crate::device::Gpu;
use crate::info::Info;

/// How long a GPU may take for one call, unless told otherwise. Long enough for any sensible kernel
/// even on a software driver: it is there for devices that will never answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The GPUs of this machine.
#[derive(Clone, Debug, Default)]
pub struct Gpus {
    /// Those that can be used, discrete ones first; number N is `gpu:N`.
    pub found: Vec<Gpu>,
    /// Why others, or all of them, cannot.
    pub missing: Vec<String>,
}

/// The GPUs of this machine, found at the first call. No device is made yet.
///
/// `POINTSMAN_DISABLE=gpu` keeps every driver from being loaded.
pub fn gpus() -> &'static Gpus {
    static GPUS: OnceLock<Gpus> = OnceLock::new();
    GPUS.get_or_init(|| match disabled(std::env::var("POINTSMAN_DISABLE")) {
        true => Gpus {
            found: Vec::new(),
            missing: vec!["POINTSMAN_DISABLE says not to look for any".to_owned()],
        },
        false => open(PATIENCE),
    })
}

/// Whether `gpu` itself is disabled, not just one variant or one of several.
fn disabled(rules: Result<String, std::env::VarError>) -> bool {
    rules.is_ok_and(|rules| rules.split(',').any(|rule| rule.trim() == "gpu"))
}

/// Looks for GPUs anew, to be used apart from those that [`gpus`] knows. Each may take this long for
/// one call.
pub fn open(patience: Duration) -> Gpus {
    // A driver that panics while it is asked is a driver that is not there.
    let asked = catch_unwind(AssertUnwindSafe(adapters));
    let Ok(mut adapters) = asked else {
        return Gpus {
            found: Vec::new(),
            missing: vec!["the drivers could not be asked".to_owned()],
        };
    };
    // A stable order: numbers are kept in stores and in people's heads.
    adapters.sort_by_key(|(_, info)| (info.kind, info.name.clone(), info.bus.clone()));
    let mut gpus = Gpus::default();
    let mut seen: Vec<Info> = Vec::new();
    for (adapter, info) in adapters {
        // One card, reached through two interfaces.
        if seen
            .iter()
            .any(|s| s.name == info.name && s.api != info.api)
        {
            continue;
        }
        match info.too_small(&adapter.limits()) {
            Some(why) => gpus.missing.push(format!("{info} is too small: {why}")),
            None if gpus.found.len() > usize::from(u8::MAX) => {
                gpus.missing
                    .push(format!("{info}: 256 GPUs are used already"));
            }
            None => {
                let number = gpus.found.len() as u8;
                seen.push(info.clone());
                gpus.found.push(Gpu::new(number, adapter, info, patience));
            }
        }
    }
    if gpus.found.is_empty() && gpus.missing.is_empty() {
        gpus.missing.push(NONE.to_owned());
    }
    gpus
}

/// What to do about it, too.
const NONE: &str = if cfg!(target_os = "linux") {
    "no Vulkan driver found (on Debian, mesa-vulkan-drivers has them for most GPUs and one that \
     computes on the CPU)"
} else if cfg!(target_os = "macos") {
    "no Metal device found"
} else {
    "no Vulkan or DX12 driver found"
};

fn adapters() -> Vec<(wgpu::Adapter, Info)> {
    let backends = wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12;
    let mut wanted = wgpu::InstanceDescriptor::new_without_display_handle();
    wanted.backends = backends;
    // No debug layers, whatever the environment of a debug build says.
    wanted.flags = wgpu::InstanceFlags::empty();
    let instance = wgpu::Instance::new(wanted);
    let adapters = pollster::block_on(instance.enumerate_adapters(backends));
    let described = |adapter: wgpu::Adapter| {
        let info = Info::of(&adapter);
        (adapter, info)
    };
    adapters.into_iter().map(described).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_backend_keeps_drivers_from_being_loaded() {
        let rules = |text: &str| disabled(Ok(text.to_owned()));
        assert!(rules("gpu") && rules("threads, gpu"));
        assert!(!rules("gpu:1") && !rules("matmul_f32=gpu") && !rules(""));
        assert!(!disabled(Err(std::env::VarError::NotPresent)));
    }
}
