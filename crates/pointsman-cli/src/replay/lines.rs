//! Reading a table line by line, with bounds on everything: any file may be given.

use std::io::{BufRead, BufReader, Read};

use csv_core::ReadRecordResult;

use crate::output::Failure;

/// Longest line: a hundred times what a table with all columns needs.
const MAX_LINE: usize = 1 << 20;

/// Most bytes of a table: what fits into memory several times over.
const MAX_BYTES: u64 = 256 << 20;

/// The lines of a table as fields. A row is one line: a field that spans lines would need a quote
/// to be looked for through the whole file.
pub(super) struct Lines<'n, R> {
    name: &'n str,
    source: BufReader<R>,
    parser: csv_core::Reader,
    line: Vec<u8>,
    /// Number of `line`, from 1.
    pub(super) number: u64,
    bytes: u64,
    /// The fields of `line` one after the other, and where each ends.
    text: String,
    ends: Vec<usize>,
}

impl<'n, R: Read> Lines<'n, R> {
    pub(super) fn new(name: &'n str, source: R) -> Self {
        Lines {
            name,
            source: BufReader::with_capacity(1 << 16, source),
            parser: csv_core::Reader::new(),
            line: Vec::new(),
            number: 0,
            bytes: 0,
            text: String::new(),
            ends: Vec::new(),
        }
    }

    /// What is wrong with the current line.
    pub(super) fn wrong(&self, why: &str) -> Failure {
        Failure::new(format!("{}: line {}: {why}", self.name, self.number))
    }

    /// Goes to the next line that is not blank, if there is one.
    pub(super) fn next(&mut self) -> Result<bool, Failure> {
        while self.read()? {
            if !self.line.trim_ascii().is_empty() {
                return self.parse().map(|()| true);
            }
        }
        Ok(false)
    }

    /// How many fields the current line has.
    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    /// The fields of the current line, without white space around them.
    pub(super) fn fields(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(&0).chain(&self.ends);
        let field = |(start, end): (&usize, &usize)| self.text[*start..*end].trim();
        starts.zip(&self.ends).map(field)
    }

    fn read(&mut self) -> Result<bool, Failure> {
        self.line.clear();
        let mut source = (&mut self.source).take(MAX_LINE as u64 + 1);
        let read = source.read_until(b'\n', &mut self.line);
        let read = match read {
            Ok(0) => return Ok(false),
            Ok(read) => read,
            Err(why) => {
                self.number += 1;
                return Err(self.wrong(&format!("cannot be read: {why}")));
            }
        };
        self.number += 1;
        self.bytes += read as u64;
        if read > MAX_LINE {
            return Err(self.wrong(&format!(
                "longer than {MAX_LINE} bytes; a table is text with one row a line"
            )));
        }
        if self.bytes > MAX_BYTES {
            return Err(self.wrong(&format!(
                "more than {MAX_BYTES} bytes so far; a table has at most that many"
            )));
        }
        if self.number == 1 && self.line.starts_with(b"\xEF\xBB\xBF") {
            self.line.drain(..3); // the mark that spreadsheets put before UTF-8
        }
        Ok(true)
    }

    /// Splits the line into fields.
    fn parse(&mut self) -> Result<(), Failure> {
        let line = self.line.trim_ascii_end();
        if line.contains(&b'\r') {
            return Err(self.wrong("a carriage return within the line; lines end with a line feed"));
        }
        // No field is longer than what it is written as, so that the parser always has room.
        let mut text = std::mem::take(&mut self.text).into_bytes();
        text.resize(line.len() + 1, 0);
        let commas = line.iter().filter(|byte| **byte == b',').count();
        self.ends.resize(commas + 2, 0);
        self.parser.reset();
        let (_, _, held, ended) = self.parser.read_record(line, &mut text, &mut self.ends);
        // The end of the input ends the last field.
        let (done, _, more, last) =
            self.parser
                .read_record(&[], &mut text[held..], &mut self.ends[ended..]);
        text.truncate(held + more);
        self.ends.truncate(ended + last);
        if done != ReadRecordResult::Record {
            return Err(self.wrong("not a row of fields separated by commas"));
        }
        match String::from_utf8(text) {
            Ok(text) => self.text = text,
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                let column = self.ends.partition_point(|end| *end <= at) + 1;
                return Err(self.wrong(&format!("column {column}: not UTF-8 text")));
            }
        }
        // Halves of a character on both sides of a comma are not text either.
        match self
            .ends
            .iter()
            .position(|end| !self.text.is_char_boundary(*end))
        {
            Some(at) => Err(self.wrong(&format!("column {}: not UTF-8 text", at + 1))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &[u8]) -> Result<Vec<Vec<String>>, String> {
        let mut lines = Lines::new("t", text);
        let mut rows = Vec::new();
        while lines.next().map_err(|e| e.to_string())? {
            assert_eq!(lines.fields().count(), lines.count());
            rows.push(lines.fields().map(str::to_owned).collect());
        }
        Ok(rows)
    }

    #[test]
    fn a_line_is_split_as_csv_says() {
        let read = rows(b"\xEF\xBB\xBFa, b ,\"c,\"\"d\"\r\n\n  \n1,,\n\"x\"").unwrap();
        assert_eq!(
            read,
            [vec!["a", "b", "c,\"d"], vec!["1", "", ""], vec!["x"]]
        );
        assert_eq!(rows(b"").unwrap(), Vec::<Vec<String>>::new());
    }

    #[test]
    fn what_is_not_a_line_of_text_is_refused_with_its_place() {
        let wrong = |text: &[u8]| rows(text).unwrap_err();
        assert_eq!(
            wrong(b"a\n\nb,\xFF,c"),
            "t: line 3: column 2: not UTF-8 text"
        );
        assert_eq!(wrong(b"\xC3,\xA9"), "t: line 1: column 1: not UTF-8 text");
        assert!(wrong(b"a\n1\r2\n").starts_with("t: line 2: a carriage return"));
    }

    /// A source that counts what is taken from it.
    struct Endless<'c>(&'c mut u64);

    impl Read for Endless<'_> {
        fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
            to.fill(b'7');
            *self.0 += to.len() as u64;
            Ok(to.len())
        }
    }

    #[test]
    fn a_file_without_an_end_is_left_after_one_line() {
        let mut taken = 0;
        let mut lines = Lines::new("t", Endless(&mut taken));
        let told = lines.next().unwrap_err().to_string();
        assert!(told.contains("line 1: longer than 1048576 bytes"), "{told}");
        drop(lines);
        assert!(taken < 2 << 20, "{taken} bytes were read");
    }

    #[test]
    fn a_file_of_too_many_lines_is_left() {
        let line = [b"7".repeat(1_000_000), b"\n".to_vec()].concat();
        let mut source: Box<dyn Read> = Box::new(std::io::empty());
        for _ in 0..300 {
            source = Box::new(source.chain(std::io::Cursor::new(line.clone())));
        }
        let mut lines = Lines::new("t", source);
        let told = loop {
            match lines.next() {
                Ok(more) => assert!(more, "300 MB were read"),
                Err(told) => break told.to_string(),
            }
        };
        assert!(told.contains("more than 268435456 bytes"), "{told}");
    }
}
