//! The features of a call, for callers who give them.

use pointsman::{Backend, DType, Workload as Core};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::arguments::Features;
use crate::errors;
use crate::kinds;
use crate::variant;

/// Bytes of an element whose type nobody gave.
const DEFAULT_ITEM: f64 = 8.0;

/// Arrays of the workload's shape that a call is taken to need: an input, an output and a temporary.
const ARRAYS: f64 = 3.0;

/// The features of one call: what decides how long each backend takes, and who may serve.
#[pyclass(frozen, module = "pointsman")]
pub(crate) struct Workload {
    /// The operation.
    #[pyo3(get)]
    pub(crate) op: String,
    pub(crate) core: Core,
    /// Bytes that a call needs.
    #[pyo3(get)]
    pub(crate) memory: u64,
}

#[pymethods]
impl Workload {
    #[new]
    #[pyo3(signature = (op, shape = None, *, dtype = None, requires_grad = false, iterative = false, flops = None, bytes = None, memory = None, device = None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        op: String,
        shape: Option<Bound<'_, PyAny>>,
        dtype: Option<Bound<'_, PyAny>>,
        requires_grad: bool,
        iterative: bool,
        flops: Option<f64>,
        bytes: Option<f64>,
        memory: Option<f64>,
        device: Option<&str>,
    ) -> PyResult<Self> {
        let numbers = numbers(shape.as_ref())?;
        let mut core = Core::from_slice(&numbers).map_err(errors::value)?;
        if let Some(dtype) = dtype {
            core = core.dtype(variant::dtype(&dtype)?);
        }
        if let Some(device) = device {
            core = core.located(located(device)?);
        }
        let item = core
            .element_type()
            .bytes()
            .map_or(DEFAULT_ITEM, |b| b as f64);
        let array = item * core.size() as f64;
        let memory = positive("memory", memory)?.unwrap_or(ARRAYS * array);
        core = core
            .gradient(requires_grad)
            .iterative(iterative)
            .flops(positive("flops", flops)?.unwrap_or(0.0))
            .bytes(positive("bytes", bytes)?.unwrap_or(2.0 * array));
        Ok(Workload {
            op,
            core,
            memory: memory as u64,
        })
    }

    /// The numbers that costs depend on.
    #[getter]
    fn features<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let whole = |n: &f64| n.fract() == 0.0 && n.abs() < 1e15;
        let numbers = self.core.features().iter().map(|n| match whole(n) {
            true => Ok((*n as i64).into_pyobject(py)?.into_any()),
            false => Ok(n.into_pyobject(py)?.into_any()),
        });
        PyTuple::new(py, numbers.collect::<PyResult<Vec<_>>>()?)
    }

    /// The number that `min_size` and `max_size` are compared with.
    #[getter]
    fn size(&self) -> u64 {
        self.core.size()
    }

    /// Element type; `unspecified` if nobody said.
    #[getter]
    fn dtype(&self) -> String {
        self.core.element_type().to_string()
    }

    /// Whether the caller needs gradients.
    #[getter]
    fn requires_grad(&self) -> bool {
        self.core.needs_gradient()
    }

    /// Whether it is one step of an iteration.
    #[getter]
    fn iterative(&self) -> bool {
        self.core.is_iterative()
    }

    /// Floating-point operations; 0 if nobody said.
    #[getter]
    fn flops(&self) -> f64 {
        self.core.flop_count()
    }

    /// Bytes read and written.
    #[getter]
    fn bytes(&self) -> f64 {
        self.core.byte_count()
    }

    /// Where the data lies: `scalar` for the host.
    #[getter]
    fn device(&self) -> String {
        self.core.location().to_string()
    }

    fn __repr__(&self) -> String {
        format!("<pointsman.Workload {} {}>", self.op, self.core)
    }

    fn __hash__(&self) -> u64 {
        u64::from(kinds::hash(self.__repr__().as_bytes()))
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        let same = |other: &Workload| self.op == other.op && self.core == other.core;
        other
            .cast::<Workload>()
            .is_ok_and(|other| same(other.get()))
    }
}

impl Workload {
    /// A workload that is passed to a function of the user's, which knows the op.
    pub(crate) fn unnamed(core: Core) -> Self {
        Self::named("", core)
    }

    /// What `select_backend` is told.
    pub(crate) fn of_shape(
        op: &str,
        shape: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
        requires_grad: bool,
    ) -> PyResult<Self> {
        let (shape, dtype) = (Some(shape.clone()), dtype.cloned());
        Self::new(
            op.to_owned(),
            shape,
            dtype,
            requires_grad,
            false,
            None,
            None,
            None,
            None,
        )
    }

    pub(crate) fn named(op: &str, core: Core) -> Self {
        Workload {
            op: op.to_owned(),
            core,
            memory: core.byte_count() as u64,
        }
    }
}

/// What a function of the user's says of a call: a workload, a number or several. Whether gradients are needed is known from
/// the arguments, and so are place, size and element type where they have any: those are what limits are about.
pub(crate) fn told(told: &Bound<'_, PyAny>, features: &Features) -> PyResult<Core> {
    if let Ok(workload) = told.cast::<Workload>() {
        let core = workload.get().core;
        let gradient = core.needs_gradient() || features.gradient;
        return Ok(limited_by(core.gradient(gradient), features));
    }
    let numbers = numbers(Some(told)).map_err(|error| {
        let py = told.py();
        match error.is_instance_of::<PyTypeError>(py) {
            true => errors::wrong_type(format!("what workload= returned: {}", error.value(py))),
            false => error,
        }
    })?;
    let core = Core::from_slice(&numbers).map_err(errors::value)?;
    Ok(limited_by(core.gradient(features.gradient), features))
}

fn limited_by(core: Core, features: &Features) -> Core {
    let arguments = features.workload();
    let core = match arguments.location() {
        Backend::Scalar => core,
        place => core.located(place),
    };
    let core = match arguments.size() {
        0 => core,
        size => core.sized(usize::try_from(size).unwrap_or(usize::MAX)),
    };
    match arguments.element_type() {
        DType::Unspecified => core,
        dtype => core.dtype(dtype),
    }
}

/// One number or several.
fn numbers(told: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<f64>> {
    let Some(told) = told else {
        return Ok(Vec::new());
    };
    let wrong = |_| {
        let text = format!("{told}: it must be a number or a sequence of numbers");
        errors::wrong_type(text)
    };
    // Shapes are tuples: looked at first, because what is not a number costs an exception.
    if let Ok(shape) = told.cast::<PyTuple>() {
        let numbers = shape.iter().map(|n| n.extract().map_err(wrong));
        return numbers.collect();
    }
    if let Ok(number) = told.extract::<f64>() {
        return Ok(vec![number]);
    }
    let items = told.try_iter().map_err(wrong)?;
    items.map(|item| item?.extract().map_err(wrong)).collect()
}

fn positive(name: &str, value: Option<f64>) -> PyResult<Option<f64>> {
    match value {
        Some(v) if !(v >= 0.0 && v.is_finite()) => Err(errors::value(format!(
            "{name} {v}: it must be a finite number, not below 0"
        ))),
        value => Ok(value),
    }
}

/// Where data lies: the host, or a GPU.
fn located(device: &str) -> PyResult<Backend> {
    match device {
        "cpu" | "host" => Ok(Backend::Scalar),
        other => variant::backend(other),
    }
}
