//! What an argument is, found by the address of its type.
//!
//! The types of a program's arguments are few. Each is looked at once, through its base classes and
//! without importing anything; after that one load says what it is.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

use pyo3::prelude::*;
use pyo3::types::PyType;

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// PyTorch's: holds parameters that may require gradients.
    Module,
    NumPy,
    Torch,
    Jax,
    /// Stands for a JAX array while a function is traced, for compilation or for gradients.
    Tracer,
    CuPy,
    /// Anything else with a shape.
    Shaped,
    Int,
    Float,
    Bool,
    Text,
    List,
    Tuple,
    Dict,
    /// Anything else with a length.
    Sized,
    Object,
}

impl Kind {
    const ALL: [Kind; 16] = [
        Kind::Module,
        Kind::NumPy,
        Kind::Torch,
        Kind::Jax,
        Kind::Tracer,
        Kind::CuPy,
        Kind::Shaped,
        Kind::Int,
        Kind::Float,
        Kind::Bool,
        Kind::Text,
        Kind::List,
        Kind::Tuple,
        Kind::Dict,
        Kind::Sized,
        Kind::Object,
    ];

    pub(crate) fn is_array(self) -> bool {
        (Kind::NumPy as u8..=Kind::Shaped as u8).contains(&(self as u8))
    }
}

/// What is known of a type: its kind, and 28 bits that tell it from others in every process.
#[derive(Clone, Copy)]
pub(crate) struct Info(u32);

impl Info {
    fn new(kind: Kind, name: u32) -> Self {
        Info(name << 4 | kind as u32)
    }

    #[inline]
    pub(crate) fn kind(self) -> Kind {
        Kind::ALL[self.0 as usize % Kind::ALL.len()]
    }

    #[inline]
    pub(crate) fn name(self) -> u32 {
        self.0 >> 4
    }
}

/// A table from the addresses of objects that are kept alive to a number for each.
pub(crate) struct Table<const N: usize> {
    addresses: [AtomicUsize; N],
    numbers: [AtomicU32; N],
    kept: Mutex<Vec<Py<PyAny>>>,
}

impl<const N: usize> Table<N> {
    pub(crate) const fn new() -> Self {
        Table {
            addresses: [const { AtomicUsize::new(0) }; N],
            numbers: [const { AtomicU32::new(0) }; N],
            kept: Mutex::new(Vec::new()),
        }
    }

    fn slots(address: usize) -> impl Iterator<Item = usize> {
        let first = (address >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as usize) >> 32;
        (0..8).map(move |i| (first + i) % N)
    }

    #[inline]
    pub(crate) fn get(&self, address: usize) -> Option<u32> {
        for slot in Self::slots(address) {
            match self.addresses[slot].load(Acquire) {
                found if found == address => return Some(self.numbers[slot].load(Relaxed)),
                0 => return None,
                _ => {}
            }
        }
        None
    }

    /// Remembers a number. The object lives on, so that no other can have its address.
    #[cold]
    pub(crate) fn put(&self, object: &Bound<'_, PyAny>, number: u32) {
        let address = object.as_ptr() as usize;
        let mut kept = self.kept.lock().unwrap_or_else(|e| e.into_inner());
        for slot in Self::slots(address) {
            let found = self.addresses[slot].load(Relaxed);
            if found == address {
                return;
            }
            if found == 0 {
                kept.push(object.clone().unbind());
                self.numbers[slot].store(number, Relaxed);
                self.addresses[slot].store(address, Release);
                return;
            }
        }
        // No room: looked at anew each time.
    }
}

static TYPES: Table<1024> = Table::new();

/// What an object is.
#[inline]
pub(crate) fn info(object: &Bound<'_, PyAny>) -> Info {
    let address = object.get_type_ptr() as usize;
    match TYPES.get(address) {
        Some(number) => Info(number),
        None => look(&object.get_type()),
    }
}

#[inline]
pub(crate) fn kind(object: &Bound<'_, PyAny>) -> Kind {
    info(object).kind()
}

#[cold]
fn look(of: &Bound<'_, PyType>) -> Info {
    let name = of.fully_qualified_name();
    let name = name.map(|n| n.to_string()).unwrap_or_default();
    let info = Info::new(classify(of), hash(name.as_bytes()) & 0x0FFF_FFFF);
    TYPES.put(of, info.0);
    info
}

fn classify(of: &Bound<'_, PyType>) -> Kind {
    for base in of.mro() {
        let Ok(base) = base.cast_into::<PyType>() else {
            continue;
        };
        let module = base.module().map(|m| m.to_string()).unwrap_or_default();
        let name = base.name().map(|n| n.to_string()).unwrap_or_default();
        let found = match (module.as_str(), name.as_str()) {
            ("numpy", "ndarray") => Kind::NumPy,
            ("numpy", "bool" | "bool_") | ("builtins", "bool") => Kind::Bool,
            ("numpy", "integer") | ("builtins", "int") => Kind::Int,
            ("numpy", "floating") | ("builtins", "float") => Kind::Float,
            ("torch", "Tensor") => Kind::Torch,
            ("torch.nn.modules.module", "Module") => Kind::Module,
            ("jax._src.core" | "jax.core", "Tracer") => Kind::Tracer,
            (m, "ArrayImpl") if m.starts_with("jax") => Kind::Jax,
            (m, "ndarray") if m.starts_with("cupy") => Kind::CuPy,
            ("builtins", "str") => Kind::Text,
            ("builtins", "list") => Kind::List,
            ("builtins", "tuple") => Kind::Tuple,
            ("builtins", "dict") => Kind::Dict,
            _ => continue,
        };
        return found;
    }
    let has = |name: &str| of.hasattr(name).unwrap_or(false);
    match () {
        () if has("shape") => Kind::Shaped,
        () if has("__len__") => Kind::Sized,
        () => Kind::Object,
    }
}

/// FNV-1a: the same in every process, since codes are kept in the store.
pub(crate) fn hash(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811C_9DC5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}
