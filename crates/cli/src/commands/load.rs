//! `fsarena load`: runs the load engine alone, with fio's options.

mod files;
pub mod fio_options;
mod flags;
mod job;
mod page;

pub use flags::Args;

use crate::terminal::screen;
use crate::{commands::handle_signals, failure::CommandResult, output};
use files::{LoadFiles, make_scratch_dir};
use fsarena_engine::meta::{self, Operation};
use fsarena_engine::{self as engine, Interval};
use fsarena_report::number::three_digits;
use fsarena_sys::{cancel, kernel::SysRoot};
use indicatif::{ProgressBar, ProgressStyle};
use page::{data_page, metadata_page};
use std::{cell::RefCell, collections::VecDeque, time::Duration};

/// Makes the files, runs the load on them, and prints the result. The temporary directory is removed also if the load fails.
pub fn run(args: Args) -> CommandResult {
    handle_signals()?;
    if !args.meta.is_empty() {
        return run_metadata(&args);
    }
    let job = job::make_job(&args)?;
    job.check()?;
    let load_files = LoadFiles::make(&args, &job)?;
    let progress = ProgressLine::new(args.quiet || args.fio.hides_progress());
    let files = progress.run_with_message("making the files", || load_files.make_files(&args, &job))?;
    let run_load = || engine::run(&job, &files, &mut |interval| progress.show(None, interval));
    let (outcome, readings, notes) =
        fsarena_probe::measure_around(&SysRoot::host(), load_files.scratch.dir(), run_load);
    progress.clear();
    let name = args.fio.name.first().map(String::as_str);
    let page = data_page(name, &job, &files, &outcome?, (&readings, &notes), is_interrupted());
    load_files.scratch.remove()?;
    output::print_page(&page, args.fio.output_format.unwrap_or(&args.format))
}

/// Runs the phases of metadata operations in a new directory, and prints the result of each.
fn run_metadata(args: &Args) -> CommandResult {
    let job = meta::MetaJob {
        phases: args.meta.clone(),
        threads: args.numjobs,
        names: args.files,
        sharing: if args.shared { meta::Sharing::Shared } else { meta::Sharing::Private },
        depth: args.depth,
        fan_out: args.fan_out,
        ..meta::MetaJob::default()
    };
    job.check()?;
    let scratch = make_scratch_dir(&args.dir)?;
    let progress = ProgressLine::new(args.quiet || args.fio.hides_progress());
    let show = &mut |operation, interval: &Interval| progress.show(Some(operation), interval);
    let outcomes = meta::run(&job, scratch.dir(), show);
    progress.clear();
    let page = metadata_page(&job, scratch.dir(), &outcomes?, is_interrupted());
    scratch.remove()?;
    output::print_page(&page, args.fio.output_format.unwrap_or(&args.format))
}

/// Whether a signal has ended the load early.
fn is_interrupted() -> bool {
    cancel::received_signal().is_some()
}

/// The seconds over which the progress line averages.
const AVERAGED_S: f64 = 1.0;

/// The line of a load in progress, on a terminal.
struct ProgressLine {
    bar: ProgressBar,
    /// The phase of a metadata load (None for reads and writes), and its last intervals.
    recent: RefCell<(Option<Operation>, VecDeque<Interval>)>,
}

impl ProgressLine {
    /// A line; hidden if `quiet`, and if standard error is not a terminal.
    fn new(quiet: bool) -> ProgressLine {
        let bar = if !quiet && screen::is_terminal() {
            ProgressBar::with_draw_target(None, screen::draw_target(screen::stderr()))
        } else {
            ProgressBar::hidden()
        };
        bar.set_style(ProgressStyle::with_template("{elapsed} {wide_msg}").expect("a fixed template"));
        ProgressLine { bar, recent: RefCell::default() }
    }

    /// Shows a message while `work` runs, and returns the result of `work`.
    fn run_with_message<T>(&self, message: &'static str, work: impl FnOnce() -> T) -> T {
        self.bar.set_message(message);
        self.bar.enable_steady_tick(Duration::from_millis(200));
        let result = work();
        self.bar.disable_steady_tick();
        self.bar.reset_elapsed();
        result
    }

    /// Adds an interval and shows the figures of the last second. The figures start anew with each phase of a metadata load.
    fn show(&self, phase: Option<Operation>, interval: &Interval) {
        let (shown_phase, recent) = &mut *self.recent.borrow_mut();
        if *shown_phase != phase {
            *shown_phase = phase;
            recent.clear();
        }
        recent.push_back(interval.clone());
        // A sum of lengths such as 0.1 s has rounding errors, hence the tolerance.
        while recent.iter().map(|interval| interval.length_s).sum::<f64>() > AVERAGED_S + 1e-6 && recent.len() > 1 {
            recent.pop_front();
        }
        self.bar.set_message(describe_rates(recent.make_contiguous()));
        self.bar.tick();
    }

    /// Removes the line.
    fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// The rates and the latency of these intervals in a line.
fn describe_rates(recent: &[Interval]) -> String {
    let seconds: f64 = recent.iter().map(|interval| interval.length_s).sum();
    let rate = |amount: u64| if seconds > 0.0 { amount as f64 / seconds } else { 0.0 };
    // The 99th percentile of all intervals together is not above the highest of the intervals.
    let p99 = recent.iter().map(|interval| interval.latency_p99_ns).max().unwrap_or(0);
    format!(
        "{:.0} IOPS, {} MB/s, p99 ≤ {} µs",
        rate(recent.iter().map(|interval| interval.operations).sum()),
        three_digits(rate(recent.iter().map(|interval| interval.bytes).sum()) / 1e6),
        three_digits(p99 as f64 / 1e3),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(operations: u64, p99: u64) -> Interval {
        Interval {
            index: 0,
            start_s: 0.0,
            length_s: 0.1,
            operations,
            bytes: operations * 4096,
            iops_per_s: 0.0,
            bandwidth_bytes_per_s: 0.0,
            latency_p50_ns: 1,
            latency_p99_ns: p99,
            latency_p999_ns: p99,
        }
    }

    #[test]
    fn the_line_averages_over_all_recent_intervals() {
        // 3000 operations in 0.2 s: 15,000 a second, 61.44 MB/s.
        let text = describe_rates(&[interval(1000, 80_000), interval(2000, 125_000)]);
        assert_eq!(text, "15000 IOPS, 61.4 MB/s, p99 ≤ 125 µs");
        assert_eq!(describe_rates(&[]), "0 IOPS, 0 MB/s, p99 ≤ 0 µs");
    }
}
