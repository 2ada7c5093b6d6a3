//! An op with all its variants, ready to be called, and step 2 of a call: who may serve it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use pointsman::{Chosen, Mode, Prepared, Workload};
use pyo3::prelude::*;

use crate::arguments::{Arguments, Features};
use crate::attempts::Call;
use crate::check::Check;
use crate::compiled::{self, Cold, Compiled, Jitted};
use crate::errors::{self, NoVariantError};
use crate::selector::Selector;
use crate::variant::{Compiles, Variant, WhyNot};

/// An op as declared so far.
pub(crate) struct Ready {
    pub(crate) prepared: Prepared,
    pub(crate) variants: Vec<Py<Variant>>,
    functions: Vec<Py<PyAny>>,
    learning: Arc<AtomicBool>,
    pub(crate) check: Option<Check>,
    pub(crate) compiled: Compiled,
    /// What each variant compiles, if that is to be found out.
    pub(crate) jitted: Vec<Vec<Jitted>>,
    all: u64,
    without_gradient: u64,
    limited: u64,
    learns: bool,
    /// Whether the first is the reference, which serves everything.
    has_reference: bool,
    /// Whether it learns, and who may serve depends on nothing but types and sizes.
    repeats: bool,
}

/// The last that was made of an op: at the first call, and anew when there are more variants, which is
/// rare. Those before it stay, for calls under way, so that a call finds it without counting references.
#[derive(Default)]
pub(crate) struct Made {
    ready: OnceLock<Arc<Ready>>,
    next: OnceLock<Box<Made>>,
}

impl Made {
    #[inline]
    fn last(&self) -> &Self {
        let mut last = self;
        while let Some(next) = last.next.get() {
            last = next;
        }
        last
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<&Arc<Ready>> {
        self.last().ready.get()
    }

    pub(crate) fn put(&self, ready: Ready) -> &Arc<Ready> {
        self.last().ready.get_or_init(|| Arc::new(ready))
    }

    /// It must be made anew.
    pub(crate) fn outdate(&self) {
        let last = self.last();
        if last.ready.get().is_some() {
            last.next.get_or_init(Box::default);
        }
    }
}

impl Ready {
    /// An op whose first variant is the reference.
    pub(crate) fn new(
        py: Python<'_>,
        name: &str,
        selector: &Selector,
        variants: Vec<Py<Variant>>,
        check: Option<Check>,
    ) -> PyResult<Self> {
        let mut prepared = prepare(name, selector, &variants)?;
        if check.is_some() {
            prepared = prepared.verified();
        }
        Ok(Ready {
            check,
            has_reference: true,
            ..Self::of_peers(py, prepared, selector, variants)
        })
    }

    /// An op none of whose variants is the reference.
    pub(crate) fn without_reference(
        py: Python<'_>,
        name: &str,
        selector: &Selector,
        variants: Vec<Py<Variant>>,
    ) -> PyResult<Self> {
        let prepared = prepare(name, selector, &variants)?.without_reference();
        Ok(Self::of_peers(py, prepared, selector, variants))
    }

    fn of_peers(
        py: Python<'_>,
        prepared: Prepared,
        selector: &Selector,
        variants: Vec<Py<Variant>>,
    ) -> Self {
        let with = |holds: &dyn Fn(&Variant) -> bool| {
            let bits = variants.iter().enumerate();
            bits.fold(0u64, |mask, (i, v)| mask | u64::from(holds(v.get())) << i)
        };
        let compiled = Compiled::new(&variants);
        let mut jitted = Vec::new();
        for (place, variant) in variants.iter().enumerate() {
            let found = match variant.get().declared.compiles {
                Compiles::Auto => compiled::jitted(variant.get().function.bind(py)),
                _ => Vec::new(),
            };
            if let Some(first) = found.first() {
                compiled.is(place, first.compiles());
            }
            jitted.push(found);
        }
        let limited = with(&|v| v.is_limited());
        let learns = selector.core().mode() == Mode::Learn;
        Ready {
            all: with(&|_| true),
            without_gradient: with(&|v| !v.declared.gradient),
            limited,
            learns,
            repeats: learns && with(&|v| v.depends_on_more()) == 0,
            functions: variants
                .iter()
                .map(|v| v.get().function.clone_ref(py))
                .collect(),
            learning: selector.learning_flag(),
            prepared,
            variants,
            check: None,
            has_reference: false,
            compiled,
            jitted,
        }
    }

    #[inline]
    pub(crate) fn function_at<'py>(&self, py: Python<'py>, place: usize) -> &Bound<'py, PyAny> {
        self.functions[place].bind(py)
    }

    /// Whether its selector learns.
    #[inline]
    pub(crate) fn is_learning(&self) -> bool {
        self.learning.load(Relaxed)
    }

    /// Who serves a call that is like others lately, if that is known.
    #[inline]
    pub(crate) fn again(&self, features: &Features) -> Option<usize> {
        let may = self.repeats && !features.tracing && self.is_learning();
        if may {
            self.prepared.again(features.like())
        } else {
            None
        }
    }

    /// Chooses for a call.
    #[inline]
    pub(crate) fn choose(&self, call: Call<'_, '_>, eligible: u64, cold: Cold) -> Option<Chosen> {
        if !self.is_learning() {
            return self.prepared.known(call.workload, eligible);
        }
        if !self.repeats || !call.is_told_by_features {
            return self.prepared.choose(call.workload, eligible);
        }
        // While somebody waits for it to be worth compiling, every call is looked at.
        let steady = if cold.refused == 0 { !cold.all } else { 0 };
        let like = call.features.like();
        (self.prepared).choose_like(like, call.workload, eligible, steady)
    }

    /// Who may serve this call, and who has to compile for it.
    #[inline]
    pub(crate) fn eligible(&self, call: Call<'_, '_>) -> PyResult<(u64, Cold)> {
        let Call {
            arguments,
            features,
            workload,
            named,
            ..
        } = call;
        let mut mask = named.map_or(self.all, |named| named.eligible);
        if workload.needs_gradient() {
            mask &= !self.without_gradient;
        }
        if mask & self.limited != 0 {
            mask = self.met(mask, arguments, workload)?;
        }
        if !self.learns {
            return Ok((mask, Cold::default()));
        }
        let mut cold = self.compiled.cold(features);
        if self.has_reference {
            cold.refused &= !1; // it serves everything, compiled or not
        }
        Ok((self.without(mask, cold.refused), cold))
    }

    /// A mask less those who would have to compile, unless nobody else is left.
    fn without(&self, mask: u64, refused: u64) -> u64 {
        match mask & !refused {
            0 => mask,
            left => left,
        }
    }

    /// Those of the mask whose limits and conditions this call meets.
    fn met(&self, mask: u64, call: Arguments<'_, '_>, workload: &Workload) -> PyResult<u64> {
        let (mut met, mut left) = (mask, mask & self.limited);
        while left != 0 {
            let place = left.trailing_zeros() as usize;
            let variant = self.variants[place].get();
            let why = variant.why_not(call, workload, self.prepared.selector())?;
            if why.is_some() {
                met &= !(1 << place);
            }
            left &= left - 1;
        }
        Ok(met)
    }

    /// Why each variant may not serve a call.
    pub(crate) fn why_not(&self, call: Call<'_, '_>) -> PyResult<Vec<Option<String>>> {
        let Call {
            arguments,
            workload,
            ..
        } = call;
        let (eligible, cold) = self.eligible(call)?;
        let mut told = Vec::with_capacity(self.variants.len());
        for (place, variant) in self.variants.iter().enumerate() {
            let variant = variant.get();
            let mut why = match workload.needs_gradient() && !variant.declared.gradient {
                true => Some(WhyNot::Gradient),
                false => variant.why_not(arguments, workload, self.prepared.selector())?,
            };
            if why.is_none() && (cold.refused & !eligible) & 1 << place != 0 {
                why = Some(WhyNot::Compiles);
            }
            told.push(why.map(|why| why.to_string()));
        }
        Ok(told)
    }

    /// The error of a call that nobody may serve.
    #[cold]
    pub(crate) fn nobody(&self, call: Call<'_, '_>) -> PyErr {
        let workload = call.workload;
        let told = match self.why_not(call) {
            Ok(told) => told,
            Err(error) => return error,
        };
        let lines = self.variants.iter().zip(told).map(|(variant, why)| {
            let why = why.unwrap_or_else(|| "disabled, or gave wrong results".to_owned());
            format!("{}: {why}", variant.get().name)
        });
        let lines: Vec<String> = lines.collect();
        let text = format!(
            "no variant may serve this call ({workload}): {}",
            lines.join("; ")
        );
        NoVariantError::new_err(text)
    }
}

fn prepare(name: &str, selector: &Selector, variants: &[Py<Variant>]) -> PyResult<Prepared> {
    let candidates: Vec<_> = variants.iter().map(|v| v.get().candidate()).collect();
    let prepared = selector.core().prepare(name, &candidates);
    prepared.map_err(errors::value)
}
