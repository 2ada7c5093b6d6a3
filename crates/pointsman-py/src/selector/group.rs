//! The candidates that a selector chooses from, and who of them may serve.

use std::borrow::Cow;
use std::sync::Arc;

use pointsman::Backend;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyMapping, PyString};

use super::Selector;
use crate::errors::{self, NoVariantError};
use crate::op::MOST_VARIANTS;
use crate::ready::Ready;
use crate::variant::{self, Declared, Variant};
use crate::workload::Workload;

/// Bytes below which the host's memory is not asked for: any process has them.
const TINY: u64 = 1 << 20;

/// Groups of candidates that are kept prepared.
const MOST_GROUPS: usize = 4096;

/// A backend that a selector chooses from.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) name: String,
    backend: Backend,
    gradient: bool,
}

/// Candidates of one op.
pub(crate) struct Group {
    pub(super) ready: Ready,
    pub(super) names: Vec<Py<PyString>>,
    backends: Vec<Backend>,
    pub(super) without_gradient: u64,
}

impl Selector {
    /// The candidates of an op: these, or all backends.
    pub(super) fn group(
        &self,
        py: Python<'_>,
        op: &str,
        names: Option<&[String]>,
    ) -> PyResult<Arc<Group>> {
        let joined;
        let key = match names {
            None => op,
            Some(names) => {
                joined = format!("{op}\0{}", names.join("\0"));
                &joined
            }
        };
        let groups = self.groups.read().unwrap_or_else(|e| e.into_inner());
        if let Some(group) = groups.get(key) {
            return Ok(group.clone());
        }
        drop(groups);
        let group = Arc::new(self.prepare(py, op, names)?);
        let mut groups = self.groups.write().unwrap_or_else(|e| e.into_inner());
        if groups.len() >= MOST_GROUPS {
            groups.clear(); // they are prepared again
        }
        groups.insert(key.to_owned(), group.clone());
        Ok(group)
    }

    #[cold]
    fn prepare(&self, py: Python<'_>, op: &str, names: Option<&[String]>) -> PyResult<Group> {
        let mut members = Vec::new();
        for name in names.unwrap_or_default() {
            let known = self.backends.iter().find(|known| known.name == *name);
            members.push(match known {
                Some(known) => known.clone(),
                None => Known::named(name)?,
            });
        }
        if names.is_none() {
            members.clone_from(&self.backends);
        }
        let variant = |known: &Known| {
            let declared = Declared {
                backend: known.backend,
                gradient: known.gradient,
                ..Declared::default()
            };
            Py::new(
                py,
                Variant {
                    name: known.name.clone(),
                    function: py.None(),
                    declared,
                },
            )
        };
        let variants = members.iter().map(variant).collect::<PyResult<Vec<_>>>()?;
        let gradients = members.iter().enumerate();
        Ok(Group {
            without_gradient: gradients.fold(0, |m, (i, k)| m | u64::from(!k.gradient) << i),
            names: members
                .iter()
                .map(|k| PyString::intern(py, &k.name).unbind())
                .collect(),
            backends: members.iter().map(|k| k.backend).collect(),
            ready: Ready::without_reference(py, op, self, variants)?,
        })
    }

    /// Who may serve: gradients and memory are exact, whatever was learned.
    #[inline]
    pub(super) fn eligible(
        &self,
        group: &Group,
        workload: &pointsman::Workload,
        memory: u64,
    ) -> u64 {
        let mut able = u64::MAX >> (64 - group.names.len());
        if workload.needs_gradient() {
            able &= !group.without_gradient;
        }
        let (mut fits, mut hosts, mut host) = (able, able, None);
        for (place, backend) in group.backends.iter().enumerate() {
            let free = match backend {
                Backend::Gpu(_) => {
                    hosts &= !(1 << place);
                    self.core.free_memory(*backend)
                }
                _ if memory < TINY => continue,
                _ => *host.get_or_insert_with(|| self.core.free_memory(Backend::Scalar)),
            };
            if free.is_none_or(|free| memory > free) {
                fits &= !(1 << place);
            }
        }
        // Where it fits nowhere, the first of the host serves, if there is one.
        match fits {
            0 => hosts & hosts.wrapping_neg(),
            fits => fits,
        }
    }

    /// Why a candidate is not among those who may serve.
    pub(super) fn why_not(
        &self,
        group: &Group,
        workload: &Workload,
        core: &pointsman::Workload,
        place: usize,
    ) -> String {
        if core.needs_gradient() && group.without_gradient & 1 << place != 0 {
            return "gives no gradients".to_owned();
        }
        let (bytes, free) = (
            workload.memory,
            self.core.free_memory(group.backends[place]),
        );
        match free {
            Some(free) => format!("{bytes} bytes do not fit into {free}"),
            None => format!("{bytes} bytes do not fit: nobody knows what is free there"),
        }
    }

    /// The error of a workload that nobody may serve.
    #[cold]
    pub(super) fn nobody(
        &self,
        group: &Group,
        workload: &Workload,
        core: &pointsman::Workload,
        eligible: u64,
    ) -> PyErr {
        let lines = group
            .ready
            .variants
            .iter()
            .enumerate()
            .map(|(place, variant)| {
                let why = match eligible & 1 << place {
                    0 => self.why_not(group, workload, core, place),
                    _ => "disabled".to_owned(),
                };
                format!("{}: {why}", variant.get().name)
            });
        let lines: Vec<String> = lines.collect();
        let text = format!(
            "no backend may serve {} ({core}): {}",
            workload.op,
            lines.join("; ")
        );
        NoVariantError::new_err(text)
    }
}

impl Known {
    fn new(name: &str, gradient: bool) -> PyResult<Self> {
        Ok(Known {
            name: name.to_owned(),
            backend: variant::backend(name)?,
            gradient,
        })
    }

    /// One of which is only known what it is called.
    fn named(name: &str) -> PyResult<Self> {
        let known = Self::new(name, matches!(name, "torch" | "jax"))?;
        let gradient = known.gradient || matches!(known.backend, Backend::Gpu(_));
        Ok(Known { gradient, ..known })
    }
}

impl Group {
    pub(super) fn place(&self, backend: &str) -> PyResult<usize> {
        let named = |v: &Py<Variant>| v.get().name == backend;
        self.ready.variants.iter().position(named).ok_or_else(|| {
            let names: Vec<&str> = self
                .ready
                .variants
                .iter()
                .map(|v| v.get().name.as_str())
                .collect();
            errors::value(format!(
                "backend {backend:?}: valid are {}",
                names.join(", ")
            ))
        })
    }
}

/// The workload of a call that prefers a backend.
#[inline]
pub(super) fn preferring<'w>(
    group: &Group,
    workload: &'w pointsman::Workload,
    preferred: Option<&str>,
) -> PyResult<Cow<'w, pointsman::Workload>> {
    match preferred {
        None => Ok(Cow::Borrowed(workload)),
        Some(name) => Ok(Cow::Owned(
            workload.prefer(group.backends[group.place(name)?]),
        )),
    }
}

/// The backends given, by name or with whether they give gradients; else those that are installed.
pub(super) fn known(py: Python<'_>, told: Option<Bound<'_, PyAny>>) -> PyResult<Vec<Known>> {
    let mut found: Vec<Known> = Vec::new();
    match told {
        None => {
            let find = py.import("importlib.util")?.getattr("find_spec")?;
            for name in ["numpy", "numba", "torch", "jax"] {
                if !find.call1((name,))?.is_none() {
                    found.push(Known::named(name)?);
                }
            }
        }
        Some(told) => {
            if let Ok(told) = told.cast::<PyMapping>() {
                for (name, gradient) in
                    told.items()?.extract::<Vec<(String, Bound<'_, PyAny>)>>()?
                {
                    found.push(Known::new(&name, gradient.is_truthy()?)?);
                }
            } else if told.is_instance_of::<PyString>() {
                return Err(PyTypeError::new_err("backends: give a list of names"));
            } else {
                for name in told.try_iter()? {
                    let name: String = name?.extract()?;
                    found.push(Known::named(&name)?);
                }
            }
        }
    }
    if found.is_empty() || found.len() > MOST_VARIANTS {
        let text = format!("{} backends: give 1 to {MOST_VARIANTS}", found.len());
        return Err(errors::value(text));
    }
    for (i, known) in found.iter().enumerate() {
        if found[..i].iter().any(|other| other.name == known.name) {
            let text = format!("backend {:?} is given twice", known.name);
            return Err(errors::value(text));
        }
    }
    Ok(found)
}
