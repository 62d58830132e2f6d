//! Where the number of requests comes from.

use crate::counters::{command, device, log, prometheus, squid};
use crate::error::Error;
use fsarena_sys::kernel::Kernel;
use std::path::PathBuf;
use std::time::Duration;

/// Something that counts requests: a number that only grows, until the counting program restarts.
pub trait Counter: Send {
    /// The number now.
    ///
    /// # Errors
    /// Where it cannot be had, in words for people; the next try may succeed.
    fn read(&mut self) -> Result<f64, Trouble>;
}

/// Why a counter could not be read, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble(pub String);

impl Trouble {
    /// From what happened.
    pub fn new(what: impl Into<String>) -> Trouble {
        Trouble(what.into())
    }
}

/// Which counter is meant. Kept in the plan of a watch, so that it can go on after a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spec {
    /// Squid's counters page, at this host and port.
    Squid(String),
    /// A metric of a Prometheus endpoint: address and metric, with labels where some are meant.
    Prometheus(String, String),
    /// Lines of a log file; only those with a word in them, where one is given.
    Log(PathBuf, Option<String>),
    /// The first number that a command prints: its argument vector.
    Command(Vec<String>),
    /// The reads and writes that the watched device completes.
    Device,
}

impl Spec {
    /// Opens it. Whether it answers shows with the first reading.
    ///
    /// # Errors
    /// An address, metric or command that cannot be one.
    pub fn open(
        &self,
        kernel: &Kernel,
        device: Option<(u32, u32)>,
        patience: Duration,
    ) -> Result<Box<dyn Counter>, Error> {
        Ok(match self {
            Spec::Squid(at) => Box::new(squid::Squid::new(at, patience)?),
            Spec::Prometheus(url, metric) => Box::new(prometheus::Prometheus::new(url, metric, patience)?),
            Spec::Log(path, word) => Box::new(log::Log::new(path, word.clone())),
            Spec::Command(argv) => Box::new(command::Command::new(argv, patience)?),
            Spec::Device => Box::new(device::Operations::new(kernel, device)?),
        })
    }
}

impl std::fmt::Display for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Spec::Squid(at) => write!(f, "client requests of squid at {at}"),
            Spec::Prometheus(url, metric) => write!(f, "{metric} at {url}"),
            Spec::Log(path, None) => write!(f, "lines of {path:?}"),
            Spec::Log(path, Some(word)) => write!(f, "lines of {path:?} with {word:?}"),
            Spec::Command(argv) => write!(f, "the number that {} prints", argv.join(" ")),
            Spec::Device => f.write_str("operations of the device"),
        }
    }
}
