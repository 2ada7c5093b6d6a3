//! The line that every call goes down, from its arguments to its result.

use pointsman::{Chosen, Cost, Rejection, Workload};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::{Arguments, Features};
use crate::compiled::{self, Cold};
use crate::errors::{add_note, is_failure, is_out_of_memory};
use crate::ready::Ready;
use crate::refused;
use crate::variant::{Compiles, Wait};
use crate::wait;

/// What a call is about.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a, 'py> {
    pub(crate) arguments: Arguments<'a, 'py>,
    pub(crate) features: &'a Features,
    pub(crate) workload: &'a Workload,
    /// Whether the workload follows from the features.
    pub(crate) is_told_by_features: bool,
    /// Of a call whose caller brings the functions along.
    pub(crate) named: Option<Named<'a, 'py>>,
}

/// Functions that are the caller's: none of them is the truth, and each has its turn.
#[derive(Clone, Copy)]
pub(crate) struct Named<'a, 'py> {
    pub(crate) functions: &'a [Bound<'py, PyAny>],
    pub(crate) eligible: u64,
}

impl<'a, 'py> Call<'a, 'py> {
    /// A call of an op's own variants.
    #[inline]
    pub(crate) fn new(
        arguments: Arguments<'a, 'py>,
        features: &'a Features,
        workload: &'a Workload,
    ) -> Self {
        Call {
            arguments,
            features,
            workload,
            is_told_by_features: false,
            named: None,
        }
    }

    /// Whether a failure of this variant is the call's.
    fn is_final(&self, place: usize) -> bool {
        place == 0 && self.named.is_none()
    }
}

type Value<'py> = Bound<'py, PyAny>;

/// A variant that failed in this call.
type Failed = (Chosen, PyErr);

impl Ready {
    /// Runs the variant that is fastest for these arguments, whose features are all there is to know.
    #[inline]
    pub(crate) fn run_by_features<'py>(
        &self,
        arguments: Arguments<'_, 'py>,
        features: &Features,
    ) -> PyResult<Value<'py>> {
        let Some(place) = self.again(features) else {
            return self.run_anew(arguments, features);
        };
        let function = self.function_at(arguments.py(), place);
        match self.prepared.inside(|| arguments.call(function)) {
            Ok(value) => Ok(value),
            Err(error) => self.after_again(arguments, features, place, error),
        }
    }

    #[inline(never)]
    fn run_anew<'py>(
        &self,
        arguments: Arguments<'_, 'py>,
        features: &Features,
    ) -> PyResult<Value<'py>> {
        let workload = features.workload();
        self.run(Call {
            is_told_by_features: true,
            ..Call::new(arguments, features, &workload)
        })
    }

    /// A choice that others were served from failed: as if it had been made for this call.
    #[cold]
    fn after_again<'py>(
        &self,
        arguments: Arguments<'_, 'py>,
        features: &Features,
        place: usize,
        error: PyErr,
    ) -> PyResult<Value<'py>> {
        let workload = features.workload();
        let call = Call::new(arguments, features, &workload);
        let chosen = self.prepared.chosen_again(place, &workload);
        match self.eligible(call) {
            Ok((eligible, cold)) => self.after_failure(call, eligible, cold, chosen, error),
            Err(_) => Err(error),
        }
    }

    /// Runs the variant that is fastest for these arguments.
    #[inline]
    pub(crate) fn run<'py>(&self, call: Call<'_, 'py>) -> PyResult<Value<'py>> {
        let Call {
            arguments,
            features,
            ..
        } = call;
        let (eligible, cold) = self.eligible(call)?;
        if features.tracing {
            return self.run_quietly(call, eligible);
        }
        let Some(chosen) = self.choose(call, eligible, cold) else {
            return Err(self.nobody(call));
        };
        // While somebody waits for it to be worth compiling, time is counted.
        let compiles = cold.refused != 0 || cold.all & 1 << chosen.index() != 0;
        if chosen.is_timed() || compiles {
            return self.attempts(call, eligible, cold, chosen, Vec::new());
        }
        let function = self.function(call, chosen.index());
        match self.prepared.inside(|| arguments.call(function)) {
            Ok(value) => Ok(value),
            Err(error) => self.after_failure(call, eligible, cold, chosen, error),
        }
    }

    #[inline]
    fn function<'a, 'py>(&'a self, call: Call<'a, 'py>, place: usize) -> &'a Bound<'py, PyAny> {
        match call.named {
            None => self.function_at(call.arguments.py(), place),
            Some(named) => &named.functions[place],
        }
    }

    /// A published choice failed: as if it had been picked and failed on the slow way.
    #[cold]
    fn after_failure<'py>(
        &self,
        call: Call<'_, 'py>,
        eligible: u64,
        cold: Cold,
        chosen: Chosen,
        error: PyErr,
    ) -> PyResult<Value<'py>> {
        let mut failed = Vec::new();
        let left = eligible & !(1 << chosen.index());
        match self.next(call, left, chosen, error, &mut failed)? {
            Some(next) => self.attempts(call, left, cold, next, failed),
            None => Err(self.give_up(call, failed)),
        }
    }

    /// Tries variants until one serves; the reference is the last.
    #[cold]
    fn attempts<'py>(
        &self,
        call: Call<'_, 'py>,
        eligible: u64,
        cold: Cold,
        mut chosen: Chosen,
        mut failed: Vec<Failed>,
    ) -> PyResult<Value<'py>> {
        let mut left = eligible;
        let mut to_check = chosen.to_check();
        loop {
            let place = chosen.index();
            match self.attempt(call, &chosen, cold) {
                Ok(value) => {
                    failed.iter().for_each(|failed| self.blame(call, failed));
                    if let Some(place) = to_check.take() {
                        self.examine(call, place, (chosen.index(), &value))?;
                    }
                    return Ok(value);
                }
                Err(error) => {
                    left &= !(1 << place);
                    match self.next(call, left, chosen, error, &mut failed)? {
                        Some(next) => chosen = next,
                        None => return Err(self.give_up(call, failed)),
                    }
                }
            }
        }
    }

    /// Who is next after a failure. A request to stop ends the call and counts for nothing.
    fn next(
        &self,
        call: Call<'_, '_>,
        left: u64,
        chosen: Chosen,
        error: PyErr,
        failed: &mut Vec<Failed>,
    ) -> PyResult<Option<Chosen>> {
        let py = call.arguments.py();
        let is_over = call.named.is_none() && self.has_given_up(py, &error);
        if is_over || !is_failure(py, &error) {
            if is_over && !self.prepared.is_inside() {
                refused::end();
            }
            self.prepared.cancelled(&chosen);
            failed.iter().for_each(|(c, _)| self.prepared.cancelled(c));
            return Err(error);
        }
        let last = call.is_final(chosen.index());
        failed.push((chosen, error));
        if left == 0 || last {
            return Ok(None);
        }
        Ok(match self.is_learning() {
            true => self.prepared.fallback(call.workload, left),
            false => self.prepared.known(call.workload, left),
        })
    }

    /// Runs one variant; times it and learns from it if it is to be timed.
    fn attempt<'py>(
        &self,
        call: Call<'_, 'py>,
        chosen: &Chosen,
        cold: Cold,
    ) -> PyResult<Value<'py>> {
        let (py, place) = (call.arguments.py(), chosen.index());
        let function = self.function(call, place);
        let supposed = cold.all & 1 << place != 0;
        let brought = call.named.map(|_| compiled::jitted(function));
        let jitted = brought.as_ref().unwrap_or(&self.jitted[place]);
        if !chosen.is_timed() {
            let before = compiled::count(py, jitted);
            let start = self.prepared.now_ns();
            let value = self.prepared.inside(|| call.arguments.call(function))?;
            let took = self.prepared.now_ns().saturating_sub(start);
            let after = compiled::count(py, jitted);
            self.note_compiled(call, place, supposed, before.zip(after), took);
            return Ok(value);
        }
        if !matches!(self.variants[place].get().declared.wait, Wait::Never) {
            // What is still under way for the arguments is not this variant's time. If it fails, so
            // does whoever uses it.
            let mut stop = None;
            call.arguments.each(|arg| {
                let failed = wait::until_ready(arg).err();
                stop = stop.take().or(failed.filter(|e| !is_failure(py, e)));
            });
            if let Some(stop) = stop {
                return Err(stop);
            }
        }
        let before = compiled::count(py, jitted);
        let start = self.prepared.now_ns();
        let (value, cost) = self.prepared.clocked(chosen, || {
            let value = call.arguments.call(function)?;
            self.wait_for(place, &value)?;
            Ok::<_, PyErr>(value)
        });
        let value = value?;
        // Also where it is no measurement of the variant.
        let took = self.prepared.now_ns().saturating_sub(start);
        let after = compiled::count(py, jitted);
        let supposed = self.found_jax(place, &value) || supposed;
        let cost = match self.note_compiled(call, place, supposed, before.zip(after), took) {
            true => cost.and(Err(Rejection::WarmUp)),
            false => cost,
        };
        self.prepared.served(chosen, call.workload, cost);
        Ok(value)
    }

    /// What returns JAX's arrays is compiled for each shape, whether it says so or not; true when
    /// that is news.
    fn found_jax(&self, place: usize, value: &Value<'_>) -> bool {
        let auto = self.variants[place].get().declared.compiles == Compiles::Auto;
        auto && self.jitted[place].is_empty()
            && wait::is_jax(value)
            && self.compiled.is(place, Compiles::ByShape)
    }

    /// Notes what a call says about compilation: whether it was supposed to compile, what its variant
    /// counted before and after, and how long it took. True if it compiled.
    fn note_compiled(
        &self,
        call: Call<'_, '_>,
        place: usize,
        supposed: bool,
        counted: Option<(usize, usize)>,
        took_ns: u64,
    ) -> bool {
        // Who counts is believed. Of others, nothing that compiles is done so soon.
        let compiled = match counted {
            Some((before, after)) => before != after,
            None => supposed && took_ns >= compiled::LEAST_NS,
        };
        if compiled && !supposed {
            self.compiled.surprised(place, call.features);
        }
        match compiled {
            true => self.compiled.done(place, call.features, took_ns),
            false if supposed => self.compiled.ready(place, call.features),
            false => self.compiled.spent(call.features, took_ns),
        }
        compiled
    }

    /// Reports a failure. It was the variant's own: another one has served the call.
    fn blame(&self, call: Call<'_, '_>, (chosen, error): &Failed) {
        let py = call.arguments.py();
        let why = error.to_string();
        match is_out_of_memory(py, error) {
            true => self.prepared.ran_out(chosen, call.workload, &why),
            false => self.prepared.failed(chosen, call.workload, &why),
        }
    }

    /// The error of a call that nobody could serve: the reference's if it was asked, else the first,
    /// with the others attached. What the reference refuses too is no fault of the variants.
    #[cold]
    fn give_up(&self, call: Call<'_, '_>, mut failed: Vec<Failed>) -> PyErr {
        let py = call.arguments.py();
        let reference = failed
            .iter()
            .position(|(chosen, _)| call.is_final(chosen.index()));
        for (chosen, error) in &failed {
            match chosen.index() {
                place if call.is_final(place) => {
                    self.prepared
                        .failed(chosen, call.workload, &error.to_string());
                }
                _ if reference.is_some() => self.prepared.cancelled(chosen),
                _ => self.blame(call, &(*chosen, error.clone_ref(py))),
            }
        }
        let (_, raised) = failed.remove(reference.unwrap_or(0));
        for (chosen, error) in &failed {
            self.attach(py, &raised, chosen.index(), error);
        }
        match self.prepared.is_inside() {
            true => refused::note(py, &raised, self.id()),
            false => refused::end(),
        }
        raised
    }

    /// Whether this op has refused already what an error is about, in a call inside of this one: then so would the
    /// reference, and each level of a recursion would ask all those below it twice.
    fn has_given_up(&self, py: Python<'_>, error: &PyErr) -> bool {
        refused::is_noted(py, error, self.id())
    }

    fn id(&self) -> u64 {
        std::ptr::from_ref(self) as usize as u64
    }

    /// Notes on an error that another variant failed too.
    fn attach(&self, py: Python<'_>, raised: &PyErr, place: usize, error: &PyErr) {
        let name = &self.variants[place].get().name;
        let note = format!("variant {name:?} failed too: {error}");
        add_note(py, raised, &note);
    }

    /// Runs every variant that may serve so many times, and learns from it. A variant that fails is
    /// left out.
    pub(crate) fn measure<'py>(
        &self,
        call: Call<'_, 'py>,
        repeat: u32,
    ) -> PyResult<Bound<'py, PyDict>> {
        let py = call.arguments.py();
        let (eligible, _) = self.eligible(call)?;
        let (out, mut first) = (PyDict::new(py), None);
        for place in (0..self.variants.len()).filter(|place| eligible & 1 << place != 0) {
            let mut seconds = Vec::new();
            let brought = call
                .named
                .map(|_| compiled::jitted(self.function(call, place)));
            let jitted = brought.as_ref().unwrap_or(&self.jitted[place]);
            // The first call compiles and fills caches.
            for turn in 0..=repeat {
                let before = compiled::count(py, jitted);
                let start = self.prepared.now_ns();
                let run = || {
                    let value = call.arguments.call(self.function(call, place))?;
                    self.wait_for(place, &value)
                };
                match self.prepared.inside(run) {
                    Err(error) if !is_failure(py, &error) => return Err(error),
                    Err(error) => {
                        first.get_or_insert(error);
                        break;
                    }
                    Ok(()) => {}
                }
                let took = self.prepared.now_ns().saturating_sub(start);
                match turn {
                    0 => {
                        let counted = before.zip(compiled::count(py, jitted));
                        self.note_compiled(call, place, true, counted, took);
                    }
                    _ => {
                        if self.is_learning() {
                            let cost = Cost::from_ns(took);
                            self.prepared.observe(call.workload, place, cost);
                        }
                        seconds.push(took as f64 / 1e9);
                    }
                }
            }
            if !seconds.is_empty() {
                out.set_item(&self.variants[place].get().name, spread(py, &seconds)?)?;
            }
        }
        match first {
            // Nobody could run it.
            Some(error) if out.is_empty() => Err(error),
            _ => Ok(out),
        }
    }

    /// Waits until a variant's result has been computed.
    fn wait_for(&self, place: usize, value: &Value<'_>) -> PyResult<()> {
        match &self.variants[place].get().declared.wait {
            Wait::Auto => wait::until_ready(value),
            Wait::With(done) => done.bind(value.py()).call1((value,)).map(drop),
            Wait::Never => Ok(()),
        }
    }

    /// Runs the best variant known and learns nothing: while a function is traced.
    #[cold]
    fn run_quietly<'py>(&self, call: Call<'_, 'py>, eligible: u64) -> PyResult<Value<'py>> {
        let Call {
            arguments,
            workload,
            ..
        } = call;
        let py = arguments.py();
        let (mut left, mut failed) = (eligible, Vec::new());
        while left != 0 {
            let Some(place) = self.prepared.peek(workload, left) else {
                break;
            };
            match self
                .prepared
                .inside(|| arguments.call(self.function(call, place)))
            {
                Ok(value) => return Ok(value),
                Err(error) if !is_failure(py, &error) => return Err(error),
                Err(error) => failed.push((place, error)),
            }
            if call.is_final(place) {
                break;
            }
            left &= !(1 << place);
        }
        if failed.is_empty() {
            return Err(self.nobody(call));
        }
        // The reference's own, if it was asked, else the first.
        let last = failed.len() - 1;
        let raised = if call.is_final(failed[last].0) {
            last
        } else {
            0
        };
        let (_, raised) = failed.remove(raised);
        for (place, error) in &failed {
            self.attach(py, &raised, *place, error);
        }
        Err(raised)
    }
}

/// Average, least, most and standard deviation.
fn spread<'py>(py: Python<'py>, seconds: &[f64]) -> PyResult<Bound<'py, PyDict>> {
    let n = seconds.len() as f64;
    let average = seconds.iter().sum::<f64>() / n;
    let variance = seconds.iter().map(|s| (s - average).powi(2)).sum::<f64>() / n;
    let told = PyDict::new(py);
    told.set_item("average", average)?;
    told.set_item("min", seconds.iter().copied().fold(f64::INFINITY, f64::min))?;
    told.set_item("max", seconds.iter().copied().fold(0.0, f64::max))?;
    told.set_item("std", variance.sqrt())?;
    Ok(told)
}
