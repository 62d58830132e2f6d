//! Measures how long it takes to read 1,000 files of 10 KB of each format: `cargo bench -p fsarena-report`. Prints times and their
//! ratio to the goal; asserts nothing.

use fsarena_report::import::{IMPORTERS, parse};
use std::time::Instant;
use std::{hint::black_box, path::Path};

/// The number of files that one measurement reads.
const FILES: usize = 1_000;
/// The approximate size of a file.
const FILE_BYTES: usize = 10_000;
/// The time in which fsarena should read all files.
const GOAL_MS: f64 = 2_000.0;
/// The number of measurements, of which the median counts.
const REPEATS: usize = 5;

/// Each format except CSV, and a captured file of it.
const CAPTURED_FILES: [(&str, &str); 7] = [
    ("fio", "fio-3.33.json"),
    ("hyperfine", "hyperfine-1.20.0.json"),
    ("gobench", "go-1.26.8.txt"),
    ("sysbench", "sysbench-1.0.20-fileio-1.txt"),
    ("dbench", "dbench-4.0-1.txt"),
    ("ior", "ior-4.0.0.txt"),
    ("mdtest", "mdtest-4.0.0.txt"),
];

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign");
    println!("{:<42} {:>10} {:>10} {:>8}", "", "ms", "goal", "ratio");
    let read_captured = |(format, name): (&'static str, &str)| {
        (format, std::fs::read_to_string(folder.join(name)).expect("a captured file"))
    };
    let csv_rows: String = (0..400).map(|row| format!("{row},cp on ext4,{}.5,100\n", row % 7)).collect();
    let csv = ("csv", format!("round,task,elapsed_s,hits_per_s\n{csv_rows}"));
    for (format, text) in CAPTURED_FILES.into_iter().map(read_captured).chain([csv]) {
        assert!(IMPORTERS.iter().any(|importer| importer.id == format));
        // Append runs to each other, as people do; a CSV file has one header line.
        let copies = if format == "csv" { 1 } else { FILE_BYTES.div_ceil(text.len()).max(1) };
        let text = text.repeat(copies);
        let mut times_ms: Vec<f64> = (0..REPEATS).map(|_| time_reading_ms(format, &text)).collect();
        times_ms.sort_by(f64::total_cmp);
        let ms = times_ms[REPEATS / 2];
        println!(
            "{:<42} {ms:>10.1} {GOAL_MS:>10.1} {:>8.3}",
            format!("{FILES} x {} bytes of {format}", text.len()),
            ms / GOAL_MS
        );
    }
}

/// The time that it takes to recognise the format of every file and to read it, in milliseconds.
fn time_reading_ms(format: &str, text: &str) -> f64 {
    let start = Instant::now();
    for _ in 0..FILES {
        let samples = parse("a file", black_box(text.as_bytes()), None).expect("samples");
        assert_eq!(black_box(samples).format, format);
    }
    start.elapsed().as_secs_f64() * 1e3
}
