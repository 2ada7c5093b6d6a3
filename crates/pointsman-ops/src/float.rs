//! The element types.

use std::fmt;
use std::iter::Sum;
use std::sync::LazyLock;

use num_traits::NumAssign;
use pointsman::{BuildError, DType, Selector};

use crate::Ops;
use crate::catalogue::Entry;
use crate::exp::Reduced;
use crate::fourier::Fourier;
use crate::sort::Key;

/// `f32` or `f64`.
pub trait Float:
    num_traits::Float
    + bytemuck::Pod
    + NumAssign
    + Sum
    + Default
    + fmt::Debug
    + Send
    + Sync
    + Reduced
    + Fourier
    + Key
    + sealed::Sealed
    + 'static
{
    /// How a workload names it.
    const DTYPE: DType;
    /// The unit roundoff u: half the distance from 1 to the next number.
    const ROUNDOFF: f64;

    /// The name of an op for this type: `"dot_f32"` or `"dot_f64"`.
    fn named(single: &'static str, double: &'static str) -> &'static str;

    /// The nearest number of this type.
    fn of(value: f64) -> Self;

    /// The same number as an `f64`.
    fn wide(self) -> f64;

    /// All ops on a selector, and the same as entries of a catalogue: what is behind [`Ops`]. Not
    /// generic, so that the kernels are compiled once, in this crate, and not by each that uses it.
    #[doc(hidden)]
    fn declared(selector: &Selector) -> Result<Ops<Self>, BuildError>;
    #[doc(hidden)]
    fn listed(ops: &Ops<Self>) -> Vec<Box<dyn Entry>>;

    /// The ops of this process for this type.
    fn ops() -> Result<&'static Ops<Self>, BuildError>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// What the functions of this crate choose with: one selector, made at the first call.
pub(crate) fn selector() -> &'static Selector {
    static SELECTOR: LazyLock<Selector> = LazyLock::new(made);
    &SELECTOR
}

#[cfg(feature = "gpu")]
fn made() -> Selector {
    let announced = crate::gpu::announce(Selector::builder()).build();
    // What is wrong with the environment is reported where an op is declared.
    announced.unwrap_or_else(|_| Selector::new())
}

#[cfg(not(feature = "gpu"))]
fn made() -> Selector {
    Selector::new()
}

macro_rules! float {
    ($float:ident, $dtype:ident) => {
        impl Float for $float {
            const DTYPE: DType = DType::$dtype;
            const ROUNDOFF: f64 = $float::EPSILON as f64 / 2.0;

            #[inline]
            fn named(single: &'static str, double: &'static str) -> &'static str {
                match size_of::<Self>() {
                    4 => single,
                    _ => double,
                }
            }

            #[inline]
            fn of(value: f64) -> Self {
                value as $float
            }

            #[inline]
            fn wide(self) -> f64 {
                self.into()
            }

            fn declared(selector: &Selector) -> Result<Ops<Self>, BuildError> {
                Ops::declare(selector)
            }

            fn listed(ops: &Ops<Self>) -> Vec<Box<dyn Entry>> {
                ops.list()
            }

            fn ops() -> Result<&'static Ops<Self>, BuildError> {
                static OPS: LazyLock<Result<Ops<$float>, BuildError>> =
                    LazyLock::new(|| Ops::declare(selector()));
                OPS.as_ref().map_err(Clone::clone)
            }
        }
    };
}

float!(f32, F32);
float!(f64, F64);
