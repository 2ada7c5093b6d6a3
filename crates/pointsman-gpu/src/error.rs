//! What can go wrong on a GPU.

use std::fmt;
use std::time::Duration;

/// Why a GPU could not do something. None of these is the caller's fault but
/// [`Refused`](Error::Refused).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// It has no room for a buffer of this many bytes.
    OutOfMemory {
        /// The buffer that did not fit.
        bytes: u64,
    },
    /// The device is gone: a driver that was reset, a card that was unplugged.
    Lost(String),
    /// It has not answered within this time.
    TimedOut(Duration),
    /// It was lost or did not answer before, and is left alone for this long.
    Resting {
        /// For how long.
        left: Duration,
        /// What had happened.
        why: String,
    },
    /// No device could be made from the adapter.
    NoDevice(String),
    /// The driver does not take this: beyond a limit, or a kernel that does not compile.
    Refused(String),
}

impl Error {
    /// Whether the device cannot be used any further.
    pub(crate) fn breaks_device(&self) -> bool {
        matches!(self, Error::Lost(_) | Error::TimedOut(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::OutOfMemory { bytes } => {
                write!(f, "the GPU has no room for a buffer of {bytes} bytes")
            }
            Error::Lost(why) => write!(f, "the GPU was lost: {why}"),
            Error::TimedOut(after) => write!(f, "the GPU has not answered within {after:?}"),
            Error::Resting { left, why } => {
                write!(f, "the GPU is left alone for another {left:.1?}: {why}")
            }
            Error::NoDevice(why) => write!(f, "the GPU cannot be used: {why}"),
            Error::Refused(why) => write!(f, "the GPU's driver refused: {why}"),
        }
    }
}

impl std::error::Error for Error {}
