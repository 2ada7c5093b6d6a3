//! An op: a reference function and its variants, called like the function.

use std::sync::{Arc, Mutex, MutexGuard};

use pointsman::Workload as Core;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyString, PyTuple};

use crate::arguments::{Arguments, Features};
use crate::attempts::Call;
use crate::check::Check;
use crate::errors;
use crate::log;
use crate::method::Method;
use crate::plan::Plan;
use crate::ready::{Made, Ready};
use crate::report::{Explanation, Stats};
use crate::selector::{Selector, default_selector};
use crate::variant::{self, Declared, Variant};
use crate::workload::{self, Workload};

/// Most variants of one op.
pub(crate) const MOST_VARIANTS: usize = 64;

/// An operation with several implementations: see `pointsman.op`.
#[pyclass(frozen, dict, weakref, module = "pointsman")]
pub(crate) struct Op {
    name: String,
    selector: Option<Py<Selector>>,
    workload: Option<Py<PyAny>>,
    check: Option<Check>,
    variants: Mutex<Vec<Py<Variant>>>,
    made: Made,
}

#[pymethods]
impl Op {
    #[pyo3(signature = (*args, **kwargs))]
    pub(crate) fn __call__<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let arguments = Arguments { args, kwargs };
        let ready = self.ready(args.py())?;
        let features = arguments.features();
        let done = match &self.workload {
            None => ready.run_by_features(arguments, &features),
            Some(function) => {
                let told = arguments.call(function.bind(args.py()))?;
                let workload = workload::told(&told, &features)?;
                ready.run(Call::new(arguments, &features, &workload))
            }
        };
        log::say(args.py())?;
        done
    }

    /// As a method of a class.
    fn __get__<'py>(
        slf: &Bound<'py, Self>,
        object: Option<Bound<'py, PyAny>>,
        _owner: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match object.filter(|object| !object.is_none()) {
            Some(object) => {
                let method = Method {
                    op: slf.clone().unbind(),
                    object: object.unbind(),
                };
                Ok(Bound::new(slf.py(), method)?.into_any())
            }
            None => Ok(slf.clone().into_any()),
        }
    }

    /// Adds a variant: a decorator, or with the function given, a call.
    #[pyo3(signature = (name, function = None, *, backend = None, when = None, requires_grad = true, min_size = None, max_size = None, dtypes = None, memory = None, wait = Some(AUTO), compiles = Some("auto"), revision = 0))]
    #[allow(clippy::too_many_arguments)]
    fn variant<'py>(
        slf: &Bound<'py, Self>,
        name: String,
        function: Option<Bound<'py, PyAny>>,
        backend: Option<&str>,
        when: Option<Bound<'py, PyAny>>,
        requires_grad: bool,
        min_size: Option<u64>,
        max_size: Option<u64>,
        dtypes: Option<Bound<'py, PyAny>>,
        memory: Option<Bound<'py, PyAny>>,
        wait: Option<WaitArgument<'py>>,
        compiles: Option<&str>,
        revision: u32,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        callable("when", when.as_ref())?;
        variant::memory(memory.as_ref())?;
        let (min_size, max_size) = (min_size.unwrap_or(0), max_size.unwrap_or(u64::MAX));
        if min_size > max_size {
            let text =
                format!("min_size {min_size} is above max_size {max_size}: it could never serve");
            return Err(errors::value(text));
        }
        let declared = Declared {
            backend: variant::backend(backend.unwrap_or("cpu"))?,
            revision,
            gradient: requires_grad,
            min_size,
            max_size,
            dtypes: variant::dtypes(dtypes)?,
            when: when.map(Bound::unbind),
            memory: memory.map(Bound::unbind),
            wait: variant::wait(wait.map(|wait| wait.resolve(py)))?,
            compiles: variant::compiles(compiles)?,
        };
        if let Some(function) = function {
            slf.get().add(py, name, &function, declared)?;
            return Ok(function);
        }
        // Used once, as decorators are; a second function needs a second name anyway.
        let once = Mutex::new(Some((name, declared)));
        let op = slf.clone().unbind();
        let decorate = move |args: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
            let function = decorated(args)?;
            let taken = once.lock().unwrap_or_else(|e| e.into_inner()).take();
            let (name, declared) =
                taken.ok_or_else(|| errors::value("a variant's decorator was used twice"))?;
            op.get().add(args.py(), name, &function, declared)?;
            Ok::<_, PyErr>(function.unbind())
        };
        let decorate = PyCFunction::new_closure(py, Some(c"variant"), None, decorate)?;
        Ok(decorate.into_any())
    }

    /// Who would serve a call with these arguments, and why. Nothing is run.
    #[pyo3(signature = (*args, **kwargs))]
    fn explain(
        &self,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Explanation> {
        let arguments = Arguments { args, kwargs };
        let ready = self.ready(args.py())?;
        let (features, workload) = self.look(arguments)?;
        let why_not = ready.why_not(Call::new(arguments, &features, &workload))?;
        let told = ready
            .prepared
            .explain(&workload, |place| why_not[place].clone());
        Explanation::new(args.py(), &told)
    }

    /// What choosing has cost so far, and what it was worth.
    fn stats(&self, py: Python<'_>) -> PyResult<Stats> {
        Stats::new(py, &self.ready(py)?.prepared.stats())
    }

    /// The op for calls like this one, whose features are then not computed again: for hot loops.
    #[pyo3(signature = (*args, **kwargs))]
    fn plan(
        &self,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Plan> {
        let (features, workload) = self.look(Arguments { args, kwargs })?;
        Ok(Plan {
            ready: self.ready(args.py())?.clone(),
            features,
            workload,
            is_told_by_features: self.workload.is_none(),
        })
    }

    /// The workload of a call with these arguments.
    #[pyo3(signature = (*args, **kwargs))]
    fn workload(
        &self,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Workload> {
        let (_, workload) = self.look(Arguments { args, kwargs })?;
        Ok(Workload::named(&self.name, workload))
    }

    /// Runs every variant that may serve these arguments so many times and learns from it. Seconds
    /// of each: average, min, max and std.
    #[pyo3(signature = (*args, repeat = 10, **kwargs))]
    fn measure<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        repeat: u32,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let arguments = Arguments { args, kwargs };
        let ready = self.ready(args.py())?;
        let (features, workload) = self.look(arguments)?;
        ready.measure(Call::new(arguments, &features, &workload), repeat)
    }

    /// The variants by name; each can be called by itself.
    #[getter]
    fn variants<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        // Not under the lock: making a dictionary may run anything, by way of the garbage collector.
        let list: Vec<_> = self.list().iter().map(|v| v.clone_ref(py)).collect();
        let all = PyDict::new(py);
        for variant in list {
            all.set_item(&variant.get().name, &variant)?;
        }
        Ok(all)
    }

    /// The name under which it is known in the store.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The selector that it learns with.
    #[getter]
    fn selector(&self, py: Python<'_>) -> PyResult<Py<Selector>> {
        self.chosen_selector(py)
    }

    /// Forgets what this process has learned about it; the store is left as it is.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        self.ready(py)?.prepared.reset();
        Ok(())
    }

    /// Pickled by where it is found, like a function.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyString>> {
        let name = slf.getattr("__qualname__")?.cast_into::<PyString>()?;
        if name.to_str()?.contains("<locals>") {
            let text = format!("op {name}: only ops at the top level of a module can be pickled");
            return Err(PyTypeError::new_err(text));
        }
        Ok(name)
    }

    fn __repr__(&self) -> String {
        let names: Vec<String> = self.list().iter().map(|v| v.get().name.clone()).collect();
        format!("<pointsman.Op {} ({})>", self.name, names.join(", "))
    }
}

/// What `wait` is unless told otherwise.
pub(crate) const AUTO: WaitArgument<'static> = WaitArgument::Auto;

/// `"auto"`, or what the caller said.
pub(crate) enum WaitArgument<'py> {
    Auto,
    Told(Bound<'py, PyAny>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for WaitArgument<'py> {
    type Error = PyErr;

    fn extract(told: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(WaitArgument::Told(told.to_owned()))
    }
}

impl<'py> WaitArgument<'py> {
    pub(crate) fn resolve(self, py: Python<'py>) -> Bound<'py, PyAny> {
        match self {
            WaitArgument::Auto => PyString::new(py, "auto").into_any(),
            WaitArgument::Told(told) => told,
        }
    }
}

/// Whether a call of a function returns before its work begins.
fn only_begins(function: &Bound<'_, PyAny>) -> PyResult<bool> {
    let inspect = function.py().import("inspect")?;
    for kind in [
        "iscoroutinefunction",
        "isgeneratorfunction",
        "isasyncgenfunction",
    ] {
        if inspect.call_method1(kind, (function,))?.is_truthy()? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The function that a decorator is given.
pub(crate) fn decorated<'py>(args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
    args.get_item(0)
        .map_err(|_| errors::wrong_type("a decorator takes the function that it decorates"))
}

/// What is called must be callable.
pub(crate) fn callable(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    match value {
        Some(value) if !value.is_callable() => Err(errors::wrong_type(format!(
            "{name}={value}: it must be a function"
        ))),
        _ => Ok(()),
    }
}

impl Op {
    pub(crate) fn new(
        name: String,
        selector: Option<Py<Selector>>,
        workload: Option<Py<PyAny>>,
        check: Option<Check>,
    ) -> Self {
        Op {
            name,
            selector,
            workload,
            check,
            variants: Mutex::default(),
            made: Made::default(),
        }
    }

    fn list(&self) -> MutexGuard<'_, Vec<Py<Variant>>> {
        self.variants.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Adds a variant; the first is the reference.
    pub(crate) fn add(
        &self,
        py: Python<'_>,
        name: String,
        function: &Bound<'_, PyAny>,
        declared: Declared,
    ) -> PyResult<()> {
        let what = format!("variant {name:?} of op {}", self.name);
        if !function.is_callable() {
            return Err(errors::wrong_type(format!(
                "{what}: {function} is not a function"
            )));
        }
        if name.is_empty() || name.len() > 128 || name.chars().any(char::is_control) {
            let rule = "a name has 1 to 128 bytes and no control characters";
            return Err(errors::value(format!("{what}: {rule}")));
        }
        if only_begins(function)? {
            return Err(errors::wrong_type(format!(
                "{what}: {function} is a coroutine or generator, and calling it only begins its work; give a function that does it"
            )));
        }
        let function = function.clone().unbind();
        let variant = Py::new(
            py,
            Variant {
                name,
                function,
                declared,
            },
        )?;
        let mut variants = self.list();
        if variants.iter().any(|v| v.get().name == variant.get().name) {
            return Err(errors::value(format!(
                "{what}: there is one of that name already"
            )));
        }
        if variants.len() >= MOST_VARIANTS {
            return Err(errors::value(format!(
                "{what}: an op has at most {MOST_VARIANTS}"
            )));
        }
        variants.push(variant);
        self.made.outdate();
        Ok(())
    }

    fn chosen_selector(&self, py: Python<'_>) -> PyResult<Py<Selector>> {
        match &self.selector {
            Some(selector) => Ok(selector.clone_ref(py)),
            None => default_selector(py),
        }
    }

    /// The op with all variants declared so far.
    #[inline]
    fn ready(&self, py: Python<'_>) -> PyResult<&Arc<Ready>> {
        match self.made.get() {
            Some(ready) => Ok(ready),
            None => self.make(py),
        }
    }

    #[cold]
    fn make(&self, py: Python<'_>) -> PyResult<&Arc<Ready>> {
        let selector = self.chosen_selector(py)?;
        loop {
            let variants: Vec<_> = self.list().iter().map(|v| v.clone_ref(py)).collect();
            let count = variants.len();
            let check = self.check.as_ref().map(|check| check.clone_ref(py));
            let ready = Ready::new(py, &self.name, selector.get(), variants, check)?;
            let list = self.list();
            if list.len() == count {
                return Ok(self.made.put(ready));
            }
            // Another thread has declared one more meanwhile.
        }
    }

    /// Step 1 of a call: its features.
    #[inline]
    fn look(&self, arguments: Arguments<'_, '_>) -> PyResult<(Features, Core)> {
        let features = arguments.features();
        let workload = match &self.workload {
            None => features.workload(),
            Some(function) => {
                let told = arguments.call(function.bind(arguments.py()))?;
                workload::told(&told, &features)?
            }
        };
        Ok((features, workload))
    }
}
