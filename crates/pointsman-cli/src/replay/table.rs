//! A timing table: what each variant took for each workload.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use pointsman::{MAX_CODES, Workload};

use super::columns::{Column, Columns};
use super::lines::Lines;
use crate::output::Failure;

/// Most rows of a table.
const MAX_ROWS: usize = 2_000_000;

/// Times that are believed, in seconds. Ratios of such times, and sums of them, are finite.
const TIMES: std::ops::RangeInclusive<f64> = 1e-15..=1e12;

/// The shortest time as the selector sees it, in seconds: its costs are whole nanoseconds, so that
/// rounding changes no cost by more than 0.05 %.
const SHORTEST: f64 = 1e-6;

/// The longest time as the selector sees it: it believes costs of up to a day, and noise comes on
/// top.
const LONGEST: f64 = 1e4;

/// One variant in one workload.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Its place among the table's variants.
    pub variant: usize,
    /// Its true cost in seconds: the median of its repeats.
    pub truth: f64,
    /// Its times in seconds, as the rows give them.
    pub repeats: Vec<f64>,
    /// Bytes of workspace that it needs.
    pub workspace: f64,
}

/// The rows with one set of features.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its first data row, counted from 0.
    pub row: usize,
    /// How many rows it has.
    pub rows: usize,
    /// The features as a policy sees them.
    pub workload: Workload,
    /// The variants that can run, in the order of the table's columns; never empty.
    pub choices: Vec<Choice>,
}

impl Case {
    /// The oracle's choice: the lowest true cost in seconds.
    pub fn best(&self) -> f64 {
        let truths = self.choices.iter().map(|c| c.truth);
        truths.fold(f64::INFINITY, f64::min)
    }

    /// The middle of the true costs: what somebody pays who cannot run the variant they wanted.
    pub fn middle(&self) -> f64 {
        median(self.choices.iter().map(|c| c.truth).collect())
    }
}

/// A timing table.
#[derive(Clone, Debug)]
pub struct Table {
    /// What it is called in results.
    pub name: String,
    /// Names of the variants, in the order of their columns.
    pub variants: Vec<String>,
    /// Its workloads, in the order of their first rows.
    pub cases: Vec<Case>,
    /// Whether it says how much workspace variants need.
    pub knows_memory: bool,
    /// What times are multiplied with before a selector sees them: a power of ten.
    pub scale: f64,
}

impl Table {
    /// Reads a table from a file.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let name = shown(&path.display().to_string(), 400);
        let unreadable =
            |why: std::io::Error| Failure::new(format!("{name}: cannot be read: {why}"));
        let file = File::open(path).map_err(unreadable)?;
        if file.metadata().map_err(unreadable)?.is_dir() {
            return Err(Failure::new(format!(
                "{name}: is a directory; a table is a CSV file"
            )));
        }
        Self::read(&name, file)
    }

    /// Reads a table from anything that gives bytes.
    pub fn read(name: &str, source: impl Read) -> Result<Self, Failure> {
        let mut lines = Lines::new(name, source);
        if !lines.next()? {
            return Err(Failure::new(format!(
                "{name}: line 1: the table is empty; its header names columns x:…, c:… and t:…"
            )));
        }
        let columns = Columns::read(lines.fields()).map_err(|why| lines.wrong(&why))?;
        let mut reader = CaseReader::new(columns);
        while lines.next()? {
            if reader.rows == MAX_ROWS {
                let why = format!("more than {MAX_ROWS} rows; a table has at most that many");
                return Err(lines.wrong(&why));
            }
            reader.add(&lines).map_err(|why| lines.wrong(&why))?;
        }
        if reader.rows == 0 {
            return Err(lines.wrong("no row follows the header; a table has at least one"));
        }
        reader.finish(name)
    }

    /// The table of the variants whose workspace fits into `cap` bytes, and how many workloads have
    /// none and are left out.
    pub fn within(mut self, cap: u64) -> Result<(Self, usize), Failure> {
        let before = self.cases.len();
        for case in &mut self.cases {
            case.choices.retain(|c| c.workspace <= cap as f64);
        }
        self.cases.retain(|case| !case.choices.is_empty());
        if self.cases.is_empty() {
            return Err(Failure::new(format!(
                "{}: no variant needs as little as {cap} bytes in any workload; give a larger --memory-cap",
                self.name
            )));
        }
        let left_out = before - self.cases.len();
        Ok((self, left_out))
    }
}

/// One row; the reader's buffers.
#[derive(Default)]
struct Row {
    numbers: Vec<f64>,
    codes: Vec<u32>,
    times: Vec<(usize, f64)>,
    workspaces: Vec<(usize, f64)>,
}

impl Row {
    fn clear(&mut self) {
        self.numbers.clear();
        self.codes.clear();
        self.times.clear();
        self.workspaces.clear();
    }
}

/// Groups rows into cases.
struct CaseReader {
    columns: Columns,
    row: Row,
    rows: usize,
    cases: Vec<Case>,
    /// Where each case's first row is, for errors.
    lines: Vec<u64>,
    by_features: HashMap<(Vec<u64>, Vec<u32>), usize>,
    /// For each categorical column, the codes of its values by first appearance.
    codes: Vec<HashMap<String, u32>>,
    /// Codes of the combinations that stand in for more columns than a workload has codes.
    merged: HashMap<Vec<u32>, u32>,
}

impl CaseReader {
    fn new(columns: Columns) -> Self {
        CaseReader {
            codes: vec![HashMap::new(); columns.categories],
            columns,
            row: Row::default(),
            rows: 0,
            cases: Vec::new(),
            lines: Vec::new(),
            by_features: HashMap::new(),
            merged: HashMap::new(),
        }
    }

    fn add<R: Read>(&mut self, lines: &Lines<'_, R>) -> Result<(), String> {
        let columns = &self.columns;
        if lines.count() != columns.all.len() {
            return Err(columns.ragged(lines.count()));
        }
        let row = &mut self.row;
        row.clear();
        for (at, (column, text)) in columns.all.iter().zip(lines.fields()).enumerate() {
            let wrong = |what: &str| {
                let column = columns.shown(at);
                format!("{column}: {:?} {what}", shown(text, 40))
            };
            match *column {
                Column::Number => {
                    let number = finite(text)
                        .ok_or_else(|| wrong("is not a number; a feature is a finite one"))?;
                    row.numbers.push(number + 0.0); // −0 and 0 are one number
                }
                Column::Category(of) => {
                    let known = &mut self.codes[of];
                    let next = known.len() as u32;
                    let code = known.get(text).copied();
                    let code =
                        code.unwrap_or_else(|| *known.entry(text.to_owned()).or_insert(next));
                    row.codes.push(code);
                }
                Column::Time(_) | Column::Workspace(_) if text.is_empty() => {}
                Column::Time(variant) => {
                    let time = finite(text).filter(|t| TIMES.contains(t));
                    let time = time.ok_or_else(|| {
                        wrong("is not a time; it is a number of seconds from 1e-15 to 1e12, or blank where the variant cannot run")
                    })?;
                    row.times.push((variant, time));
                }
                Column::Workspace(variant) => {
                    let bytes = finite(text).filter(|b| *b >= 0.0);
                    let bytes = bytes.ok_or_else(|| {
                        wrong("is not a workspace; it is a number of bytes, 0 or more, or blank")
                    })?;
                    row.workspaces.push((variant, bytes));
                }
            }
        }
        self.join(lines.number)
    }

    /// Adds the row to the case with its features.
    fn join(&mut self, line: u64) -> Result<(), String> {
        let row = std::mem::take(&mut self.row);
        let key = (
            row.numbers.iter().map(|n| n.to_bits()).collect(),
            row.codes.clone(),
        );
        let at = match self.by_features.get(&key) {
            Some(at) => *at,
            None => {
                let workload = self.workload(&row.numbers, &row.codes)?;
                self.by_features.insert(key, self.cases.len());
                self.lines.push(line);
                self.cases.push(Case {
                    row: self.rows,
                    rows: 0,
                    workload,
                    choices: Vec::new(),
                });
                self.cases.len() - 1
            }
        };
        self.rows += 1;
        let case = &mut self.cases[at];
        case.rows += 1;
        for (variant, time) in &row.times {
            choice_of(case, *variant).repeats.push(*time);
        }
        for (variant, bytes) in &row.workspaces {
            let needs = &mut choice_of(case, *variant).workspace;
            *needs = needs.max(*bytes);
        }
        self.row = row;
        Ok(())
    }

    /// The features as a workload. Where there are more categorical columns than a workload has
    /// codes, the last code stands for the combination of all that are left.
    fn workload(&mut self, numbers: &[f64], codes: &[u32]) -> Result<Workload, String> {
        let mut codes = codes.to_vec();
        if codes.len() > MAX_CODES {
            let surplus = codes.split_off(MAX_CODES - 1);
            let next = self.merged.len() as u32;
            codes.push(*self.merged.entry(surplus).or_insert(next));
        }
        let workload = Workload::from_slice(numbers).map_err(|e| e.to_string())?;
        workload.codes_from_slice(&codes).map_err(|e| e.to_string())
    }

    fn finish(mut self, name: &str) -> Result<Table, Failure> {
        let (mut least, mut most) = (f64::INFINITY, 0f64);
        for (case, line) in self.cases.iter_mut().zip(&self.lines) {
            // A variant that only has a workspace cannot run.
            case.choices.retain(|c| !c.repeats.is_empty());
            if case.choices.is_empty() {
                return Err(Failure::new(format!(
                    "{name}: line {line}: no variant can run in this workload; at least one t: column needs a time"
                )));
            }
            for choice in &mut case.choices {
                choice.repeats.shrink_to_fit();
                choice.truth = median(choice.repeats.clone());
                least = choice.repeats.iter().copied().fold(least, f64::min);
                most = choice.repeats.iter().copied().fold(most, f64::max);
            }
        }
        Ok(Table {
            name: name.to_owned(),
            knows_memory: self.columns.knows_memory(),
            variants: self.columns.variants,
            cases: self.cases,
            scale: scale(least, most),
        })
    }
}

/// The choice of a variant, made where it is missing, in the order of the variants.
fn choice_of(case: &mut Case, variant: usize) -> &mut Choice {
    let found = case.choices.binary_search_by_key(&variant, |c| c.variant);
    let at = found.unwrap_or_else(|at| {
        let choice = Choice {
            variant,
            truth: 0.0,
            repeats: Vec::new(),
            workspace: 0.0,
        };
        case.choices.insert(at, choice);
        at
    });
    &mut case.choices[at]
}

/// The power of ten that lifts the shortest time to a microsecond, as far as the longest allows.
fn scale(least: f64, most: f64) -> f64 {
    let lift = (SHORTEST / least).log10().ceil().max(0.0);
    let room = (LONGEST / most).log10().floor();
    10f64.powf(lift.min(room))
}

/// The middle value, or the mean of the two in the middle. The list is not empty.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 {
        values[half]
    } else {
        values[half - 1].midpoint(values[half])
    }
}

fn finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// A value as part of a one-line message: without control characters, and not too long.
pub(super) fn shown(text: &str, most: usize) -> String {
    let mut out: String = text
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .take(most)
        .collect();
    if text.chars().nth(most).is_some() {
        out.push('…');
    }
    out
}
