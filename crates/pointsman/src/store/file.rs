//! Knowledge as one file, to carry to another machine.
//!
//! Layout: the magic, the format version, then records of tag, length, payload and CRC-32. Entries
//! come first, in the order of their encoded keys, then machines by fingerprint, then one end
//! record with the numbers of both and a CRC of everything before it. There is one valid file for
//! each knowledge in a format, and nothing after its end.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::codec::{self, MAX_ENCODED, Unread};
use super::{Entry, Knowledge, MAX_ENTRIES, MAX_MACHINES, MAX_WEIGHT, StoreError, path};
use crate::machine::MachineRecord;

/// Not text, and changed by anything that changes line ends.
const MAGIC: &[u8; 12] = b"pointsman\r\n\x1a";

/// The format that is written, and the newest that is read. All from 1 on are: 2 added accounts.
const FORMAT: u32 = 2;

/// The first format that has accounts.
const ACCOUNTS: u32 = 2;

const ENTRY: u8 = 1;
const MACHINE: u8 = 2;
const END: u8 = 255;

/// Writes knowledge as an export file.
///
/// It is sorted, and entries of the same key are merged: the same knowledge gives the same bytes.
pub fn export(knowledge: &Knowledge, out: &mut impl Write) -> Result<(), StoreError> {
    let (entries, machines) = in_order(knowledge)?;
    let mut writer = Writer {
        out,
        crc: crc32fast::Hasher::new(),
    };
    writer.put(MAGIC)?;
    writer.put(&FORMAT.to_le_bytes())?;
    for entry in &entries {
        writer.record(ENTRY, &codec::entry(entry))?;
    }
    for machine in &machines {
        writer.record(MACHINE, &codec::machine(machine))?;
    }
    let mut end = Vec::with_capacity(12);
    end.extend((entries.len() as u32).to_le_bytes());
    end.extend((machines.len() as u32).to_le_bytes());
    end.extend(writer.crc.clone().finalize().to_le_bytes());
    writer.record(END, &end)?;
    writer.out.flush().map_err(writing)
}

/// Writes an export file in one step: readers of the path find the old file or the whole new one.
pub fn export_to(knowledge: &Knowledge, path: &Path) -> Result<(), StoreError> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let draft = path::with_suffix(path, &format!(".{}-{number}.tmp", std::process::id()));
    let written = write_draft(knowledge, &draft).and_then(|()| {
        fs::rename(&draft, path).map_err(|e| StoreError::io("rename the new file to", path, e))
    });
    if written.is_err() {
        let _ = fs::remove_file(&draft); // the first error says more than this one could
    } else {
        sync_directory(path);
    }
    written
}

fn write_draft(knowledge: &Knowledge, draft: &PathBuf) -> Result<(), StoreError> {
    let file = File::create_new(draft).map_err(|e| StoreError::io("create", draft, e))?;
    let mut out = BufWriter::new(file);
    export(knowledge, &mut out).map_err(|e| e.at(draft))?;
    out.get_ref()
        .sync_all()
        .map_err(|e| StoreError::io("write", draft, e))
}

/// Makes the new name survive a power cut. Not all systems can; the file is whole either way.
fn sync_directory(path: &Path) {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    if let Ok(dir) = File::open(dir.unwrap_or(Path::new("."))) {
        let _ = dir.sync_all();
    }
}

/// Reads an export file from anyone: all of it is checked before any of it is returned.
///
/// Entries on custom backends that this process has not named are left out, with one warning. The
/// memory this takes is bounded, whatever the input.
pub fn import(input: &mut impl Read) -> Result<Knowledge, StoreError> {
    let mut reader = Reader {
        input,
        crc: crc32fast::Hasher::new(),
        payload: Vec::new(),
        records: 0,
        format: FORMAT,
    };
    reader.head()?;
    let mut found = Found::default();
    loop {
        let before = reader.crc.clone().finalize();
        match reader.record()? {
            ENTRY => found.entry(&reader)?,
            MACHINE => found.machine(&reader)?,
            END => {
                found.end(&reader, before)?;
                reader.nothing_more()?;
                break;
            }
            tag => return Err(reader.damaged(&format!("has the unknown kind {tag}"))),
        }
    }
    if found.unknown > 0 {
        tracing::warn!(
            entries = found.unknown,
            "entries left out of the import: they are of custom backends that this process has not named"
        );
    }
    Ok(found.knowledge)
}

/// Reads an export file by its path.
pub fn import_from(path: &Path) -> Result<Knowledge, StoreError> {
    let file = File::open(path).map_err(|e| StoreError::io("open", path, e))?;
    import(&mut BufReader::new(file)).map_err(|e| e.at(path))
}

fn writing(source: io::Error) -> StoreError {
    StoreError::Io {
        doing: "write",
        path: None,
        source,
    }
}

/// What may be exported, in the order of the file. What an import would refuse is refused here.
fn in_order(knowledge: &Knowledge) -> Result<(Vec<Entry>, Vec<&MachineRecord>), StoreError> {
    knowledge.check()?;
    let mut entries: Vec<Entry> = Vec::with_capacity(knowledge.entries.len());
    let mut keyed: Vec<_> = knowledge
        .entries
        .iter()
        .map(|entry| (codec::key(entry), entry))
        .collect();
    keyed.sort_by(|a, b| a.0.cmp(&b.0)); // stable: of one key, the later entry is the change
    let mut weight = 0;
    for (_, entry) in keyed {
        match entries.last_mut() {
            Some(last) if last.same_key(entry) => last.merge(entry),
            _ => entries.push(entry.clone().trimmed()),
        }
    }
    for entry in &entries {
        weight += entry.weight();
    }
    check_entries(entries.len(), weight)?;
    let mut machines: Vec<_> = knowledge.machines.iter().rev().collect();
    machines.sort_by_key(|machine| machine.fingerprint);
    machines.dedup_by_key(|machine| machine.fingerprint); // of one machine, the later record stays
    check_machines(machines.len())?;
    Ok((entries, machines))
}

fn check_entries(count: usize, weight: usize) -> Result<(), StoreError> {
    if count > MAX_ENTRIES || weight > MAX_WEIGHT {
        return Err(StoreError::TooLarge {
            what: format!(
                "more than {MAX_ENTRIES} entries or {MAX_WEIGHT} bytes of them: \
                 one file holds no more; export fewer ops"
            ),
        });
    }
    Ok(())
}

fn check_machines(count: usize) -> Result<(), StoreError> {
    if count > MAX_MACHINES {
        return Err(StoreError::TooLarge {
            what: format!("more than {MAX_MACHINES} machines: one file holds no more"),
        });
    }
    Ok(())
}

struct Writer<'a, W> {
    out: &'a mut W,
    crc: crc32fast::Hasher,
}

impl<W: Write> Writer<'_, W> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.crc.update(bytes);
        self.out.write_all(bytes).map_err(writing)
    }

    fn record(&mut self, tag: u8, payload: &[u8]) -> Result<(), StoreError> {
        let mut framed = Vec::with_capacity(payload.len() + 9);
        framed.push(tag);
        framed.extend((payload.len() as u32).to_le_bytes());
        framed.extend(payload);
        framed.extend(crc32fast::hash(&framed).to_le_bytes());
        self.put(&framed)
    }
}

struct Reader<'a, R> {
    input: &'a mut R,
    crc: crc32fast::Hasher,
    payload: Vec<u8>,
    records: usize,
    /// What the head said.
    format: u32,
}

impl<R: Read> Reader<'_, R> {
    fn damaged(&self, what: &str) -> StoreError {
        StoreError::damaged(format!(
            "record {} {what}; the file is damaged",
            self.records
        ))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), StoreError> {
        self.input
            .read_exact(bytes)
            .map_err(|source| match source.kind() {
                io::ErrorKind::UnexpectedEof => self.damaged("is cut off"),
                _ => StoreError::Io {
                    doing: "read",
                    path: None,
                    source,
                },
            })?;
        self.crc.update(bytes);
        Ok(())
    }

    fn head(&mut self) -> Result<(), StoreError> {
        let mut magic = [0; MAGIC.len()];
        match self.fill(&mut magic) {
            Err(error @ StoreError::Io { .. }) => return Err(error),
            Ok(()) if magic == *MAGIC => {}
            _ => {
                return Err(StoreError::NotOurs {
                    path: None,
                    expected: "an export of pointsman",
                });
            }
        }
        let mut version = [0; 4];
        self.fill(&mut version)?;
        self.format = u32::from_le_bytes(version);
        match self.format {
            1..=FORMAT => Ok(()),
            0 => Err(StoreError::damaged(
                "format version 0, which never was; the file is damaged",
            )),
            found => Err(StoreError::NewerFormat {
                path: None,
                found,
                known: FORMAT,
            }),
        }
    }

    /// Reads the next record into `payload` and gives its tag.
    fn record(&mut self) -> Result<u8, StoreError> {
        self.records += 1;
        let mut head = [0; 5];
        self.fill(&mut head)?;
        let [tag, length @ ..] = head;
        let length = u32::from_le_bytes(length) as usize;
        if length > MAX_ENCODED {
            return Err(self.damaged(&format!(
                "claims {length} bytes, more than the {MAX_ENCODED} of the longest"
            )));
        }
        let mut payload = std::mem::take(&mut self.payload);
        payload.resize(length, 0);
        let filled = self.fill(&mut payload);
        self.payload = payload;
        filled?;
        let mut sum = crc32fast::Hasher::new();
        sum.update(&head);
        sum.update(&self.payload);
        let mut stored = [0; 4];
        self.fill(&mut stored)?;
        if u32::from_le_bytes(stored) != sum.finalize() {
            return Err(self.damaged("does not match its checksum"));
        }
        Ok(tag)
    }

    fn nothing_more(&mut self) -> Result<(), StoreError> {
        match self.input.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(StoreError::damaged(
                "there are bytes after the end record; the file is damaged",
            )),
            Err(source) => Err(StoreError::Io {
                doing: "read",
                path: None,
                source,
            }),
        }
    }
}

/// What an import has found so far.
#[derive(Default)]
struct Found {
    knowledge: Knowledge,
    /// Key of the last entry: the next one must be greater.
    last: Vec<u8>,
    entries: usize,
    weight: usize,
    unknown: usize,
}

impl Found {
    fn entry<R: Read>(&mut self, reader: &Reader<'_, R>) -> Result<(), StoreError> {
        if !self.knowledge.machines.is_empty() {
            return Err(reader.damaged("is an entry after a machine"));
        }
        let Some((key, _)) = codec::split_key(&reader.payload) else {
            return Err(reader.damaged("has no readable key"));
        };
        if self.entries > 0 && *key <= *self.last {
            return Err(reader.damaged("is out of order"));
        }
        self.last.clear();
        self.last.extend(key);
        self.entries += 1;
        match codec::decode_entry(&reader.payload) {
            Ok(entry) if reader.format < ACCOUNTS && codec::kind(&entry.fact) == codec::ACCOUNT => {
                return Err(reader.damaged("is an account, which its format does not have"));
            }
            Ok(entry) => {
                self.weight += entry.weight();
                self.knowledge.entries.push(entry);
            }
            Err(Unread::UnknownBackend) => self.unknown += 1,
            Err(Unread::Malformed) => return Err(reader.damaged("is no valid entry")),
        }
        check_entries(self.entries, self.weight)
    }

    fn machine<R: Read>(&mut self, reader: &Reader<'_, R>) -> Result<(), StoreError> {
        let Some(machine) = codec::decode_machine(&reader.payload) else {
            return Err(reader.damaged("is no valid machine"));
        };
        let machines = &mut self.knowledge.machines;
        if machines
            .last()
            .is_some_and(|last| last.fingerprint >= machine.fingerprint)
        {
            return Err(reader.damaged("is out of order"));
        }
        machines.push(machine);
        check_machines(machines.len())
    }

    fn end<R: Read>(&self, reader: &Reader<'_, R>, crc: u32) -> Result<(), StoreError> {
        let mut expected = Vec::with_capacity(12);
        expected.extend((self.entries as u32).to_le_bytes());
        expected.extend((self.knowledge.machines.len() as u32).to_le_bytes());
        expected.extend(crc.to_le_bytes());
        if reader.payload != expected {
            return Err(
                reader.damaged("ends the file with another number of records or another checksum")
            );
        }
        Ok(())
    }
}
