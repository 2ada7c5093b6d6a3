//! One implementation of an op: its function and what it demands of a call.

use std::fmt;

use pointsman::{Backend, Candidate, DType, Selector, Workload};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::arguments::{self, Arguments};
use crate::errors;

/// How to find out that a variant's result is ready.
pub(crate) enum Wait {
    /// By the type of the result.
    Auto,
    Never,
    With(Py<PyAny>),
}

/// When a variant compiles itself anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compiles {
    /// As its function and its results say.
    Auto,
    Never,
    /// For each combination of types, as Numba does.
    ByType,
    /// For each combination of shapes, as JAX does.
    ByShape,
}

/// What a variant is and demands, as declared.
pub(crate) struct Declared {
    pub(crate) backend: Backend,
    pub(crate) revision: u32,
    /// Whether its results carry gradients.
    pub(crate) gradient: bool,
    pub(crate) min_size: u64,
    pub(crate) max_size: u64,
    pub(crate) dtypes: u32,
    pub(crate) when: Option<Py<PyAny>>,
    pub(crate) memory: Option<Py<PyAny>>,
    pub(crate) wait: Wait,
    pub(crate) compiles: Compiles,
}

impl Default for Declared {
    fn default() -> Self {
        Declared {
            backend: Backend::custom("cpu").unwrap_or_default(),
            revision: 0,
            gradient: true,
            min_size: 0,
            max_size: u64::MAX,
            dtypes: u32::MAX,
            when: None,
            memory: None,
            wait: Wait::Auto,
            compiles: Compiles::Auto,
        }
    }
}

/// Why a variant may not serve a call.
pub(crate) enum WhyNot {
    Gradient,
    TooSmall {
        size: u64,
        min: u64,
    },
    TooLarge {
        size: u64,
        max: u64,
    },
    DType(DType),
    Memory {
        needs: Option<u64>,
        free: Option<u64>,
    },
    When,
    Compiles,
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WhyNot::Gradient => f.write_str("gives no gradients"),
            WhyNot::TooSmall { size, min } => write!(f, "size {size} is below {min}"),
            WhyNot::TooLarge { size, max } => write!(f, "size {size} is above {max}"),
            WhyNot::DType(dtype) => write!(f, "does not take dtype {dtype}"),
            WhyNot::Memory { needs: None, .. } => f.write_str("its need of memory is not known"),
            WhyNot::Memory {
                needs: Some(needs),
                free: Some(free),
            } => {
                write!(f, "needs {needs} bytes, {free} may be used")
            }
            WhyNot::Memory {
                needs: Some(needs),
                free: None,
            } => {
                write!(
                    f,
                    "needs {needs} bytes, free memory of its backend is unknown"
                )
            }
            WhyNot::When => f.write_str("its condition says no"),
            WhyNot::Compiles => f.write_str("would have to compile for these shapes first"),
        }
    }
}

/// One implementation of an op. Calling it runs it, whatever was learned; nothing is learned from it.
#[pyclass(frozen, module = "pointsman")]
pub(crate) struct Variant {
    /// Its name.
    #[pyo3(get)]
    pub(crate) name: String,
    pub(crate) function: Py<PyAny>,
    pub(crate) declared: Declared,
}

#[pymethods]
impl Variant {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Arguments { args, kwargs }.call(self.function.bind(args.py()))
    }

    /// Where it runs.
    #[getter]
    fn backend(&self) -> String {
        self.declared.backend.to_string()
    }

    /// Whether its results carry gradients.
    #[getter]
    fn requires_grad(&self) -> bool {
        self.declared.gradient
    }

    /// The function itself.
    #[getter]
    fn function(&self, py: Python<'_>) -> Py<PyAny> {
        self.function.clone_ref(py)
    }

    fn __repr__(&self) -> String {
        format!(
            "<pointsman.Variant {:?} ({})>",
            self.name, self.declared.backend
        )
    }
}

impl Variant {
    pub(crate) fn candidate(&self) -> Candidate {
        Candidate::new(&self.name, self.declared.backend).revision(self.declared.revision)
    }

    /// Whether any call could be refused: others are not asked.
    pub(crate) fn is_limited(&self) -> bool {
        let d = &self.declared;
        d.min_size > 0
            || d.max_size < u64::MAX
            || d.dtypes != u32::MAX
            || d.when.is_some()
            || d.memory.is_some()
    }

    /// Whether more than types and sizes of the arguments may refuse a call.
    pub(crate) fn depends_on_more(&self) -> bool {
        self.declared.when.is_some() || self.declared.memory.is_some()
    }

    /// Why it may not serve this call. An exception in a condition means no; a request to stop goes
    /// on to the caller.
    pub(crate) fn why_not(
        &self,
        call: Arguments<'_, '_>,
        workload: &Workload,
        selector: &Selector,
    ) -> PyResult<Option<WhyNot>> {
        let (py, d, size) = (call.py(), &self.declared, workload.size());
        if size < d.min_size {
            return Ok(Some(WhyNot::TooSmall {
                size,
                min: d.min_size,
            }));
        }
        if size > d.max_size {
            return Ok(Some(WhyNot::TooLarge {
                size,
                max: d.max_size,
            }));
        }
        let dtype = workload.element_type();
        if d.dtypes & 1 << dtype as u32 == 0 {
            return Ok(Some(WhyNot::DType(dtype)));
        }
        if let Some(memory) = &d.memory {
            let needs = asked(py, needed_bytes(memory.bind(py), call))?;
            let free = selector.free_memory(d.backend);
            match (needs, free) {
                (Some(needs), Some(free)) if needs <= free => {}
                _ => return Ok(Some(WhyNot::Memory { needs, free })),
            }
        }
        if let Some(when) = &d.when {
            let says = call.call(when.bind(py)).and_then(|says| says.is_truthy());
            if !asked(py, says)?.unwrap_or(false) {
                return Ok(Some(WhyNot::When));
            }
        }
        Ok(None)
    }
}

fn needed_bytes(memory: &Bound<'_, PyAny>, call: Arguments<'_, '_>) -> PyResult<u64> {
    let bytes: f64 = match memory.is_callable() {
        true => call.call(memory)?.extract()?,
        false => memory.extract()?,
    };
    match bytes {
        bytes if bytes >= 0.0 && bytes < u64::MAX as f64 => Ok(bytes as u64),
        bytes => Err(errors::value(format!(
            "memory {bytes}: it must be a number of bytes"
        ))),
    }
}

/// What `memory=` says makes sense, as far as can be told before a call.
pub(crate) fn memory(told: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let Some(told) = told.filter(|told| !told.is_callable()) else {
        return Ok(());
    };
    match told.extract::<f64>() {
        Ok(bytes) if bytes >= 0.0 && bytes < u64::MAX as f64 => Ok(()),
        Ok(bytes) => Err(errors::value(format!(
            "memory={bytes}: it must be a number of bytes"
        ))),
        Err(_) => Err(errors::wrong_type(format!(
            "memory={told}: it must be a number of bytes, or a function of the arguments"
        ))),
    }
}

/// What a condition said, or `None` if it failed.
fn asked<T>(py: Python<'_>, answer: PyResult<T>) -> PyResult<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if errors::is_failure(py, &error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The backend of this name; new names are made known.
pub(crate) fn backend(name: &str) -> PyResult<Backend> {
    let name = match name {
        "cuda" => "gpu",
        other => other,
    };
    let name = match name.strip_prefix("cuda:") {
        Some(number) => format!("gpu:{number}"),
        None => name.to_owned(),
    };
    Backend::custom(&name).map_err(errors::value)
}

/// What `compiles=` says.
pub(crate) fn compiles(told: Option<&str>) -> PyResult<Compiles> {
    match told {
        None => Ok(Compiles::Never),
        Some("auto") => Ok(Compiles::Auto),
        Some("types") => Ok(Compiles::ByType),
        Some("shapes") => Ok(Compiles::ByShape),
        Some(other) => Err(errors::value(format!(
            "compiles={other:?}: valid are \"auto\", \"types\", \"shapes\" and None"
        ))),
    }
}

/// What `wait=` says.
pub(crate) fn wait(told: Option<Bound<'_, PyAny>>) -> PyResult<Wait> {
    let Some(told) = told else {
        return Ok(Wait::Never);
    };
    if told.extract::<String>().is_ok_and(|text| text == "auto") {
        return Ok(Wait::Auto);
    }
    match told.is_callable() {
        true => Ok(Wait::With(told.unbind())),
        false => Err(PyTypeError::new_err(format!(
            "wait={told}: it must be \"auto\", None or a function of the result"
        ))),
    }
}

/// What `dtypes=` says: a bit for each.
pub(crate) fn dtypes(told: Option<Bound<'_, PyAny>>) -> PyResult<u32> {
    let Some(told) = told else {
        return Ok(u32::MAX);
    };
    if told.is_instance_of::<PyString>() {
        let text = format!("dtypes={told:?}: it must be a list of dtypes");
        return Err(errors::wrong_type(text));
    }
    let mut mask = 0;
    for item in told.try_iter()? {
        mask |= 1 << dtype(&item?)? as u32;
    }
    match mask {
        0 => Err(errors::value(
            "an empty list of dtypes: it could never serve",
        )),
        mask => Ok(mask),
    }
}

/// An element type by its name, or as NumPy, JAX or PyTorch write it.
pub(crate) fn dtype(told: &Bound<'_, PyAny>) -> PyResult<DType> {
    let text = match told.extract::<String>() {
        Ok(text) => text,
        Err(_) => match told.getattr("__name__").or_else(|_| told.getattr("name")) {
            Ok(name) => name.extract()?,
            Err(_) => told.str()?.to_string(),
        },
    };
    let name = text.trim_start_matches("torch.");
    arguments::named_dtype(name).ok_or_else(|| {
        errors::value(format!(
            "dtype {text:?}: valid are {}",
            arguments::dtype_names()
        ))
    })
}
