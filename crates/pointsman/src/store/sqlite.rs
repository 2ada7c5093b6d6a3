//! Knowledge in one SQLite file that many processes may share.
//!
//! Each operation opens the file, works in one transaction and closes it. Between operations
//! nothing is held: a fork carries no connection into the child, and a file that was removed or
//! replaced is noticed. The write-ahead log stays beside the file, so closing costs no fsync.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::path::{self, with_suffix};
use super::rows::{self, Loaded};
use super::{Knowledge, MAX_ENTRIES, Store, StoreError, rescue};

/// Marks the file as ours in its header, for `file` and for us: "PtsM".
pub(super) const APPLICATION: i32 = 0x5074_734d;

/// Version of the table and of what is in it: since 2 it also holds accounts.
const FORMAT: i32 = 2;

/// The oldest version whose records are kept: the table has been the same since.
const OLDEST: i32 = 1;

/// Longest wait of one operation for other processes. A merge holds the lock for well under a
/// millisecond, so that this is hundreds of them; and a process may wait this long at its exit.
const WAIT: Duration = Duration::from_secs(2);

/// A log of this many bytes is moved into the database. Every operation reads the log once, which
/// takes a quarter of a millisecond at this length, and the fsyncs of moving it are shared by some
/// twenty merges.
const LONG_LOG: u64 = 256 * 1024;

/// A store in one SQLite file.
///
/// It survives crashes at any moment, merges what several processes learn, and keeps its size
/// bounded. A file that SQLite finds damaged is renamed to `<name>.damaged`, what is whole is kept,
/// and a warning says so. A file that another program or a newer version wrote is left alone.
///
/// ```
/// use pointsman::store::{SqliteStore, Store};
///
/// let dir = tempfile::tempdir()?;
/// let path = dir.path().join("knowledge.sqlite");
/// let mut store = SqliteStore::open(&path)?;
/// assert!(store.load()?.entries.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    limit: usize,
    /// Damaged records were seen: the next merge writes the table anew.
    rebuild: bool,
    warned_records: bool,
    warned_limit: bool,
}

impl SqliteStore {
    /// Opens the file, or creates it and its directory, readable by this user only.
    ///
    /// On Unix it refuses a path that others could have prepared: a symbolic link, anything but a
    /// regular file, another user's file or directory, or one that every user may write.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let store = SqliteStore {
            path: std::path::absolute(path.as_ref())
                .map_err(|e| StoreError::io("make absolute", path.as_ref(), e))?,
            limit: MAX_ENTRIES,
            rebuild: false,
            warned_records: false,
            warned_limit: false,
        };
        store.run("open", |_| Ok(()))?;
        Ok(store)
    }

    /// The same store, keeping at most this many entries: the ones not changed for longest go.
    pub fn with_limit(mut self, entries: usize) -> Self {
        self.limit = entries;
        self
    }

    /// The file it keeps its records in.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is wrong with a file, as far as SQLite and we can tell; nothing if it is well. The file
    /// is left as it is, while [`open`](Self::open) would replace a damaged one.
    ///
    /// ```
    /// use pointsman::store::SqliteStore;
    ///
    /// let dir = tempfile::tempdir()?;
    /// let path = dir.path().join("knowledge.sqlite");
    /// SqliteStore::open(&path)?;
    /// assert!(SqliteStore::examine(&path)?.is_empty());
    ///
    /// let other = dir.path().join("notes.txt");
    /// std::fs::write(&other, "not a database")?;
    /// assert_eq!(SqliteStore::examine(&other)?, ["file is not a database"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn examine(path: impl AsRef<Path>) -> Result<Vec<String>, StoreError> {
        let path = path.as_ref();
        if !path.exists() {
            let absent = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(StoreError::io("read", path, absent));
        }
        let path = path::prepare(path)?;
        let deadline = Instant::now() + WAIT;
        let _lock = rescue::lock_directory(&path, File::try_lock_shared, deadline)?;
        match problems(&path, deadline) {
            Ok(found) => Ok(found),
            Err(trouble) if trouble.is_busy() => Err(trouble.into_error("examine", &path)),
            Err(trouble) => Ok(vec![trouble.to_string()]),
        }
    }

    /// Opens the file and does some work with it. If SQLite finds it damaged, the file is replaced
    /// by what is whole in it and the work is done again, once.
    fn run<T>(
        &self,
        doing: &'static str,
        work: impl Fn(&mut Connection) -> Result<T, Trouble>,
    ) -> Result<T, StoreError> {
        let deadline = Instant::now() + WAIT;
        let mut replaced = false;
        loop {
            let path = path::prepare(&self.path)?;
            // Held while the file is open, so that nobody replaces it meanwhile.
            let lock = rescue::lock_directory(&path, File::try_lock_shared, deadline)?;
            let identity = path::identity(&path);
            let attempt = connect(&path, deadline).and_then(|mut db| {
                let done = work(&mut db)?;
                shorten_log(&db, &path);
                Ok(done)
            });
            let trouble = match attempt {
                Ok(done) => return Ok(done),
                Err(trouble) => trouble,
            };
            if path::identity(&path) != identity && Instant::now() < deadline {
                continue; // replaced between its check and the lock, or removed by hand
            }
            if replaced || !trouble.is_damage() {
                return Err(trouble.into_error(doing, &path));
            }
            replaced = true;
            drop(lock);
            rescue::replace(&path, identity, self.limit, &trouble.to_string(), deadline)?;
        }
    }

    fn warn_once(&mut self, loaded: &Loaded) {
        if loaded.bad > 0 && !self.warned_records {
            self.warned_records = true;
            tracing::warn!(
                path = %self.path.display(),
                records = loaded.bad,
                "damaged records in the store are skipped; the next save removes them"
            );
        }
        if loaded.cut && !self.warned_limit {
            self.warned_limit = true;
            tracing::warn!(
                path = %self.path.display(),
                entries = loaded.knowledge.entries.len(),
                "the store holds more than is loaded; the rest is left out"
            );
        }
    }
}

impl Store for SqliteStore {
    fn load(&mut self) -> Result<Knowledge, StoreError> {
        let limit = self.limit;
        let loaded = self.run("load", |db| Ok(rows::load(db, limit)?))?;
        self.warn_once(&loaded);
        self.rebuild |= loaded.bad > 0;
        Ok(loaded.knowledge)
    }

    fn merge(&mut self, change: &Knowledge) -> Result<(), StoreError> {
        change.check()?;
        let (limit, rebuild) = (self.limit, self.rebuild);
        self.run("save to", |db| {
            let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            raise_format(&transaction)?;
            if rebuild {
                rows::rebuild(&transaction, limit)?;
            }
            rows::merge(&transaction, change, limit)?;
            Ok(transaction.commit()?)
        })?;
        self.rebuild = false;
        Ok(())
    }

    fn forget(&mut self, op: Option<&str>) -> Result<(), StoreError> {
        self.run("forget in", |db| {
            let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            rows::forget(&transaction, op)?;
            Ok(transaction.commit()?)
        })
    }

    fn describe(&self) -> String {
        format!("SQLite file {}", self.path.display())
    }
}

/// What SQLite and we find wrong with a file.
fn problems(path: &Path, deadline: Instant) -> Result<Vec<String>, Trouble> {
    let mut db = open_file(path, deadline)?;
    state(&db, path)?;
    let mut check = db.prepare("PRAGMA integrity_check(10)")?;
    let lines = check.query_map([], |row| row.get::<_, String>(0))?;
    let mut found = lines.collect::<Result<Vec<_>, _>>()?;
    found.retain(|line| line != "ok");
    drop(check);
    let bad = rows::load(&mut db, MAX_ENTRIES)?.bad;
    if bad > 0 {
        found.push(format!("damaged records: {bad}"));
    }
    Ok(found)
}

/// Why an operation on an open file did not succeed.
#[derive(Debug)]
pub(super) enum Trouble {
    Sqlite(rusqlite::Error),
    /// Not what we wrote, though SQLite can read it.
    Damage(&'static str),
    Store(StoreError),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Trouble::Sqlite(error)
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Trouble::Sqlite(error) => error.fmt(f),
            Trouble::Damage(what) => f.write_str(what),
            Trouble::Store(error) => error.fmt(f),
        }
    }
}

impl Trouble {
    fn is_damage(&self) -> bool {
        match self {
            Trouble::Sqlite(error) => matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
            ),
            Trouble::Damage(_) => true,
            Trouble::Store(_) => false,
        }
    }

    fn is_busy(&self) -> bool {
        let Trouble::Sqlite(error) = self else {
            return false;
        };
        matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
        )
    }

    pub(super) fn into_error(self, doing: &'static str, path: &Path) -> StoreError {
        match self {
            Trouble::Sqlite(source) => StoreError::Sqlite {
                doing,
                path: path.into(),
                source,
            },
            Trouble::Damage(what) => StoreError::Damaged {
                what: format!("{}: {what}", path.display()),
            },
            Trouble::Store(error) => error,
        }
    }
}

/// Opens the file, making it ours if it is empty. Waits for others until the deadline.
pub(super) fn connect(path: &Path, deadline: Instant) -> Result<Connection, Trouble> {
    loop {
        match try_connect(path, deadline) {
            // Turning on the write-ahead log, or recovering it, fails at once where two processes
            // do it together: SQLite does not wait there.
            Err(trouble) if trouble.is_busy() && Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(5));
            }
            done => return done,
        }
    }
}

/// Opens the file as it is, whatever is in it.
pub(super) fn open_file(path: &Path, deadline: Instant) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(deadline.saturating_duration_since(Instant::now()))?;
    // The schema is data of a file that anyone may have written: it calls no functions.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    db.execute_batch("PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY")?;
    Ok(db)
}

fn try_connect(path: &Path, deadline: Instant) -> Result<Connection, Trouble> {
    let mut db = open_file(path, deadline)?;
    if is_empty(&db)? {
        // Both only have an effect before the first table, and outside of a transaction.
        db.execute_batch("PRAGMA auto_vacuum = INCREMENTAL")?;
        db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    }
    db.execute_batch("PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0")?;
    ensure_format(&mut db, path)?;
    Ok(db)
}

/// Moves a long log into the database. SQLite's own way does not: how far the log was moved is known
/// only while some connection is open, so that with ours it would grow for ever.
///
/// It waits for nobody: where another process is at work, the next operation tries again. What was
/// done is safe in the log either way.
fn shorten_log(db: &Connection, path: &Path) {
    let [(log, _), _] = companions(path);
    if fs::metadata(log).is_ok_and(|log| log.len() > LONG_LOG)
        && db.busy_timeout(Duration::ZERO).is_ok()
    {
        let _ = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    }
}

fn number(db: &Connection, pragma: &str) -> Result<i32, rusqlite::Error> {
    db.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0))
}

fn is_empty(db: &Connection) -> Result<bool, rusqlite::Error> {
    let objects: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(objects == 0 && number(db, "application_id")? == 0 && number(db, "user_version")? == 0)
}

enum State {
    Empty,
    Old,
    /// An earlier version of the same table: all that it can hold is still read.
    Kept,
    Current,
}

fn state(db: &Connection, path: &Path) -> Result<State, Trouble> {
    if is_empty(db)? {
        return Ok(State::Empty);
    }
    if number(db, "application_id")? != APPLICATION {
        let expected = "a store of pointsman but another SQLite database";
        return Err(Trouble::Store(StoreError::NotOurs {
            path: Some(path.into()),
            expected,
        }));
    }
    let found = number(db, "user_version")?;
    match found {
        OLDEST..=FORMAT if !rows::table_is_ours(db)? => {
            Err(Trouble::Damage("its tables are not the ones we made"))
        }
        FORMAT => Ok(State::Current),
        OLDEST..FORMAT => Ok(State::Kept),
        ..OLDEST => Ok(State::Old),
        _ => Err(Trouble::Store(StoreError::NewerFormat {
            path: Some(path.into()),
            found: found as u32,
            known: FORMAT as u32,
        })),
    }
}

/// Makes our table in an empty file, or in place of an older format's whose table was another.
fn ensure_format(db: &mut Connection, path: &Path) -> Result<(), Trouble> {
    if let State::Current | State::Kept = state(db, path)? {
        return Ok(());
    }
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Looked at again: another process may have been faster.
    match state(&transaction, path)? {
        State::Current | State::Kept => return Ok(()),
        State::Old => {
            rows::drop_tables(&transaction)?;
            tracing::warn!(
                path = %path.display(),
                "the store has an older format; what it held is dropped and learned anew"
            );
        }
        State::Empty => {}
    }
    rows::create_table(&transaction)?;
    transaction.execute_batch(&format!(
        "PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT};"
    ))?;
    Ok(transaction.commit()?)
}

/// Says in an older file that it may hold what is new: builds that do not know it leave it alone from
/// now on. Only what writes does so, not what looks.
fn raise_format(db: &Connection) -> Result<(), rusqlite::Error> {
    if number(db, "user_version")? != FORMAT {
        db.execute_batch(&format!("PRAGMA user_version = {FORMAT}"))?;
    }
    Ok(())
}

/// The files SQLite keeps beside a database.
pub(super) fn companions(path: &Path) -> [(PathBuf, &'static str); 2] {
    ["-wal", "-shm"].map(|suffix| (with_suffix(path, suffix), suffix))
}
