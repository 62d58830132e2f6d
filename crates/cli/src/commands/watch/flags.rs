//! The flags of `fsarena watch`.

use crate::failure::{Failure, usage};
use crate::flags::{ListFormat, Runs, absolute, time};
use fsarena_watch::{CounterSpec, Known, Watch, Where};
use std::{path::PathBuf, time::Duration};

/// Flags that define a watch: `--resume` takes them from the stored watch.
const FIXED: &str =
    "name squid prometheus series log word device_operations command path device service window every";

/// Watch what the requests of a live machine cost, without generating load
///
/// fsarena changes nothing, and the basics need no root. For each window it counts the served requests and their cost:
/// CPU by mode (exact from schedstat or cgroup accounting, next to the tick-sampled split), iowait, pressure, the
/// device and the filesystem behind a path, the page cache, the processes of the service, and the kernel threads. It
/// prints every window when it closes, and stores it in a run; `fsarena compare` compares the cost of a request over
/// several watches.
///
/// If an endpoint is down, a counter goes back, the clock steps or a device is unplugged, fsarena marks the window and
/// continues.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Count the client requests of the squid at this address, from its counters page
    #[arg(long, value_name = "HOST:PORT", group = "counter", help_heading = "Request counter")]
    squid: Option<String>,
    /// Count with a Prometheus endpoint, `http://HOST:PORT/metrics`
    #[arg(
        long,
        value_name = "URL",
        group = "counter",
        requires = "series",
        help_heading = "Request counter"
    )]
    prometheus: Option<String>,
    /// Prometheus series to sum: `requests_total`, `requests_total{code="200"}`
    #[arg(
        long,
        value_name = "NAME",
        requires = "prometheus",
        conflicts_with_all = ["squid", "log", "device_operations", "command"],
        help_heading = "Request counter"
    )]
    series: Option<String>,
    /// Count the lines of a log file, also after it is rotated
    #[arg(long, value_name = "FILE", group = "counter", help_heading = "Request counter")]
    log: Option<PathBuf>,
    /// Count only lines that contain this text
    #[arg(
        long,
        value_name = "TEXT",
        requires = "log",
        conflicts_with_all = ["squid", "prometheus", "device_operations", "command"],
        help_heading = "Request counter"
    )]
    word: Option<String>,
    /// Count the operations of the device itself
    #[arg(long, group = "counter", help_heading = "Request counter")]
    device_operations: bool,
    /// Command that prints a number; fsarena runs it without a shell
    #[arg(last = true, value_name = "COMMAND", group = "counter")]
    command: Vec<String>,

    /// Path whose filesystem and device to watch
    #[arg(long, value_name = "PATH", help_heading = "Target")]
    path: Option<PathBuf>,
    /// Device to watch instead of the one behind the path
    #[arg(long, value_name = "DEVICE", help_heading = "Target")]
    device: Option<PathBuf>,
    /// Processes of the service: command name, process id or cgroup directory; repeatable
    #[arg(long, value_name = "NAME|PID|DIR", help_heading = "Target")]
    service: Vec<String>,

    /// Name of this watch in comparisons [default: the host name]
    #[arg(long, value_name = "NAME", help_heading = "Watch")]
    name: Option<String>,
    /// Length of a window
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "5m", help_heading = "Watch")]
    window: Duration,
    /// Time between readings of the counter
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1s", help_heading = "Watch")]
    every: Duration,
    /// Number of windows [default: until a signal]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Watch")]
    pub windows: Option<u32>,
    /// Resume an earlier watch in the same run
    #[arg(long, value_name = "RUN", conflicts_with_all = FIXED.split(' '), help_heading = "Watch")]
    pub resume: Option<String>,
    /// Format on standard output: a table, or one JSON object per line
    #[arg(long, value_enum, default_value = "term", help_heading = "Watch")]
    pub format: ListFormat,
    #[command(flatten)]
    pub runs: Runs,
}

const EXAMPLES: &str = "\
Examples:
  fsarena watch --squid localhost:3128 --service squid --path /var/spool/squid --name ext4
  fsarena watch --log /var/log/nginx/access.log --service nginx --path /srv --window 1m
  fsarena watch --prometheus http://localhost:9113/metrics --series nginx_http_requests_total
  fsarena watch --path /srv -- cat /run/my-service/requests
  fsarena watch --resume latest                  after a reboot
  fsarena compare RUN RUN …                      the cost of a request in each";

impl Args {
    /// The watch that these flags define.
    pub fn watch(&self) -> Result<Watch, Failure> {
        if let Some(log) = &self.log {
            fsarena_sys::input::open(log).map_err(Failure::file(log))?;
        }
        let groups = self.service.iter().filter(|name| name.contains('/')).map(PathBuf::from);
        for path in [&self.path, &self.device].into_iter().flatten().cloned().chain(groups) {
            path.metadata().map_err(Failure::file(&path))?;
        }
        let counter = match (&self.squid, &self.prometheus, &self.log) {
            (Some(at), _, _) => Some(CounterSpec::Squid { address: at.clone() }),
            (_, Some(url), _) => Some(CounterSpec::Prometheus {
                address: url.clone(),
                metric: self.series.clone().unwrap_or_default(),
            }),
            (_, _, Some(file)) => Some(CounterSpec::Log { file: absolute(file)?, word: self.word.clone() }),
            _ if self.device_operations => Some(CounterSpec::Device),
            _ if !self.command.is_empty() => Some(CounterSpec::Command { argv: self.command.clone() }),
            _ if self.path.is_none() && self.device.is_none() && self.service.is_empty() => {
                return usage(
                    "fsarena watch needs a source: a counter of requests (--squid HOST:PORT, --prometheus URL --series NAME, \
                     --log FILE, --device-operations with --path, or a command after `--` that prints a number), or at \
                     least what to watch (--path, --device or --service)",
                );
            }
            _ => None,
        };
        let host = || fsarena_sys::kernel::SysRoot::host().fact("proc/sys/kernel/hostname");
        let name = self.name.clone().or_else(host).unwrap_or_else(|| "here".into());
        // A restart may happen in another directory.
        let [path, device] = [&self.path, &self.device].map(|path| path.as_deref().map(absolute).transpose());
        let at = Where { path: path?, device: device? };
        let service = self.service.iter().map(|text| Known::of(text)).collect();
        Ok(Watch { name, counter, at, service, window: self.window, every: self.every }.checked()?)
    }
}
