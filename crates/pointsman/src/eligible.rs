//! Step 2 of a call: who may serve it. Exact, on every call, whatever was learned.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::backend::Backend;
use crate::decision::human_ns;
use crate::machine::{Cap, Machine};
use crate::memory::Headroom;
use crate::workload::{DType, Workload};

/// Bytes a call of this workload needs on the variant's backend.
type Need = Box<dyn Fn(&Workload) -> u64 + Send + Sync>;

/// Whether something that a variant needs can be used now: a device that may be lost, a kernel that
/// is still compiled.
pub trait Available: Send + Sync {
    /// Asked on every call that the variant could serve: it must be quick. A panic means no.
    fn is_available(&self) -> bool;

    /// Why it is not, for explanations.
    fn why_not(&self) -> String;
}

/// What a variant demands of a call and of the machine.
pub(crate) struct Limits {
    pub(crate) caps: Vec<Cap>,
    pub(crate) min_size: u64,
    pub(crate) max_size: u64,
    /// One bit per dtype; all set means any.
    dtypes: u32,
    pub(crate) alignment: u64,
    pub(crate) gradient: bool,
    pub(crate) memory: Option<Need>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            caps: Vec::new(),
            min_size: 0,
            max_size: u64::MAX,
            dtypes: u32::MAX,
            alignment: 1,
            gradient: true,
            memory: None,
        }
    }
}

/// Why a variant may not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhyNot {
    Missing(Cap),
    TooSmall { size: u64, min: u64 },
    TooLarge { size: u64, max: u64 },
    OutOfMemory { from: u64, left_ns: u64 },
    DType(DType),
    Alignment { has: u64, needs: u64 },
    Gradient,
    Memory { needs: u64, free: Option<u64> },
    Unavailable,
    When,
    Disabled,
    NotForced,
    NotPreferred,
    NotReferenceMode,
}

impl Limits {
    pub(crate) fn allow_dtypes(&mut self, dtypes: &[DType]) {
        self.dtypes = dtypes.iter().fold(0, |mask, d| mask | 1 << *d as u32);
    }

    /// Whether any call could be refused: variants without limits are not looked at per call.
    pub(crate) fn depend_on_call(&self) -> bool {
        self.min_size > 0
            || self.max_size < u64::MAX
            || self.dtypes != u32::MAX
            || self.alignment > 1
            || !self.gradient
            || self.memory.is_some()
    }

    /// Whether they contradict each other.
    pub(crate) fn contradiction(&self) -> Option<String> {
        if self.min_size > self.max_size {
            return Some(format!(
                "min_size {} is above max_size {}: it could never serve",
                self.min_size, self.max_size
            ));
        }
        if self.dtypes == 0 {
            return Some("an empty list of dtypes: it could never serve".to_owned());
        }
        if !self.alignment.is_power_of_two() {
            return Some(format!(
                "alignment {}: it must be a power of two",
                self.alignment
            ));
        }
        None
    }

    /// What this machine lacks.
    pub(crate) fn missing_cap(&self, machine: &Machine) -> Option<Cap> {
        self.caps.iter().copied().find(|cap| !machine.has(*cap))
    }

    /// Why it may not serve this workload.
    #[inline]
    pub(crate) fn why_not(
        &self,
        workload: &Workload,
        backend: Backend,
        headroom: &Headroom,
    ) -> Option<WhyNot> {
        let size = workload.size();
        if size < self.min_size {
            return Some(WhyNot::TooSmall {
                size,
                min: self.min_size,
            });
        }
        if size > self.max_size {
            return Some(WhyNot::TooLarge {
                size,
                max: self.max_size,
            });
        }
        let dtype = workload.element_type();
        if self.dtypes & 1 << dtype as u32 == 0 {
            return Some(WhyNot::DType(dtype));
        }
        if self.alignment > 1 {
            // Data of unknown alignment may have any: only one byte is certain.
            let has = workload.alignment().unwrap_or(1);
            if has < self.alignment {
                return Some(WhyNot::Alignment {
                    has,
                    needs: self.alignment,
                });
            }
        }
        if workload.needs_gradient() && !self.gradient {
            return Some(WhyNot::Gradient);
        }
        let need = self.memory.as_ref()?;
        // An estimate that panics is one that nothing can hold, as a condition that panics is no.
        let needs = catch_unwind(AssertUnwindSafe(|| need(workload))).unwrap_or(u64::MAX);
        let free = headroom.bytes(backend);
        match free {
            Some(free) if needs <= free && needs < u64::MAX => None,
            _ => Some(WhyNot::Memory { needs, free }),
        }
    }
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WhyNot::Missing(cap) => write!(f, "this machine has no {cap}"),
            WhyNot::TooSmall { size, min } => write!(f, "size {size} is below {min}"),
            WhyNot::TooLarge { size, max } => write!(f, "size {size} is above {max}"),
            WhyNot::OutOfMemory { from, left_ns } => {
                let left = human_ns(*left_ns as f64);
                write!(
                    f,
                    "ran out of memory at size {from}: not for another {left}"
                )
            }
            WhyNot::DType(dtype) => write!(f, "does not take dtype {dtype}"),
            WhyNot::Alignment { has, needs } => {
                write!(f, "data is aligned to {has} bytes, it needs {needs}")
            }
            WhyNot::Gradient => f.write_str("gives no gradients"),
            WhyNot::Memory {
                needs,
                free: Some(free),
            } => {
                write!(f, "needs {needs} bytes, {free} may be used")
            }
            WhyNot::Memory { needs, free: None } => {
                write!(
                    f,
                    "needs {needs} bytes, free memory of its backend is unknown"
                )
            }
            WhyNot::Unavailable => f.write_str("not available now"),
            WhyNot::When => f.write_str("its condition says no"),
            WhyNot::Disabled => f.write_str("disabled"),
            WhyNot::NotForced => f.write_str("another one is forced"),
            WhyNot::NotPreferred => f.write_str("the call prefers another backend"),
            WhyNot::NotReferenceMode => f.write_str("reference mode"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::FakeClock;
    use crate::memory::Memory;
    use std::sync::Arc;

    struct OneGpu;
    impl Memory for OneGpu {
        fn free_bytes(&self, backend: Backend) -> Option<u64> {
            (backend == Backend::Gpu(0)).then_some(1000)
        }
    }

    fn headroom() -> Headroom {
        Headroom::new(Arc::new(OneGpu), Arc::new(FakeClock::new()), 0.3)
    }

    fn why(limits: &Limits, workload: Workload) -> Option<WhyNot> {
        limits.why_not(&workload, Backend::Gpu(0), &headroom())
    }

    #[test]
    fn each_limit_is_exact_at_its_edge() {
        let limits = Limits {
            min_size: 8,
            max_size: 16,
            ..Limits::default()
        };
        assert_eq!(
            why(&limits, Workload::new([7])),
            Some(WhyNot::TooSmall { size: 7, min: 8 })
        );
        assert_eq!(why(&limits, Workload::new([8])), None);
        assert_eq!(why(&limits, Workload::new([16])), None);
        assert_eq!(
            why(&limits, Workload::new([17])),
            Some(WhyNot::TooLarge { size: 17, max: 16 })
        );

        let mut limits = Limits::default();
        limits.allow_dtypes(&[DType::F32, DType::F64]);
        assert_eq!(why(&limits, Workload::new([1]).dtype(DType::F64)), None);
        assert_eq!(
            why(&limits, Workload::new([1])),
            Some(WhyNot::DType(DType::Unspecified))
        );

        let limits = Limits {
            alignment: 32,
            ..Limits::default()
        };
        assert_eq!(why(&limits, Workload::new([1]).aligned(4096)), None);
        assert!(why(&limits, Workload::new([1]).aligned(4096 + 16)).is_some());
        assert!(
            why(&limits, Workload::new([1])).is_some(),
            "unknown alignment is no alignment"
        );

        let limits = Limits {
            gradient: false,
            ..Limits::default()
        };
        assert_eq!(why(&limits, Workload::new([1])), None);
        assert_eq!(
            why(&limits, Workload::new([1]).gradient(true)),
            Some(WhyNot::Gradient)
        );
    }

    #[test]
    fn memory_must_fit_into_what_the_reserve_leaves_and_unknown_means_no() {
        let limits = Limits {
            memory: Some(Box::new(|w| w.size())),
            ..Limits::default()
        };
        assert_eq!(why(&limits, Workload::new([700])), None);
        assert_eq!(
            why(&limits, Workload::new([701])),
            Some(WhyNot::Memory {
                needs: 701,
                free: Some(700)
            })
        );
        let unknown = limits.why_not(&Workload::new([1]), Backend::Gpu(9), &headroom());
        assert_eq!(
            unknown,
            Some(WhyNot::Memory {
                needs: 1,
                free: None
            })
        );
    }

    #[test]
    fn contradictions_are_named() {
        let sizes = Limits {
            min_size: 2,
            max_size: 1,
            ..Limits::default()
        };
        assert!(sizes.contradiction().unwrap().contains("min_size 2"));
        let alignment = Limits {
            alignment: 24,
            ..Limits::default()
        };
        assert!(alignment.contradiction().unwrap().contains("24"));
        let mut dtypes = Limits::default();
        dtypes.allow_dtypes(&[]);
        assert!(dtypes.contradiction().is_some());
        assert_eq!(Limits::default().contradiction(), None);
    }
}
