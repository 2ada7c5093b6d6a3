//! A GPU and the device that is made from it: one at a time, made when it is needed, made once more
//! when it is lost, then left alone for longer and longer.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use pointsman::Backend;

use crate::compile::Kernels;
use crate::error::Error;
use crate::exit::{self, UnderWay};
use crate::info::Info;
use crate::job::Job;
use crate::pool::Pool;

/// The first rest, after a device that was made anew has been lost, too; each further one is twice
/// as long.
const FIRST_REST: Duration = Duration::from_secs(1);

/// The longest rest: a GPU that comes back is found within the hour.
const LONGEST_REST: Duration = Duration::from_secs(3600);

/// One GPU: cheap to clone, to be shared by threads.
#[derive(Clone)]
pub struct Gpu {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    number: u8,
    info: Info,
    pub(crate) adapter: wgpu::Adapter,
    pub(crate) patience: Duration,
    slot: Mutex<Slot>,
    /// Number of the live device, 0 if there is none: what a call reads without the lock.
    live: AtomicU64,
    resting: AtomicBool,
    pub(crate) kernels: Kernels,
}

#[derive(Default)]
struct Slot {
    device: Option<Arc<Device>>,
    made: u64,
    /// Devices lost since the last call that went well.
    lost: u32,
    rests_until: Option<Instant>,
    why: String,
}

/// A device and what lives as long as it does.
pub(crate) struct Device {
    /// Counts the devices of a GPU, from 1.
    pub(crate) number: u64,
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) pool: Pool,
    lost: Arc<OnceLock<String>>,
}

impl Gpu {
    pub(crate) fn new(number: u8, adapter: wgpu::Adapter, info: Info, patience: Duration) -> Self {
        Gpu {
            inner: Arc::new(Inner {
                number,
                info,
                adapter,
                patience,
                slot: Mutex::default(),
                live: AtomicU64::new(0),
                resting: AtomicBool::new(false),
                kernels: Kernels::default(),
            }),
        }
    }

    /// The same GPU as another backend, with a device and kernels of its own: what a program with
    /// one GPU can try several with.
    pub fn again(&self, number: u8) -> Self {
        let inner = &self.inner;
        Gpu::new(
            number,
            inner.adapter.clone(),
            inner.info.clone(),
            inner.patience,
        )
    }

    /// Its backend.
    pub fn backend(&self) -> Backend {
        Backend::Gpu(self.inner.number)
    }

    /// What it is.
    pub fn info(&self) -> &Info {
        &self.inner.info
    }

    /// Runs kernels. Whatever goes wrong is an error; if the device was lost or did not answer, the
    /// next call gets another one.
    pub fn run<T>(&self, work: impl FnOnce(&mut Job<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let device = self.device()?;
        let done = device.guarded(|| work(&mut Job::new(self, &device)));
        match &done {
            Ok(_) => self.went_well(),
            Err(error) if error.breaks_device() => self.broke(&device, error),
            Err(_) => {}
        }
        done
    }

    /// Whether it rests after it was lost or did not answer, and why.
    pub fn rests(&self) -> Option<Error> {
        if !self.inner.resting.load(Relaxed) {
            return None;
        }
        self.slot().resting(Instant::now())
    }

    /// Ends its device as a driver that is reset does: for tests of what follows.
    pub fn lose(&self) {
        if let Some(device) = &self.slot().device {
            device.device.destroy();
        }
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.inner.slot.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Number of the live device; 0 if there is none.
    pub(crate) fn live(&self) -> u64 {
        self.inner.live.load(Relaxed)
    }

    /// The live device, made if there is none.
    pub(crate) fn device(&self) -> Result<Arc<Device>, Error> {
        let mut slot = self.slot();
        if let Some(device) = &slot.device {
            return Ok(device.clone());
        }
        if let Some(error) = slot.resting(Instant::now()) {
            return Err(error);
        }
        self.inner.resting.store(false, Relaxed);
        let number = slot.made + 1;
        match Device::make(&self.inner.adapter, number) {
            Ok(device) => {
                let device = Arc::new(device);
                slot.made = number;
                slot.device = Some(device.clone());
                self.inner.live.store(number, Relaxed);
                Ok(device)
            }
            Err(why) => {
                let error = Error::NoDevice(why);
                slot.lost += 1;
                self.rest(&mut slot, &error);
                Err(error)
            }
        }
    }

    /// The device cannot be used any further.
    pub(crate) fn broke(&self, device: &Arc<Device>, error: &Error) {
        let mut slot = self.slot();
        if slot
            .device
            .as_ref()
            .is_none_or(|d| d.number != device.number)
        {
            return; // somebody else was there first
        }
        self.inner.live.store(0, Relaxed);
        let broken = slot.device.take();
        slot.lost += 1;
        tracing::warn!(gpu = %self.backend(), %error, "the device is given up");
        self.rest(&mut slot, error);
        drop(slot);
        // To end a device waits for what it is at, which may be for ever.
        exit::watch();
        let _ = std::thread::Builder::new()
            .name("pointsman-gpu-end".into())
            .spawn(move || match UnderWay::begin() {
                Some(until_dropped) => drop((broken, until_dropped)),
                None => std::mem::forget(broken),
            });
    }

    /// After the first loss the next call may try again at once; after that, not for a while.
    fn rest(&self, slot: &mut Slot, error: &Error) {
        if let Some(doublings) = slot.lost.checked_sub(2) {
            let rest = FIRST_REST.saturating_mul(1 << doublings.min(20));
            slot.rests_until = Some(Instant::now() + rest.min(LONGEST_REST));
            slot.why = error.to_string();
            self.inner.resting.store(true, Relaxed);
        }
    }

    fn went_well(&self) {
        // One lock among the many of a GPU's call.
        self.slot().lost = 0;
    }
}

impl Slot {
    fn resting(&self, now: Instant) -> Option<Error> {
        let left = self.rests_until?.checked_duration_since(now)?;
        (!left.is_zero()).then(|| Error::Resting {
            left,
            why: self.why.clone(),
        })
    }
}

impl Device {
    fn make(adapter: &wgpu::Adapter, number: u64) -> Result<Self, String> {
        let wanted = wgpu::DeviceDescriptor {
            label: Some("pointsman"),
            required_limits: adapter.limits(),
            ..Default::default()
        };
        let made = catch_unwind(AssertUnwindSafe(|| {
            pollster::block_on(adapter.request_device(&wanted))
        }));
        let (device, queue) = match made {
            Ok(made) => made.map_err(|e| e.to_string())?,
            Err(_) => return Err("the driver panicked".to_owned()),
        };
        // Without a handler, an error outside a scope is a panic on whichever thread it is found.
        device.on_uncaptured_error(Arc::new(|error| {
            tracing::warn!(%error, "an error of the GPU outside any call");
        }));
        let lost = Arc::new(OnceLock::new());
        let told = lost.clone();
        device.set_device_lost_callback(move |reason, message| {
            let _ = told.set(format!("{reason:?}: {message}"));
        });
        Ok(Device {
            number,
            pool: Pool::default(),
            device,
            queue,
            lost,
        })
    }

    /// Does something with the device, and turns what the driver says about it, in whatever way,
    /// into one error.
    pub(crate) fn guarded<T>(&self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        self.still_there()?;
        let device = &self.device;
        let scopes = [
            wgpu::ErrorFilter::Internal,
            wgpu::ErrorFilter::OutOfMemory,
            wgpu::ErrorFilter::Validation,
        ]
        .map(|filter| device.push_error_scope(filter));
        let done = catch_unwind(AssertUnwindSafe(work));
        let caught: Vec<wgpu::Error> = scopes
            .into_iter()
            .rev()
            .filter_map(|scope| pollster::block_on(scope.pop()))
            .collect();
        self.still_there()?;
        let Ok(done) = done else {
            // wgpu panics where it sees no way on; nor is there one with this device.
            return Err(Error::Lost("the driver panicked".to_owned()));
        };
        match (done, caught.into_iter().next()) {
            (Err(Error::Refused(_)), Some(error @ wgpu::Error::Validation { .. })) => {
                Err(Error::Refused(error.to_string()))
            }
            (Err(error), _) => Err(error),
            (Ok(_), Some(wgpu::Error::OutOfMemory { .. })) => Err(Error::OutOfMemory { bytes: 0 }),
            (Ok(_), Some(error)) => Err(Error::Refused(error.to_string())),
            (Ok(value), None) => Ok(value),
        }
    }

    fn still_there(&self) -> Result<(), Error> {
        match self.lost.get() {
            Some(why) => Err(Error::Lost(why.clone())),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.backend(), self.info())
    }
}
