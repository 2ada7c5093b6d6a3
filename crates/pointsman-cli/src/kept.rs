//! What programs have learned and kept, read without changing it.

use std::path::{Path, PathBuf};

use pointsman::store::{self, Knowledge, SqliteStore, Store as _};

use crate::output::Failure;

/// The variable that says where knowledge is kept.
pub(crate) const STORE: &str = "POINTSMAN_STORE";

/// The store that programs would use.
pub(crate) enum Kept {
    /// Knowledge is kept in memory, because the environment says so.
    Memory,
    /// There is none yet; the first program that learns makes it.
    Absent(PathBuf),
    /// It can be read, and holds this.
    Known(PathBuf, Knowledge),
    /// It cannot be used, and why; programs learn in memory.
    Unusable(Option<PathBuf>, String),
}

impl Kept {
    pub(crate) fn look() -> Self {
        if in_memory() {
            return Kept::Memory;
        }
        let Some(path) = configured() else {
            return Kept::Unusable(None, HOMELESS.to_owned());
        };
        if !path.exists() {
            return Kept::Absent(path);
        }
        match SqliteStore::open(&path).and_then(|mut store| store.load()) {
            Ok(knowledge) => Kept::Known(path, knowledge),
            Err(error) => Kept::Unusable(Some(path), error.to_string()),
        }
    }

    /// Where the store is or would be, without looking into it.
    pub(crate) fn place() -> Result<PathBuf, Failure> {
        match configured() {
            _ if in_memory() => Err(nowhere()),
            Some(path) => Ok(path),
            None => Err(unusable(None, HOMELESS)),
        }
    }

    /// What it is, for people.
    pub(crate) fn describe(&self) -> String {
        match self {
            Kept::Memory => format!("in memory, as {STORE} says"),
            Kept::Absent(path) => format!("{} is not there yet", path.display()),
            Kept::Known(path, _) => path.display().to_string(),
            Kept::Unusable(path, why) => unusable(path.as_deref(), why).to_string(),
        }
    }

    /// What it holds; nothing if there is none.
    pub(crate) fn knowledge(self) -> Result<Knowledge, Failure> {
        match self {
            Kept::Known(_, knowledge) => Ok(knowledge),
            Kept::Memory | Kept::Absent(_) => Ok(Knowledge::default()),
            Kept::Unusable(path, why) => Err(unusable(path.as_deref(), &why)),
        }
    }

    /// Where it is, whether or not it is there yet.
    pub(crate) fn path(&self) -> Result<&Path, Failure> {
        match self {
            Kept::Known(path, _) | Kept::Absent(path) => Ok(path),
            Kept::Memory => Err(nowhere()),
            Kept::Unusable(path, why) => Err(unusable(path.as_deref(), why)),
        }
    }
}

fn unusable(path: Option<&Path>, why: &str) -> Failure {
    match path {
        Some(path) => Failure::new(format!(
            "the store {} cannot be used: {why}",
            path.display()
        )),
        None => Failure::new(format!("there is no store: {why}")),
    }
}

const HOMELESS: &str = "no home directory is known; set HOME or POINTSMAN_STORE";

fn in_memory() -> bool {
    std::env::var_os(STORE).is_some_and(|choice| choice == "memory")
}

/// The file that the environment or the user's home says.
fn configured() -> Option<PathBuf> {
    let choice = std::env::var_os(STORE).filter(|choice| !choice.is_empty());
    choice.map(PathBuf::from).or_else(store::default_path)
}

fn nowhere() -> Failure {
    Failure::new(format!(
        "there is no store: {STORE}=memory says to keep nothing; unset it, or set it to a file"
    ))
}
