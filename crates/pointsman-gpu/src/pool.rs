//! Buffers, kept for the next call within bounds: to make one takes longer than a small kernel.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::device::Device;
use crate::error::Error;

/// Bytes that are kept for later at most.
const MOST_KEPT: u64 = 256 << 20;

/// Smallest buffer: there are many small ones, and they should fit each other's calls.
const SMALLEST: u64 = 256;

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Use {
    /// Kernels read and write it.
    Data,
    /// The parameters of a call.
    Params,
    /// The host reads it.
    Readback,
}

impl Use {
    fn usages(self) -> wgpu::BufferUsages {
        use wgpu::BufferUsages as U;
        match self {
            Use::Data => U::STORAGE | U::COPY_SRC | U::COPY_DST,
            Use::Params => U::UNIFORM | U::COPY_DST,
            Use::Readback => U::MAP_READ | U::COPY_DST,
        }
    }
}

/// The buffers of a device that nobody uses.
#[derive(Clone, Default)]
pub(crate) struct Pool {
    idle: Arc<Mutex<Idle>>,
}

#[derive(Default)]
struct Idle {
    buffers: HashMap<(Use, u64), Vec<wgpu::Buffer>>,
    bytes: u64,
}

/// A buffer on a GPU. It goes back to the pool when the last clone is dropped.
#[derive(Clone)]
pub struct Held(Arc<Lent>);

struct Lent {
    buffer: wgpu::Buffer,
    purpose: Use,
    pool: Pool,
    /// Number of the device it lives on.
    device: u64,
    /// Bytes that were asked for.
    bytes: u64,
}

/// The size class: powers of two and the halves between, so that at most a third is wasted.
fn class(bytes: u64) -> Option<u64> {
    let power = bytes.max(SMALLEST).checked_next_power_of_two()?;
    let between = power / 4 * 3;
    Some(if bytes <= between && between >= SMALLEST {
        between
    } else {
        power
    })
}

impl Pool {
    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A buffer of at least so many bytes; what it holds is anybody's guess.
    pub(crate) fn take(&self, device: &Device, purpose: Use, bytes: u64) -> Result<Held, Error> {
        let most = device.device.limits().max_buffer_size;
        let Some(size) = class(bytes).filter(|_| bytes <= most) else {
            return Err(Error::Refused(format!(
                "a buffer of {bytes} bytes; {most} is the most"
            )));
        };
        let size = size.min(most);
        let kept = {
            let mut idle = self.idle();
            let found = idle.buffers.get_mut(&(purpose, size)).and_then(Vec::pop);
            idle.bytes -= if found.is_some() { size } else { 0 };
            found
        };
        let buffer = match kept {
            Some(buffer) => buffer,
            None => make(device, purpose, size).or_else(|_| {
                // Perhaps what is kept for later is what is missing now.
                self.clear();
                make(device, purpose, size)
            })?,
        };
        Ok(Held(Arc::new(Lent {
            buffer,
            purpose,
            pool: self.clone(),
            device: device.number,
            bytes,
        })))
    }

    fn clear(&self) {
        *self.idle() = Idle::default();
    }

    fn give_back(&self, buffer: wgpu::Buffer, purpose: Use) {
        let size = buffer.size();
        let mut idle = self.idle();
        if idle.bytes + size <= MOST_KEPT {
            idle.bytes += size;
            idle.buffers
                .entry((purpose, size))
                .or_default()
                .push(buffer);
        }
    }
}

fn make(device: &Device, purpose: Use, size: u64) -> Result<wgpu::Buffer, Error> {
    let scope = device
        .device
        .push_error_scope(wgpu::ErrorFilter::OutOfMemory);
    let buffer = device.device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size,
        usage: purpose.usages(),
        mapped_at_creation: false,
    });
    match pollster::block_on(scope.pop()) {
        None => Ok(buffer),
        Some(_) => Err(Error::OutOfMemory { bytes: size }),
    }
}

impl Held {
    pub(crate) fn buffer(&self) -> &wgpu::Buffer {
        &self.0.buffer
    }

    /// Number of the device it lives on.
    pub(crate) fn device(&self) -> u64 {
        self.0.device
    }

    /// Bytes of data in it.
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.pool.give_back(self.buffer.clone(), self.purpose);
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes on a GPU", self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_waste_a_third_at_most_and_never_overflow() {
        for bytes in [0, 1, 255, 256, 257, 384, 385, 1000, 1 << 20, (1 << 30) + 1] {
            let size = class(bytes).unwrap();
            assert!(size >= bytes && size.is_multiple_of(4), "{bytes}: {size}");
            assert!(bytes < 256 || size * 2 <= bytes * 3, "{bytes}: {size}");
        }
        assert_eq!(class(u64::MAX), None);
    }

    #[test]
    fn p7_what_is_kept_for_later_is_bounded() {
        let gpus = crate::open(std::time::Duration::from_secs(30));
        let Some(gpu) = gpus.found.first() else {
            return println!("SKIPPED, no GPU: {:?}", gpus.missing);
        };
        let device = gpu.device().unwrap();
        let kept = || device.pool.idle().bytes;
        let room = |n: usize| gpu.run(|job| (0..n).map(|_| job.room::<u8>(32 << 20)).collect());
        let held: Vec<Held> = room(3).unwrap();
        assert_eq!(kept(), 0);
        drop(held);
        assert_eq!(kept(), 3 * (32 << 20));
        let held: Vec<Held> = room(2).unwrap();
        assert_eq!(kept(), 32 << 20, "kept ones are used first");
        drop(held);
        let held: Vec<Held> = room(12).unwrap();
        drop(held);
        assert_eq!(kept(), MOST_KEPT);
    }
}
