//! A history per op and size behind one lock: the backend with the lowest mean is chosen.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Measurements kept per op and size: without a bound, choosing would get slower with every call.
const KEPT: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Backend {
    Gpu,
    Simd,
    Scalar,
}

const BACKENDS: [Backend; 3] = [Backend::Gpu, Backend::Simd, Backend::Scalar];

type Measured = HashMap<(String, usize), Vec<u64>>;

/// Chooses by what was recorded.
#[derive(Default)]
pub(crate) struct History {
    backends: Mutex<HashMap<Backend, Measured>>,
}

impl History {
    /// The backend with the lowest mean for this op and size; by size alone if there is none.
    pub(crate) fn select(&self, op: &str, size: usize) -> Backend {
        let backends = self.lock();
        let key = (op.to_owned(), size);
        let mean = |backend: &Backend| {
            let samples = backends.get(backend)?.get(&key)?;
            Some(samples.iter().sum::<u64>() as f64 / samples.len() as f64)
        };
        let known = BACKENDS.iter().filter_map(|b| Some((*b, mean(b)?)));
        let best = known.min_by(|(_, a), (_, b)| a.total_cmp(b));
        match best {
            Some((backend, _)) => backend,
            None if size > 10_000 => Backend::Gpu,
            None if size > 100 => Backend::Simd,
            None => Backend::Scalar,
        }
    }

    /// Adds a measurement.
    pub(crate) fn record(&self, op: &str, size: usize, backend: Backend, took: Duration) {
        let mut backends = self.lock();
        let measured = backends.entry(backend).or_default();
        let samples = measured.entry((op.to_owned(), size)).or_default();
        if samples.len() == KEPT {
            samples.remove(0);
        }
        samples.push(took.as_nanos() as u64);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Backend, Measured>> {
        self.backends.lock().unwrap_or_else(|e| e.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_mean_of_the_same_size_wins() {
        let history = History::default();
        assert_eq!(history.select("dot", 32), Backend::Scalar);
        for ns in 0..2 * KEPT as u64 {
            history.record(
                "dot",
                32,
                Backend::Scalar,
                Duration::from_nanos(40 + ns % 2),
            );
            history.record("dot", 32, Backend::Simd, Duration::from_nanos(10));
        }
        assert_eq!(history.select("dot", 32), Backend::Simd);
        assert_eq!(history.select("dot", 33), Backend::Scalar); // as such designs do
    }
}
