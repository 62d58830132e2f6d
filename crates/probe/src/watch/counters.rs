//! The counters of requests, one file each, and the specification by which the plan of a watch names one of them.

mod command;
mod http;
mod log;
mod prometheus;

use crate::watch::counter::{Counter, CounterError, WatchError};
use fsarena_core::setting_text::setting;
use fsarena_sys::kernel::SysRoot;
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, time::Duration};

/// The counter of a watch. The plan stores it, so that the watch can resume after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "counter", rename_all = "lowercase")]
pub enum CounterSpec {
    /// The client requests on squid's counters page.
    Squid {
        /// Host and port.
        address: String,
    },
    /// A metric of a Prometheus endpoint.
    Prometheus {
        /// The URL of the endpoint.
        address: String,
        /// The name of the metric, if needed with labels: `requests_total{code="200"}`.
        metric: String,
    },
    /// Lines of a log file.
    Log {
        /// The path of the file.
        file: PathBuf,
        /// Only lines that contain this text count; `None` to count all.
        #[serde(skip_serializing_if = "Option::is_none")]
        word: Option<String>,
    },
    /// The first number that a command prints.
    Command {
        /// The program and its arguments.
        argv: Vec<String>,
    },
    /// The reads and writes that the watched device completes.
    Device,
}

impl CounterSpec {
    /// Opens the counter without reading it. `device` is the watched device, and `timeout` limits the time of a reading.
    ///
    /// # Errors
    /// The address, the metric or the command is invalid, or there is no device to count for.
    pub fn open(
        &self,
        kernel: &SysRoot,
        device: Option<(u32, u32)>,
        timeout: Duration,
    ) -> Result<Box<dyn Counter>, WatchError> {
        Ok(match self {
            CounterSpec::Squid { address } => Box::new(http::SquidCounter::new(address, timeout)?),
            CounterSpec::Prometheus { address, metric } => {
                Box::new(prometheus::PrometheusCounter::new(address, metric, timeout)?)
            }
            CounterSpec::Log { file, word } => Box::new(log::LogCounter::new(file, word.clone())),
            CounterSpec::Command { argv } => Box::new(command::CommandCounter::new(argv, timeout)?),
            CounterSpec::Device => Box::new(DeviceCounter::new(kernel, device)?),
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

/// A counter of the reads and writes that a device completed (Documentation/block/stat.rst, fields 1 and 5).
struct DeviceCounter {
    kernel: SysRoot,
    /// The path of the device's `stat` file, relative to the root.
    stat_path: String,
}

impl DeviceCounter {
    /// The counter of the device with these major and minor numbers.
    ///
    /// # Errors
    /// The watch has no device.
    fn new(kernel: &SysRoot, device: Option<(u32, u32)>) -> Result<DeviceCounter, WatchError> {
        let (major, minor) = device.ok_or_else(|| {
            WatchError::Usage(format!(
                "to count the device's operations, say which: {} or {}",
                setting("path", "DIR"),
                setting("device", "DEVICE")
            ))
        })?;
        Ok(DeviceCounter { kernel: kernel.clone(), stat_path: format!("sys/dev/block/{major}:{minor}/stat") })
    }
}

impl Counter for DeviceCounter {
    fn read(&mut self) -> Result<f64, CounterError> {
        let read_error = |why: String| CounterError(format!("/{}: {why}", self.stat_path));
        let text = self.kernel.read(&self.stat_path).map_err(|error| read_error(error.to_string()))?;
        let fields: Vec<f64> = text.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
        match (fields.first(), fields.get(4)) {
            (Some(reads), Some(writes)) => Ok(reads + writes),
            _ => Err(read_error("has a format that fsarena does not understand".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_are_added() {
        let root = fsarena_sys::testkit::FakeRoot::with(&[]);
        let kernel = SysRoot::at(root.path());
        let mut counter = DeviceCounter::new(&kernel, Some((7, 1))).unwrap();
        assert!(counter.read().unwrap_err().0.contains("7:1/stat"));
        root.write_file("sys/dev/block/7:1/stat", "  10 1 80 2   7 0 56 3  0 5 5\n");
        assert_eq!(counter.read(), Ok(17.0));
        assert!(DeviceCounter::new(&kernel, None).is_err());
    }
}
