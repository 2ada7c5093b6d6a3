//! The wrong-result guard: a variant is compared with the reference before it serves.

use pointsman::Verdict;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::arguments::Arguments;
use crate::attempts::Call;
use crate::errors::{self, is_failure};
use crate::ready::Ready;
use crate::workload::Workload;

/// How results are compared, and on what.
pub(crate) struct Check {
    /// A function of what is expected and what came.
    pub(crate) agrees: Py<PyAny>,
    /// Makes arguments for a workload; without it, those of the call are used.
    pub(crate) sample: Option<Py<PyAny>>,
}

impl Check {
    pub(crate) fn clone_ref(&self, py: Python<'_>) -> Self {
        Check {
            agrees: self.agrees.clone_ref(py),
            sample: self.sample.as_ref().map(|sample| sample.clone_ref(py)),
        }
    }
}

impl Ready {
    /// Compares a variant with the reference, and notes what came out. A request to stop goes on to
    /// the caller.
    pub(crate) fn examine(
        &self,
        call: Call<'_, '_>,
        place: usize,
        served: (usize, &Bound<'_, PyAny>),
    ) -> PyResult<()> {
        let Some(check) = &self.check else {
            return Ok(());
        };
        let start = self.prepared.now_ns();
        let verdict = match &check.sample {
            Some(sample) => self.on_samples(call, check, sample, place)?,
            None => {
                let expected = (served.0 == 0).then(|| served.1.clone());
                self.compare(check, place, [call.arguments; 2], expected)?
            }
        };
        let spent = self.prepared.now_ns().saturating_sub(start);
        self.prepared.judge(call.workload, place, &verdict, spent);
        Ok(())
    }

    fn on_samples(
        &self,
        call: Call<'_, '_>,
        check: &Check,
        sample: &Py<PyAny>,
        place: usize,
    ) -> PyResult<Verdict> {
        let py = call.arguments.py();
        let mut verdict = Verdict::CannotTell("no samples".to_owned());
        for workload in self.prepared.samples(call.workload) {
            let make = || -> PyResult<Bound<'_, PyTuple>> {
                let told = Workload::unnamed(workload);
                let made = sample.bind(py).call1((told,))?;
                match made.cast::<PyTuple>() {
                    Ok(made) => Ok(made.clone()),
                    Err(_) => PyTuple::new(py, [made]),
                }
            };
            let (one, other) = match (make(), make()) {
                (Ok(one), Ok(other)) => (one, other),
                (Err(error), _) | (_, Err(error)) if is_failure(py, &error) => {
                    return Ok(Verdict::CannotTell(format!("no sample: {error}")));
                }
                (Err(error), _) | (_, Err(error)) => return Err(error),
            };
            let both = [&one, &other].map(|args| Arguments { args, kwargs: None });
            let variant = self.variants[place].get();
            let selector = self.prepared.selector();
            let real = both[0].features().workload();
            if let Some(why) = variant.why_not(both[0], &real, selector)? {
                if matches!(verdict, Verdict::CannotTell(_)) {
                    verdict = Verdict::CannotTell(format!("no sample is eligible: {why}"));
                }
                continue;
            }
            match self.compare(check, place, both, None)? {
                wrong @ Verdict::Disagrees(_) => return Ok(wrong),
                // One sample that it serves and agrees on is enough to count.
                Verdict::Agrees => verdict = Verdict::Agrees,
                open if verdict != Verdict::Agrees => verdict = open,
                _ => {}
            }
        }
        Ok(verdict)
    }

    /// Compares on two sets of the same arguments: one for the reference, one for the variant.
    fn compare<'py>(
        &self,
        check: &Check,
        place: usize,
        [one, other]: [Arguments<'_, 'py>; 2],
        expected: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Verdict> {
        let py = one.py();
        let open = |what: &str, error: PyErr| match is_failure(py, &error) {
            true => Ok(Verdict::CannotTell(format!("{what}: {error}"))),
            false => Err(error),
        };
        let function = |place: usize| self.variants[place].get().function.bind(py);
        let expected = match expected.map_or_else(|| one.call(function(0)), Ok) {
            Ok(expected) => expected,
            Err(error) => return open("the reference failed", error),
        };
        let got = match other.call(function(place)) {
            Ok(got) => got,
            Err(error) => return open("failed", error),
        };
        let same = check.agrees.bind(py).call1((expected, got));
        let same = same.and_then(|same| match same.is_none() {
            true => Err(errors::wrong_type(
                "check returned None; it must return whether they agree",
            )),
            false => same.is_truthy(),
        });
        match same {
            Ok(true) => Ok(Verdict::Agrees),
            Ok(false) => {
                let workload = other.features().workload();
                let text = format!("gave another result than the reference for {workload}");
                Ok(Verdict::Disagrees(text))
            }
            Err(error) => open("the results cannot be compared", error),
        }
    }
}
