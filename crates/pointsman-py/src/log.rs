//! Warnings of the library as records of Python's `logging`, under the name `pointsman`.
//!
//! A warning may come from any thread, with locks held and without the interpreter's: nothing of
//! Python may run there. So it is queued, and said at the end of the next call of ours from Python.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, TryLockError};

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Most warnings that wait: a program that never calls us again must not fill its memory with them.
const MOST: usize = 1_000;

static QUEUE: Mutex<Vec<Warning>> = Mutex::new(Vec::new());

/// Whether anything waits.
static WAITING: AtomicBool = AtomicBool::new(false);

/// Whether the queue is of no use: somebody who is no more held it while the process was forked.
static MUTE: AtomicBool = AtomicBool::new(false);

struct Warning {
    error: bool,
    text: String,
}

/// Listens from now on.
pub(crate) fn install() {
    // Nobody else can have: this module has its own copy of the library.
    _ = tracing::subscriber::set_global_default(Listener);
}

fn queue() -> MutexGuard<'static, Vec<Warning>> {
    QUEUE.lock().unwrap_or_else(|e| e.into_inner())
}

/// In a forked child, what waits is the parent's to say.
pub(crate) fn forked() {
    match QUEUE.try_lock() {
        Ok(mut queue) => queue.clear(),
        Err(TryLockError::Poisoned(e)) => e.into_inner().clear(),
        Err(TryLockError::WouldBlock) => MUTE.store(true, Relaxed),
    }
    WAITING.store(false, Relaxed);
}

/// Says what waits, at the end of a call. What a handler raises does not reach the caller, unless it is
/// a request to stop.
#[inline]
pub(crate) fn say(py: Python<'_>) -> PyResult<()> {
    match WAITING.load(Relaxed) {
        true => say_warnings(py),
        false => Ok(()),
    }
}

/// Says what waits.
#[cold]
#[pyfunction]
pub(crate) fn say_warnings(py: Python<'_>) -> PyResult<()> {
    if MUTE.load(Relaxed) {
        return Ok(());
    }
    WAITING.store(false, Relaxed);
    let waiting = std::mem::take(&mut *queue());
    for warning in waiting {
        match log(py, &warning) {
            Err(error) if error.is_instance_of::<PyException>(py) => {
                error.write_unraisable(py, None);
            }
            done => done?,
        }
    }
    Ok(())
}

fn log(py: Python<'_>, warning: &Warning) -> PyResult<()> {
    let logging = py.import("logging")?;
    let logger = logging.call_method1("getLogger", ("pointsman",))?;
    let level = if warning.error { "error" } else { "warning" };
    logger.call_method1(level, ("%s", &warning.text)).map(drop)
}

struct Listener;

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
            && *metadata.level() <= Level::WARN
            && metadata.target().starts_with("pointsman")
    }

    /// Spans are not wanted: calls look at this, and go on.
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }

    fn event(&self, event: &Event<'_>) {
        if MUTE.load(Relaxed) {
            return;
        }
        let mut line = Line::default();
        event.record(&mut line);
        let warning = Warning {
            error: *event.metadata().level() == Level::ERROR,
            text: line.text(),
        };
        let mut queue = queue();
        if queue.len() < MOST {
            queue.push(warning);
            WAITING.store(true, Relaxed);
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// An event as one line: the message, and the fields behind it.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Line {
    fn text(self) -> String {
        match self.fields.is_empty() {
            true => self.message,
            false => format!("{} ({})", self.message, self.fields),
        }
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        if field.name() == "message" {
            _ = write!(self.message, "{value:?}");
        } else {
            let comma = if self.fields.is_empty() { "" } else { ", " };
            _ = write!(self.fields, "{comma}{}: {value:?}", field.name());
        }
    }
}
