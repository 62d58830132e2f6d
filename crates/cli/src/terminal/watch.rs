//! The windows of a watch as they close, a line each.

use fsarena_core::metric::reading;
use fsarena_watch::{Mark, Window};
use serde_json::{Value, json};

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
    ("rMB/s", reading::DEVICE_READ, 1e-6),
    ("wMB/s", reading::DEVICE_WRITTEN, 1e-6),
];

const LEGEND: &str =
    "per cent of one CPU; ~ is sampled at clock ticks, the others are exact where the kernel has it";

/// Returns the head of the table of windows.
pub fn head() -> String {
    let heads: String = COLUMNS.iter().map(|(head, ..)| format!("{head:>9}")).collect();
    format!("{:>20}{heads}   ({LEGEND})", "window (UTC)")
}

/// Returns a window as a line of the table, with a line for each thing that disturbed it.
pub fn line(window: &Window) -> String {
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

/// Returns a window for programs.
pub fn json(window: &Window) -> Value {
    let mark = |mark: &Mark| json!({ "text": mark.to_string(), "left_out": mark.spoils() });
    json!({
        "window": window.number,
        "started_at_s": window.started_at,
        "elapsed_s": window.seconds,
        "readings": window.readings,
        "marks": window.marks.iter().map(mark).collect::<Vec<_>>(),
    })
}
