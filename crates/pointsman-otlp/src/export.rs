//! Exporters that count what becomes of every span, on a runtime of their own.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use opentelemetry_otlp::{MetricExporter, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace::{BatchSpanProcessor, Span, SpanData, SpanProcessor};
use tokio::runtime::{Builder, Runtime};

use crate::config::{Config, Protocol, Signal};
use crate::error::Error;

/// The thread that speaks to the collector. Whoever exports holds on to it, and the last one ends it
/// without waiting, so that it may be dropped anywhere, also inside another runtime.
#[derive(Debug)]
pub(crate) struct Own(Option<Runtime>);

impl Own {
    pub(crate) fn start() -> Result<Arc<Self>, Error> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("pointsman-otlp")
            .enable_all()
            .build()
            .map_err(|error| Error::Thread(error.to_string()))?;
        Ok(Arc::new(Own(Some(runtime))))
    }

    /// Runs something here that needs a runtime, and does not take one with it.
    pub(crate) fn enter<T>(&self, run: impl FnOnce() -> T) -> T {
        let _entered = self.0.as_ref().map(Runtime::enter);
        run()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A future that is polled as if from within the runtime: the SDK polls it from a thread that has none.
struct Inside<'a, T> {
    own: &'a Own,
    future: Pin<Box<dyn Future<Output = T> + Send + 'a>>,
}

impl<T> Future for Inside<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let own = self.own;
        own.enter(|| self.future.as_mut().poll(context))
    }
}

/// Waits for an export, no longer than this.
fn bounded<'a>(
    own: &'a Own,
    within: Duration,
    export: impl Future<Output = OTelSdkResult> + Send + 'a,
) -> Inside<'a, OTelSdkResult> {
    let future = Box::pin(async move {
        match tokio::time::timeout(within, export).await {
            Ok(done) => done,
            Err(_) => Err(OTelSdkError::Timeout(within)),
        }
    });
    Inside { own, future }
}

/// What became of the spans.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) waiting: AtomicU64,
    pub(crate) exported: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) dropped: AtomicU64,
}

/// An exporter that counts.
#[derive(Debug)]
pub(crate) struct Counted<E> {
    inner: E,
    own: Arc<Own>,
    within: Duration,
    counts: Arc<Counts>,
}

/// Builds an exporter; a macro, because the builders of the signals are different types.
macro_rules! built {
    ($exporter:ty, $signal:expr, $config:expr, $own:expr) => {{
        let (protocol, within) = ($config.protocol($signal)?, $config.timeout($signal)?);
        let address = $config.address($signal, protocol);
        let built = $own.enter(|| match protocol {
            Protocol::Grpc => {
                let builder = <$exporter>::builder().with_tonic().with_timeout(within);
                match address {
                    Some(address) => builder.with_endpoint(address).build(),
                    None => builder.build(),
                }
            }
            Protocol::Http => {
                let builder = <$exporter>::builder()
                    .with_http()
                    .with_protocol(opentelemetry_otlp::Protocol::HttpBinary)
                    .with_timeout(within);
                match address {
                    Some(address) => builder.with_endpoint(address).build(),
                    None => builder.build(),
                }
            }
        });
        let inner = built.map_err(|error| Error::Build(error.to_string()))?;
        (inner, within)
    }};
}

impl Counted<SpanExporter> {
    pub(crate) fn spans(
        config: &Config,
        own: Arc<Own>,
        counts: Arc<Counts>,
    ) -> Result<Self, Error> {
        let (inner, within) = built!(SpanExporter, Signal::Traces, config, own);
        Ok(Counted {
            inner,
            own,
            within,
            counts,
        })
    }
}

impl Counted<MetricExporter> {
    pub(crate) fn metrics(
        config: &Config,
        own: Arc<Own>,
        counts: Arc<Counts>,
    ) -> Result<Self, Error> {
        let (inner, within) = built!(MetricExporter, Signal::Metrics, config, own);
        Ok(Counted {
            inner,
            own,
            within,
            counts,
        })
    }
}

impl opentelemetry_sdk::trace::SpanExporter for Counted<SpanExporter> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len() as u64;
        let done = bounded(&self.own, self.within, self.inner.export(batch)).await;
        let counted = match done {
            Ok(()) => &self.counts.exported,
            Err(_) => &self.counts.failed,
        };
        counted.fetch_add(spans, Relaxed);
        self.counts.waiting.fetch_sub(spans, Relaxed);
        done
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

impl PushMetricExporter for Counted<MetricExporter> {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        bounded(&self.own, self.within, self.inner.export(metrics)).await
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.inner.temporality()
    }
}

/// Takes spans as long as there is room, and counts those that it does not take.
#[derive(Debug)]
pub(crate) struct Bounded {
    pub(crate) inner: BatchSpanProcessor,
    pub(crate) most: u64,
    pub(crate) counts: Arc<Counts>,
}

impl SpanProcessor for Bounded {
    fn on_start(&self, span: &mut Span, context: &opentelemetry::Context) {
        self.inner.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        // What is not sampled is nobody's loss.
        if !span.span_context.is_sampled() {
            return;
        }
        if self.counts.waiting.fetch_add(1, Relaxed) >= self.most {
            self.counts.waiting.fetch_sub(1, Relaxed);
            self.counts.dropped.fetch_add(1, Relaxed);
            return;
        }
        self.inner.on_end(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}
