//! What one call does on a GPU.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytemuck::{AnyBitPattern, NoUninit};

use crate::device::{Device, Gpu};
use crate::error::Error;
use crate::kernel::Kernel;
use crate::pool::{Held, Use};

/// Work for a GPU: given to [`Gpu::run`], sent when a result is asked for, waited for at most as
/// long as its patience lasts.
pub struct Job<'d> {
    gpu: &'d Gpu,
    device: &'d Device,
    encoder: Option<wgpu::CommandEncoder>,
    /// What the work that is not yet sent uses. A buffer that went back to the pool before could
    /// be written to by the next call, and such writes overtake what is not yet sent.
    used: Vec<Held>,
    until: Instant,
}

impl<'d> Job<'d> {
    pub(crate) fn new(gpu: &'d Gpu, device: &'d Device) -> Self {
        Job::patient(gpu, device, gpu.inner.patience)
    }

    pub(crate) fn patient(gpu: &'d Gpu, device: &'d Device, patience: Duration) -> Self {
        Job {
            gpu,
            device,
            encoder: None,
            used: Vec::new(),
            until: Instant::now() + patience,
        }
    }

    /// Brings data to the GPU.
    pub fn upload<T: NoUninit>(&mut self, data: &[T]) -> Result<Held, Error> {
        let held = self.take(Use::Data, size_of_val(data) as u64)?;
        self.write(&held, bytemuck::cast_slice(data));
        Ok(held)
    }

    /// Room for so many elements; what it holds is anybody's guess.
    pub fn room<T: AnyBitPattern>(&mut self, elements: usize) -> Result<Held, Error> {
        let bytes = (elements as u64).checked_mul(size_of::<T>() as u64);
        self.take(Use::Data, bytes.unwrap_or(u64::MAX))
    }

    /// Adds a run of a kernel, in `groups` workgroups, after what was added before.
    pub fn dispatch(
        &mut self,
        kernel: &'static Kernel,
        buffers: &[&Held],
        params: &[u32],
        groups: [u32; 3],
    ) -> Result<(), Error> {
        let most = self.gpu.info().max_groups;
        if groups.iter().any(|n| *n > most) {
            let name = kernel.name;
            return Err(Error::Refused(format!(
                "{groups:?} workgroups of {name}; {most} is the most in each dimension"
            )));
        }
        let binding = self.gpu.info().max_binding_bytes;
        for held in buffers {
            if held.bytes() > binding {
                return Err(Error::Refused(format!(
                    "a kernel with a buffer of {} bytes; {binding} is the most",
                    held.bytes()
                )));
            }
            if held.device() != self.device.number {
                return Err(Error::Lost(
                    "its data was on a device that is gone".to_owned(),
                ));
            }
        }
        let pipeline = self.gpu.pipeline(self.device, kernel)?;
        let held = self.take(Use::Params, size_of_val(params).next_multiple_of(16) as u64)?;
        self.write(&held, bytemuck::cast_slice(params));
        let resources = std::iter::once(&held).chain(buffers.iter().copied());
        let entries: Vec<wgpu::BindGroupEntry<'_>> = resources
            .enumerate()
            .map(|(at, held)| wgpu::BindGroupEntry {
                binding: at as u32,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer: held.buffer(),
                    offset: 0,
                    size: std::num::NonZeroU64::new(bound(held)),
                }),
            })
            .collect();
        let group = self
            .device
            .device
            .create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some(kernel.name),
                layout: &pipeline.get_bind_group_layout(0),
                entries: &entries,
            });
        let mut pass = self.encoder().begin_compute_pass(&Default::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(groups[0], groups[1], groups[2]);
        drop(pass);
        self.used.push(held);
        self.used.extend(buffers.iter().map(|held| (*held).clone()));
        Ok(())
    }

    /// Adds a copy of what one buffer holds into another.
    pub fn copy(&mut self, from: &Held, to: &Held) -> Result<(), Error> {
        let bytes = from.bytes();
        if bytes > to.bytes() {
            return Err(Error::Refused(format!(
                "a copy of {bytes} bytes into a buffer of {}",
                to.bytes()
            )));
        }
        let padded = bytes.next_multiple_of(wgpu::COPY_BUFFER_ALIGNMENT);
        if padded > 0 {
            self.encoder()
                .copy_buffer_to_buffer(from.buffer(), 0, to.buffer(), 0, padded);
            self.used.extend([from.clone(), to.clone()]);
        }
        Ok(())
    }

    /// Workgroups of a dispatch at most, in each dimension.
    pub(crate) fn most_groups(&self) -> u32 {
        self.gpu.info().max_groups
    }

    /// Sends the work, waits for it, and brings data back.
    pub fn download<T: AnyBitPattern + NoUninit>(
        &mut self,
        from: &Held,
        into: &mut [T],
    ) -> Result<(), Error> {
        let bytes = size_of_val(into) as u64;
        if bytes > from.bytes() {
            return Err(Error::Refused(format!(
                "{bytes} bytes out of a buffer of {}",
                from.bytes()
            )));
        }
        if bytes == 0 {
            return self.finish();
        }
        let back = self.take(Use::Readback, bytes)?;
        let padded = bytes.next_multiple_of(wgpu::COPY_BUFFER_ALIGNMENT);
        self.encoder()
            .copy_buffer_to_buffer(from.buffer(), 0, back.buffer(), 0, padded);
        self.used.push(from.clone());
        let sent = self.send();
        let (tell, told) = mpsc::channel();
        let slice = back.buffer().slice(..padded);
        slice.map_async(wgpu::MapMode::Read, move |mapped| {
            let _ = tell.send(mapped);
        });
        if let Err(error) = self.wait(sent) {
            // It goes back to the pool, where nobody wants one that may be mapped any moment.
            back.buffer().unmap();
            return Err(error);
        }
        // Another thread that waits may have found this work done, and be about to say so.
        match told.recv_timeout(self.patience()) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(Error::Lost(error.to_string())),
            Err(mpsc::RecvTimeoutError::Timeout) => return Err(self.timed_out()),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(Error::Lost("it did not say whether it was done".to_owned()));
            }
        }
        let copied = match slice.get_mapped_range() {
            Ok(view) => {
                bytemuck::cast_slice_mut(into).copy_from_slice(&view[..bytes as usize]);
                Ok(())
            }
            Err(error) => Err(Error::Lost(error.to_string())),
        };
        back.buffer().unmap();
        copied
    }

    /// Sends the work and waits for it.
    pub fn finish(&mut self) -> Result<(), Error> {
        let sent = self.send();
        self.wait(sent)
    }

    fn take(&self, purpose: Use, bytes: u64) -> Result<Held, Error> {
        self.device.pool.take(self.device, purpose, bytes)
    }

    fn write(&self, held: &Held, bytes: &[u8]) {
        let whole = bytes.len() / 4 * 4;
        let queue = &self.device.queue;
        if whole > 0 {
            queue.write_buffer(held.buffer(), 0, &bytes[..whole]);
        }
        if whole < bytes.len() {
            // Writes come in words.
            let mut last = [0; 4];
            last[..bytes.len() - whole].copy_from_slice(&bytes[whole..]);
            queue.write_buffer(held.buffer(), whole as u64, &last);
        }
    }

    fn encoder(&mut self) -> &mut wgpu::CommandEncoder {
        self.encoder.get_or_insert_with(|| {
            self.device
                .device
                .create_command_encoder(&Default::default())
        })
    }

    /// Sends what was added, with what was written.
    fn send(&mut self) -> wgpu::SubmissionIndex {
        let work = self.encoder.take().map(|encoder| encoder.finish());
        let sent = self.device.queue.submit(work);
        self.used.clear();
        sent
    }

    /// How long it may still take.
    fn patience(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    fn timed_out(&self) -> Error {
        Error::TimedOut(self.gpu.inner.patience)
    }

    fn wait(&self, sent: wgpu::SubmissionIndex) -> Result<(), Error> {
        let waited = self.device.device.poll(wgpu::PollType::Wait {
            submission_index: Some(sent),
            timeout: Some(self.patience()),
        });
        match waited {
            Ok(_) => Ok(()),
            Err(wgpu::PollError::Timeout) => Err(self.timed_out()),
            // The work was never sent: the device is gone, which it tells who polls it, or the work
            // was not valid; why, the error scopes know.
            Err(error @ wgpu::PollError::WrongSubmissionIndex(..)) => {
                let _ = self.device.device.poll(wgpu::PollType::Poll);
                Err(Error::Refused(error.to_string()))
            }
        }
    }
}

/// Bytes of a buffer that a kernel sees: what was asked for, in whole quads of words, as kernels may
/// load them, and never nothing.
fn bound(held: &Held) -> u64 {
    let whole = held.bytes().next_multiple_of(16).max(16);
    whole.min(held.buffer().size())
}
