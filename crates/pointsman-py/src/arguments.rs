//! Step 1 of a call: arguments → features.
//!
//! Arrays give their dimensions, element type and place, sequences their length, numbers their value.
//! What else tells one kind of call from another (types, layouts, words such as `mode="same"`) is one
//! code.

use std::ops::ControlFlow;

use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pointsman::{Backend, DType, MAX_FEATURES, Workload};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyModule, PyString, PyTuple};

use crate::contents;
use crate::kinds::{self, Info, Kind, Table};

/// Elements of a list of arrays that count one by one.
const MOST_LISTED: usize = 64;

/// The arguments of a call.
#[derive(Clone, Copy)]
pub(crate) struct Arguments<'a, 'py> {
    pub(crate) args: &'a Bound<'py, PyTuple>,
    pub(crate) kwargs: Option<&'a Bound<'py, PyDict>>,
}

impl<'a, 'py> Arguments<'a, 'py> {
    pub(crate) fn py(&self) -> Python<'py> {
        self.args.py()
    }

    /// Calls something with them.
    #[inline]
    pub(crate) fn call(&self, function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        function.call(self.args, self.kwargs)
    }

    /// Shows each to a visitor.
    pub(crate) fn each(&self, mut visit: impl FnMut(&Bound<'py, PyAny>)) {
        for i in 0..self.args.len() {
            if let Ok(arg) = self.args.get_borrowed_item(i) {
                visit(&arg);
            }
        }
        if let Some(kwargs) = self.kwargs {
            kwargs.iter().for_each(|(_, value)| visit(&value));
        }
    }

    pub(crate) fn features(&self) -> Features {
        let mut features = Features::default();
        self.each(|arg| features.add(arg, 0));
        if let Some(kwargs) = self.kwargs {
            for name in kwargs.keys() {
                features.mark(text_code(&name));
            }
        }
        features
    }
}

/// What the arguments say of a call.
#[derive(Clone, Copy)]
pub(crate) struct Features {
    numeric: [f64; MAX_FEATURES],
    count: usize,
    /// Elements of the largest argument.
    size: u64,
    bytes: f64,
    dtype: DType,
    located: Backend,
    /// Types, layouts and words.
    types: u64,
    /// Every size.
    shapes: u64,
    /// Every number among the arguments.
    values: u64,
    /// Whether an argument requires gradients.
    pub(crate) gradient: bool,
    /// Whether an argument only stands for an array.
    pub(crate) tracing: bool,
}

impl Default for Features {
    fn default() -> Self {
        Features {
            numeric: [0.0; MAX_FEATURES],
            count: 0,
            size: 0,
            bytes: 0.0,
            dtype: DType::Unspecified,
            located: Backend::Scalar,
            types: 1,
            shapes: 1,
            values: 0,
            gradient: false,
            tracing: false,
        }
    }
}

/// A hash of both, for which every bit counts: the sign of a number is one.
#[inline]
fn mixed(hash: u64, value: u64) -> u64 {
    let product =
        u128::from(hash ^ 0x9E37_79B9_7F4A_7C15) * u128::from(value ^ 0xE703_7ED1_A0B4_28DB);
    (product >> 64) as u64 ^ product as u64
}

impl Features {
    pub(crate) fn workload(&self) -> Workload {
        // Never too many: see `number`.
        let workload = Workload::from_slice(&self.numeric[..self.count]);
        workload
            .unwrap_or_else(|_| Workload::new([0u8; 0]))
            .codes([self.types as u32])
            .sized(usize::try_from(self.size).unwrap_or(usize::MAX))
            .dtype(self.dtype)
            .bytes(self.bytes)
            .gradient(self.gradient)
            .located(self.located)
    }

    /// A number for everything that calls like this one have in common: types, sizes and numbers.
    #[inline]
    pub(crate) fn like(&self) -> u64 {
        self.placed(self.types.rotate_left(32) ^ self.shapes ^ self.values)
    }

    /// The same of what the arguments are, whatever their sizes: what Numba compiles for.
    pub(crate) fn types(&self) -> u64 {
        self.placed(self.types)
    }

    /// The same of types and sizes, whatever the numbers: what JAX compiles for.
    pub(crate) fn shapes(&self) -> u64 {
        self.placed(self.types.rotate_left(32) ^ self.shapes)
    }

    /// Whether numbers are among the arguments.
    pub(crate) fn has_values(&self) -> bool {
        self.values != 0
    }

    /// With the element type and the place of the data.
    #[inline]
    fn placed(&self, hash: u64) -> u64 {
        let on = match self.located {
            Backend::Gpu(device) => u64::from(device) + 1,
            _ => 0,
        };
        let rest = self.dtype as u64 | u64::from(self.gradient) << 8 | on << 16;
        mixed(hash, rest)
    }

    /// Something that makes it another kind of call.
    #[inline]
    fn mark(&mut self, code: u64) {
        self.types = mixed(self.types, code);
    }

    /// A size that costs depend on.
    #[inline]
    fn extent(&mut self, size: f64) {
        self.shapes = mixed(self.shapes, size.to_bits());
        self.push(size);
    }

    /// A number that costs may depend on.
    fn value(&mut self, value: f64) {
        self.values = mixed(self.values, value.to_bits());
        self.push(value);
    }

    /// Beyond the most numbers that there may be, their product counts.
    #[inline]
    fn push(&mut self, value: f64) {
        match self.numeric.get_mut(self.count) {
            Some(slot) => {
                *slot = value;
                self.count += 1;
            }
            None => self.numeric[MAX_FEATURES - 1] *= value.max(1.0),
        }
    }

    fn array(&mut self, elements: u64, item_bytes: u64, dtype: DType) {
        self.size = self.size.max(elements);
        self.bytes += elements as f64 * item_bytes as f64;
        if self.dtype == DType::Unspecified {
            self.dtype = dtype;
        } else {
            self.mark(dtype as u64);
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, arg: &Bound<'_, PyAny>, depth: u8) {
        // The usual case touches nothing that NumPy, which is always installed, will not touch as well.
        match arg.cast_exact::<PyUntypedArray>() {
            Ok(array) => {
                self.mark(Kind::NumPy as u64);
                self.numpy(array);
            }
            Err(_) => self.other(arg, depth),
        }
    }

    fn other(&mut self, arg: &Bound<'_, PyAny>, depth: u8) {
        let info = kinds::info(arg);
        let kind = info.kind();
        self.mark(kind as u64);
        match kind {
            Kind::NumPy => {
                self.mark(u64::from(info.name())); // a subclass: what works on plain arrays may not on it
                if let Ok(array) = arg.cast::<PyUntypedArray>() {
                    self.numpy(array);
                }
            }
            Kind::Torch => self.torch(arg),
            Kind::Jax | Kind::Tracer | Kind::CuPy | Kind::Shaped => self.shaped(arg, info),
            Kind::Int => self.value(integer(arg)),
            Kind::Float => self.value(arg.extract().unwrap_or(0.0)),
            Kind::Bool => self.mark(u64::from(arg.is_truthy().unwrap_or(false))),
            Kind::Text => self.mark(text_code(arg)),
            Kind::List | Kind::Tuple => self.sequence(arg, depth),
            Kind::Dict => {
                self.sized(arg, info);
                self.search(arg, 0);
            }
            Kind::Sized => self.sized(arg, info),
            Kind::Object => self.mark(u64::from(info.name())),
            Kind::Module => {
                self.mark(u64::from(info.name()));
                self.gradient = true; // what it holds might need them
            }
        }
    }

    #[inline]
    fn numpy(&mut self, array: &Bound<'_, PyUntypedArray>) {
        let dtype = array.dtype();
        let foreign = dtype.is_native_byteorder() == Some(false);
        let layout = u64::from(foreign) << 2
            | u64::from(array.is_c_contiguous()) << 1
            | u64::from(array.is_fortran_contiguous());
        self.mark((array.ndim() as u64) << 3 | layout);
        let mut elements = 1u64;
        for n in array.shape() {
            self.extent(*n as f64);
            elements = elements.saturating_mul(*n as u64);
        }
        self.array(elements, dtype.itemsize() as u64, dtype_of(&dtype));
    }

    fn torch(&mut self, arg: &Bound<'_, PyAny>) {
        let py = arg.py();
        let elements = self.dimensions(arg);
        let dtype = arg.getattr(intern!(py, "dtype"));
        let dtype = dtype.map_or(DType::Other, |dtype| torch_dtype(&dtype));
        self.array(elements, dtype.bytes().unwrap_or(8), dtype);
        self.gradient |= needs_gradient(arg);
        let on_gpu = arg.getattr(intern!(py, "is_cuda"));
        if on_gpu.and_then(|on| on.is_truthy()).unwrap_or(false) {
            let device = arg.call_method0(intern!(py, "get_device"));
            let device: u8 = device.and_then(|d| d.extract()).unwrap_or(0);
            self.located = Backend::Gpu(device);
        }
    }

    fn shaped(&mut self, arg: &Bound<'_, PyAny>, info: Info) {
        let py = arg.py();
        let elements = self.dimensions(arg);
        let dtype = arg.getattr(intern!(py, "dtype")).ok();
        let descr = dtype.as_ref().and_then(|d| d.cast::<PyArrayDescr>().ok());
        let item = descr.map_or(8, |d| d.itemsize() as u64);
        self.array(elements, item, descr.map_or(DType::Other, dtype_of));
        match info.kind() {
            // A function is traced for its gradients or to be compiled: either way only what JAX can
            // follow may serve.
            Kind::Tracer => (self.gradient, self.tracing) = (true, true),
            Kind::Jax => self.jax_device(arg),
            Kind::CuPy => {
                let device = arg.getattr(intern!(py, "device"));
                let device = device.and_then(|d| d.getattr("id")?.extract());
                self.located = Backend::Gpu(device.unwrap_or(0));
            }
            _ => self.mark(u64::from(info.name())),
        }
    }

    fn jax_device(&mut self, arg: &Bound<'_, PyAny>) {
        let py = arg.py();
        // One device, or how an array is spread over several.
        let Ok(device) = arg.getattr(intern!(py, "device")) else {
            return;
        };
        let address = device.as_ptr() as usize;
        let code = DEVICES.get(address).unwrap_or_else(|| {
            let code = jax_device(&device);
            DEVICES.put(&device, code);
            code
        });
        if code > 0 {
            self.located = Backend::Gpu((code - 1) as u8);
        }
    }

    /// Counts the dimensions of anything with a shape; the number of elements.
    fn dimensions(&mut self, arg: &Bound<'_, PyAny>) -> u64 {
        let shape = arg.getattr(intern!(arg.py(), "shape"));
        let Ok(shape) = shape.and_then(|s| Ok(s.cast_into::<PyTuple>()?)) else {
            return 0;
        };
        self.mark(shape.len() as u64);
        let mut elements = 1u64;
        for i in 0..shape.len() {
            // A dimension that is not a number, such as JAX's symbolic ones, counts as 1.
            let n = shape.get_borrowed_item(i).and_then(|n| n.extract::<u64>());
            let n = n.unwrap_or(1);
            self.extent(n as f64);
            elements = elements.saturating_mul(n);
        }
        elements
    }

    /// A list of arrays counts as its arrays, any other by its length.
    fn sequence(&mut self, arg: &Bound<'_, PyAny>, depth: u8) {
        let items: Vec<Bound<'_, PyAny>> = match (arg.cast::<PyList>(), arg.cast::<PyTuple>()) {
            (Ok(list), _) => list.iter().take(MOST_LISTED).collect(),
            (_, Ok(tuple)) => tuple.iter().take(MOST_LISTED).collect(),
            _ => Vec::new(),
        };
        let length = arg.len().unwrap_or(0);
        self.extent(length as f64);
        self.size = self.size.max(length as u64);
        let first = items.first().map(kinds::kind);
        let listed = depth < 2 && first.is_some_and(|kind| kind.is_array());
        if listed {
            items.iter().for_each(|item| self.add(item, depth + 1));
        }
        if !listed || length > MOST_LISTED {
            let known = if listed { MOST_LISTED } else { 0 };
            self.search(arg, known);
        }
    }

    /// Searches a container, but for its first so many items, for what needs gradients.
    fn search(&mut self, container: &Bound<'_, PyAny>, skipped: usize) {
        contents::each(container, skipped, |kind, item| {
            match kind {
                Kind::Torch => self.gradient |= needs_gradient(item),
                Kind::Tracer => (self.gradient, self.tracing) = (true, true),
                Kind::Module => self.gradient = true,
                _ => {}
            }
            match self.gradient && self.tracing {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
    }

    fn sized(&mut self, arg: &Bound<'_, PyAny>, info: Info) {
        self.mark(u64::from(info.name()));
        if let Ok(length) = arg.len() {
            self.extent(length as f64);
            self.size = self.size.max(length as u64);
        }
    }
}

/// Whether a tensor needs gradients, those that are pushed forward included.
fn needs_gradient(tensor: &Bound<'_, PyAny>) -> bool {
    static FORWARD: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let py = tensor.py();
    let needs = tensor.getattr(intern!(py, "requires_grad"));
    // What cannot say that it needs none, might.
    if needs.and_then(|n| n.is_truthy()).unwrap_or(true) {
        return true;
    }
    let import = || Ok::<_, PyErr>(py.import("torch.autograd.forward_ad")?.unbind());
    let level = FORWARD.get_or_try_init(py, import).and_then(|module| {
        let level = module.bind(py).getattr(intern!(py, "_current_level"))?;
        level.extract::<i64>()
    });
    level.is_ok_and(|level| level >= 0)
}

/// An integer as a feature; what is too large for a float is as large as floats are.
fn integer(arg: &Bound<'_, PyAny>) -> f64 {
    match arg.extract::<i64>() {
        Ok(n) => n as f64,
        Err(_) if arg.lt(0).unwrap_or(false) => f64::MIN,
        Err(_) => arg.extract().unwrap_or(f64::MAX),
    }
}

fn text_code(text: &Bound<'_, PyAny>) -> u64 {
    let text = text.cast::<PyString>().ok();
    let bytes = text.and_then(|t| t.to_str().ok()).unwrap_or("?");
    u64::from(kinds::hash(bytes.as_bytes()))
}

/// NumPy's type numbers are part of its ABI.
#[inline]
pub(crate) fn dtype_of(dtype: &Bound<'_, PyArrayDescr>) -> DType {
    match (dtype.num(), dtype.itemsize()) {
        (0, _) => DType::Bool,
        (1, _) => DType::I8,
        (2, _) => DType::U8,
        (3, _) => DType::I16,
        (4, _) => DType::U16,
        (5 | 7 | 9, 4) => DType::I32,
        (6 | 8 | 10, 4) => DType::U32,
        (7 | 9, 8) => DType::I64,
        (8 | 10, 8) => DType::U64,
        (11, _) => DType::F32,
        (12, _) => DType::F64,
        (14, _) => DType::C64,
        (15, _) => DType::C128,
        (23, _) => DType::F16,
        _ => DType::Other,
    }
}

static TORCH_DTYPES: Table<128> = Table::new();
static DEVICES: Table<256> = Table::new();

fn torch_dtype(dtype: &Bound<'_, PyAny>) -> DType {
    let code = TORCH_DTYPES
        .get(dtype.as_ptr() as usize)
        .unwrap_or_else(|| {
            let name = dtype.to_string();
            let found = named_dtype(name.trim_start_matches("torch."));
            let code = DTYPES.iter().position(|(_, d)| Some(*d) == found);
            let code = code.unwrap_or(DTYPES.len()) as u32;
            TORCH_DTYPES.put(dtype, code);
            code
        });
    DTYPES.get(code as usize).map_or(DType::Other, |(_, d)| *d)
}

/// Names that NumPy, PyTorch and JAX share.
const DTYPES: [(&str, DType); 15] = [
    ("bool", DType::Bool),
    ("uint8", DType::U8),
    ("uint16", DType::U16),
    ("uint32", DType::U32),
    ("uint64", DType::U64),
    ("int8", DType::I8),
    ("int16", DType::I16),
    ("int32", DType::I32),
    ("int64", DType::I64),
    ("float16", DType::F16),
    ("bfloat16", DType::Bf16),
    ("float32", DType::F32),
    ("float64", DType::F64),
    ("complex64", DType::C64),
    ("complex128", DType::C128),
];

/// The element type of this name.
pub(crate) fn named_dtype(name: &str) -> Option<DType> {
    let found = DTYPES
        .iter()
        .find(|(known, dtype)| *known == name || dtype.to_string() == name);
    found.map(|(_, dtype)| *dtype)
}

/// The names that there are, for errors.
pub(crate) fn dtype_names() -> String {
    DTYPES.map(|(name, _)| name).join(", ")
}

/// 0 for the host, else the number of the GPU plus one.
fn jax_device(device: &Bound<'_, PyAny>) -> u32 {
    let platform = device
        .getattr("platform")
        .and_then(|p| p.extract::<String>());
    match platform.as_deref() {
        Ok("gpu" | "cuda" | "rocm") => {
            let id = device.getattr("id").and_then(|id| id.extract::<u8>());
            u32::from(id.unwrap_or(0)) + 1
        }
        _ => 0,
    }
}
