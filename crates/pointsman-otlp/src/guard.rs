//! An export under way.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider};
use pointsman::Selector;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

use crate::config::Config;
use crate::error::Error;
use crate::export::{Bounded, Counted, Counts, Own};
use crate::metrics::Watched;

/// Crates that the export itself calls: their spans would be exported, which makes more of them.
const OURS: [&str; 7] = [
    "h2",
    "hyper",
    "hyper_util",
    "opentelemetry",
    "reqwest",
    "tonic",
    "tower",
];

/// What became of the spans so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Spans that the collector has taken.
    pub exported: u64,
    /// Spans that were sent in vain: it was not there, refused them, or took too long.
    pub failed: u64,
    /// Spans that were never sent, because too many were waiting.
    pub dropped: u64,
    /// Spans that wait to be sent, or are being sent.
    pub waiting: u64,
}

/// An export under way, until this is dropped or [`shutdown`](Self::shutdown).
pub struct Guard {
    tracer: SdkTracerProvider,
    meter: SdkMeterProvider,
    counts: Arc<Counts>,
    watched: Arc<Watched>,
    within: Duration,
    is_over: bool,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl Guard {
    pub(crate) fn start(config: &Config) -> Result<Self, Error> {
        config.check()?;
        let own = Own::start()?;
        let counts = Arc::<Counts>::default();
        let mut resource = Resource::builder().with_attributes(
            config
                .resource
                .iter()
                .map(|(key, value)| opentelemetry::KeyValue::new(key.clone(), value.clone())),
        );
        if let Some(name) = &config.service_name {
            resource = resource.with_service_name(name.clone());
        }
        let resource = resource.build();

        let most = config.queue();
        // One more than we ever give it, so that it is never the one that drops.
        let batches = BatchConfigBuilder::default().with_max_queue_size(most + 1);
        let exporter = Counted::spans(config, own.clone(), counts.clone())?;
        let batches = BatchSpanProcessor::builder(exporter).with_batch_config(batches.build());
        let tracer = SdkTracerProvider::builder()
            .with_resource(resource.clone())
            .with_span_processor(Bounded {
                inner: batches.build(),
                most: most as u64,
                counts: counts.clone(),
            })
            .build();

        let exporter = Counted::metrics(config, own, counts.clone())?;
        let mut reader = PeriodicReader::builder(exporter);
        if let Some(interval) = config.metrics_every {
            reader = reader.with_interval(interval);
        }
        let meter = SdkMeterProvider::builder()
            .with_resource(resource)
            .with_reader(reader.build())
            .build();
        let watched = Watched::register(&meter, counts.clone());
        Ok(Guard {
            tracer,
            meter,
            counts,
            watched,
            within: config.shutdown_within,
            is_over: false,
        })
    }

    /// A layer that exports spans, for a subscriber of your own. What the export itself does is not in
    /// it.
    ///
    /// ```no_run
    /// use tracing_subscriber::layer::SubscriberExt as _;
    /// use tracing_subscriber::util::SubscriberInitExt as _;
    ///
    /// let guard = pointsman_otlp::start(&pointsman_otlp::Config::default())?;
    /// tracing_subscriber::registry()
    ///     .with(tracing_subscriber::fmt::layer())
    ///     .with(guard.layer())
    ///     .init();
    /// # Ok::<(), pointsman_otlp::Error>(())
    /// ```
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let quiet = OURS.iter().map(|target| (*target, LevelFilter::OFF));
        let filter = Targets::new()
            .with_default(LevelFilter::INFO)
            .with_targets(quiet);
        tracing_opentelemetry::layer()
            .with_tracer(self.tracer.tracer("pointsman"))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(filter)
    }

    /// Exports the statistics of a selector as metrics, for as long as the program has it.
    pub fn watch(&self, selector: &Selector) {
        self.watched.add(selector);
    }

    /// What became of the spans so far.
    pub fn stats(&self) -> Stats {
        let read = |count: &std::sync::atomic::AtomicU64| count.load(Relaxed);
        Stats {
            exported: read(&self.counts.exported),
            failed: read(&self.counts.failed),
            dropped: read(&self.counts.dropped),
            waiting: read(&self.counts.waiting),
        }
    }

    /// Sends what is waiting, and the metrics as they are now, within this time.
    pub fn flush(&self, within: Duration) -> Result<(), Error> {
        let (tracer, meter) = (self.tracer.clone(), self.meter.clone());
        both(
            within,
            move || tracer.force_flush(),
            move || meter.force_flush(),
        )
    }

    /// Sends what is waiting, within the time that was set, and ends the export.
    pub fn shutdown(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.is_over, true) {
            return Ok(());
        }
        let (tracer, meter, within) = (self.tracer.clone(), self.meter.clone(), self.within);
        let done = both(
            within,
            move || tracer.shutdown_with_timeout(within),
            move || meter.shutdown_with_timeout(within),
        );
        self.watched.clear();
        done
    }
}

impl Drop for Guard {
    /// As [`shutdown`](Guard::shutdown); what could not be sent is lost.
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Does both at once and waits for them, no longer than this: the SDK may wait for a collector that never
/// answers.
fn both(
    within: Duration,
    spans: impl FnOnce() -> OTelSdkResult + Send + 'static,
    metrics: impl FnOnce() -> OTelSdkResult + Send + 'static,
) -> Result<(), Error> {
    let start = Instant::now();
    let waits = [("spans", begin(spans)?), ("metrics", begin(metrics)?)];
    let mut result = Ok(());
    for (what, wait) in waits {
        let left = within.saturating_sub(start.elapsed());
        let why = match wait.recv_timeout(left) {
            Ok(Ok(()) | Err(OTelSdkError::AlreadyShutdown)) => continue,
            Ok(Err(OTelSdkError::Timeout(_))) | Err(_) => None,
            Ok(Err(error)) => Some(format!("{what}: {error}")),
        };
        result = Err(Error::Unsent { within, why });
    }
    result
}

/// Begins something on a thread of its own.
fn begin(
    work: impl FnOnce() -> OTelSdkResult + Send + 'static,
) -> Result<mpsc::Receiver<OTelSdkResult>, Error> {
    let (tell, wait) = mpsc::channel();
    std::thread::Builder::new()
        .name("pointsman-otlp-end".to_owned())
        .spawn(move || {
            // Nobody may be waiting any more.
            let _ = tell.send(work());
        })
        .map_err(|error| Error::Thread(error.to_string()))?;
    Ok(wait)
}
