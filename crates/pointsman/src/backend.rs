//! Where a variant runs.

use std::fmt;
use std::str::FromStr;
use std::sync::{OnceLock, RwLock};

use serde::{Serialize, Serializer};

/// Most custom backends one process may name; the names live as long as the process.
const MAX_CUSTOM: usize = 200;

/// Longest name of a custom backend, in bytes.
const MAX_NAME: usize = 32;

/// Where a variant runs, and where data lives.
///
/// `Scalar`, `Simd` and `Threads` share the host's memory; each GPU has its own.
///
/// ```
/// use pointsman::Backend;
///
/// assert_eq!(Backend::Gpu(1).to_string(), "gpu:1");
/// assert_eq!("threads".parse(), Ok(Backend::Threads));
/// let numba = Backend::custom("numba").unwrap();
/// assert_eq!("numba".parse(), Ok(numba));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Backend {
    /// Plain code on one core.
    #[default]
    Scalar,
    /// Vector instructions on one core.
    Simd,
    /// Several cores.
    Threads,
    /// The GPU with this number.
    Gpu(u8),
    /// Anything else, by name: see [`Backend::custom`].
    Custom(Custom),
}

/// The interned name of a custom backend.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Custom(u8);

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Custom {
    pub(crate) fn index(self) -> u64 {
        u64::from(self.0)
    }

    /// The name it was made from.
    pub fn name(self) -> &'static str {
        let names = names().read().unwrap_or_else(|e| e.into_inner());
        names.get(usize::from(self.0)).copied().unwrap_or("custom")
    }
}

fn names() -> &'static RwLock<Vec<&'static str>> {
    static NAMES: OnceLock<RwLock<Vec<&'static str>>> = OnceLock::new();
    NAMES.get_or_init(Default::default)
}

/// A text that names no backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendError(String);

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BackendError {}

impl Backend {
    /// A backend of your own, such as `numba` or `dsp`.
    ///
    /// The name has 1 to 32 bytes, letters, digits, `_`, `-` and `.` only; a process may name up
    /// to 200 of them. The name of a built-in backend gives that backend.
    pub fn custom(name: &str) -> Result<Self, BackendError> {
        match Self::built_in(name) {
            Some(found) => found,
            None => Self::intern(name),
        }
    }

    /// Whether its variants work on the host's memory.
    pub fn is_host(self) -> bool {
        !matches!(self, Backend::Gpu(_))
    }

    fn built_in(name: &str) -> Option<Result<Self, BackendError>> {
        match name {
            "scalar" => Some(Ok(Backend::Scalar)),
            "simd" => Some(Ok(Backend::Simd)),
            "threads" => Some(Ok(Backend::Threads)),
            "gpu" => Some(Ok(Backend::Gpu(0))),
            _ => name.strip_prefix("gpu:").map(|number| {
                number.parse().map(Backend::Gpu).map_err(|_| {
                    BackendError(format!("backend {name:?}: a GPU is gpu:0 to gpu:255"))
                })
            }),
        }
    }

    fn intern(name: &str) -> Result<Self, BackendError> {
        let valid = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(valid) {
            return Err(BackendError(format!(
                "backend name {name:?}: it must have 1 to {MAX_NAME} letters, digits, '_', '-' or '.'"
            )));
        }
        let mut names = names().write().unwrap_or_else(|e| e.into_inner());
        if let Some(at) = names.iter().position(|known| *known == name) {
            return Ok(Backend::Custom(Custom(at as u8)));
        }
        if names.len() >= MAX_CUSTOM {
            return Err(BackendError(format!(
                "backend {name:?}: this process already names {MAX_CUSTOM} custom backends"
            )));
        }
        names.push(Box::leak(name.into()));
        Ok(Backend::Custom(Custom((names.len() - 1) as u8)))
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Backend::Scalar => f.pad("scalar"),
            Backend::Simd => f.pad("simd"),
            Backend::Threads => f.pad("threads"),
            Backend::Gpu(n) => f.pad(&format!("gpu:{n}")),
            Backend::Custom(custom) => f.pad(custom.name()),
        }
    }
}

impl FromStr for Backend {
    type Err = BackendError;

    /// Reads a built-in backend or a custom one that this process has already named.
    fn from_str(name: &str) -> Result<Self, BackendError> {
        if let Some(found) = Self::built_in(name) {
            return found;
        }
        let known = names().read().unwrap_or_else(|e| e.into_inner());
        match known.iter().position(|k| *k == name) {
            Some(at) => Ok(Backend::Custom(Custom(at as u8))),
            None => {
                let mut valid = vec!["scalar", "simd", "threads", "gpu:N"];
                valid.extend(known.iter());
                Err(BackendError(format!(
                    "unknown backend {name:?}; valid are {}",
                    valid.join(", ")
                )))
            }
        }
    }
}

impl Serialize for Backend {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_round_and_bad_ones_say_what_is_right() {
        for backend in [
            Backend::Scalar,
            Backend::Simd,
            Backend::Threads,
            Backend::Gpu(7),
        ] {
            assert_eq!(backend.to_string().parse(), Ok(backend));
            assert_eq!(Backend::custom(&backend.to_string()), Ok(backend));
        }
        assert_eq!("gpu".parse(), Ok(Backend::Gpu(0)));
        let error = "gpu:900".parse::<Backend>().unwrap_err().to_string();
        assert!(
            error.contains("gpu:900") && error.contains("gpu:255"),
            "{error}"
        );
        let error = "warp-drive".parse::<Backend>().unwrap_err().to_string();
        assert!(
            error.contains("warp-drive") && error.contains("threads"),
            "{error}"
        );
        assert!(Backend::custom("").is_err());
        assert!(Backend::custom("a b").is_err());
        assert!(Backend::custom(&"x".repeat(33)).is_err());
    }
}
