//! What can go wrong with a store, in words that say what would be right.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why knowledge could not be loaded, saved, exported or imported.
///
/// After any of them the stored knowledge is as it was before.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// A file or directory could not be read or written.
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file or directory, if it has a name.
        path: Option<PathBuf>,
        /// What the system said.
        source: io::Error,
    },
    /// SQLite could not read or write.
    #[cfg(feature = "sqlite")]
    Sqlite {
        /// What was being done.
        doing: &'static str,
        /// The database.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// The path is not safe to use: others could read, replace or redirect what is written.
    Refused {
        /// The path.
        path: PathBuf,
        /// Why, and what would be right.
        reason: String,
    },
    /// A newer version wrote it. It is left as it is.
    NewerFormat {
        /// The file, if it has a name.
        path: Option<PathBuf>,
        /// Its format.
        found: u32,
        /// The newest format that this build reads.
        known: u32,
    },
    /// It belongs to another program. It is left as it is.
    NotOurs {
        /// The file, if it has a name.
        path: Option<PathBuf>,
        /// What it should have been.
        expected: &'static str,
    },
    /// A file to import is cut off or changed. Nothing of it is used.
    Damaged {
        /// Which part, and how it should be.
        what: String,
    },
    /// More than is kept.
    TooLarge {
        /// What there is too much of, and how much there may be.
        what: String,
    },
    /// Knowledge that no store keeps: a bad name or number in what was given.
    Invalid {
        /// Which value, and what is valid.
        what: String,
    },
}

impl StoreError {
    pub(crate) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        StoreError::Io {
            doing,
            path: Some(path.into()),
            source,
        }
    }

    #[cfg(feature = "sqlite")]
    pub(crate) fn refused(path: &Path, reason: impl Into<String>) -> Self {
        StoreError::Refused {
            path: path.into(),
            reason: reason.into(),
        }
    }

    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        StoreError::Damaged { what: what.into() }
    }

    /// The same error with the name of the file it is about.
    pub(crate) fn at(mut self, at: &Path) -> Self {
        match &mut self {
            StoreError::Io { path, .. }
            | StoreError::NewerFormat { path, .. }
            | StoreError::NotOurs { path, .. } => *path = Some(at.into()),
            StoreError::Damaged { what } | StoreError::TooLarge { what } => {
                *what = format!("{}: {what}", at.display());
            }
            _ => {}
        }
        self
    }
}

fn name(path: &Option<PathBuf>) -> String {
    path.as_deref()
        .map_or_else(|| "the file".into(), |path| path.display().to_string())
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Io {
                doing,
                path,
                source,
            } => {
                write!(f, "cannot {doing} {}: {source}", name(path))
            }
            #[cfg(feature = "sqlite")]
            StoreError::Sqlite {
                doing,
                path,
                source,
            } => {
                write!(f, "cannot {doing} {}: {source}", path.display())
            }
            StoreError::Refused { path, reason } => write!(f, "{}: {reason}", path.display()),
            StoreError::NewerFormat { path, found, known } => write!(
                f,
                "{} has format {found} and this build reads up to {known}: \
                 use a newer pointsman or another file; this one is left as it is",
                name(path)
            ),
            StoreError::NotOurs { path, expected } => {
                write!(f, "{} is not {expected}; it is left as it is", name(path))
            }
            StoreError::Damaged { what }
            | StoreError::TooLarge { what }
            | StoreError::Invalid { what } => f.write_str(what),
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StoreError::Io { source, .. } => Some(source),
            #[cfg(feature = "sqlite")]
            StoreError::Sqlite { source, .. } => Some(source),
            _ => None,
        }
    }
}
