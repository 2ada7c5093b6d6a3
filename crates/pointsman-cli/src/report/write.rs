//! A file that is there as a whole or not at all.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use crate::output::Failure;

/// Writes a file in one step, in the place of what is there: readers find the old or the new one.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let cannot = |error: &dyn std::fmt::Display| {
        Failure::new(format!("cannot write {}: {error}", path.display()))
    };
    // A device or a pipe would be lost under the new file.
    match fs::metadata(path) {
        Ok(there) if !there.is_file() => {
            let what = if there.is_dir() {
                "a directory"
            } else {
                "not a regular file"
            };
            return Err(cannot(&format!(
                "it is {what}; -o names a file, and -o - standard output"
            )));
        }
        _ => {}
    }
    let Some(name) = path.file_name() else {
        return Err(cannot(&"it names no file"));
    };
    let mut draft_name = std::ffi::OsString::from(".");
    draft_name.push(name);
    draft_name.push(format!(".{}.tmp", std::process::id()));
    let draft = path.with_file_name(draft_name);
    let written = fs::File::create_new(&draft)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&draft, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&draft); // the first error says more than this one could
        cannot(&error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.html");
        replace(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no drafts");
        let error = replace(dir.path(), b"three").unwrap_err().to_string();
        assert!(error.contains("a directory"), "{error}");
        assert!(replace(&dir.path().join("no/such"), b"four").is_err());
    }
}
