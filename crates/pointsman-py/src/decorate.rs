//! The decorator that makes ops.

use std::path::Path;
use std::sync::Mutex;

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};

use crate::check::Check;
use crate::errors;
use crate::kinds;
use crate::op::{AUTO, Op, WaitArgument, callable, decorated};
use crate::selector::Selector;
use crate::variant::{self, Declared};

/// Makes an op of a function, its reference: `@pointsman.op`, or with settings.
#[pyfunction]
#[pyo3(signature = (function = None, *, name = None, reference = "reference", backend = None, workload = None, selector = None, requires_grad = true, check = None, rtol = 1e-5, atol = 1e-8, sample = None, wait = Some(AUTO), compiles = Some("auto"), revision = 0))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn op<'py>(
    py: Python<'py>,
    function: Option<Bound<'py, PyAny>>,
    name: Option<String>,
    reference: &str,
    backend: Option<&str>,
    workload: Option<Bound<'py, PyAny>>,
    selector: Option<Bound<'py, Selector>>,
    requires_grad: bool,
    check: Option<Bound<'py, PyAny>>,
    rtol: f64,
    atol: f64,
    sample: Option<Bound<'py, PyAny>>,
    wait: Option<WaitArgument<'py>>,
    compiles: Option<&str>,
    revision: u32,
) -> PyResult<Bound<'py, PyAny>> {
    callable("workload", workload.as_ref())?;
    callable("sample", sample.as_ref())?;
    let check = compared(py, check, (rtol, atol))?.map(|agrees| Check {
        agrees: agrees.unbind(),
        sample: sample.map(Bound::unbind),
    });
    let wait = wait.map(|wait| wait.resolve(py));
    let declared = Declared {
        backend: variant::backend(backend.unwrap_or("cpu"))?,
        revision,
        gradient: requires_grad,
        wait: variant::wait(wait)?,
        compiles: variant::compiles(compiles)?,
        ..Declared::default()
    };
    let settings = Settings {
        name,
        reference: reference.to_owned(),
        workload: workload.map(Bound::unbind),
        selector: selector.map(Bound::unbind),
        check,
        declared,
    };
    if let Some(function) = function {
        return Ok(settings.make(&function)?.into_any());
    }
    let once = Mutex::new(Some(settings));
    let decorate = move |args: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
        let settings = once.lock().unwrap_or_else(|e| e.into_inner()).take();
        let settings = settings.ok_or_else(|| errors::value("an op's decorator was used twice"))?;
        Ok::<_, PyErr>(settings.make(&decorated(args)?)?.unbind())
    };
    let decorate = PyCFunction::new_closure(py, Some(c"op"), None, decorate)?;
    Ok(decorate.into_any())
}

struct Settings {
    name: Option<String>,
    reference: String,
    workload: Option<Py<PyAny>>,
    selector: Option<Py<Selector>>,
    check: Option<Check>,
    declared: Declared,
}

impl Settings {
    fn make<'py>(self, function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Op>> {
        let py = function.py();
        let name = match self.name {
            Some(name) => name,
            None => default_name(function)?,
        };
        if name.is_empty() || name.len() > 128 || name.chars().any(char::is_control) {
            let rule = "it must have 1 to 128 bytes and no control characters";
            return Err(errors::value(format!(
                "op name {name:?}: {rule}; give one with name="
            )));
        }
        let op = Op::new(name, self.selector, self.workload, self.check);
        op.add(py, self.reference, function, self.declared)?;
        let op = Bound::new(py, op)?;
        let wrapper = py.import("functools")?.getattr("update_wrapper")?;
        wrapper.call1((&op, function))?;
        Ok(op)
    }
}

/// Where the function is found: `package.module.function`, or `script-1a2b3c4d.function` in a script.
fn default_name(function: &Bound<'_, PyAny>) -> PyResult<String> {
    let text = |attribute: &str| -> PyResult<String> { function.getattr(attribute)?.extract() };
    match (text("__module__"), text("__qualname__")) {
        (Ok(module), Ok(name)) if !name.contains("<lambda>") => {
            let script = match module.as_str() {
                "__main__" | "__mp_main__" => script(function.py(), &module),
                _ => None,
            };
            Ok(format!("{}.{name}", script.unwrap_or(module)))
        }
        _ => Err(errors::value(format!(
            "{function} has no name of its own; give one with name="
        ))),
    }
}

/// What tells the main program from others: what was learned of `f` in one script says nothing about that in another. The same in
/// processes that it starts.
fn script(py: Python<'_>, module: &str) -> Option<String> {
    let main = py
        .import("sys")
        .ok()?
        .getattr("modules")
        .ok()?
        .get_item(module)
        .ok()?;
    if let Ok(name) = main
        .getattr("__spec__")
        .and_then(|spec| spec.getattr("name"))
    {
        return name.extract().ok(); // python -m
    }
    let path = py.import("os.path").ok()?;
    let file = path
        .call_method1("realpath", (main.getattr("__file__").ok()?,))
        .ok()?;
    let file: String = file.extract().ok()?;
    let name = Path::new(&file).file_stem()?.to_string_lossy();
    Some(format!("{name}-{:08x}", kinds::hash(file.as_bytes())))
}

/// How results are compared, if they are.
fn compared<'py>(
    py: Python<'py>,
    check: Option<Bound<'py, PyAny>>,
    (rtol, atol): (f64, f64),
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(check) = check else {
        return Ok(None);
    };
    if let Ok(wanted) = check.extract::<bool>() {
        if !wanted {
            return Ok(None);
        }
        for (name, value) in [("rtol", rtol), ("atol", atol)] {
            if !(value >= 0.0 && value.is_finite()) {
                let text = format!("{name} {value}: it must be a finite number, not below 0");
                return Err(errors::value(text));
            }
        }
        let agrees = py.import("pointsman._agree")?.getattr("within")?;
        return Ok(Some(agrees.call1((rtol, atol))?));
    }
    match check.is_callable() {
        true => Ok(Some(check)),
        false => Err(errors::wrong_type(format!(
            "check={check}: it must be True, False or a function of the expected and the actual result"
        ))),
    }
}
