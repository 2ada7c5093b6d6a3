//! Variants that compile themselves: where they have, and where it is worth it.
//!
//! A first call with new types (Numba) or new shapes (JAX) takes a thousand times as long as the next.
//! Such a call is never a measurement. And a shape that may never come again is not worth it: a
//! variant may compile for it once the calls with that shape have taken as long as its compilation
//! does, so that compiling never costs more than all else did.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyModule, PyTuple};

use crate::arguments::Features;
use crate::variant::{Compiles, Variant};

/// Combinations of shapes or types that are remembered.
const MOST_SEEN: usize = 65_536;

/// What compiling takes at least: the quickest measured is 20 ms, of JAX for one addition.
pub(crate) const LEAST_NS: u64 = 5_000_000;

/// Keys are mixed already.
#[derive(Default)]
struct Plain(u64);

impl Hasher for Plain {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|b| self.0 = self.0 << 8 ^ u64::from(*b));
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

#[derive(Default)]
struct Seen {
    /// What calls have taken in all while somebody had not compiled for them.
    spent_ns: u64,
    /// Who has compiled.
    ready: u64,
}

/// Who has compiled for what.
#[derive(Default)]
pub(crate) struct Compiled {
    by_type: AtomicU64,
    by_shape: AtomicU64,
    /// Who was seen to compile anew for the same types and shapes: for numbers that are static to it.
    by_value: AtomicU64,
    /// What compiling takes each, as far as known.
    cost_ns: Vec<AtomicU64>,
    seen: Mutex<HashMap<u64, Seen, BuildHasherDefault<Plain>>>,
}

/// Who has still to compile for a call.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cold {
    /// All of them.
    pub(crate) all: u64,
    /// Those for whom it is not worth it yet.
    pub(crate) refused: u64,
}

impl Compiled {
    pub(crate) fn new(variants: &[Py<Variant>]) -> Self {
        let compiled = Compiled {
            cost_ns: variants.iter().map(|_| AtomicU64::new(0)).collect(),
            ..Compiled::default()
        };
        for (place, variant) in variants.iter().enumerate() {
            compiled.is(place, variant.get().declared.compiles);
        }
        compiled
    }

    /// Notes when a variant compiles; true if that is news.
    pub(crate) fn is(&self, place: usize, compiles: Compiles) -> bool {
        let (by_type, by_shape) = match compiles {
            Compiles::ByType => (1 << place, 0),
            Compiles::ByShape => (0, 1 << place),
            Compiles::Auto | Compiles::Never => (0, 0),
        };
        let types = self.by_type.fetch_or(by_type, Relaxed);
        let shapes = self.by_shape.fetch_or(by_shape, Relaxed);
        (by_type & !types) | (by_shape & !shapes) != 0
    }

    /// Who compiles for what of a call.
    #[inline]
    fn sorts(&self, features: &Features) -> [(u64, u64); 3] {
        let key = |who: &AtomicU64, key: fn(&Features) -> u64| match who.load(Relaxed) {
            0 => (0, 0),
            who => (who, key(features)),
        };
        let by_value = key(&self.by_value, Features::like);
        let (by_shape, shapes) = key(&self.by_shape, Features::shapes);
        let by_shape = by_shape & !by_value.0;
        [
            key(&self.by_type, Features::types),
            (by_shape, shapes),
            by_value,
        ]
    }

    /// A variant compiled where it was known to have nothing to compile.
    pub(crate) fn surprised(&self, place: usize, features: &Features) {
        if features.has_values() {
            let by_shape = self.by_shape.load(Relaxed);
            self.by_value.fetch_or(by_shape & 1 << place, Relaxed);
        }
    }

    /// Who has still to compile for this call.
    #[inline]
    pub(crate) fn cold(&self, features: &Features) -> Cold {
        let mut cold = Cold::default();
        let sorts = self.sorts(features);
        if sorts.iter().all(|(who, _)| *who == 0) {
            return cold;
        }
        let seen = self.seen.lock().unwrap_or_else(|e| e.into_inner());
        for (who, key) in sorts.into_iter().filter(|(who, _)| *who != 0) {
            let (spent_ns, ready) = seen.get(&key).map_or((0, 0), |s| (s.spent_ns, s.ready));
            let mut left = who & !ready;
            cold.all |= left;
            while left != 0 {
                let place = left.trailing_zeros();
                if spent_ns < self.cost_ns[place as usize].load(Relaxed) {
                    cold.refused |= 1 << place;
                }
                left &= left - 1;
            }
        }
        cold
    }

    fn change(&self, features: &Features, change: impl Fn(u64, &mut Seen)) {
        let mut seen = self.seen.lock().unwrap_or_else(|e| e.into_inner());
        for (who, key) in self
            .sorts(features)
            .into_iter()
            .filter(|(who, _)| *who != 0)
        {
            if seen.len() >= MOST_SEEN && !seen.contains_key(&key) {
                seen.clear(); // they are found out again: bounded and correct
            }
            change(who, seen.entry(key).or_default());
        }
    }

    /// A call took so long while somebody had not compiled for it.
    pub(crate) fn spent(&self, features: &Features, ns: u64) {
        self.change(features, |_, seen| {
            seen.spent_ns = seen.spent_ns.saturating_add(ns)
        });
    }

    /// A variant has nothing to compile for calls like this any more.
    pub(crate) fn ready(&self, place: usize, features: &Features) {
        self.change(features, |who, seen| seen.ready |= who & 1 << place);
    }

    /// A variant has compiled for this call, which took so long with it.
    pub(crate) fn done(&self, place: usize, features: &Features, ns: u64) {
        self.ready(place, features);
        let cost = &self.cost_ns[place];
        let known = cost.load(Relaxed);
        cost.store(if known == 0 { ns } else { known / 2 + ns / 2 }, Relaxed);
    }
}

/// Something that compiles itself and counts how often.
pub(crate) enum Jitted {
    Numba(Py<PyAny>),
    Jax(Py<PyAny>),
}

impl Jitted {
    fn of(object: &Bound<'_, PyAny>) -> Option<Self> {
        let module = object.get_type().module();
        let module = module.map(|m| m.to_string()).unwrap_or_default();
        let has = |object: &Bound<'_, PyAny>, name| object.hasattr(name).unwrap_or(false);
        if module.starts_with("numba") {
            if has(object, "overloads") {
                return Some(Jitted::Numba(object.clone().unbind()));
            }
            // Of `numba.vectorize`: who compiles is inside.
            let inner = object.getattr("_dispatcher").ok()?;
            return has(&inner, "overloads").then(|| Jitted::Numba(inner.unbind()));
        }
        (module.starts_with("jax") && has(object, "_cache_size"))
            .then(|| Jitted::Jax(object.clone().unbind()))
    }

    pub(crate) fn compiles(&self) -> Compiles {
        match self {
            Jitted::Numba(_) => Compiles::ByType,
            Jitted::Jax(_) => Compiles::ByShape,
        }
    }

    /// How often it has compiled, if it says.
    fn count(&self, py: Python<'_>) -> Option<usize> {
        let counted = match self {
            Jitted::Numba(f) => f
                .bind(py)
                .getattr(intern!(py, "overloads"))
                .and_then(|o| o.len()),
            Jitted::Jax(f) => {
                let size = f.bind(py).call_method0(intern!(py, "_cache_size"));
                size.and_then(|n| n.extract())
            }
        };
        counted.ok()
    }
}

/// How often these have compiled in all; `None` if nobody says.
pub(crate) fn count(py: Python<'_>, jitted: &[Jitted]) -> Option<usize> {
    match jitted.is_empty() {
        true => None,
        false => jitted.iter().map(|j| j.count(py)).sum(),
    }
}

/// Functions around functions that are looked through.
const MOST_WRAPPED: usize = 8;

/// What a function compiles: itself, what it names, or what it is wrapped around.
pub(crate) fn jitted(function: &Bound<'_, PyAny>) -> Vec<Jitted> {
    let (mut found, mut next) = (Vec::new(), Some(function.clone()));
    for _ in 0..MOST_WRAPPED {
        let Some(function) = next else { break };
        if let Some(itself) = Jitted::of(&function) {
            found.push(itself);
            break;
        }
        // What is no function of Python's names nothing.
        found.extend(named(&function).unwrap_or_default());
        let inner = function.getattr("__wrapped__").ok();
        next = inner.or_else(|| partial(&function));
    }
    found
}

/// What a `functools.partial` calls.
fn partial<'py>(function: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let functools = function.py().import("functools").ok()?;
    let partial = functools.getattr("partial").ok()?;
    let is_partial = function.is_instance(&partial).unwrap_or(false);
    function.getattr("func").ok().filter(|_| is_partial)
}

/// Those that a Python function names: globals, enclosed variables, attributes of modules that are either, and of the object whose
/// method it is.
fn named<'py>(function: &Bound<'py, PyAny>) -> PyResult<Vec<Jitted>> {
    let called; // of an object that can be called
    let function = match function.hasattr("__code__")? {
        true => function,
        false => {
            called = function.getattr("__call__")?;
            &called
        }
    };
    let globals = function.getattr("__globals__")?.cast_into::<PyDict>()?;
    let names = function.getattr("__code__")?.getattr("co_names")?;
    let names = names.cast_into::<PyTuple>()?;
    let mut found = Vec::new();
    let mut spaces = Vec::new();
    let mut look = |object: &Bound<'py, PyAny>| {
        found.extend(Jitted::of(object));
        spaces.extend(space(object));
    };
    for name in &names {
        if let Some(object) = globals.get_item(name)? {
            look(&object);
        }
    }
    if let Ok(cells) = function.getattr("__closure__")?.cast_into::<PyTuple>() {
        for cell in cells {
            // An empty cell has no contents.
            if let Ok(object) = cell.getattr("cell_contents") {
                look(&object);
            }
        }
    }
    if let Ok(own) = function
        .getattr("__self__")
        .and_then(|own| own.getattr("__dict__"))
    {
        spaces.extend(own.cast_into::<PyDict>().ok());
    }
    for space in &spaces {
        for name in &names {
            if let Some(object) = space.get_item(name)? {
                found.extend(Jitted::of(&object));
            }
        }
    }
    Ok(found)
}

/// What a module holds, unless its functions are only a part of what it compiles: then nobody counts all of it.
fn space<'py>(object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyDict>> {
    let module = object.cast::<PyModule>().ok()?;
    let name = module.name().ok()?.to_string();
    let whole = name.split('.').next();
    (!matches!(whole, Some("jax" | "numba" | "numpy"))).then(|| module.dict())
}
