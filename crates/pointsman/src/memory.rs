//! Free memory per backend, as eligibility sees it.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::backend::Backend;
use crate::clock::Clock;

/// Says how much memory is free.
///
/// ```
/// use pointsman::{Backend, Memory};
///
/// struct Fixed;
/// impl Memory for Fixed {
///     fn free_bytes(&self, backend: Backend) -> Option<u64> {
///         (backend == Backend::Gpu(0)).then_some(4 << 30)
///     }
/// }
/// assert_eq!(Fixed.free_bytes(Backend::Gpu(1)), None);
/// ```
pub trait Memory: Send + Sync {
    /// Free bytes of this backend's memory now; `None` if the backend is unknown, which means
    /// that nothing fits.
    fn free_bytes(&self, backend: Backend) -> Option<u64>;
}

/// The host's memory as the operating system reports it; no other backend is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostMemory;

impl Memory for HostMemory {
    fn free_bytes(&self, backend: Backend) -> Option<u64> {
        match backend {
            Backend::Scalar | Backend::Simd | Backend::Threads => available(),
            _ => None,
        }
    }
}

/// `MemAvailable` of `/proc/meminfo`; `None` where there is no such file.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// How long a reading of free memory is used.
const CACHED_NS: u64 = 60_000_000_000;

/// When the memory of a backend was looked at, and what was free.
type Reading = (Backend, u64, Option<u64>);

/// Free memory less the reserve, read at most once a minute per backend. Calls ask without a lock.
pub(crate) struct Headroom {
    memory: Arc<dyn Memory>,
    clock: Arc<dyn Clock>,
    reserve: f64,
    readings: ArcSwap<Vec<Reading>>,
}

impl Headroom {
    pub(crate) fn new(memory: Arc<dyn Memory>, clock: Arc<dyn Clock>, reserve: f64) -> Self {
        Headroom {
            memory,
            clock,
            reserve,
            readings: ArcSwap::default(),
        }
    }

    /// Bytes a call may need on this backend; `None` if the backend's memory is unknown.
    pub(crate) fn bytes(&self, backend: Backend) -> Option<u64> {
        let now = self.clock.now_ns();
        let known = self.readings.load();
        let reading = known.iter().find(|(of, ..)| *of == backend);
        let free = match reading {
            // A reading from the future is one from before the clock was set back.
            Some((_, at, free)) if now >= *at && now - at < CACHED_NS => *free,
            _ => {
                let free = self.memory.free_bytes(backend);
                self.readings.rcu(|known| {
                    let others = known.iter().filter(|(of, ..)| *of != backend);
                    let mut all: Vec<Reading> = others.copied().collect();
                    all.push((backend, now, free));
                    all
                });
                free
            }
        };
        free.map(|bytes| (bytes as f64 * (1.0 - self.reserve)) as u64)
    }
}

impl fmt::Debug for Headroom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Headroom")
            .field("reserve", &self.reserve)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::FakeClock;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::time::Duration;

    struct Counting(AtomicU64);
    impl Memory for Counting {
        fn free_bytes(&self, backend: Backend) -> Option<u64> {
            let n = self.0.fetch_add(1, Relaxed);
            (backend == Backend::Gpu(0)).then_some(1000 + n)
        }
    }

    #[test]
    fn a_reading_is_kept_for_a_minute_and_a_reserve_kept_back() {
        let clock = FakeClock::new();
        let headroom = Headroom::new(
            Arc::new(Counting(AtomicU64::new(0))),
            Arc::new(clock.clone()),
            0.3,
        );
        assert_eq!(headroom.bytes(Backend::Gpu(0)), Some(700));
        clock.advance(Duration::from_secs(59));
        assert_eq!(headroom.bytes(Backend::Gpu(0)), Some(700));
        clock.advance(Duration::from_secs(2));
        assert_eq!(headroom.bytes(Backend::Gpu(0)), Some(700)); // 1001 × 0.7, rounded down
        clock.advance(Duration::from_secs(61));
        assert_eq!(headroom.bytes(Backend::Gpu(0)), Some(701));
        assert_eq!(headroom.bytes(Backend::Gpu(1)), None);
    }

    #[test]
    fn the_host_reports_its_own_memory_only() {
        assert_eq!(HostMemory.free_bytes(Backend::Gpu(0)), None);
        if cfg!(target_os = "linux") {
            assert!(HostMemory.free_bytes(Backend::Scalar).unwrap() > 1 << 20);
        }
    }
}
