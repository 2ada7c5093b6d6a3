//! The header of a table: which column is what.

use std::collections::HashMap;

use pointsman::MAX_FEATURES;
use pointsman::store::MAX_NAME;

use super::table::shown;

/// Most variants that a selector tells apart.
const MAX_VARIANTS: usize = 64;

/// What a column holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Column {
    /// A numeric feature.
    Number,
    /// A categorical feature: which one.
    Category(usize),
    /// The seconds of a variant.
    Time(usize),
    /// The workspace of a variant in bytes.
    Workspace(usize),
}

/// The columns of a table, from its header.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) all: Vec<Column>,
    pub(super) variants: Vec<String>,
    pub(super) categories: usize,
    names: Vec<String>,
}

impl Columns {
    /// Reads a header; what is wrong with it otherwise.
    pub(super) fn read<'h>(header: impl Iterator<Item = &'h str>) -> Result<Self, String> {
        let mut columns = Columns {
            all: Vec::new(),
            variants: Vec::new(),
            categories: 0,
            names: header.map(str::to_owned).collect(),
        };
        columns.name_variants()?;
        let mut numbers = 0;
        for at in 0..columns.names.len() {
            let column = columns.column(at)?;
            match column {
                Column::Number => numbers += 1,
                Column::Category(_) => columns.categories += 1,
                Column::Time(_) | Column::Workspace(_) => {}
            }
            columns.all.push(column);
        }
        match numbers {
            _ if numbers > MAX_FEATURES => Err(format!(
                "{numbers} columns x:…; a workload has at most {MAX_FEATURES} numeric features"
            )),
            0 if columns.categories == 0 => {
                Err("no column x:… or c:…; workloads need at least one feature".to_owned())
            }
            _ => Ok(columns),
        }
    }

    /// Finds the variants, and that no column is there twice.
    fn name_variants(&mut self) -> Result<(), String> {
        let mut seen = HashMap::new();
        for (at, name) in self.names.iter().enumerate() {
            if let Some(first) = seen.insert(name, at) {
                let column = self.shown(at);
                return Err(format!("{column}: column {} has that name too", first + 1));
            }
            let Some(variant) = name.strip_prefix("t:") else {
                continue;
            };
            if variant.len() > MAX_NAME || variant.chars().any(char::is_control) {
                let column = self.shown(at);
                return Err(format!(
                    "{column}: a variant's name has at most {MAX_NAME} bytes and no control character"
                ));
            }
            self.variants.push(variant.to_owned());
        }
        match self.variants.len() {
            0 => Err("no column t:…; at least two hold the seconds of variants".to_owned()),
            1 => Err(format!(
                "one variant only ({:?}); choosing needs at least two columns t:…",
                shown(&self.variants[0], 40)
            )),
            n if n > MAX_VARIANTS => Err(format!(
                "{n} variants; a selector tells at most {MAX_VARIANTS} apart"
            )),
            _ => Ok(()),
        }
    }

    fn column(&self, at: usize) -> Result<Column, String> {
        let name = &self.names[at];
        let variant = |name: &str| self.variants.iter().position(|v| v == name);
        match name.split_once(':') {
            Some((_, "")) => Err(format!(
                "{}: the name after the colon is missing",
                self.shown(at)
            )),
            Some(("x", _)) => Ok(Column::Number),
            Some(("c", _)) => Ok(Column::Category(self.categories)),
            Some(("t", of)) => Ok(Column::Time(variant(of).unwrap_or(0))),
            Some(("m", of)) => variant(of).map(Column::Workspace).ok_or_else(|| {
                format!(
                    "{}: there is no column t:{} to go with it",
                    self.shown(at),
                    shown(of, 40)
                )
            }),
            _ => Err(format!(
                "{}: a column is x:NAME (number), c:NAME (category), t:VARIANT (seconds) or m:VARIANT (bytes)",
                self.shown(at)
            )),
        }
    }

    /// Whether any column says how much workspace a variant needs.
    pub(super) fn knows_memory(&self) -> bool {
        self.all.iter().any(|c| matches!(c, Column::Workspace(_)))
    }

    /// What is wrong with a row of another number of fields.
    pub(super) fn ragged(&self, fields: usize) -> String {
        let (columns, places) = (self.all.len(), fields.min(self.all.len() - 1));
        let what = if fields < columns {
            "is missing"
        } else {
            "is the last"
        };
        format!(
            "{fields} fields, and the header has {columns} columns: {} {what}",
            self.shown(places)
        )
    }

    /// A column as a message names it.
    pub(super) fn shown(&self, at: usize) -> String {
        format!("column {} ({})", at + 1, shown(&self.names[at], 40))
    }
}
