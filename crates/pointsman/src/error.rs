//! Errors: when something is built, and when every variant of a fallible op fails.

use std::fmt;

use crate::backend::Backend;

/// Why a selector or an op could not be built.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BuildError {
    /// The name of an op or a variant is empty, too long or has control characters.
    Name {
        /// Which name: "op" or "variant".
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Two variants have the same name.
    Duplicate {
        /// The op.
        op: String,
        /// The name they share.
        variant: String,
    },
    /// There is no reference, or more than one.
    References {
        /// The op.
        op: String,
        /// How many there are.
        found: usize,
    },
    /// There are more ops than one selector, or more variants than one op may have.
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there may be.
        most: usize,
    },
    /// The constraints of a variant contradict each other or its role.
    Contradiction {
        /// The op.
        op: String,
        /// The variant.
        variant: String,
        /// What contradicts what.
        why: String,
    },
    /// An environment variable has a value that means nothing here.
    Environment {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
        /// What would be right.
        valid: String,
    },
    /// A forced variant cannot run on this machine.
    Impossible {
        /// The op.
        op: String,
        /// The variant.
        variant: String,
        /// Its backend.
        backend: Backend,
        /// What is missing.
        why: String,
    },
    /// A setting is out of range.
    Setting {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
        /// What would be right.
        valid: &'static str,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Name { what, name } => write!(
                f,
                "{what} name {:?}: it must have 1 to {} bytes and no control characters",
                shortened(name),
                crate::store::MAX_NAME
            ),
            BuildError::Duplicate { op, variant } => {
                write!(
                    f,
                    "op {op}: two variants are named {variant:?}; each needs its own name"
                )
            }
            BuildError::References { op, found } => {
                write!(
                    f,
                    "op {op}: {found} references; it needs exactly one, whose result is the truth"
                )
            }
            BuildError::TooMany { what, found, most } => {
                write!(f, "{found} {what}: there may be at most {most}")
            }
            BuildError::Contradiction { op, variant, why } if variant.is_empty() => {
                write!(f, "op {op}: {why}")
            }
            BuildError::Contradiction { op, variant, why } => {
                write!(f, "op {op}, variant {variant:?}: {why}")
            }
            BuildError::Environment {
                variable,
                value,
                valid,
            } => {
                write!(f, "{variable}={value}: valid are {valid}")
            }
            BuildError::Impossible {
                op,
                variant,
                backend,
                why,
            } => {
                write!(
                    f,
                    "op {op}: variant {variant:?} ({backend}) is forced but cannot run: {why}"
                )
            }
            BuildError::Setting { name, value, valid } => {
                write!(f, "{name} = {value}: it must be {valid}")
            }
        }
    }
}

impl std::error::Error for BuildError {}

fn shortened(name: &str) -> String {
    match name.char_indices().nth(40) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name.to_owned(),
    }
}

/// An error of a variant.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What went wrong in one attempt.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// The variant returned this error.
    Error(BoxError),
    /// The variant panicked with this message.
    Panic(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Error(error) => error.fmt(f),
            Failure::Panic(message) => write!(f, "panicked: {message}"),
        }
    }
}

/// What a variant returns whose memory did not suffice: it does not serve calls of this
/// [size](crate::Workload::size) or larger for a while, and smaller ones as before.
///
/// The while is a minute at first, and twice as long each time it happens again, up to an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Bytes that were asked for in vain.
    pub bytes: u64,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no memory for {} bytes", self.bytes)
    }
}

impl std::error::Error for OutOfMemory {}

/// One attempt to serve a call, and how it failed.
#[derive(Debug)]
#[non_exhaustive]
pub struct Attempt {
    /// The variant.
    pub variant: String,
    /// Its backend.
    pub backend: Backend,
    /// What went wrong.
    pub failure: Failure,
}

/// Every variant that could serve the call has failed: the first error, with the others attached.
#[derive(Debug)]
pub struct RunError {
    attempts: Vec<Attempt>,
}

impl RunError {
    pub(crate) fn new(attempts: Vec<Attempt>) -> Self {
        RunError { attempts }
    }

    /// All attempts in order; the last one is the reference.
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// The first of the attempts' errors that is of this type.
    pub fn downcast_ref<E: std::error::Error + 'static>(&self) -> Option<&E> {
        self.attempts
            .iter()
            .find_map(|attempt| match &attempt.failure {
                Failure::Error(error) => error.downcast_ref(),
                Failure::Panic(_) => None,
            })
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, attempt) in self.attempts.iter().enumerate() {
            if i > 0 {
                f.write_str("; then ")?;
            }
            write!(f, "{}: {}", attempt.variant, attempt.failure)?;
        }
        Ok(())
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.attempts.first()?.failure {
            Failure::Error(error) => Some(error.as_ref()),
            Failure::Panic(_) => None,
        }
    }
}

/// A variant that was asked for by name and may not serve the call: see [`Single`](crate::Single).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    variant: String,
    why: String,
}

impl Refused {
    pub(crate) fn new(variant: &str, why: impl fmt::Display) -> Self {
        Refused {
            variant: variant.to_owned(),
            why: why.to_string(),
        }
    }

    /// Why it may not.
    pub fn why(&self) -> &str {
        &self.why
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refused { variant, why } = self;
        write!(f, "variant {variant:?} may not serve this call: {why}")
    }
}

impl std::error::Error for Refused {}
