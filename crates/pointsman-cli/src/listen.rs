//! Who listens to what the library tells: standard error, and a collector if one was named.

use std::io::IsTerminal as _;

use clap::Args;
use pointsman::Selector;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::output::Failure;

/// Where spans and metrics go.
#[derive(Args)]
pub(crate) struct Otlp {
    /// Send spans and metrics to this OpenTelemetry collector: http://HOST:PORT, over HTTP unless
    /// OTEL_EXPORTER_OTLP_PROTOCOL is grpc
    #[cfg(feature = "otlp")]
    #[arg(id = "otlp", long = "otlp", value_name = "URL", global = true)]
    url: Option<String>,
}

impl Otlp {
    #[cfg(feature = "otlp")]
    pub(crate) fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    #[cfg(not(feature = "otlp"))]
    pub(crate) fn url(&self) -> Option<&str> {
        None
    }
}

/// Prints what the library warns of on standard error, where `RUST_LOG` says what else, and begins to
/// send spans.
pub(crate) fn begin(url: Option<&str>) -> Result<(), Failure> {
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::WARN.into())
        .from_env_lossy();
    let printed = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .without_time()
        .with_filter(filter);
    let subscriber = tracing_subscriber::registry().with(printed);
    match url {
        None => subscriber.init(),
        Some(url) => subscriber.with(sent::begin(url)?).init(),
    }
    Ok(())
}

/// Sends the statistics of a selector as well.
pub(crate) fn watch(selector: &Selector) {
    sent::watch(selector);
}

/// Sends the last spans and metrics, and says so if that does not work.
pub(crate) fn end() {
    sent::end();
}

#[cfg(feature = "otlp")]
mod sent {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use pointsman::Selector;
    use pointsman_otlp::{Config, Guard};
    use tracing::Subscriber;
    use tracing_subscriber::layer::Layer;
    use tracing_subscriber::registry::LookupSpan;

    use crate::output::{Failure, note};

    /// The export of this process, while it lasts.
    static EXPORT: Mutex<Option<Guard>> = Mutex::new(None);

    fn export() -> MutexGuard<'static, Option<Guard>> {
        EXPORT.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin<S>(url: &str) -> Result<impl Layer<S> + Send + Sync + use<S>, Failure>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let named = std::env::var_os("OTEL_SERVICE_NAME").is_some();
        let config = Config {
            endpoint: Some(url.to_owned()),
            service_name: (!named).then(|| "pointsman".to_owned()),
            ..Config::default()
        };
        let wrong = |error| Failure::new(format!("--otlp: {error}"));
        let guard = pointsman_otlp::start(&config).map_err(wrong)?;
        let layer = guard.layer();
        *export() = Some(guard);
        Ok(layer)
    }

    pub(super) fn watch(selector: &Selector) {
        if let Some(guard) = &*export() {
            guard.watch(selector);
        }
    }

    pub(super) fn end() {
        let Some(guard) = export().take() else { return };
        let before = guard.stats();
        if let Err(error) = guard.shutdown() {
            note(&format!("--otlp: {error}; {before:?} before"));
        } else if before.failed + before.dropped > 0 {
            note(&format!(
                "--otlp: {} spans were sent in vain, {} dropped",
                before.failed, before.dropped
            ));
        }
    }
}

#[cfg(not(feature = "otlp"))]
mod sent {
    use pointsman::Selector;
    use tracing_subscriber::layer::Identity;

    use crate::output::Failure;

    pub(super) fn begin(_: &str) -> Result<Identity, Failure> {
        Err(Failure::new("--otlp: this build has no feature `otlp`"))
    }

    pub(super) fn watch(_: &Selector) {}

    pub(super) fn end() {}
}
