//! Where to send spans and metrics, and how.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use http::Uri;

use crate::error::Error;

/// How a collector is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protocol {
    /// OTLP over gRPC; collectors listen on port 4317.
    Grpc,
    /// OTLP over HTTP, in protobuf; collectors listen on port 4318.
    Http,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Protocol::Grpc => "grpc",
            Protocol::Http => "http/protobuf",
        })
    }
}

impl FromStr for Protocol {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "grpc" => Ok(Protocol::Grpc),
            "http/protobuf" => Ok(Protocol::Http),
            _ => Err(Error::Setting {
                name: "protocol",
                value: text.to_owned(),
                valid: "grpc or http/protobuf",
            }),
        }
    }
}

/// Settings of an export. What is `None` comes from the `OTEL_*` variables of the environment, and
/// from the defaults of OpenTelemetry where they say nothing: what the code says wins.
///
/// | setting | variables |
/// |---|---|
/// | `endpoint` | `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, `…_METRICS_ENDPOINT`, `OTEL_EXPORTER_OTLP_ENDPOINT` |
/// | `protocol` | `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL`, `…_METRICS_PROTOCOL`, `OTEL_EXPORTER_OTLP_PROTOCOL` |
/// | `timeout` | `OTEL_EXPORTER_OTLP_TIMEOUT`, in milliseconds |
/// | `service_name` | `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES` |
/// | `queue` | `OTEL_BSP_MAX_QUEUE_SIZE` |
/// | `metrics_every` | `OTEL_METRIC_EXPORT_INTERVAL`, in milliseconds |
/// | – | `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_BSP_SCHEDULE_DELAY`, `OTEL_BSP_MAX_EXPORT_BATCH_SIZE`, `OTEL_TRACES_SAMPLER` |
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Address of the collector, such as `http://localhost:4318`. Over HTTP, `/v1/traces` and
    /// `/v1/metrics` are added to it.
    pub endpoint: Option<String>,
    /// How it is spoken to; over HTTP by default.
    pub protocol: Option<Protocol>,
    /// What the program is called.
    pub service_name: Option<String>,
    /// What else is to be said of the program.
    pub resource: Vec<(String, String)>,
    /// Longest time for one batch; 10 s by default.
    pub timeout: Option<Duration>,
    /// Spans that may wait to be sent; 2,048 by default. What comes when there are as many is dropped,
    /// and counted.
    pub queue: Option<usize>,
    /// How often metrics are sent; every 60 s by default.
    pub metrics_every: Option<Duration>,
    /// Longest time to send the last spans and metrics when it ends.
    pub shutdown_within: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            endpoint: None,
            protocol: None,
            service_name: None,
            resource: Vec::new(),
            timeout: None,
            queue: None,
            metrics_every: None,
            shutdown_within: Duration::from_secs(2),
        }
    }
}

/// What is exported: each has variables of its own.
#[derive(Clone, Copy)]
pub(crate) enum Signal {
    Traces,
    Metrics,
}

impl Signal {
    /// What the environment says, for this signal or for all.
    fn variable(self, what: &str) -> Option<(String, String)> {
        let signal = match self {
            Signal::Traces => "TRACES",
            Signal::Metrics => "METRICS",
        };
        let own = format!("OTEL_EXPORTER_OTLP_{signal}_{what}");
        let all = format!("OTEL_EXPORTER_OTLP_{what}");
        [own, all].into_iter().find_map(|name| {
            let value = std::env::var(&name).ok().filter(|v| !v.is_empty())?;
            Some((name, value))
        })
    }
}

impl Config {
    /// Address of the collector for a signal, if the code gave one.
    pub(crate) fn address(&self, signal: Signal, protocol: Protocol) -> Option<String> {
        let base = self.endpoint.as_ref()?.trim_end_matches('/');
        Some(match (protocol, signal) {
            (Protocol::Grpc, _) => base.to_owned(),
            (Protocol::Http, Signal::Traces) => format!("{base}/v1/traces"),
            (Protocol::Http, Signal::Metrics) => format!("{base}/v1/metrics"),
        })
    }

    pub(crate) fn protocol(&self, signal: Signal) -> Result<Protocol, Error> {
        match (self.protocol, signal.variable("PROTOCOL")) {
            (Some(protocol), _) => Ok(protocol),
            (None, Some((_, value))) => value.parse(),
            (None, None) => Ok(Protocol::Http),
        }
    }

    /// Longest time for one batch.
    pub(crate) fn timeout(&self, signal: Signal) -> Result<Duration, Error> {
        if let Some(timeout) = self.timeout {
            return Ok(timeout);
        }
        let Some((_, value)) = signal.variable("TIMEOUT") else {
            return Ok(Duration::from_secs(10));
        };
        let wrong = |_| Error::Setting {
            name: "OTEL_EXPORTER_OTLP_TIMEOUT",
            value: value.clone(),
            valid: "a whole number of milliseconds",
        };
        Ok(Duration::from_millis(value.parse().map_err(wrong)?))
    }

    /// Spans that may wait.
    pub(crate) fn queue(&self) -> usize {
        let named = || std::env::var("OTEL_BSP_MAX_QUEUE_SIZE").ok()?.parse().ok();
        self.queue.or_else(named).unwrap_or(2048).max(1)
    }

    /// What is wrong with it, before anything is started.
    pub(crate) fn check(&self) -> Result<(), Error> {
        for signal in [Signal::Traces, Signal::Metrics] {
            if let Some(endpoint) = &self.endpoint {
                check_url(endpoint, "endpoint")?;
            } else if let Some((_, url)) = signal.variable("ENDPOINT") {
                check_url(&url, "OTEL_EXPORTER_OTLP_ENDPOINT")?;
            }
            self.protocol(signal)?;
            self.timeout(signal)?;
        }
        let positive = |name, duration: Option<Duration>| match duration {
            Some(Duration::ZERO) => Err(Error::Setting {
                name,
                value: "0".to_owned(),
                valid: "a positive duration",
            }),
            _ => Ok(()),
        };
        positive("timeout", self.timeout)?;
        positive("metrics_every", self.metrics_every)
    }
}

/// An address that can be spoken to. What is exported is no secret of ours to encrypt: a collector on the
/// same machine takes it on from there.
fn check_url(url: &str, name: &'static str) -> Result<(), Error> {
    let wrong = || Error::Setting {
        name,
        value: url.to_owned(),
        valid: "http://HOST:PORT",
    };
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    let is_http = uri.scheme_str() == Some("http");
    match uri.host() {
        Some(host) if is_http && !host.is_empty() => Ok(()),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(endpoint: &str) -> Config {
        Config {
            endpoint: Some(endpoint.to_owned()),
            ..Config::default()
        }
    }

    #[test]
    fn addresses_are_those_of_the_protocol() {
        let config = at("http://localhost:4318/");
        let address = |signal, protocol| config.address(signal, protocol).unwrap();
        assert_eq!(
            address(Signal::Traces, Protocol::Http),
            "http://localhost:4318/v1/traces"
        );
        assert_eq!(
            address(Signal::Metrics, Protocol::Http),
            "http://localhost:4318/v1/metrics"
        );
        assert_eq!(
            address(Signal::Traces, Protocol::Grpc),
            "http://localhost:4318"
        );
    }

    #[test]
    fn what_makes_no_sense_is_an_error_that_says_what_would() {
        assert!(at("http://[::1]:4317").check().is_ok());
        for bad in [
            "",
            "localhost:4317",
            "ftp://x",
            "http://",
            "https://x:1",
            "http://a b",
        ] {
            let error = at(bad).check().unwrap_err().to_string();
            assert!(error.contains("http://HOST:PORT"), "{bad}: {error}");
        }
        let error = "http/json".parse::<Protocol>().unwrap_err().to_string();
        assert!(error.contains("grpc or http/protobuf"), "{error}");
        let never = Config {
            timeout: Some(Duration::ZERO),
            ..Config::default()
        };
        assert!(never.check().is_err());
    }
}
