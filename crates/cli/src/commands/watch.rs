//! `fsarena watch`: measures what a request costs on a machine in production, without generating load.

use crate::failure::{CommandResult, Failure, usage_error};
use crate::flags::{ListFormat, RunsDir, absolute_path, absolute_text, parse_duration};
use crate::{commands::handle_signals, failure::print_message, output};
use fsarena_core::{exit::ExitCode, metric::reading};
use fsarena_probe::watch::{CounterSpec, Recorder, ServiceSpec, Watch, WatchedPlace, Watcher, Window, WindowMark};
use fsarena_store::RunDir;
use fsarena_sys::{cancel, host, kernel::SysRoot};
use serde_json::{Value, json};
use std::{path::PathBuf, time::Duration};

/// Flags that define a watch. They exclude `--resume`, which takes these settings from the stored watch.
const WATCH_FLAGS: &str =
    "name squid prometheus series log word device_operations command path device service window every";

/// Watch what the requests of a live machine cost, without generating load
///
/// fsarena changes nothing, and most readings need no root. For each window it counts the served requests and their cost:
/// CPU time (exact, from schedstat or cgroups), its split into user and system time (sampled at clock ticks), iowait,
/// pressure, the device and the filesystem behind a path, the page cache, the processes of the service, and the kernel
/// threads. It prints every window when it closes, and stores it in a run; `fsarena compare` compares the cost of a
/// request over several watches.
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
    #[arg(long, value_name = "URL", group = "counter", requires = "series", help_heading = "Request counter")]
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
    /// Command that prints the total number of requests so far; fsarena runs it without a shell
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
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "5m", help_heading = "Watch")]
    window: Duration,
    /// Time between readings of the counter
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1s", help_heading = "Watch")]
    every: Duration,
    /// Number of windows [default: until a signal]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Watch")]
    windows: Option<u32>,
    /// Resume an earlier watch in the same run
    #[arg(long, value_name = "RUN", conflicts_with_all = WATCH_FLAGS.split(' '), help_heading = "Watch")]
    resume: Option<String>,
    /// Format on standard output: a table, or one JSON object per line
    #[arg(long, value_enum, default_value = "term", help_heading = "Watch")]
    format: ListFormat,
    #[command(flatten)]
    runs: RunsDir,
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
    /// Makes the watch that these flags define.
    fn define_watch(&self) -> Result<Watch, Failure> {
        if let Some(log) = &self.log {
            fsarena_sys::input::open(log).map_err(Failure::for_path(log))?;
        }
        let cgroups = self.service.iter().filter(|text| is_path(text)).map(PathBuf::from);
        for path in [&self.path, &self.device].into_iter().flatten().cloned().chain(cgroups) {
            path.metadata().map_err(Failure::for_path(&path))?;
        }
        let counter = match (&self.squid, &self.prometheus, &self.log) {
            (Some(address), _, _) => Some(CounterSpec::Squid { address: address.clone() }),
            (_, Some(url), _) => {
                Some(CounterSpec::Prometheus { address: url.clone(), metric: self.series.clone().unwrap_or_default() })
            }
            (_, _, Some(file)) => Some(CounterSpec::Log { file: absolute_path(file)?, word: self.word.clone() }),
            _ if self.device_operations => Some(CounterSpec::Device),
            _ if !self.command.is_empty() => Some(CounterSpec::Command { argv: self.command.clone() }),
            _ if self.path.is_none() && self.device.is_none() && self.service.is_empty() => {
                return usage_error(
                    "fsarena watch needs a source: a counter of requests (--squid HOST:PORT, --prometheus URL --series NAME, \
                     --log FILE, --device-operations with --path, or a command after `--` that prints their total), or at \
                     least what to watch (--path, --device or --service)",
                );
            }
            _ => None,
        };
        let host = || SysRoot::host().read_trimmed("proc/sys/kernel/hostname");
        let name = self.name.clone().or_else(host).unwrap_or_else(|| "here".into());
        // A watch can be resumed in another directory, so its paths are absolute.
        let [path, device] = [&self.path, &self.device].map(|path| path.as_deref().map(absolute_path).transpose());
        let place = WatchedPlace { path: path?, device: device? };
        let services = self.service.iter().map(|text| parse_service(text)).collect::<Result<_, _>>()?;
        Ok(Watch { name, counter, place, services, window_length: self.window, reading_interval: self.every }
            .checked()?)
    }
}

/// Whether a value of `--service` is the path of a cgroup's directory instead of a name or a process id.
fn is_path(text: &str) -> bool {
    text.contains('/')
}

/// Parses a value of `--service`. The path of a cgroup's directory becomes absolute.
fn parse_service(text: &str) -> Result<ServiceSpec, Failure> {
    if is_path(text) { Ok(ServiceSpec::parse(&absolute_text(text.as_ref())?)) } else { Ok(ServiceSpec::parse(text)) }
}

/// Watches until a signal arrives, a process that `--service` names by its id has ended, or the windows are done. Stores and
/// prints each window when it closes.
pub fn run(args: Args) -> CommandResult {
    handle_signals()?;
    let kernel = SysRoot::host();
    let host = host::collect_facts(&kernel);
    let mut recorder = match &args.resume {
        Some(name) => Recorder::open(RunDir::find(&args.runs.dir, name)?, &host)?,
        None => {
            let watch = args.define_watch()?;
            // Start the watcher once before making a run, to report an impossible counter at once.
            Watcher::begin(&kernel, &watch, 0)?.check_counter_name()?;
            Recorder::create(&args.runs.dir, &watch, &host, env!("CARGO_PKG_VERSION"))?
        }
    };
    // From here on a signal ends the watch only after the open window and the end of the run are stored.
    let _deferred = cancel::defer_signals();
    let mut watcher = Watcher::begin(&kernel, recorder.watch(), recorder.next_window()?)?;
    watcher.notes().iter().try_for_each(|note| recorder.add_note(note))?;
    print_introduction(args.format, &recorder, &watcher)?;
    let store_and_print = |window: &Window| -> Result<(), Failure> {
        // Store the window before printing it, so that every printed window is stored.
        recorder.record_window(window)?;
        recorder.take_notes().iter().for_each(|note| print_message(&note.text));
        let line = match args.format {
            ListFormat::Json => window_json(window).to_string(),
            ListFormat::Term => window_line(window),
        };
        output::print_text(line + "\n").map(drop)
    };
    watcher.run(args.windows, store_and_print)?;
    let id = recorder.run_dir().id();
    if let Some(pid) = watcher.ended_process() {
        let why = format!("process {pid} ended");
        recorder.finish(&why, false)?;
        print_message(&format!("{why}, so the watch ends; stored as {id}"));
        return Ok(ExitCode::Done);
    }
    let (why, complete) = match cancel::received_signal() {
        Some(_) => ("ended by a signal", false),
        None => ("the windows are done", true),
    };
    recorder.finish(why, complete)?;
    let runs_flag = args.runs.flag_for_later_commands();
    print_message(&format!("stored as {id}; resume with: fsarena watch --resume {id}{runs_flag}"));
    Ok(ExitCode::Done)
}

/// Prints to standard error what is watched, and to standard output the head of the table.
fn print_introduction(format: ListFormat, recorder: &Recorder, watcher: &Watcher) -> CommandResult {
    let watch = recorder.watch();
    let counter_note =
        watch.counter.as_ref().map_or(", without counting requests".into(), |counter| format!(": {counter}"));
    print_message(&format!("watching {}{counter_note}; stored in {}", watch.name, recorder.run_dir().path().display()));
    watcher.notes().iter().for_each(|note| print_message(&note.text));
    watcher.absent_sources().iter().for_each(|text| print_message(text));
    match format {
        ListFormat::Json => Ok(ExitCode::Done),
        ListFormat::Term => output::print_text(table_header() + "\n"),
    }
}

/// The columns of the table: head, reading, and the factor that converts the reading per second to the unit of the head.
const COLUMNS: [(&str, &str, f64); 10] = [
    ("req/s", reading::REQUESTS, 1.0),
    ("cpu%", reading::MACHINE_CPU, 1e-7),
    ("service%", "service_cpu_ns", 1e-7),
    ("kernel%", reading::KERNEL_THREADS_CPU, 1e-7),
    ("~user%", "machine_user_ns", 1e-7),
    ("~sys%", "machine_system_ns", 1e-7),
    ("~iowait%", reading::IOWAIT, 1e-7),
    ("io-psi%", "pressure_io_some_ns", 1e-7),
    ("rMB/s", reading::DEVICE_READ_BYTES, 1e-6),
    ("wMB/s", reading::DEVICE_WRITTEN_BYTES, 1e-6),
];

const LEGEND: &str =
    "per cent of one CPU; ~ is sampled at clock ticks, the others are exact if the kernel provides exact accounting";

/// Returns the head of the table of windows.
fn table_header() -> String {
    let titles: String = COLUMNS.iter().map(|(head, ..)| format!("{head:>9}")).collect();
    format!("{:>20}{titles}   ({LEGEND})", "window (UTC)")
}

/// Returns a window as a line of the table, followed by a line for each disturbance.
fn window_line(window: &Window) -> String {
    let mut line = format!("{:>20}", utc_time(window.started_at));
    for (_, id, factor) in COLUMNS {
        let rate = window.readings.get(id).map(|value| format!("{:.1}", value / window.seconds * factor));
        line += &format!("{:>9}", rate.unwrap_or("–".into()));
    }
    for mark in &window.marks {
        line += &format!("\n{:>20} {mark}", "!");
    }
    line
}

/// Formats seconds since 1970 as date and time in UTC.
fn utc_time(seconds: f64) -> String {
    let timestamp = jiff::Timestamp::from_millisecond((seconds * 1e3) as i64);
    timestamp.map_or("?".into(), |time| time.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// Returns a window as JSON.
fn window_json(window: &Window) -> Value {
    let mark = |mark: &WindowMark| json!({ "text": mark.to_string(), "left_out": mark.invalidates_window() });
    json!({
        "window": window.number,
        "started_at_s": window.started_at,
        "elapsed_s": window.seconds,
        "readings": window.readings,
        "marks": window.marks.iter().map(mark).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_a_name_a_process_or_the_absolute_path_of_a_cgroup() {
        assert_eq!(parse_service("nginx").unwrap(), ServiceSpec::Name("nginx".into()));
        assert_eq!(parse_service("42").unwrap(), ServiceSpec::Pid(42));
        assert_eq!(parse_service("/sys/fs/cgroup/a").unwrap(), ServiceSpec::Cgroup("/sys/fs/cgroup/a".into()));
        let here = std::env::current_dir().unwrap();
        assert_eq!(parse_service("a.slice/b").unwrap(), ServiceSpec::Cgroup(here.join("a.slice/b")));
    }
}
