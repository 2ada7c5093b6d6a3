//! Kernels made ready in the background: to compile one takes from milliseconds to half a minute, and
//! nobody who has another variant waits for it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::device::{Device, Gpu};
use crate::error::Error;
use crate::exit::{self, UnderWay};
use crate::job::Job;
use crate::kernel::Kernel;

/// How long a kernel may take to compile. Half a minute has been seen.
const PATIENCE: Duration = Duration::from_secs(120);

/// The kernels of a GPU.
#[derive(Default)]
pub(crate) struct Kernels {
    known: Mutex<HashMap<&'static str, Arc<Compiled>>>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Prepared>,
    busy: bool,
}

pub(crate) struct Compiled {
    kernel: &'static Kernel,
    /// Number of the device it is ready on; 0 before it is.
    ready: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pipeline: Option<(u64, wgpu::ComputePipeline)>,
    /// Asked for, but not there yet.
    waits: bool,
    failed: Option<Error>,
}

/// A kernel on a GPU: cheap to ask whether it can be used now.
#[derive(Clone)]
pub struct Prepared {
    gpu: Gpu,
    compiled: Arc<Compiled>,
}

impl Compiled {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Kernels {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Gpu {
    /// This kernel on this GPU. Nothing is compiled yet.
    pub fn prepared(&self, kernel: &'static Kernel) -> Prepared {
        let known = &self.inner.kernels.known;
        let mut known = known.lock().unwrap_or_else(|e| e.into_inner());
        let compiled = known.entry(kernel.name).or_insert_with(|| {
            Arc::new(Compiled {
                kernel,
                ready: AtomicU64::new(0),
                state: Mutex::default(),
            })
        });
        Prepared {
            gpu: self.clone(),
            compiled: compiled.clone(),
        }
    }

    /// The pipeline of a kernel, compiled now if it was not before.
    pub(crate) fn pipeline(
        &self,
        device: &Device,
        kernel: &'static Kernel,
    ) -> Result<wgpu::ComputePipeline, Error> {
        self.prepared(kernel).pipeline(device)
    }
}

impl Prepared {
    /// Whether a call can use it at once. If not, it is made ready in the background, the GPU's
    /// device included.
    #[inline]
    pub fn is_ready(&self) -> bool {
        let ready = self.compiled.ready.load(Relaxed);
        (ready != 0 && ready == self.gpu.live()) || self.ask()
    }

    /// Why it cannot be used, in words.
    pub fn why_not(&self) -> Option<String> {
        if self.is_ready() {
            return None;
        }
        if let Some(error) = self.gpu.rests() {
            return Some(error.to_string());
        }
        let state = self.compiled.state();
        Some(match &state.failed {
            Some(error) => error.to_string(),
            None => "its kernel is being compiled".to_owned(),
        })
    }

    /// Makes it ready and waits for that.
    pub fn prepare(&self) -> Result<(), Error> {
        let device = self.gpu.device()?;
        let done = device.guarded(|| self.warm(&device));
        match &done {
            Ok(()) => {}
            Err(error) if error.breaks_device() => self.gpu.broke(&device, error),
            Err(error) => self.compiled.state().failed = Some(error.clone()),
        }
        done
    }

    #[cold]
    fn ask(&self) -> bool {
        if self.gpu.rests().is_some() {
            return false;
        }
        let mut state = self.compiled.state();
        if state.waits || state.failed.is_some() {
            return false;
        }
        state.waits = true;
        drop(state);
        exit::watch();
        let mut queue = self.gpu.inner.kernels.queue();
        queue.waiting.push_back(self.clone());
        if !queue.busy {
            let gpu = self.gpu.clone();
            let started = std::thread::Builder::new()
                .name("pointsman-gpu-compile".into())
                .spawn(move || work(gpu));
            queue.busy = started.is_ok();
        }
        false
    }

    /// Compiles the kernel and runs it once on nothing: some drivers compile at the first run.
    fn warm(&self, device: &Device) -> Result<(), Error> {
        if self.compiled.ready.load(Relaxed) == device.number {
            return Ok(());
        }
        self.pipeline(device)?;
        let kernel = self.compiled.kernel;
        let mut job = Job::patient(&self.gpu, device, PATIENCE);
        let mut room = Vec::new();
        for _ in 0..kernel.buffers {
            room.push(job.room::<u32>(64)?);
        }
        let buffers: Vec<_> = room.iter().collect();
        job.dispatch(kernel, &buffers, &[0; 16], [1, 1, 1])?;
        job.finish()?;
        self.compiled.ready.store(device.number, Relaxed);
        Ok(())
    }

    fn pipeline(&self, device: &Device) -> Result<wgpu::ComputePipeline, Error> {
        // Held while it compiles: who needs the same kernel waits for it here.
        let mut state = self.compiled.state();
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        if let Some((number, pipeline)) = &state.pipeline
            && *number == device.number
        {
            return Ok(pipeline.clone());
        }
        let made = compile(device, self.compiled.kernel);
        match &made {
            Ok(pipeline) => state.pipeline = Some((device.number, pipeline.clone())),
            Err(error) => state.failed = Some(error.clone()),
        }
        made
    }
}

/// Makes ready what waits, then ends.
fn work(gpu: Gpu) {
    let Some(until_dropped) = UnderWay::begin() else {
        return std::mem::forget(gpu); // to drop it may end a device
    };
    // Dropped before what it must not outlive.
    let gpu = gpu;
    while until_dropped.goes_on() {
        let next = {
            let mut queue = gpu.inner.kernels.queue();
            let next = queue.waiting.pop_front();
            queue.busy = next.is_some();
            next
        };
        let Some(prepared) = next else { return };
        if let Err(error) = prepared.prepare() {
            let kernel = prepared.compiled.kernel.name;
            tracing::warn!(gpu = %gpu.backend(), kernel, %error, "no kernel");
        }
        prepared.compiled.state().waits = false;
    }
}

fn compile(device: &Device, kernel: &Kernel) -> Result<wgpu::ComputePipeline, Error> {
    let scope = device
        .device
        .push_error_scope(wgpu::ErrorFilter::Validation);
    let module = device
        .device
        .create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some(kernel.name),
            source: wgpu::ShaderSource::Wgsl(kernel.source.into()),
        });
    let pipeline = device
        .device
        .create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(kernel.name),
            layout: None,
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                // Kernels write what they share before they read it.
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: None,
        });
    match pollster::block_on(scope.pop()) {
        None => Ok(pipeline),
        Some(error) => Err(Error::Refused(format!("{}: {error}", kernel.name))),
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on {}", self.compiled.kernel.name, self.gpu.backend())
    }
}
