//! A subscriber that remembers spans and events, and the time of a fake clock at which they came.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard};

use pointsman::{Clock as _, FakeClock};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

pub(crate) type Fields = BTreeMap<&'static str, String>;

#[derive(Clone, Debug)]
pub(crate) struct SpanSeen {
    id: u64,
    pub(crate) name: &'static str,
    pub(crate) target: &'static str,
    /// Name of the span it is in.
    pub(crate) parent: Option<&'static str>,
    pub(crate) fields: Fields,
    pub(crate) opened_ns: u64,
    pub(crate) closed_ns: Option<u64>,
    /// Its place among all that was opened and closed.
    pub(crate) opened: usize,
    pub(crate) closed: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct EventSeen {
    pub(crate) parent: Option<&'static str>,
    pub(crate) fields: Fields,
}

#[derive(Default)]
struct Seen {
    spans: Vec<SpanSeen>,
    events: Vec<EventSeen>,
    moments: usize,
}

/// Keeps tests from listening at once: `tracing` may forget a listener that comes while another thread
/// meets a span for the first time.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(|e| e.into_inner())
}

#[derive(Clone)]
pub(crate) struct Recorder {
    clock: FakeClock,
    seen: Arc<Mutex<Seen>>,
}

impl Recorder {
    pub(crate) fn new(clock: &FakeClock) -> Self {
        Recorder {
            clock: clock.clone(),
            seen: Arc::default(),
        }
    }

    /// Listens while something runs.
    pub(crate) fn listen<T>(&self, run: impl FnOnce() -> T) -> T {
        let subscriber = tracing_subscriber::registry().with(self.clone());
        tracing::subscriber::with_default(subscriber, run)
    }

    /// The spans of the library since the last time, in the order in which they were opened.
    pub(crate) fn spans(&self) -> Vec<SpanSeen> {
        let spans = std::mem::take(&mut self.seen.lock().unwrap().spans);
        spans
            .into_iter()
            .filter(|s| s.target == "pointsman::trace")
            .collect()
    }

    pub(crate) fn events(&self) -> Vec<EventSeen> {
        let events = std::mem::take(&mut self.seen.lock().unwrap().events);
        events.into_iter().collect()
    }
}

struct Keep<'a>(&'a mut Fields);

impl Visit for Keep<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::new();
        attributes.record(&mut Keep(&mut fields));
        let parent = context
            .span(id)
            .and_then(|span| Some(span.parent()?.name()));
        let mut seen = self.seen.lock().unwrap();
        seen.moments += 1;
        let opened = seen.moments;
        seen.spans.push(SpanSeen {
            id: id.into_u64(),
            name: attributes.metadata().name(),
            target: attributes.metadata().target(),
            parent,
            fields,
            opened_ns: self.clock.now_ns(),
            closed_ns: None,
            opened,
            closed: 0,
        });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut seen = self.seen.lock().unwrap();
        let open = |s: &&mut SpanSeen| s.id == id.into_u64() && s.closed_ns.is_none();
        if let Some(span) = seen.spans.iter_mut().find(open) {
            values.record(&mut Keep(&mut span.fields));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::new();
        event.record(&mut Keep(&mut fields));
        let parent = context.event_span(event).map(|span| span.name());
        self.seen
            .lock()
            .unwrap()
            .events
            .push(EventSeen { parent, fields });
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        let mut seen = self.seen.lock().unwrap();
        seen.moments += 1;
        let closed = seen.moments;
        let open = |s: &&mut SpanSeen| s.id == id.into_u64() && s.closed_ns.is_none();
        if let Some(span) = seen.spans.iter_mut().find(open) {
            (span.closed, span.closed_ns) = (closed, Some(self.clock.now_ns()));
        }
    }
}
