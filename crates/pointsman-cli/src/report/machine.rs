//! The machine that the report is about, and the others that the store knows of.

use std::collections::BTreeMap;

use pointsman::Calibration;
use pointsman::store::{Knowledge, MachineRecord};
use serde::Serialize;

use crate::gpu;

/// A machine as the store describes it.
#[derive(Clone, Serialize)]
pub(super) struct Machine {
    #[serde(skip)]
    print: u64,
    /// The same machine as programs see it that do not look for GPUs.
    #[serde(skip)]
    bare: Option<u64>,
    /// In hexadecimal: more digits than a JSON number is sure to keep.
    fingerprint: String,
    this_machine: bool,
    /// What the store says of it, fact by fact; empty of a machine that was imported.
    pub(super) facts: BTreeMap<String, String>,
    pub(super) calibration: Option<Calibration>,
}

impl Machine {
    /// This machine, if anything was learned on it, else the one that most was learned on.
    pub(super) fn choose(known: &Knowledge) -> Option<Self> {
        let here = gpu::machine();
        let bare = pointsman::Machine::detect().fingerprint();
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for entry in &known.entries {
            *counts.entry(entry.machine).or_default() += 1;
        }
        let most = counts.iter().max_by_key(|(print, n)| (**n, **print));
        let known_here = [here.fingerprint(), bare];
        let print = match known_here.iter().any(|print| counts.contains_key(print)) {
            true => here.fingerprint(),
            false => *most?.0,
        };
        let this_machine = print == here.fingerprint();
        let bare = Some(bare).filter(|bare| this_machine && *bare != print);
        let record = known.machines.iter().find(|m| m.fingerprint == print);
        let text = match record {
            Some(record) => record.text.clone(),
            None if this_machine => here.to_string(),
            None => String::new(),
        };
        Some(Machine {
            print,
            bare,
            fingerprint: format!("{print:016x}"),
            this_machine,
            facts: facts(&text),
            calibration: record.and_then(Calibration::from_record),
        })
    }

    /// Whether an entry is of this machine, and if so, whether of programs that do not look for its
    /// GPUs: what they learn is kept apart.
    pub(super) fn holds(&self, print: u64) -> Option<bool> {
        match print {
            print if print == self.print => Some(false),
            print if Some(print) == self.bare => Some(true),
            _ => None,
        }
    }

    pub(super) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    pub(super) fn is_this(&self) -> bool {
        self.this_machine
    }

    pub(super) fn calibration(&self) -> Option<&Calibration> {
        self.calibration.as_ref()
    }

    pub(super) fn fact(&self, name: &str) -> Option<&str> {
        self.facts.get(name).map(String::as_str)
    }

    /// GPUs by the name of their backend.
    pub(super) fn gpus(&self) -> impl Iterator<Item = (&str, &str)> {
        let facts = self.facts.iter().map(|(name, value)| (&**name, &**value));
        facts.filter(|(name, _)| name.starts_with("gpu:"))
    }
}

/// The lines of a description: a word, and what it says. The last names the numbers of the
/// calibration, which are told by themselves.
fn facts(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines
        .filter(|(name, _)| *name != "backends")
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Another machine that the store knows of.
#[derive(Clone, Serialize)]
pub(super) struct Elsewhere {
    pub(super) fingerprint: String,
    pub(super) cpu: Option<String>,
    pub(super) entries: usize,
    pub(super) ops: Vec<String>,
}

impl Elsewhere {
    pub(super) fn all(known: &Knowledge, shown: Option<&Machine>) -> Vec<Self> {
        let mut by_machine: BTreeMap<u64, (usize, Vec<&str>)> = BTreeMap::new();
        let is_shown = |print| shown.is_some_and(|m| m.holds(print).is_some());
        for entry in known.entries.iter().filter(|e| !is_shown(e.machine)) {
            let (entries, ops) = by_machine.entry(entry.machine).or_default();
            *entries += 1;
            ops.push(&entry.op);
        }
        let of = |print: u64| known.machines.iter().find(|m| m.fingerprint == print);
        let cpu = |record: &MachineRecord| facts(&record.text).remove("cpu");
        by_machine
            .into_iter()
            .map(|(print, (entries, mut ops))| {
                ops.sort_unstable();
                ops.dedup();
                Elsewhere {
                    fingerprint: format!("{print:016x}"),
                    cpu: of(print).and_then(cpu),
                    entries,
                    ops: ops.into_iter().map(str::to_owned).collect(),
                }
            })
            .collect()
    }
}
