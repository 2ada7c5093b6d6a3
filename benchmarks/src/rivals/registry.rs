//! A registry of kernels: the candidates are copied and scored on every call.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, RwLock};
use std::time::Duration;

/// Executions remembered.
const KEPT: usize = 1000;

/// Weights of a score: time, memory, cache, history, switching.
const WEIGHTS: [f64; 5] = [0.4, 0.2, 0.2, 0.15, 0.05];

#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    pub(crate) id: String,
    pub(crate) backend: String,
    pub(crate) features: Vec<String>,
    pub(crate) min_size: usize,
    pub(crate) max_size: usize,
    pub(crate) ns_per_element: f64,
    pub(crate) bytes_per_element: f64,
    pub(crate) cache_hit_share: f64,
}

/// The chosen kernel with what else was considered.
#[derive(Debug)]
pub(crate) struct Selection {
    pub(crate) kernel: Kernel,
    /// Part of what such a design hands back, whether or not anybody looks.
    #[allow(dead_code)]
    pub(crate) alternatives: Vec<(String, f64)>,
}

#[derive(Default)]
struct Past {
    recent: VecDeque<(String, Duration)>,
    /// Mean nanoseconds and count by kernel.
    means: HashMap<String, (f64, u64)>,
    current: Option<String>,
}

/// Chooses by score.
#[derive(Default)]
pub(crate) struct Registry {
    kernels: RwLock<HashMap<String, Vec<Kernel>>>,
    past: Mutex<Past>,
}

impl Registry {
    pub(crate) fn register(&self, op: &str, kernel: Kernel) {
        let mut kernels = self.kernels.write().unwrap_or_else(|e| e.into_inner());
        kernels.entry(op.to_owned()).or_default().push(kernel);
    }

    /// The kernel with the highest score for this size.
    pub(crate) fn select(&self, op: &str, size: usize, features: &[&str]) -> Option<Selection> {
        let candidates: Vec<Kernel> = {
            let kernels = self.kernels.read().unwrap_or_else(|e| e.into_inner());
            let registered = kernels.get(op)?;
            registered
                .iter()
                .filter(|k| (k.min_size..=k.max_size).contains(&size))
                .filter(|k| k.features.iter().all(|f| features.contains(&f.as_str())))
                .cloned()
                .collect()
        };
        let mut scored: Vec<(Kernel, f64)> = candidates
            .into_iter()
            .map(|kernel| {
                let score = self.score(&kernel, size);
                (kernel, score)
            })
            .collect();
        scored.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let mut scored = scored.into_iter();
        let (kernel, _) = scored.next()?;
        Some(Selection {
            kernel,
            alternatives: scored.map(|(kernel, score)| (kernel.id, score)).collect(),
        })
    }

    fn score(&self, kernel: &Kernel, size: usize) -> f64 {
        let past = self.past.lock().unwrap_or_else(|e| e.into_inner());
        let estimate = kernel.ns_per_element * size as f64;
        let mean = past.means.get(&kernel.id).map(|(mean, _)| *mean);
        let near = |ns: f64| 1.0 / (1.0 + ns / 1e3);
        let stays = past.current.as_ref().is_none_or(|c| *c == kernel.backend);
        let parts = [
            near(mean.unwrap_or(estimate)),
            1.0 / (1.0 + kernel.bytes_per_element * size as f64 / 1e6),
            kernel.cache_hit_share,
            mean.map_or(0.5, near),
            f64::from(u8::from(stays)),
        ];
        WEIGHTS.iter().zip(parts).map(|(w, part)| w * part).sum()
    }

    /// Adds a measurement.
    pub(crate) fn record(&self, kernel: &Kernel, took: Duration) {
        let mut past = self.past.lock().unwrap_or_else(|e| e.into_inner());
        if past.recent.len() == KEPT {
            past.recent.pop_front();
        }
        past.recent.push_back((kernel.id.clone(), took));
        let (mean, count) = past.means.entry(kernel.id.clone()).or_insert((0.0, 0));
        *count += 1;
        *mean += (took.as_nanos() as f64 - *mean) / *count as f64;
        past.current = Some(kernel.backend.clone());
    }
}

/// The kernels of the comparison.
pub(crate) fn dots() -> [Kernel; 3] {
    let kernel = |id: &str, backend: &str, features: &[&str], ns_per_element, min_size| Kernel {
        id: id.to_owned(),
        backend: backend.to_owned(),
        features: features.iter().map(|f| (*f).to_owned()).collect(),
        min_size,
        max_size: usize::MAX,
        ns_per_element,
        bytes_per_element: 8.0,
        cache_hit_share: 0.9,
    };
    [
        kernel("dot_scalar", "scalar", &[], 1.0, 0),
        kernel("dot_lanes", "simd", &["avx2", "fma"], 0.2, 0),
        kernel("dot_threads", "threads", &[], 0.1, 65_536),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_score_wins_and_constraints_hold() {
        let registry = Registry::default();
        assert!(registry.select("dot", 32, &[]).is_none());
        dots().into_iter().for_each(|k| registry.register("dot", k));
        let chosen = |features: &[&str]| registry.select("dot", 32, features).unwrap();
        assert_eq!(chosen(&[]).kernel.id, "dot_scalar");
        let chosen = chosen(&["avx2", "fma"]);
        assert_eq!(chosen.kernel.id, "dot_lanes");
        assert_eq!(chosen.alternatives.len(), 1);
        registry.record(&chosen.kernel, Duration::from_millis(10));
        let after = registry.select("dot", 32, &["avx2", "fma"]).unwrap();
        assert_eq!(after.kernel.id, "dot_scalar");
    }
}
