//! Data that stays on a GPU between calls.

use std::marker::PhantomData;

use bytemuck::Pod;

use crate::device::Gpu;
use crate::error::Error;
use crate::job::Job;
use crate::pool::Held;

/// An array on a GPU. It lives there until the last clone is dropped or the device is lost, and it
/// is not changed: kernels write their results into new ones.
///
/// ```
/// use pointsman_gpu::{DeviceArray, gpus};
///
/// if let Some(gpu) = gpus().found.first() {
///     let x = DeviceArray::upload(gpu, &[1.0f32, 2.0, 3.0])?;
///     assert_eq!((x.len(), x.to_vec()?), (3, vec![1.0, 2.0, 3.0]));
/// }
/// # Ok::<(), pointsman_gpu::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DeviceArray<T> {
    gpu: Gpu,
    held: Held,
    elements: usize,
    of: PhantomData<T>,
}

impl<T: Pod> DeviceArray<T> {
    /// Brings data to a GPU and waits until it is there.
    pub fn upload(gpu: &Gpu, data: &[T]) -> Result<Self, Error> {
        gpu.run(|job| {
            let held = job.upload(data)?;
            job.finish()?;
            Ok(DeviceArray {
                gpu: gpu.clone(),
                held,
                elements: data.len(),
                of: PhantomData,
            })
        })
    }

    /// An array that a job writes: `work` is given room for so many elements.
    pub fn compute(
        gpu: &Gpu,
        elements: usize,
        work: impl FnOnce(&mut Job<'_>, &Held) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        gpu.run(|job| {
            let held = job.room::<T>(elements)?;
            work(job, &held)?;
            job.finish()?;
            Ok(DeviceArray {
                gpu: gpu.clone(),
                held,
                elements,
                of: PhantomData,
            })
        })
    }

    /// Brings it to the host.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        let mut data = vec![T::zeroed(); self.elements];
        self.gpu.run(|job| job.download(&self.held, &mut data))?;
        Ok(data)
    }

    /// How many elements it has.
    pub fn len(&self) -> usize {
        self.elements
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.elements == 0
    }

    /// The GPU it lives on.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Its buffer, for kernels.
    pub fn held(&self) -> &Held {
        &self.held
    }
}
