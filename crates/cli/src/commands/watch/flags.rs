//! The flags of `fsarena watch`.

use crate::failure::Failure;
use crate::flags::{ListFormat, Runs};
use fsarena_core::exit::ExitCode;
use fsarena_watch::{Limits, Spec, Watch, named};
use std::path::PathBuf;
use std::time::Duration;

/// Everything that says what is watched, which cannot change while a watch goes on.
const FIXED: [&str; 13] = [
    "name",
    "squid",
    "prometheus",
    "metric",
    "log",
    "word",
    "device_operations",
    "command",
    "path",
    "device",
    "service",
    "window",
    "every",
];

/// Watch a live machine: what its requests cost, window by window, without driving it
///
/// Nothing is changed, and the basics need no root. Each window has the requests that were served and what they
/// cost: CPU by mode (exact from schedstat or cgroup accounting, with the tick-sampled split beside it and marked
/// so), iowait, pressure, the device and the filesystem behind a path, the page cache, the service's own processes
/// and the kernel's threads. Windows are printed as they close and kept in a run; `fsarena compare` compares the
/// cost of a request over several watches.
///
/// An endpoint that is down, a counter that goes back, a clock that is stepped, a device that is unplugged: the
/// window is marked, and watching goes on.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Count the client requests of the squid at this host and port, by its counters page
    #[arg(long, value_name = "HOST:PORT", group = "counter", help_heading = "What counts requests")]
    squid: Option<String>,
    /// Count by a Prometheus endpoint, `http://HOST:PORT/metrics`
    #[arg(
        long,
        value_name = "URL",
        group = "counter",
        requires = "metric",
        help_heading = "What counts requests"
    )]
    prometheus: Option<String>,
    /// The metric of the endpoint: `requests_total`, `requests_total{code="200"}`; series that fit are summed
    #[arg(long, value_name = "NAME", requires = "prometheus", help_heading = "What counts requests")]
    metric: Option<String>,
    /// Count the lines of a log file, over rotation
    #[arg(long, value_name = "FILE", group = "counter", help_heading = "What counts requests")]
    log: Option<PathBuf>,
    /// Only lines with this in them
    #[arg(long, value_name = "TEXT", requires = "log", help_heading = "What counts requests")]
    word: Option<String>,
    /// Count the operations of the device itself
    #[arg(long, group = "counter", help_heading = "What counts requests")]
    device_operations: bool,
    /// Count by a command that prints a number; it is run without a shell
    #[arg(last = true, value_name = "COMMAND", group = "counter")]
    command: Vec<String>,

    /// Watch the filesystem and the device behind this path
    #[arg(long, value_name = "PATH", help_heading = "What is watched")]
    path: Option<PathBuf>,
    /// Watch this device, instead of the one behind the path
    #[arg(long, value_name = "DEVICE", help_heading = "What is watched")]
    device: Option<PathBuf>,
    /// The service's processes: a command's name, a process id, or a cgroup's directory; repeatable
    #[arg(long, value_name = "NAME|PID|DIR", help_heading = "What is watched")]
    service: Vec<String>,

    /// The name of this watch in comparisons [default: the host's name]
    #[arg(long, value_name = "NAME", help_heading = "How")]
    name: Option<String>,
    /// Length of a window
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "5m", help_heading = "How")]
    window: Duration,
    /// Time between two readings of the counter
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "1s", help_heading = "How")]
    every: Duration,
    /// End after so many windows [default: go on until a signal comes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "How")]
    windows: Option<u32>,
    /// Go on with an earlier watch, in the same run: after a restart, say
    #[arg(long, value_name = "RUN", conflicts_with_all = FIXED, help_heading = "How")]
    pub resume: Option<String>,
    /// How windows are printed: lines for people, or one JSON object a line
    #[arg(long, value_enum, default_value = "term", help_heading = "How")]
    pub format: ListFormat,
    #[command(flatten)]
    pub runs: Runs,
}

const EXAMPLES: &str = "\
Examples:
  fsarena watch --squid localhost:3128 --service squid --path /var/spool/squid --name ext4
  fsarena watch --log /var/log/nginx/access.log --service nginx --path /srv --window 1m
  fsarena watch --prometheus http://localhost:9113/metrics --metric 'nginx_http_requests_total'
  fsarena watch --path /srv -- cat /run/my-service/requests
  fsarena watch --resume latest                  go on after a reboot
  fsarena compare RUN RUN …                      what a request costs on each";

impl Args {
    /// What is to be watched.
    pub fn watch(&self) -> Result<Watch, Failure> {
        let counter = match (&self.squid, &self.prometheus, &self.log) {
            (Some(at), _, _) => Some(Spec::Squid(at.clone())),
            (_, Some(url), _) => Some(Spec::Prometheus(url.clone(), self.metric.clone().unwrap_or_default())),
            (_, _, Some(file)) => Some(Spec::Log(absolute(file)?, self.word.clone())),
            _ if self.device_operations => Some(Spec::Device),
            _ if !self.command.is_empty() => Some(Spec::Command(self.command.clone())),
            _ => None,
        };
        let name = self.name.clone().unwrap_or_else(|| {
            let host = fsarena_sys::kernel::Kernel::host().fact("proc/sys/kernel/hostname");
            host.unwrap_or_else(|| "here".into())
        });
        // Kept for a restart, which may be in another directory.
        let path = self.path.as_deref().map(absolute).transpose()?;
        let device = self.device.as_deref().map(absolute).transpose()?;
        Ok(named(name, counter, (path, device), &self.service, (self.window, self.every))?)
    }

    /// Where it ends by itself.
    pub fn limits(&self) -> Limits {
        Limits { windows: self.windows }
    }
}

fn absolute(path: impl AsRef<std::path::Path>) -> Result<PathBuf, Failure> {
    let path = path.as_ref();
    std::path::absolute(path)
        .map_err(|error| Failure::new(ExitCode::Usage, format!("{}: {error}", path.display())))
}
