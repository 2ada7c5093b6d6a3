//! Spans and metrics of [`pointsman`] to an OpenTelemetry collector, in one call.
//!
//! ```no_run
//! use pointsman::Selector;
//! use pointsman_otlp::{Config, Protocol};
//!
//! let guard = pointsman_otlp::install(&Config {
//!     endpoint: Some("http://localhost:4317".to_owned()),
//!     protocol: Some(Protocol::Grpc),
//!     service_name: Some("weather".to_owned()),
//!     ..Config::default()
//! })?;
//! let selector = Selector::new();
//! guard.watch(&selector); // its statistics, as metrics
//! // … calls …
//! guard.shutdown()?;
//! # Ok::<(), pointsman_otlp::Error>(())
//! ```
//!
//! Nothing of it waits on a call: spans go into a queue of bounded length, and a thread of its own sends
//! them. A collector that is down, slow or silent costs spans, which are counted ([`Guard::stats`]), and
//! nothing else. The caller needs no async runtime. Only plain `http://` is spoken: to a collector on the
//! same machine or network.
//!
//! Which calls have spans, and what the spans say: `docs/observability.md`.
#![forbid(unsafe_code)]

mod config;
mod error;
mod export;
mod guard;
mod metrics;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

pub use crate::config::{Config, Protocol};
pub use crate::error::Error;
pub use crate::guard::{Guard, Stats};

/// Exports the program's spans, and makes this its subscriber. `RUST_LOG` says which spans; those of
/// level `INFO` by default.
///
/// A program that has a subscriber adds a layer to it instead: [`start`] and [`Guard::layer`].
pub fn install(config: &Config) -> Result<Guard, Error> {
    let guard = start(config)?;
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .from_env_lossy();
    tracing_subscriber::registry()
        .with(filter)
        .with(guard.layer())
        .try_init()
        .map_err(|_| Error::Subscriber)?;
    Ok(guard)
}

/// Begins an export without a subscriber: see [`Guard::layer`].
pub fn start(config: &Config) -> Result<Guard, Error> {
    Guard::start(config)
}
