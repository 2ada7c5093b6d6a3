//! Where the store lies, and whether it is safe there.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The name of stores, unless told otherwise.
pub(super) const FILE_NAME: &str = "knowledge.sqlite";

/// Where knowledge is kept unless told otherwise: `pointsman/knowledge.sqlite` in the user's cache
/// directory. `None` if the environment names no such directory; a shared temporary one is never
/// used, since others could prepare the file.
///
/// The cache directory is `$XDG_CACHE_HOME`, else `~/.cache`; on macOS `~/Library/Caches`, on
/// Windows `%LOCALAPPDATA%`. Relative ones do not count.
pub fn default_path() -> Option<PathBuf> {
    path_in(|name| std::env::var_os(name))
}

fn path_in(env: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let dir = |name: &str| env(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let cache = if cfg!(windows) {
        dir("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        dir("XDG_CACHE_HOME").or_else(|| Some(dir("HOME")?.join("Library/Caches")))
    } else {
        dir("XDG_CACHE_HOME").or_else(|| Some(dir("HOME")?.join(".cache")))
    };
    Some(cache?.join("pointsman").join(FILE_NAME))
}

/// The same path with more at the end of its name: `knowledge.sqlite-wal`.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(feature = "sqlite")]
pub(super) use checks::{directory, identity, prepare};

#[cfg(feature = "sqlite")]
mod checks {
    use std::fs::{self, Metadata, OpenOptions};
    use std::io::ErrorKind;

    use super::*;
    use crate::store::StoreError;

    /// The directory a file lies in.
    pub(in super::super) fn directory(path: &Path) -> &Path {
        match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir,
            _ => Path::new("."),
        }
    }

    /// Makes sure that the file exists, is ours, and that nobody else can write or redirect it.
    ///
    /// Gives the path by which to open it, without links in its directories: SQLite can then be
    /// told to follow none, so that a link put there after this check is not followed either.
    pub(in super::super) fn prepare(path: &Path) -> Result<PathBuf, StoreError> {
        let dir = directory(path);
        let name = match path.file_name() {
            Some(name) => name,
            None => {
                return Err(StoreError::refused(
                    path,
                    "it names no file; name a file to keep knowledge in",
                ));
            }
        };
        create_private_directory(dir)?;
        let dir = fs::canonicalize(dir).map_err(|e| StoreError::io("open directory", dir, e))?;
        let metadata =
            fs::metadata(&dir).map_err(|e| StoreError::io("examine directory", &dir, e))?;
        check_directory(&dir, &metadata)?;
        let path = dir.join(name);
        match fs::symlink_metadata(&path) {
            Ok(metadata) => check_file(&path, &metadata)?,
            Err(error) if error.kind() == ErrorKind::NotFound => create_private_file(&path)?,
            Err(error) => return Err(StoreError::io("examine", &path, error)),
        }
        Ok(path)
    }

    /// Device and number of the file, to tell whether another one has taken its place.
    pub(in super::super) fn identity(path: &Path) -> Option<(u64, u64)> {
        let metadata = fs::symlink_metadata(path).ok()?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            Some((metadata.dev(), metadata.ino()))
        }
        #[cfg(not(unix))]
        {
            let _ = metadata;
            Some((0, 0))
        }
    }

    fn create_private_directory(dir: &Path) -> Result<(), StoreError> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
            .create(dir)
            .map_err(|e| StoreError::io("create directory", dir, e))
    }

    fn create_private_file(path: &Path) -> Result<(), StoreError> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(path) {
            Ok(_) => Ok(()),
            // Another process made it first. It is never opened here: closing a file drops every
            // POSIX lock that this process, and so SQLite, holds on it.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let metadata =
                    fs::symlink_metadata(path).map_err(|e| StoreError::io("examine", path, e))?;
                check_file(path, &metadata)
            }
            Err(error) => Err(StoreError::io("create", path, error)),
        }
    }

    pub(super) fn check_file(path: &Path, metadata: &Metadata) -> Result<(), StoreError> {
        if metadata.is_symlink() {
            return Err(StoreError::refused(
                path,
                "it is a symbolic link; give the path it leads to",
            ));
        }
        if !metadata.is_file() {
            return Err(StoreError::refused(
                path,
                "it is not a regular file; give the path of one",
            ));
        }
        check_access(path, metadata, "file", false)
    }

    pub(super) fn check_directory(dir: &Path, metadata: &Metadata) -> Result<(), StoreError> {
        check_access(dir, metadata, "directory", true)
    }

    #[cfg(unix)]
    fn check_access(
        path: &Path,
        metadata: &Metadata,
        what: &str,
        may_be_root: bool,
    ) -> Result<(), StoreError> {
        use std::os::unix::fs::MetadataExt;
        let (owner, us) = (metadata.uid(), rustix::process::geteuid().as_raw());
        // The system's own directories are as safe as the system.
        if owner != us && !(may_be_root && owner == 0) {
            return Err(StoreError::refused(
                path,
                format!(
                    "this {what} belongs to user {owner} and we are user {us}; use one of your own"
                ),
            ));
        }
        // A sticky directory is no exception: others could not replace the file, but they could
        // have made it, or the files SQLite puts beside it, before us.
        if metadata.mode() & 0o002 != 0 {
            return Err(StoreError::refused(
                path,
                format!(
                    "every user may write this {what}; use one that only you may write (chmod o-w)"
                ),
            ));
        }
        Ok(())
    }

    #[cfg(not(unix))]
    fn check_access(_: &Path, _: &Metadata, _: &str, _: bool) -> Result<(), StoreError> {
        Ok(())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn env<'a>(vars: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        move |name| {
            vars.iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| value.into())
        }
    }

    #[test]
    #[cfg(not(target_os = "macos"))]
    fn f12_f13_the_default_is_the_users_own_cache_or_nothing() {
        let path =
            |vars: &[(&str, &str)]| path_in(env(vars)).map(|path| path.display().to_string());
        assert_eq!(path(&[]), None);
        assert_eq!(path(&[("HOME", ""), ("TMPDIR", "/tmp")]), None);
        assert_eq!(path(&[("HOME", "relative")]), None);
        let home = "/home/u/.cache/pointsman/knowledge.sqlite";
        assert_eq!(path(&[("HOME", "/home/u")]).as_deref(), Some(home));
        assert_eq!(
            path(&[("HOME", "/home/u"), ("XDG_CACHE_HOME", "x")]).as_deref(),
            Some(home)
        );
        let xdg = "/var/c/pointsman/knowledge.sqlite";
        assert_eq!(
            path(&[("HOME", "/home/u"), ("XDG_CACHE_HOME", "/var/c")]).as_deref(),
            Some(xdg)
        );
    }
}
