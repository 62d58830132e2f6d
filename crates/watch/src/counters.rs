//! Every counter, one file each, and which of them a watch means.

mod command;
mod device;
mod http;
mod log;
mod prometheus;
mod squid;

use crate::{counter::Counter, error::Error};
use fsarena_sys::kernel::SysRoot;
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, time::Duration};

/// Which counter is meant. Kept in the plan of a watch, so that it can go on after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "counter", rename_all = "lowercase")]
pub enum Spec {
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

impl Spec {
    /// Opens it. Whether it answers shows with the first reading.
    ///
    /// # Errors
    /// An address, metric or command that cannot be one.
    pub fn open(
        &self,
        kernel: &SysRoot,
        device: Option<(u32, u32)>,
        patience: Duration,
    ) -> Result<Box<dyn Counter>, Error> {
        Ok(match self {
            Spec::Squid { address } => Box::new(squid::Squid::new(address, patience)?),
            Spec::Prometheus { address, metric } => {
                Box::new(prometheus::Prometheus::new(address, metric, patience)?)
            }
            Spec::Log { file, word } => Box::new(log::Log::new(file, word.clone())),
            Spec::Command { argv } => Box::new(command::Command::new(argv, patience)?),
            Spec::Device => Box::new(device::Operations::new(kernel, device)?),
        })
    }
}

impl std::fmt::Display for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Spec::Squid { address } => write!(f, "client requests of squid at {address}"),
            Spec::Prometheus { address, metric } => write!(f, "{metric} at {address}"),
            Spec::Log { file, word: None } => write!(f, "lines of {file:?}"),
            Spec::Log { file, word: Some(word) } => write!(f, "lines of {file:?} with {word:?}"),
            Spec::Command { argv } => write!(f, "the number that {} prints", argv.join(" ")),
            Spec::Device => f.write_str("operations of the device"),
        }
    }
}
