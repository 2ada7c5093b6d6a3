//! Choosing for callers who give a workload and run the work themselves.

pub(crate) mod decision;
mod group;
mod summary;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use foldhash::fast::RandomState;
use pointsman::{Cost, Mode, Rejection, policy};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple};

use self::decision::Decision;
use self::group::{Group, Known, known, preferring};
use crate::arguments::Arguments;
use crate::attempts::{Call, Named};
use crate::errors;
use crate::log;
use crate::memory::Free;
use crate::report::{Explanation, Stats};
use crate::variant;
use crate::workload::Workload;

/// Chooses backends, learns which are fastest, and keeps what it learned.
#[pyclass(frozen, weakref, module = "pointsman")]
pub(crate) struct Selector {
    core: pointsman::Selector,
    /// Shared with whoever has prepared ops: they must not keep the selector alive, which keeps them.
    learning: Arc<AtomicBool>,
    backends: Vec<Known>,
    groups: RwLock<HashMap<String, Arc<Group>, RandomState>>,
}

/// A clock that moves only when it is told to: for tests.
#[pyclass(frozen, module = "pointsman")]
pub(crate) struct FakeClock {
    core: pointsman::FakeClock,
}

#[pymethods]
impl FakeClock {
    #[new]
    fn new() -> Self {
        FakeClock {
            core: pointsman::FakeClock::new(),
        }
    }

    /// Moves it on by so many seconds.
    fn advance(&self, seconds: f64) -> PyResult<()> {
        let by = duration("seconds", seconds)?;
        self.core.advance(by);
        Ok(())
    }
}

#[pymethods]
impl Selector {
    #[new]
    #[pyo3(signature = (*, store = None, mode = None, backends = None, policy = None, budget = None, seed = None, memory = None, memory_reserve = None, force = None, disable = None, save_every = None, clock = None, environment = true))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        store: Option<PathBuf>,
        mode: Option<&str>,
        backends: Option<Bound<'_, PyAny>>,
        policy: Option<&str>,
        budget: Option<f64>,
        seed: Option<u64>,
        memory: Option<Bound<'_, PyAny>>,
        memory_reserve: Option<f64>,
        force: Option<&str>,
        disable: Option<&str>,
        save_every: Option<f64>,
        clock: Option<Bound<'_, FakeClock>>,
        environment: bool,
    ) -> PyResult<Self> {
        crate::op::callable("memory", memory.as_ref())?;
        let asked = memory.map(Bound::unbind);
        let mut builder = pointsman::Selector::builder().memory(Free { asked });
        if let Some(path) = store {
            builder = match path.to_str() {
                Some("memory") => builder.in_memory(),
                _ => builder.store_file(path),
            };
        }
        if let Some(mode) = mode {
            builder = builder.mode(mode.parse::<Mode>().map_err(errors::value)?);
        }
        if let Some(name) = policy {
            builder = builder.policy(policy::parse(name).map_err(errors::value)?);
        }
        if let Some(share) = budget {
            builder = builder.budget(share);
        }
        if let Some(seed) = seed {
            builder = builder.seed(seed);
        }
        if let Some(share) = memory_reserve {
            builder = builder.memory_reserve(share);
        }
        if let Some(rules) = force {
            builder = builder.force(rules);
        }
        if let Some(rules) = disable {
            builder = builder.disable(rules);
        }
        if let Some(seconds) = save_every {
            builder = builder.save_every(duration("save_every", seconds)?);
        }
        if let Some(clock) = clock {
            builder = builder.clock(clock.get().core.clone());
        }
        if !environment {
            builder = builder.ignore_environment();
        }
        let core = builder.build().map_err(errors::value)?;
        log::say(py)?;
        Ok(Selector {
            core,
            learning: Arc::new(AtomicBool::new(true)),
            backends: known(py, backends)?,
            groups: RwLock::default(),
        })
    }

    /// The name of the backend that is fastest for this workload, as far as is known. Nothing is
    /// tried; `preferred` serves if it may.
    #[pyo3(signature = (workload, preferred = None))]
    fn select(
        &self,
        py: Python<'_>,
        workload: &Bound<'_, Workload>,
        preferred: Option<&str>,
    ) -> PyResult<Py<PyString>> {
        self.best(py, workload.get(), preferred)
    }

    /// The same for a caller who runs it and reports: now and then others are tried, unless learning
    /// is off.
    #[pyo3(signature = (workload, preferred = None))]
    fn decide(
        &self,
        py: Python<'_>,
        workload: &Bound<'_, Workload>,
        preferred: Option<&str>,
    ) -> PyResult<Decision> {
        let workload = workload.get();
        let group = self.group(py, &workload.op, None)?;
        let core = preferring(&group, &workload.core, preferred)?;
        let eligible = self.eligible(&group, &core, workload.memory);
        let prepared = &group.ready.prepared;
        let chosen = match self.is_learning() {
            true => prepared.choose(&core, eligible),
            false => prepared.known(&core, eligible),
        };
        log::say(py)?;
        match chosen {
            Some(chosen) => Ok(Decision {
                group,
                chosen,
                workload: core.into_owned(),
                reported: AtomicBool::new(false),
            }),
            None => Err(self.nobody(&group, workload, &core, eligible)),
        }
    }

    /// Runs the function of the backend that is fastest, and if it fails that of the next best.
    ///
    /// Each backend has a function of its own, all called with the same arguments. If all of them
    /// fail, the first error is raised, with the others as notes.
    #[pyo3(signature = (workload, functions, *args, preferred = None, **kwargs))]
    fn run_with_fallback<'py>(
        &self,
        py: Python<'py>,
        workload: &Bound<'py, Workload>,
        functions: &Bound<'py, PyDict>,
        args: &Bound<'py, PyTuple>,
        preferred: Option<&str>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let workload = workload.get();
        let (mut names, mut bodies) = (Vec::new(), Vec::new());
        for (name, function) in functions {
            names.push(name.extract::<String>()?);
            crate::op::callable(&names[names.len() - 1], Some(&function))?;
            bodies.push(function);
        }
        if names.is_empty() {
            return Err(errors::value(
                "no functions: give one for each backend, by name",
            ));
        }
        let group = self.group(py, &workload.op, Some(&names))?;
        let arguments = Arguments { args, kwargs };
        let features = arguments.features();
        let core = preferring(&group, &workload.core, preferred)?;
        let core = core.gradient(core.needs_gradient() || features.gradient);
        let eligible = self.eligible(&group, &core, workload.memory);
        if eligible == 0 {
            return Err(self.nobody(&group, workload, &core, eligible));
        }
        let done = group.ready.run(Call {
            named: Some(Named {
                functions: &bodies,
                eligible,
            }),
            ..Call::new(arguments, &features, &core)
        });
        log::say(py)?;
        done
    }

    /// Adds a measurement that the caller has made: so many seconds on this backend.
    fn record(
        &self,
        py: Python<'_>,
        workload: &Bound<'_, Workload>,
        backend: &str,
        seconds: f64,
    ) -> PyResult<()> {
        let workload = workload.get();
        let group = self.group(py, &workload.op, None)?;
        let place = group.place(backend)?;
        let cost = cost_of(seconds)?;
        if self.is_learning() {
            group.ready.prepared.observe(&workload.core, place, cost);
        }
        Ok(())
    }

    /// Which backend would be chosen, and why; prints as a table.
    #[pyo3(signature = (workload, preferred = None))]
    fn explain(
        &self,
        py: Python<'_>,
        workload: &Bound<'_, Workload>,
        preferred: Option<&str>,
    ) -> PyResult<Explanation> {
        let workload = workload.get();
        let group = self.group(py, &workload.op, None)?;
        let core = preferring(&group, &workload.core, preferred)?;
        let may = self.eligible(&group, &core, workload.memory);
        let told = group.ready.prepared.explain(&core, |place| {
            (may & 1 << place == 0).then(|| self.why_not(&group, workload, &core, place))
        });
        Explanation::new(py, &told)
    }

    /// Statistics of every op.
    fn stats(&self, py: Python<'_>) -> PyResult<Vec<Stats>> {
        self.core
            .stats()
            .iter()
            .map(|stats| Stats::new(py, stats))
            .collect()
    }

    /// Total, count, failures and average per op and backend, and the last choices.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        crate::report::plain(py, &summary::summary(&self.core.stats()))
    }

    /// Forgets what this process has learned about one op, or about all; the store is left as it is.
    #[pyo3(signature = (op = None))]
    fn reset(&self, op: Option<&str>) {
        self.core.reset(op);
    }

    /// Forgets one op, or everything, in the store too.
    #[pyo3(signature = (op = None, *, timeout = 5.0))]
    fn forget(&self, py: Python<'_>, op: Option<&str>, timeout: f64) -> PyResult<()> {
        let within = duration("timeout", timeout)?;
        py.detach(|| self.core.forget(op, within))
            .map_err(errors::store)
    }

    /// Saves what was learned. Happens by itself every few seconds and at the end.
    #[pyo3(signature = (*, timeout = 5.0))]
    fn flush(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        let within = duration("timeout", timeout)?;
        let done = py.detach(|| self.core.flush(within)).map_err(errors::store);
        log::say(py)?;
        done
    }

    /// Writes all knowledge of the store to one file; the number of entries.
    #[pyo3(signature = (path, *, timeout = 5.0))]
    fn export_to(&self, py: Python<'_>, path: PathBuf, timeout: f64) -> PyResult<usize> {
        let within = duration("timeout", timeout)?;
        py.detach(|| self.core.export_to(&path, within))
            .map_err(errors::store)
    }

    /// Reads such a file, as the knowledge of another machine; the number of entries.
    #[pyo3(signature = (path, *, timeout = 5.0))]
    fn import_from(&self, py: Python<'_>, path: PathBuf, timeout: f64) -> PyResult<usize> {
        let within = duration("timeout", timeout)?;
        py.detach(|| self.core.import_from(&path, within))
            .map_err(errors::store)
    }

    /// Whether it learns from calls. When it is off, the best that is known serves.
    #[getter]
    fn learning(&self) -> bool {
        self.is_learning()
    }

    #[setter]
    fn set_learning(&self, on: bool) {
        self.learning.store(on, Relaxed);
    }

    /// `learn`, `frozen` or `reference`.
    #[getter]
    fn mode(&self) -> String {
        self.core.mode().to_string()
    }

    /// Who chooses.
    #[getter]
    fn policy(&self) -> &str {
        self.core.policy()
    }

    /// Where knowledge is kept.
    #[getter]
    fn store(&self) -> &str {
        self.core.store_name()
    }

    /// The backends that it chooses from.
    #[getter]
    fn backends(&self) -> Vec<&str> {
        self.backends
            .iter()
            .map(|known| known.name.as_str())
            .collect()
    }

    /// Bytes that a call may need on a backend now; None if nobody knows, as where there is no GPU.
    fn free_memory(&self, backend: &str) -> PyResult<Option<u64>> {
        Ok(self.core.free_memory(variant::backend(backend)?))
    }

    fn __repr__(&self) -> String {
        format!(
            "<pointsman.Selector {} mode, store {}>",
            self.core.mode(),
            self.core.store_name()
        )
    }
}

impl Selector {
    pub(crate) fn core(&self) -> &pointsman::Selector {
        &self.core
    }

    /// The name of the backend that is fastest for a workload.
    #[inline]
    fn best(
        &self,
        py: Python<'_>,
        workload: &Workload,
        preferred: Option<&str>,
    ) -> PyResult<Py<PyString>> {
        let group = self.group(py, &workload.op, None)?;
        let core = preferring(&group, &workload.core, preferred)?;
        let eligible = self.eligible(&group, &core, workload.memory);
        let place = group.ready.prepared.peek(&core, eligible);
        log::say(py)?;
        match place {
            Some(place) => Ok(group.names[place].clone_ref(py)),
            None => Err(self.nobody(&group, workload, &core, eligible)),
        }
    }

    /// Whether it learns, as it changes.
    pub(crate) fn learning_flag(&self) -> Arc<AtomicBool> {
        self.learning.clone()
    }

    #[inline]
    pub(crate) fn is_learning(&self) -> bool {
        self.learning.load(Relaxed)
    }
}

/// Seconds as a cost, or why they are none.
fn cost_of(seconds: f64) -> PyResult<Result<Cost, Rejection>> {
    let took = duration("seconds", seconds)?;
    Ok(Cost::from_ns(
        u64::try_from(took.as_nanos()).unwrap_or(u64::MAX),
    ))
}

fn duration(name: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        errors::value(format!(
            "{name}={seconds}: it must be a number of seconds, not below 0"
        ))
    })
}

/// The selector that is used where no other is given: one per process, made when it is first needed.
#[pyfunction]
pub(crate) fn default_selector(py: Python<'_>) -> PyResult<Py<Selector>> {
    static DEFAULT: PyOnceLock<Py<Selector>> = PyOnceLock::new();
    let made = DEFAULT.get_or_try_init(py, || {
        let made = py.get_type::<Selector>().call0()?;
        Ok::<_, PyErr>(made.cast_into::<Selector>()?.unbind())
    })?;
    Ok(made.clone_ref(py))
}

/// The backend that is fastest for an operation on data of this shape, by the default selector.
#[pyfunction]
#[pyo3(signature = (op, shape, requires_grad = false, *, dtype = None, preferred = None))]
pub(crate) fn select_backend(
    py: Python<'_>,
    op: Bound<'_, PyString>,
    shape: Bound<'_, PyAny>,
    requires_grad: bool,
    dtype: Option<Bound<'_, PyAny>>,
    preferred: Option<&str>,
) -> PyResult<Py<PyString>> {
    let selector = default_selector(py)?;
    let workload = Workload::of_shape(op.to_str()?, &shape, dtype.as_ref(), requires_grad)?;
    selector.get().best(py, &workload, preferred)
}
