//! GPUs for the ops: which there are for a selector, and how a variant runs on each.

mod resident;

use pointsman::{
    Available, Backend, BoxError, Cap, DType, Machine, Op, OpBuilder, OutOfMemory, Selector,
    SelectorBuilder, Workload,
};
use pointsman_gpu::{Error, Gpu, GpuMemory, Job, Kernel, Prepared, gpus};

use crate::Float;

pub use self::resident::{Resident, ResidentError};
pub use pointsman_gpu as devices;
pub use pointsman_gpu::DeviceArray;
pub(crate) use pointsman_gpu::kernels;

/// Size below which no GPU is asked: a launch takes microseconds, and so many elements a fraction of
/// one on any core.
const WORTH_A_LAUNCH: usize = 1024;

/// This machine with its GPUs, or with the reason why it has none.
pub fn machine() -> Machine {
    let gpus = gpus();
    let machine = Machine::detect().no_more_gpus(&gpus.missing.join("; "));
    gpus.found.iter().fold(machine, |machine, gpu| {
        machine.with_gpu(&gpu.info().name, &gpu.info().driver)
    })
}

/// Announces the GPUs of this machine to a selector: they belong to its fingerprint, their free
/// memory is known, and they are measured when the machine is. Ops that are declared on the selector
/// have variants for each of them.
///
/// ```
/// use pointsman::Selector;
/// use pointsman_ops::{Ops, gpu};
///
/// # let builder = Selector::builder().in_memory();
/// let selector = gpu::announce(builder).build()?;
/// let ops = Ops::<f32>::new(&selector)?;
/// // Without a GPU, the variant is there to say why it does not serve.
/// assert!(ops.dot.variants().any(|name| name == "gpu0"));
/// # Ok::<(), pointsman::BuildError>(())
/// ```
pub fn announce(builder: SelectorBuilder) -> SelectorBuilder {
    builder
        .machine(machine())
        .memory(GpuMemory::from(gpus()))
        .calibrate(|calibration| {
            for gpu in &gpus().found {
                let measured = gpu.calibrate().map_err(|error| error.to_string());
                let set = measured.and_then(|measured| {
                    let set = calibration.set(gpu.backend(), measured.into());
                    set.map_err(|error| error.to_string())
                });
                if let Err(error) = set {
                    tracing::warn!(gpu = %gpu.backend(), error, "not calibrated");
                }
            }
        })
}

/// Compiles all kernels for all GPUs and waits for that: for programs that measure at once. `tick` is
/// told which is next. Says what could not be compiled.
pub fn prepare(mut tick: impl FnMut(&str)) -> Vec<String> {
    let mut failed = Vec::new();
    for gpu in &gpus().found {
        for kernel in kernels::all() {
            tick(kernel.name());
            if let Err(error) = gpu.prepared(kernel).prepare() {
                failed.push(format!("{} on {}: {error}", kernel.name(), gpu.backend()));
            }
        }
    }
    failed
}

/// The kernels of a variant on one GPU.
struct Ready(Vec<Prepared>);

impl Available for Ready {
    #[inline]
    fn is_available(&self) -> bool {
        // All are asked, so that all are compiled.
        let both = |ready: bool, kernel: &Prepared| kernel.is_ready() & ready;
        self.0.iter().fold(true, both)
    }

    fn why_not(&self) -> String {
        let why = self.0.iter().find_map(Prepared::why_not);
        why.unwrap_or_else(|| "it has just become available".to_owned())
    }
}

/// A variant for GPUs, as an op declares it.
pub(crate) struct OnGpu {
    /// Its name after the number of the GPU: `""` gives `gpu0`, `"_tiles"` gives `gpu0_tiles`.
    pub(crate) suffix: &'static str,
    /// What it runs.
    pub(crate) kernels: Vec<&'static Kernel>,
    /// Bytes that a call takes on the device, temporaries included, and those of its largest buffer.
    pub(crate) bytes: fn(&Workload) -> [f64; 2],
}

impl OnGpu {
    /// A variant that takes as many bytes as its call.
    pub(crate) fn plain(kernels: impl Into<Vec<&'static Kernel>>) -> Self {
        OnGpu {
            suffix: "",
            kernels: kernels.into(),
            bytes: |workload| [workload.byte_count(), workload.byte_count()],
        }
    }

    /// Bytes that it takes on a GPU; more than there can be where a buffer is too large for a kernel.
    fn need(&self, gpu: &Gpu) -> impl Fn(&Workload) -> u64 + Send + Sync + use<> {
        let (bytes, most) = (self.bytes, gpu.info().max_binding_bytes as f64);
        move |workload| match bytes(workload) {
            [_, largest] if largest > most => u64::MAX,
            [all, _] => all as u64,
        }
    }
}

/// Adds the variant once for each GPU of the selector's machine. Without any, it is declared for the
/// first one all the same, so that explanations can say why it does not serve. The kernels are for
/// `f32`.
///
/// The body must write its results with the last of its downloads, and nothing before.
pub(crate) fn on_gpus<T: Float, O: Op>(
    selector: &Selector,
    builder: OpBuilder<O>,
    variant: OnGpu,
    body: impl for<'a> Fn(&mut Job<'_>, &mut O::Args<'a>) -> Result<O::Output, Error>
    + Copy
    + Send
    + Sync
    + 'static,
) -> OpBuilder<O> {
    on_gpus_if::<T, O>(selector, builder, variant, |builder| builder, body)
}

/// The same with further limits.
pub(crate) fn on_gpus_if<T: Float, O: Op>(
    selector: &Selector,
    mut builder: OpBuilder<O>,
    variant: OnGpu,
    limit: impl Fn(OpBuilder<O>) -> OpBuilder<O>,
    body: impl for<'a> Fn(&mut Job<'_>, &mut O::Args<'a>) -> Result<O::Output, Error>
    + Copy
    + Send
    + Sync
    + 'static,
) -> OpBuilder<O> {
    if T::DTYPE != DType::F32 {
        return builder;
    }
    let name = |n: u8| format!("gpu{n}{}", variant.suffix);
    let gpus = announced(selector);
    for gpu in gpus {
        let Backend::Gpu(n) = gpu.backend() else {
            continue;
        };
        let device = gpu.clone();
        let kernels = variant.kernels.iter();
        let ready = Ready(kernels.map(|kernel| gpu.prepared(kernel)).collect());
        builder = builder
            .try_variant(&name(n), gpu.backend(), move |args| {
                device.run(|job| body(job, args)).map_err(known)
            })
            .requires(Cap::Gpu(n))
            .min_size(WORTH_A_LAUNCH)
            .memory(variant.need(gpu))
            .available(ready)
            .untouched_on_error();
        builder = limit(builder);
    }
    if gpus.is_empty() {
        builder = builder
            .try_variant(&name(0), Backend::Gpu(0), |_| Err("there is no GPU"))
            .requires(Cap::Gpu(0))
            .untouched_on_error();
    }
    builder
}

/// The GPUs that were announced to a selector. If there are none, no driver need be loaded.
fn announced(selector: &Selector) -> &'static [Gpu] {
    match selector.machine().gpus.len() {
        0 => &[],
        n => &gpus().found[..n.min(gpus().found.len())],
    }
}

/// An error as the library knows it.
fn known(error: Error) -> BoxError {
    match error {
        Error::OutOfMemory { bytes } => OutOfMemory { bytes }.into(),
        other => other.into(),
    }
}
