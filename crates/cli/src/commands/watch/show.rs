//! Windows as they close: a line each, for people or for programs.

use crate::failure::{Failure, printing};
use crate::flags::ListFormat;
use fsarena_core::{event::Note, metric::reading};
use fsarena_watch::{Recorder, Window};
use serde_json::{Value, json};
use std::io::Write;

/// What a line has: its head, the reading, and what one of it is worth per second of the window.
const COLUMNS: [(&str, &str, f64); 10] = [
    ("req/s", reading::REQUESTS, 1.0),
    ("cpu%", reading::MACHINE_CPU, 1e-7),
    ("service%", "service_cpu_ns", 1e-7),
    ("kernel%", reading::KERNEL_THREADS, 1e-7),
    ("~user%", "machine_user_ns", 1e-7),
    ("~sys%", "machine_system_ns", 1e-7),
    ("~iowait%", reading::IOWAIT, 1e-7),
    ("io-psi%", "pressure_io_some_ns", 1e-7),
    ("rMB/s", "device_read_bytes", 1e-6),
    ("wMB/s", "device_write_bytes", 1e-6),
];

const LEGEND: &str =
    "per cent of one CPU; ~ is sampled at clock ticks, the others are exact where the kernel has it";

/// Says what is watched.
pub fn begin(format: ListFormat, recorder: &Recorder, notes: &[Note]) -> Result<(), Failure> {
    let watch = recorder.watch();
    let counted = watch.counter.as_ref().map_or("no requests".into(), |counter| counter.to_string());
    say(&format!("watching {}: {counted}; kept in {}", watch.name, recorder.run().path().display()));
    for note in notes {
        say(&note.text);
    }
    if matches!(format, ListFormat::Term) {
        let heads: String = COLUMNS.iter().map(|(head, ..)| format!("{head:>9}")).collect();
        print(&format!("{:>20}{heads}   ({LEGEND})", "window (UTC)"))?;
    }
    Ok(())
}

/// Prints a window.
pub fn window(format: ListFormat, window: &Window) -> Result<(), Failure> {
    match format {
        ListFormat::Json => print(&as_json(window).to_string()),
        ListFormat::Term => print(&line(window)),
    }
}

/// Says how to go on.
pub fn end(recorder: &Recorder) {
    let id = recorder.run().id();
    say(&format!("kept as {id}; go on with: fsarena watch --resume {id}"));
}

fn line(window: &Window) -> String {
    let rate = |id: &str| Some(window.readings.get(id)? / window.seconds);
    let cell = |value: Option<f64>| format!("{:>9}", value.map_or("–".into(), |value| format!("{value:.1}")));
    let mut line = format!("{:>20}", time(window.started_at));
    COLUMNS.iter().for_each(|(_, id, worth)| line += &cell(rate(id).map(|value| value * worth)));
    for mark in &window.marks {
        line += &format!("\n{:>20} {mark}", "!");
    }
    line
}

/// Seconds since 1970 as people read them.
fn time(seconds: f64) -> String {
    let at = jiff::Timestamp::from_millisecond((seconds * 1e3) as i64);
    at.map_or("?".into(), |at| at.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

fn as_json(window: &Window) -> Value {
    let mark = |mark: &fsarena_watch::Mark| json!({ "text": mark.to_string(), "left_out": mark.spoils() });
    json!({
        "window": window.number,
        "started_at_s": window.started_at,
        "elapsed_s": window.seconds,
        "readings": window.readings,
        "marks": window.marks.iter().map(mark).collect::<Vec<_>>(),
    })
}

/// Whoever reads a pipe wants each window when it closes.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(printing)
}

fn say(text: &str) {
    // A closed standard error does not stop the watch.
    let _ = writeln!(std::io::stderr(), "{text}");
}
