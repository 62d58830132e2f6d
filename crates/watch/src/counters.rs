//! Every counter, one file each, and which of them a watch means.

mod command;
mod http;
mod log;
mod prometheus;

use crate::Error;
use fsarena_sys::kernel::SysRoot;
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, time::Duration};

/// The counter of a watch. The plan stores it, so that the watch can resume after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "counter", rename_all = "lowercase")]
pub enum CounterSpec {
    /// Squid's counters page.
    Squid {
        /// Host and port.
        address: String,
    },
    /// A metric of a Prometheus endpoint.
    Prometheus {
        /// The URL.
        address: String,
        /// The name, with labels where some are meant.
        metric: String,
    },
    /// Lines of a log file.
    Log {
        /// Its path.
        file: PathBuf,
        /// Count only lines with this text.
        #[serde(skip_serializing_if = "Option::is_none")]
        word: Option<String>,
    },
    /// The first number that a command prints.
    Command {
        /// Its argument vector.
        argv: Vec<String>,
    },
    /// The reads and writes that the watched device completes.
    Device,
}

impl CounterSpec {
    /// Opens the counter without reading it.
    ///
    /// # Errors
    /// An invalid address, metric or command.
    pub fn open(
        &self,
        kernel: &SysRoot,
        device: Option<(u32, u32)>,
        timeout: Duration,
    ) -> Result<Box<dyn Counter>, Error> {
        Ok(match self {
            CounterSpec::Squid { address } => Box::new(http::Squid::new(address, timeout)?),
            CounterSpec::Prometheus { address, metric } => {
                Box::new(prometheus::Prometheus::new(address, metric, timeout)?)
            }
            CounterSpec::Log { file, word } => Box::new(log::Log::new(file, word.clone())),
            CounterSpec::Command { argv } => Box::new(command::Command::new(argv, timeout)?),
            CounterSpec::Device => Box::new(DeviceOperations::new(kernel, device)?),
        })
    }
}

impl std::fmt::Display for CounterSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CounterSpec::Squid { address } => write!(f, "client requests of squid at {address}"),
            CounterSpec::Prometheus { address, metric } => write!(f, "{metric} at {address}"),
            CounterSpec::Log { file, word: None } => write!(f, "lines of {file:?}"),
            CounterSpec::Log { file, word: Some(word) } => write!(f, "lines of {file:?} with {word:?}"),
            CounterSpec::Command { argv } => write!(f, "the number that {} prints", argv.join(" ")),
            CounterSpec::Device => f.write_str("operations of the device"),
        }
    }
}

/// Something that counts requests: a number that only grows, until the counting program restarts.
pub trait Counter: Send {
    /// The number now.
    ///
    /// # Errors
    /// Where the number cannot be read; the next attempt may succeed.
    fn read(&mut self) -> Result<f64, Trouble>;

    /// Checks, before a watch begins, that the user did not mistype a name. A service that is down passes.
    ///
    /// # Errors
    /// A name that the service or this machine lacks.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }
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

/// Reads and writes that a device completed (Documentation/block/stat.rst, fields 1 and 5).
pub struct DeviceOperations {
    kernel: SysRoot,
    rel: String,
}

impl DeviceOperations {
    /// The operations of the device with these numbers.
    ///
    /// # Errors
    /// Where no device is watched.
    pub fn new(kernel: &SysRoot, device: Option<(u32, u32)>) -> Result<DeviceOperations, Error> {
        let (major, minor) = device.ok_or_else(|| {
            Error::Usage("to count the device's operations, say which: --path DIR or --device DEVICE".into())
        })?;
        Ok(DeviceOperations { kernel: kernel.clone(), rel: format!("sys/dev/block/{major}:{minor}/stat") })
    }
}

impl Counter for DeviceOperations {
    fn read(&mut self) -> Result<f64, Trouble> {
        let trouble = |what: String| Trouble::new(format!("/{}: {what}", self.rel));
        let text = self.kernel.read(&self.rel).map_err(|error| trouble(error.to_string()))?;
        let fields: Vec<f64> = text.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
        match (fields.first(), fields.get(4)) {
            (Some(reads), Some(writes)) => Ok(reads + writes),
            _ => Err(trouble("has a form that is not known".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_are_added() {
        let root = fsarena_testkit::FakeRoot::with(&[]);
        let kernel = SysRoot::at(root.path());
        let mut counter = DeviceOperations::new(&kernel, Some((7, 1))).unwrap();
        assert!(counter.read().unwrap_err().0.contains("7:1/stat"));
        root.file("sys/dev/block/7:1/stat", "  10 1 80 2   7 0 56 3  0 5 5\n");
        assert_eq!(counter.read(), Ok(17.0));
        assert!(DeviceOperations::new(&kernel, None).is_err());
    }
}
