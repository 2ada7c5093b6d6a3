//! What happens to a damaged SQLite file: it is put aside, and a new one takes its place.

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::path::{self, FILE_NAME, with_suffix};
use super::sqlite::{APPLICATION, Trouble, companions, connect, open_file};
use super::{StoreError, rows};

/// Puts the damaged file aside as `<name>.damaged` and writes what is whole in it to a new one.
///
/// `failed` tells which file was found damaged: if another has taken its place, another process
/// did all this already. The damaged file is kept, in case the fault was ours to find.
pub(super) fn replace(
    path: &Path,
    failed: Option<(u64, u64)>,
    limit: usize,
    reason: &str,
    deadline: Instant,
) -> Result<(), StoreError> {
    let _lock = lock_directory(path, File::try_lock, deadline)?;
    if path::identity(path) != failed {
        return Ok(());
    }
    for file in [path, &with_suffix(path, ".damaged")] {
        if !is_ours(path, file) {
            return Err(StoreError::NotOurs {
                path: Some(file.into()),
                expected: "a store of pointsman",
            });
        }
    }
    let mut whole = Vec::new();
    if let Ok(db) = open_file(path, deadline)
        && rows::has_our_table(&db).unwrap_or(false)
    {
        let _ = rows::salvage(&db, limit, &mut whole); // what it found before the error counts
    }
    put_aside(path)?;
    tracing::warn!(
        path = %path.display(),
        reason,
        records_kept = whole.len(),
        "the store is damaged; it was renamed to .damaged and a new one begun"
    );
    let path = &path::prepare(path)?;
    let write = || -> Result<(), Trouble> {
        let mut db = connect(path, deadline)?;
        let transaction = db.transaction()?;
        rows::write_all(&transaction, &whole)?;
        Ok(transaction.commit()?)
    };
    write().map_err(|trouble| trouble.into_error("save to", path))
}

/// Whether a file may be put aside or replaced: it has the name that stores have, begins as they do, or is not there.
fn is_ours(path: &Path, file: &Path) -> bool {
    if path.file_name().is_some_and(|name| name == FILE_NAME) {
        return true;
    }
    let mut head = Vec::new();
    let read = File::open(file).and_then(|file| file.take(HEADER).read_to_end(&mut head));
    match read {
        Err(error) => error.kind() == ErrorKind::NotFound,
        // Cut off within the header: of any database of SQLite.
        Ok(length) if (length as u64) < HEADER => {
            MAGIC.starts_with(&head) || head.starts_with(MAGIC)
        }
        Ok(_) => head.ends_with(&APPLICATION.to_be_bytes()),
    }
}

/// The beginning of every database of SQLite, up to the number that tells whose it is.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const HEADER: u64 = 72;

/// Renames the file, then its companions: a log left behind by a crash between the two belongs to
/// no file and SQLite drops it.
fn put_aside(path: &Path) -> Result<(), StoreError> {
    let aside = with_suffix(path, ".damaged");
    fs::rename(path, &aside).map_err(|e| StoreError::io("put aside the damaged", path, e))?;
    for (companion, suffix) in companions(path) {
        let target = with_suffix(&aside, suffix);
        match fs::rename(&companion, &target) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let _ = fs::remove_file(&target); // of an earlier damaged file
            }
            Err(error) => return Err(StoreError::io("put aside the damaged", &companion, error)),
            Ok(()) => {}
        }
    }
    Ok(())
}

/// Locks the directory: shared by those who use a file in it, exclusive for who replaces one.
/// `None` where directories cannot be locked: there the check of the file's identity is all there is.
pub(super) fn lock_directory(
    path: &Path,
    lock: fn(&File) -> Result<(), TryLockError>,
    deadline: Instant,
) -> Result<Option<File>, StoreError> {
    let dir = path::directory(path);
    let Ok(file) = File::open(dir) else {
        return Ok(None);
    };
    loop {
        match lock(&file) {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(5));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::io(
                    "lock directory",
                    dir,
                    ErrorKind::WouldBlock.into(),
                ));
            }
            Err(TryLockError::Error(_)) => return Ok(None),
        }
    }
}
