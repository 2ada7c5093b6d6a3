//! What can go wrong when an export begins or ends.

use std::fmt;
use std::time::Duration;

/// Why an export could not begin, or not end as it should.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// A setting, or a variable of the environment, makes no sense.
    Setting {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
        /// What would be right.
        valid: &'static str,
    },
    /// The exporter could not be made.
    Build(String),
    /// No thread could be started.
    Thread(String),
    /// The program has a subscriber already: add [`Guard::layer`](crate::Guard::layer) to it.
    Subscriber,
    /// Not all was sent in time, or the collector refused it.
    Unsent {
        /// The time there was.
        within: Duration,
        /// What went wrong, if it was not the time.
        why: Option<String>,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Setting { name, value, valid } => {
                write!(f, "{name} = {value:?}: it must be {valid}")
            }
            Error::Build(why) => write!(f, "the exporter cannot be made: {why}"),
            Error::Thread(why) => write!(f, "no thread for the exporter: {why}"),
            Error::Subscriber => f.write_str(
                "the program has a tracing subscriber already: start() and add the guard's layer to it",
            ),
            Error::Unsent {
                within,
                why: Some(why),
            } => write!(f, "not all was sent within {within:?}: {why}"),
            Error::Unsent { within, why: None } => {
                write!(f, "not all was sent within {within:?}: the collector is slow or silent")
            }
        }
    }
}

impl std::error::Error for Error {}
