//! Step 1 of a call: arguments → features.
//!
//! Arrays give their dimensions, element type and place, sequences their length, numbers their value.
//! What else tells one kind of call from another (types, layouts, words such as `mode="same"`) is one
//! code.

use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pointsman::{Backend, DType, MAX_FEATURES, Workload};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyModule, PyString, PyTuple};

use crate::kinds::{self, Info, Kind, Table};

/// Elements of a list of arrays that count one by one.
const MOST_LISTED: usize = 64;

/// Items of lists and dictionaries, and of those inside them, among which tensors that need gradients are searched for: a million
/// numbers are not gone through on each call.
const MOST_SEARCHED: usize = 256;

/// The same once a tensor was among them. It has an end because a list may contain itself.
const MOST_TENSORS: usize = 1 << 20;

/// Containers within containers that are searched.
const DEEPEST: u8 = 4;

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
    pub(crate) types: u64,
    /// The same with every size.
    pub(crate) shapes: u64,
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
            gradient: false,
            tracing: false,
        }
    }
}

/// How many more items may be looked at, and whether one of them was a tensor.
struct Search {
    left: usize,
    is_wide: bool,
}

impl Default for Search {
    fn default() -> Self {
        Search {
            left: MOST_SEARCHED,
            is_wide: false,
        }
    }
}

impl Search {
    /// Where there is one, there may be more.
    fn found(&mut self) {
        if !self.is_wide {
            (self.left, self.is_wide) = (MOST_TENSORS, true);
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

    /// A number for everything that calls like this one have in common, types and sizes.
    #[inline]
    pub(crate) fn like(&self) -> u64 {
        let on = match self.located {
            Backend::Gpu(device) => u64::from(device) + 1,
            _ => 0,
        };
        let rest = self.dtype as u64 | u64::from(self.gradient) << 8 | on << 16;
        mixed(self.types.rotate_left(32) ^ self.shapes, rest)
    }

    /// Something that makes it another kind of call.
    #[inline]
    fn mark(&mut self, code: u64) {
        self.types = mixed(self.types, code);
    }

    /// A number that costs depend on. Beyond the most that there may be, their product counts.
    #[inline]
    fn number(&mut self, value: f64) {
        self.shapes = mixed(self.shapes, value.to_bits());
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
                if let Ok(array) = arg.cast::<PyUntypedArray>() {
                    self.numpy(array);
                }
            }
            Kind::Torch => self.torch(arg),
            Kind::Jax | Kind::Tracer | Kind::CuPy | Kind::Shaped => self.shaped(arg, info),
            Kind::Int => self.number(integer(arg)),
            Kind::Float => self.number(arg.extract().unwrap_or(0.0)),
            Kind::Bool => self.mark(u64::from(arg.is_truthy().unwrap_or(false))),
            Kind::Text => self.mark(text_code(arg)),
            Kind::List | Kind::Tuple => self.sequence(arg, depth),
            Kind::Dict => {
                self.sized(arg, info);
                self.search(arg, 0, DEEPEST, &mut Search::default());
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
        let layout =
            u64::from(array.is_c_contiguous()) << 1 | u64::from(array.is_fortran_contiguous());
        self.mark((array.ndim() as u64) << 2 | layout);
        let mut elements = 1u64;
        for n in array.shape() {
            self.number(*n as f64);
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
            self.number(n as f64);
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
        self.number(length as f64);
        self.size = self.size.max(length as u64);
        let first = items.first().map(kinds::kind);
        let listed = depth < 2 && first.is_some_and(|kind| kind.is_array());
        if listed {
            items.iter().for_each(|item| self.add(item, depth + 1));
        }
        if !listed || length > MOST_LISTED {
            let known = if listed { MOST_LISTED } else { 0 };
            self.search(arg, known, DEEPEST, &mut Search::default());
        }
    }

    /// Searches a container, but for its first so many items, for what needs gradients.
    fn search(
        &mut self,
        container: &Bound<'_, PyAny>,
        known: usize,
        depth: u8,
        search: &mut Search,
    ) {
        if container.is_instance_of::<PyDict>() {
            // A view: nothing is copied, and a change meanwhile is an exception.
            let values = container.call_method0(intern!(container.py(), "values"));
            if let Ok(values) = values.and_then(|values| values.try_iter()) {
                self.search_items(values.map_while(Result::ok), known, depth, search);
            }
        } else if let Ok(items) = container.cast::<PyList>() {
            self.search_items(items.iter(), known, depth, search);
        } else if let Ok(items) = container.cast::<PyTuple>() {
            self.search_items(items.iter(), known, depth, search);
        }
    }

    fn search_items<'py>(
        &mut self,
        items: impl Iterator<Item = Bound<'py, PyAny>>,
        known: usize,
        depth: u8,
        search: &mut Search,
    ) {
        for item in items.skip(known) {
            if search.left == 0 || (self.gradient && self.tracing) {
                return;
            }
            search.left -= 1;
            match kinds::kind(&item) {
                Kind::Torch => {
                    self.gradient |= needs_gradient(&item);
                    search.found();
                }
                Kind::Jax => search.found(),
                Kind::Tracer => (self.gradient, self.tracing) = (true, true),
                Kind::Module => self.gradient = true,
                Kind::List | Kind::Tuple | Kind::Dict if depth > 0 => {
                    self.search(&item, 0, depth - 1, search);
                }
                _ => {}
            }
        }
    }

    fn sized(&mut self, arg: &Bound<'_, PyAny>, info: Info) {
        self.mark(u64::from(info.name()));
        if let Ok(length) = arg.len() {
            self.number(length as f64);
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
