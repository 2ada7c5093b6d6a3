//! The table of the SQLite store: its rows, their checksums, and what is done in a transaction.

use rusqlite::{Connection, OptionalExtension, Row as SqlRow, Statement, Transaction, params};

use super::codec::{self, ACCOUNT, COSTS, Key, MAX_ENCODED, Unread, VERDICT};
use super::memory::now;
use super::sqlite::Trouble;
use super::{Entry, Knowledge, MAX_MACHINES, MAX_NAME, MAX_WEIGHT};
use crate::machine::MachineRecord;

const SCHEMA: &str = "CREATE TABLE records (machine INTEGER NOT NULL, op TEXT NOT NULL, \
    variant TEXT NOT NULL, revision INTEGER NOT NULL, kind INTEGER NOT NULL, cell BLOB NOT NULL, \
    updated INTEGER NOT NULL, value BLOB NOT NULL, sum INTEGER NOT NULL, \
    PRIMARY KEY (machine, op, variant, revision, kind, cell)) STRICT, WITHOUT ROWID";

/// Columns in the order of [`Row`]. Rows longer than any of ours are not read: SQLite would take
/// memory for whatever length a file claims.
const SELECT: &str = "SELECT machine, op, variant, revision, kind, cell, updated, value, sum FROM records \
    WHERE octet_length(machine) + octet_length(op) + octet_length(variant) + octet_length(revision) \
    + octet_length(kind) + octet_length(cell) + octet_length(updated) + octet_length(value) \
    + octet_length(sum) < 8192";

/// The kind of a row that describes a machine; its names and its cell are empty.
const MACHINE: u8 = 3;

pub(super) fn create_table(db: &Connection) -> Result<(), rusqlite::Error> {
    db.execute_batch(SCHEMA)
}

pub(super) fn drop_tables(db: &Connection) -> Result<(), rusqlite::Error> {
    let mut tables = db.prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
    )?;
    let names: Vec<String> = tables
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for name in names {
        db.execute_batch(&format!("DROP TABLE \"{}\"", name.replace('"', "\"\"")))?;
    }
    Ok(())
}

/// Whether the file holds our table and nothing else: a view or trigger could do as it likes.
pub(super) fn table_is_ours(db: &Connection) -> Result<bool, rusqlite::Error> {
    let mut objects = db.prepare("SELECT sql IS ?1 FROM sqlite_schema LIMIT 2")?;
    let ours: Vec<bool> = objects
        .query_map([SCHEMA], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    Ok(ours == [true])
}

/// Whether our table is there, whatever else is.
pub(super) fn has_our_table(db: &Connection) -> Result<bool, rusqlite::Error> {
    db.query_row(
        "SELECT sql IS ?1 FROM sqlite_schema WHERE name = 'records'",
        [SCHEMA],
        |row| row.get(0),
    )
}

/// One row, whether or not this process can make an entry of it.
#[derive(Debug)]
pub(super) struct Row {
    machine: u64,
    op: Box<str>,
    variant: Box<str>,
    revision: u32,
    kind: u8,
    cell: Vec<u8>,
    updated: i64,
    value: Vec<u8>,
}

impl Row {
    fn of_entry(entry: &Entry) -> Self {
        Row {
            machine: entry.machine,
            op: entry.op.clone(),
            variant: entry.variant.clone(),
            revision: entry.revision,
            kind: codec::kind(&entry.fact),
            cell: entry.cell.encode(),
            updated: i64::try_from(entry.updated).unwrap_or(i64::MAX),
            value: codec::value(entry),
        }
    }

    fn of_machine(record: &MachineRecord) -> Self {
        Row {
            machine: record.fingerprint,
            op: "".into(),
            variant: "".into(),
            revision: 0,
            kind: MACHINE,
            cell: Vec::new(),
            updated: i64::try_from(now()).unwrap_or(i64::MAX),
            value: codec::machine(record),
        }
    }

    /// Reads a row; `None` if any column is not what was written.
    fn read(row: &SqlRow<'_>) -> Result<Option<Self>, rusqlite::Error> {
        // A type that a column cannot have is damage of this row only; SQLite's errors are not.
        let integer = |i| Ok::<_, rusqlite::Error>(row.get_ref(i)?.as_i64().ok());
        let text = |i| Ok::<_, rusqlite::Error>(row.get_ref(i)?.as_str().ok().map(Box::from));
        let blob = |i| Ok::<_, rusqlite::Error>(row.get_ref(i)?.as_blob().ok().map(Vec::from));
        let (machine, revision, kind) = (integer(0)?, integer(3)?, integer(4)?);
        let (op, variant, cell, value) = (text(1)?, text(2)?, blob(5)?, blob(7)?);
        let (updated, sum) = (integer(6)?, integer(8)?);
        let read = || {
            Some(Row {
                machine: machine? as u64,
                op: op?,
                variant: variant?,
                revision: u32::try_from(revision?).ok()?,
                kind: u8::try_from(kind?).ok()?,
                cell: cell?,
                updated: updated?,
                value: value?,
            })
        };
        Ok(read().filter(|row| row.fits() && Some(row.sum()) == sum))
    }

    /// Whether the lengths are such that no two rows have the same encoding.
    fn fits(&self) -> bool {
        self.op.len() <= MAX_NAME
            && self.variant.len() <= MAX_NAME
            && self.cell.len() <= 255
            && self.value.len() <= MAX_ENCODED
    }

    fn key(&self) -> Key<'_> {
        Key {
            machine: self.machine,
            op: &self.op,
            variant: &self.variant,
            revision: self.revision,
            kind: self.kind,
            cell: &self.cell,
        }
    }

    /// Checksum of all columns: SQLite notices a damaged page only where its structure suffers.
    fn sum(&self) -> i64 {
        let mut bytes = Vec::with_capacity(128 + self.value.len());
        self.key().encode(&mut bytes);
        bytes.extend(self.updated.to_le_bytes());
        bytes.extend(&self.value);
        i64::from(crc32fast::hash(&bytes))
    }
}

/// The two statements of a merge, prepared once.
struct Table<'a> {
    find: Statement<'a>,
    put: Statement<'a>,
}

impl<'a> Table<'a> {
    fn of(db: &'a Connection) -> Result<Self, rusqlite::Error> {
        Ok(Table {
            find: db.prepare(&format!(
                "{SELECT} AND machine = ?1 AND op = ?2 AND variant = ?3 AND revision = ?4 AND kind = ?5 AND cell = ?6"
            ))?,
            put: db.prepare("INSERT OR REPLACE INTO records VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?,
        })
    }

    /// The row stored under the same key. Outer `None`: there is none; inner: it is damaged.
    fn find(&mut self, row: &Row) -> Result<Option<Option<Row>>, rusqlite::Error> {
        let key = params![
            row.machine as i64,
            row.op,
            row.variant,
            row.revision,
            row.kind,
            row.cell
        ];
        self.find.query_row(key, Row::read).optional()
    }

    fn put(&mut self, row: &Row) -> Result<(), rusqlite::Error> {
        self.put.execute(params![
            row.machine as i64,
            row.op,
            row.variant,
            row.revision,
            row.kind,
            row.cell,
            row.updated,
            row.value,
            row.sum()
        ])?;
        Ok(())
    }
}

/// Number of entries or of all rows, as far as a file that we wrote can have them: counting what a
/// hostile one claims could take for ever.
fn count(db: &Connection, limit: usize, kinds: &str) -> Result<usize, rusqlite::Error> {
    let query = format!("SELECT count(*) FROM (SELECT 1 FROM records {kinds} LIMIT ?1)");
    let count: i64 = db.query_row(&query, [most_rows(limit) as i64], |row| row.get(0))?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Other processes may have higher limits, but hardly four times as high.
fn most_rows(limit: usize) -> usize {
    limit.saturating_add(MAX_MACHINES).saturating_mul(4)
}

/// What a load found.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) knowledge: Knowledge,
    /// Rows that are not what was written.
    pub(super) bad: usize,
    /// More was stored than may be loaded.
    pub(super) cut: bool,
}

pub(super) fn load(db: &mut Connection, limit: usize) -> Result<Loaded, rusqlite::Error> {
    let transaction = db.transaction()?; // one state of the file for both statements
    let total = count(&transaction, limit, "")?;
    let mut loaded = Loaded::default();
    let (mut seen, mut weight) = (0, 0);
    let mut keyed = Vec::new();
    let mut statement = transaction.prepare(SELECT)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        seen += 1;
        let Some(row) = Row::read(row)? else {
            loaded.bad += 1;
            continue;
        };
        match row.kind {
            COSTS | VERDICT | ACCOUNT => match codec::decode_parts(row.key(), &row.value) {
                Ok(entry) if keyed.len() < limit && weight + entry.weight() <= MAX_WEIGHT => {
                    weight += entry.weight();
                    keyed.push(entry);
                }
                Ok(_) => loaded.cut = true,
                Err(Unread::UnknownBackend) => {} // of use to others
                Err(Unread::Malformed) => loaded.bad += 1,
            },
            MACHINE => match codec::decode_machine(&row.value) {
                Some(machine) if loaded.knowledge.machines.len() < MAX_MACHINES => {
                    loaded.knowledge.machines.push(machine);
                }
                Some(_) => loaded.cut = true,
                None => loaded.bad += 1,
            },
            _ => loaded.bad += 1,
        }
        if seen >= most_rows(limit) {
            loaded.cut = true;
            break;
        }
    }
    if !loaded.cut {
        loaded.bad += total.saturating_sub(seen);
    }
    keyed.sort_by_cached_key(codec::key);
    loaded.knowledge.entries = keyed;
    loaded
        .knowledge
        .machines
        .sort_by_key(|machine| machine.fingerprint);
    Ok(loaded)
}

pub(super) fn merge(db: &Transaction<'_>, change: &Knowledge, limit: usize) -> Result<(), Trouble> {
    let mut table = Table::of(db)?;
    let mut added = false;
    for entry in &change.entries {
        let fresh = entry.clone().trimmed();
        let stored = table.find(&Row::of_entry(&fresh))?;
        added |= stored.is_none();
        let stored = stored
            .flatten()
            .and_then(|row| codec::decode_parts(row.key(), &row.value).ok());
        let merged = match stored {
            Some(mut stored) => {
                stored.merge(entry);
                stored
            }
            None => fresh,
        };
        table.put(&Row::of_entry(&merged))?;
    }
    for machine in &change.machines {
        table.put(&Row::of_machine(machine))?;
    }
    if added {
        evict_entries(db, limit)?;
    }
    if !change.machines.is_empty() {
        evict_machines(db)?;
    }
    Ok(())
}

/// Keeps the number of entries bounded; goes down to seven eighths, so that a full store does not
/// evict at every merge. The file reuses the pages.
fn evict_entries(db: &Transaction<'_>, limit: usize) -> Result<(), rusqlite::Error> {
    let count = count(db, limit, "WHERE kind <> 3")?;
    if count <= limit {
        return Ok(());
    }
    // A time that has not come yet is no time: such entries would stay for ever.
    db.execute(
        "DELETE FROM records WHERE (machine, op, variant, revision, kind, cell) IN
         (SELECT machine, op, variant, revision, kind, cell FROM records WHERE kind <> ?1
          ORDER BY iif(updated > ?2, 0, updated), machine, op, variant, revision, kind, cell LIMIT ?3)",
        params![MACHINE, i64::try_from(now()).unwrap_or(i64::MAX), (count - limit / 8 * 7) as i64],
    )?;
    Ok(())
}

fn evict_machines(db: &Transaction<'_>) -> Result<(), rusqlite::Error> {
    db.execute(
        "DELETE FROM records WHERE kind = ?1 AND machine IN
         (SELECT machine FROM records WHERE kind = ?1 ORDER BY updated DESC, machine DESC LIMIT -1 OFFSET ?2)",
        params![MACHINE, MAX_MACHINES as i64],
    )?;
    Ok(())
}

pub(super) fn forget(db: &Transaction<'_>, op: Option<&str>) -> Result<(), rusqlite::Error> {
    match op {
        Some(op) => db.execute(
            "DELETE FROM records WHERE op = ?1 AND kind <> ?2",
            params![op, MACHINE],
        )?,
        None => db.execute("DELETE FROM records", [])?,
    };
    // Whoever forgets wants the space back.
    db.execute_batch("PRAGMA incremental_vacuum")
}

/// Writes the table anew without its damaged rows: one with a damaged key is not found by it.
pub(super) fn rebuild(db: &Transaction<'_>, limit: usize) -> Result<(), rusqlite::Error> {
    let mut whole = Vec::new();
    salvage(db, limit, &mut whole)?;
    db.execute("DELETE FROM records", [])?;
    write_all(db, &whole)
}

/// Adds the rows that are whole until the first error, which it returns.
pub(super) fn salvage(
    db: &Connection,
    limit: usize,
    whole: &mut Vec<Row>,
) -> Result<(), rusqlite::Error> {
    let mut statement = db.prepare(SELECT)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        whole.extend(Row::read(row)?);
        if whole.len() >= limit + MAX_MACHINES {
            break;
        }
    }
    Ok(())
}

pub(super) fn write_all(db: &Connection, rows: &[Row]) -> Result<(), rusqlite::Error> {
    let mut table = Table::of(db)?;
    rows.iter().try_for_each(|row| table.put(row))
}
