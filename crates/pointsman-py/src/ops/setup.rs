//! The ops of this process, which are its own to replace when it forks.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use pointsman::{Checks, Selector};
use pointsman_ops::catalogue::Entry;
use pointsman_ops::{Float, Ops};
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::errors;
use crate::report::{Explanation, Stats};

/// All ops of both element types.
pub(super) struct All {
    single: Ops<f32>,
    double: Ops<f64>,
    /// Where threads come from in a forked child: those of rayon's global pool stayed behind.
    pool: Option<ThreadPool>,
}

static ALL: Mutex<Option<Arc<All>>> = Mutex::new(None);
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// In a forked child everything is made anew: locks may have been held, and threads are gone.
pub(crate) fn forked() {
    IS_CHILD.store(true, Relaxed);
    if let Ok(mut all) = ALL.try_lock() {
        // Never dropped, which could wait for what is no more.
        std::mem::forget(all.take());
    }
}

/// The ops, declared at the first call.
pub(super) fn all() -> PyResult<Arc<All>> {
    let mut all = ALL.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(all) = &*all {
        return Ok(all.clone());
    }
    let made = Arc::new(All::new()?);
    *all = Some(made.clone());
    Ok(made)
}

impl All {
    fn new() -> PyResult<Self> {
        let is_child = IS_CHILD.load(Relaxed);
        let mut builder = Selector::builder();
        if is_child {
            // On this thread, inside the pool: a thread of its own would look for the global one.
            builder = builder.checks(Checks::Inline);
        }
        let selector = builder.build().map_err(errors::value)?;
        let pool = is_child
            .then(|| ThreadPoolBuilder::new().build())
            .transpose();
        Ok(All {
            single: Ops::new(&selector).map_err(errors::value)?,
            double: Ops::new(&selector).map_err(errors::value)?,
            pool: pool.map_err(errors::value)?,
        })
    }

    /// Runs something with threads that exist.
    pub(super) fn run<T: Send>(&self, run: impl FnOnce() -> T + Send) -> T {
        match &self.pool {
            None => run(),
            Some(pool) => pool.install(run),
        }
    }

    /// The same for what calls Python all the time: its lock is given away only where threads of the pool need it.
    pub(super) fn run_attached<T: Send>(
        &self,
        py: Python<'_>,
        run: impl FnOnce() -> T + Send,
    ) -> T {
        match &self.pool {
            None => run(),
            Some(pool) => py.detach(|| pool.install(run)),
        }
    }

    fn entries(&self) -> Vec<Box<dyn Entry>> {
        let mut entries = self.single.entries();
        entries.extend(self.double.entries());
        entries
    }

    fn entry(&self, name: &str) -> PyResult<Box<dyn Entry>> {
        let found = self
            .entries()
            .into_iter()
            .find(|entry| entry.name() == name);
        found.ok_or_else(|| errors::value(format!("op {name:?}: see pointsman.ops.names()")))
    }
}

/// The ops of one element type.
pub(super) trait Of: Float + numpy::Element {
    const NAME: &'static str;
    fn handles(all: &All) -> &Ops<Self>;
}

impl Of for f32 {
    const NAME: &'static str = "float32";
    fn handles(all: &All) -> &Ops<Self> {
        &all.single
    }
}

impl Of for f64 {
    const NAME: &'static str = "float64";
    fn handles(all: &All) -> &Ops<Self> {
        &all.double
    }
}

/// Names of the ops, as statistics and the store have them.
#[pyfunction]
pub(super) fn names() -> PyResult<Vec<String>> {
    let all = all()?;
    Ok(all
        .entries()
        .iter()
        .map(|entry| entry.name().to_owned())
        .collect())
}

/// Who would serve a call of this shape, and why.
#[pyfunction]
pub(super) fn explain(py: Python<'_>, name: &str, shape: Vec<usize>) -> PyResult<Explanation> {
    let all = all()?;
    let entry = all.entry(name)?;
    let told = py.detach(|| all.run(|| entry.explain(&shape)));
    Explanation::new(py, &told.map_err(errors::value)?)
}

/// What choosing has cost so far, and what it was worth.
#[pyfunction]
pub(super) fn stats(py: Python<'_>, name: &str) -> PyResult<Stats> {
    Stats::new(py, &all()?.entry(name)?.stats())
}
