//! How long 1,000 files of 10 KB take to read, of each format: `cargo bench -p fsarena-report`. Prints times and their ratio
//! to the goal; asserts nothing.

use fsarena_report::import::{IMPORTERS, parse};
use std::time::Instant;
use std::{hint::black_box, path::Path};

const FILES: usize = 1_000;
const BYTES: usize = 10_000;
const GOAL_MS: f64 = 2_000.0;
const TIMES: usize = 5;

/// A captured file of each format; CSV is made here.
const CAPTURED: [(&str, &str); 7] = [
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
    let captured = |(format, name): (&'static str, &str)| {
        (format, std::fs::read_to_string(folder.join(name)).expect("a captured file"))
    };
    let csv = (0..).map(|row| format!("{row},cp on ext4,{}.5,100\n", row % 7));
    let csv = ("csv", "round,task,elapsed_s,hits_per_s\n".to_string() + &csv.take(400).collect::<String>());
    for (format, text) in CAPTURED.into_iter().map(captured).chain([csv]) {
        assert!(IMPORTERS.iter().any(|importer| importer.id == format));
        // Runs one after the other, as people append them; a CSV has one head.
        let copies = if format == "csv" { 1 } else { BYTES.div_ceil(text.len()).max(1) };
        let text = text.repeat(copies);
        let mut taken: Vec<f64> = (0..TIMES).map(|_| read_all(format, &text)).collect();
        taken.sort_by(f64::total_cmp);
        let ms = taken[TIMES / 2];
        println!(
            "{:<42} {ms:>10.1} {GOAL_MS:>10.1} {:>8.3}",
            format!("{FILES} x {} bytes of {format}", text.len()),
            ms / GOAL_MS
        );
    }
}

/// The milliseconds that it takes to find the format of every file, and to read it.
fn read_all(format: &str, text: &str) -> f64 {
    let begun = Instant::now();
    for _ in 0..FILES {
        let samples = parse("a file", black_box(text.as_bytes()), None).expect("samples");
        assert_eq!(black_box(samples).format, format);
    }
    begun.elapsed().as_secs_f64() * 1e3
}
