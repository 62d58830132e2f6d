//! `sysbench`: runs the tasks of `fileio` with the real sysbench, and parses its output.

use crate::workloads::fileio::settings::{FileIoSettings, FileIoTask, FileIoWorkload, METRICS, fileio_settings};
use crate::{printed::parse_nonnegative, task::Action};
use fsarena_core::{metric::reading, sample::Readings, setting::WorkloadDef};
use fsarena_sys::argv::Argv;
use std::path::Path;

/// The workload by the real sysbench.
pub const SYSBENCH: FileIoWorkload = FileIoWorkload {
    def: &WorkloadDef {
        id: "sysbench",
        help: "the same tasks as fileio, by the real sysbench (1.0 or 1.1)",
        metrics: METRICS,
        settings: &fileio_settings("sysbench"),
    },
};

/// The measured time in whole seconds, because sysbench accepts no others.
pub fn whole_seconds(settings: &FileIoSettings) -> u64 {
    settings.max_seconds.ceil().max(1.0) as u64
}

/// Makes the action that runs one task in a directory with prepared files.
pub fn sysbench_action(settings: &FileIoSettings, task: FileIoTask, dir: &Path) -> Action {
    let block_bytes = task.block_bytes;
    let parse = move |printed: &str| parse_output(printed)?.readings(block_bytes);
    Action::run_and_parse(sysbench_argv(settings, task).cwd(dir), ["sysbench", " (1.0 and 1.1)"], parse)
}

fn sysbench_argv(settings: &FileIoSettings, task: FileIoTask) -> Argv {
    let on_or_off = |is_on| if is_on { "on" } else { "off" };
    // `--time=0` means no time limit: a run with a number of events ends at the last of them.
    let seconds = if settings.events == 0 { whole_seconds(settings) } else { 0 };
    Argv::new("sysbench")
        .arg("fileio")
        .arg(format!("--file-test-mode={}", task.mode.name))
        .arg(format!("--file-num={}", settings.files))
        .arg(format!("--file-total-size={}", settings.total_bytes()))
        .arg(format!("--file-block-size={}", task.block_bytes))
        .arg(format!("--file-fsync-freq={}", settings.writes_per_sync))
        .arg(format!("--file-fsync-end={}", on_or_off(settings.syncs_at_end)))
        .arg(format!("--threads={}", task.threads))
        // sysbench accepts 31 bits and replaces 0 with a random seed.
        .arg(format!("--rand-seed={}", settings.seed % 0x7fff_fffe + 1))
        .args(settings.uses_direct_io.then_some("--file-extra-flags=direct"))
        .args([format!("--events={}", settings.events), format!("--time={seconds}"), "run".into()])
}

/// The figures that sysbench prints for one run. Rates are per second, times in seconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SysbenchFigures {
    reads_per_s: f64,
    writes_per_s: f64,
    syncs_per_s: f64,
    total_time_s: f64,
    events: f64,
    latency_mean_s: Option<f64>,
    latency_p95_s: Option<f64>,
    latency_max_s: Option<f64>,
    /// Mean and standard deviation of the events of the threads.
    events_per_thread: Option<(f64, f64)>,
}

/// Parses the output of sysbench 1.0 and 1.1. Returns `None` if the reads, the events or the total time are missing, or
/// if a figure is not a number. All other figures may be missing.
pub fn parse_output(text: &str) -> Option<SysbenchFigures> {
    let mut figures = SysbenchFigures::default();
    let (mut reads, mut events, mut total_time) = (None, None, None);
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        let first_number = || parse_nonnegative(value.split_whitespace().next()?);
        match name.trim() {
            // 1.0 has a line for each rate.
            "reads/s" => reads = Some(first_number()?),
            "writes/s" => figures.writes_per_s = first_number()?,
            "fsyncs/s" => figures.syncs_per_s = first_number()?,
            // 1.1 has `read:  IOPS=123.45 1.93 MiB/s (2.02 MB/s)`.
            "read" if value.contains("IOPS=") => reads = Some(parse_iops(value)?),
            "write" if value.contains("IOPS=") => figures.writes_per_s = parse_iops(value)?,
            "fsync" if value.contains("IOPS=") => figures.syncs_per_s = parse_iops(value)?,
            "total time" | "time elapsed" => {
                total_time = Some(parse_nonnegative(value.trim().strip_suffix('s')?)?);
            }
            "total number of events" => events = Some(first_number()?),
            "avg" => figures.latency_mean_s = Some(first_number()? / 1e3),
            "max" => figures.latency_max_s = Some(first_number()? / 1e3),
            "95th percentile" => figures.latency_p95_s = Some(first_number()? / 1e3),
            "events (avg/stddev)" => {
                let (mean, deviation) = value.trim().split_once('/')?;
                figures.events_per_thread = Some((parse_nonnegative(mean)?, parse_nonnegative(deviation)?));
            }
            _ => {}
        }
    }
    Some(SysbenchFigures { reads_per_s: reads?, events: events?, total_time_s: total_time?, ..figures })
}

fn parse_iops(value: &str) -> Option<f64> {
    parse_nonnegative(value.split_once("IOPS=")?.1.split(' ').next()?)
}

impl SysbenchFigures {
    /// Converts the figures to readings with the names of the load engine. Figures that sysbench does not print are
    /// left out. Returns `None` if a reading is too large for a floating-point number.
    fn readings(&self, block_bytes: u32) -> Option<Readings> {
        let mut readings = Readings::default();
        let block_bytes = f64::from(block_bytes);
        for (rate, id, bandwidth) in [
            (self.reads_per_s, reading::READ_RATE, reading::READ_BANDWIDTH),
            (self.writes_per_s, reading::WRITE_RATE, reading::WRITE_BANDWIDTH),
        ] {
            if rate > 0.0 {
                readings.set(id, rate);
                readings.set(bandwidth, rate * block_bytes);
            }
        }
        if self.syncs_per_s > 0.0 {
            readings.set("sync_iops_per_s", self.syncs_per_s);
        }
        readings.set("all_operations_count", self.events);
        readings.set("load_elapsed_ns", self.total_time_s * 1e9);
        let latencies = [
            ("all_latency_mean_ns", self.latency_mean_s),
            ("all_latency_p95_ns", self.latency_p95_s),
            ("all_latency_max_ns", self.latency_max_s),
        ];
        for (id, seconds) in latencies {
            if let Some(seconds) = seconds {
                readings.set(id, seconds * 1e9);
            }
        }
        if let Some((mean, deviation)) = self.events_per_thread.filter(|(mean, _)| *mean > 0.0) {
            // Jain's index (Σx)² / (n·Σx²) from mean and standard deviation.
            readings.set("fairness_ratio", mean.powi(2) / (mean.powi(2) + deviation.powi(2)));
        }
        readings.0.values().all(|value| value.is_finite()).then_some(readings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::job;
    use proptest::prelude::*;

    const OUTPUT_1_0: &str = include_str!("../../tests/data/sysbench-1.0.20-rndwr.txt");

    /// Output in the format of sysbench 1.1, made from the format strings in its sources.
    const OUTPUT_1_1: &str = "
Throughput:
         read:  IOPS=0.00 0.00 MiB/s (0.00 MB/s)
         write: IOPS=6411.57 25.05 MiB/s (26.26 MB/s)
         fsync: IOPS=292.64

Latency (ms):
         min:                                  0.02
         avg:                                  0.25
         max:                                 35.02
         95th percentile:                      0.07
         sum:                                249.81

Throughput:
    events/s (eps):                      6720.4301
    time elapsed:                        0.1488s
    total number of events:              1000
";

    #[test]
    fn the_output_of_both_versions_gives_the_same_figures() {
        let expected = SysbenchFigures {
            reads_per_s: 0.0,
            writes_per_s: 6411.57,
            syncs_per_s: 292.64,
            total_time_s: 0.1488,
            events: 1000.0,
            latency_mean_s: Some(0.00025),
            latency_p95_s: Some(0.00007),
            latency_max_s: Some(0.03502),
            events_per_thread: Some((500.0, 111.0)),
        };
        let figures_1_0 = parse_output(OUTPUT_1_0).unwrap();
        assert!((figures_1_0.latency_p95_s.unwrap() - 0.00007).abs() < 1e-12);
        assert_eq!(SysbenchFigures { latency_p95_s: expected.latency_p95_s, ..figures_1_0 }, expected);
        let figures_1_1 = parse_output(OUTPUT_1_1).unwrap();
        assert_eq!(
            SysbenchFigures { latency_p95_s: expected.latency_p95_s, ..figures_1_1 },
            SysbenchFigures { events_per_thread: None, ..expected }
        );
    }

    #[test]
    fn readings_have_the_names_of_the_engine() {
        let readings = parse_output(OUTPUT_1_0).unwrap().readings(4096).unwrap();
        assert_eq!(readings.get("write_iops_per_s"), Some(6411.57));
        assert_eq!(readings.get("write_bandwidth_bytes_per_s"), Some(6411.57 * 4096.0));
        assert_eq!(readings.get("read_iops_per_s"), None);
        // 500² / (500² + 111²).
        assert!((readings.get("fairness_ratio").unwrap() - 250_000.0 / 262_321.0).abs() < 1e-12);
        let known: Vec<&str> = fsarena_engine::readings::reading_defs().map(|def| def.id).collect();
        assert!(readings.0.keys().all(|id| known.contains(&id.as_str())), "{readings:?}");
    }

    #[test]
    fn truncated_output_and_figures_that_are_not_numbers_are_refused() {
        assert_eq!(parse_output(""), None);
        assert_eq!(parse_output(&OUTPUT_1_0[..OUTPUT_1_0.find("General").unwrap()]), None);
        assert_eq!(parse_output(&OUTPUT_1_0.replace("0.1488s", "soon")), None);
        assert_eq!(parse_output(&OUTPUT_1_0.replace("6411.57", "nan")), None);
        assert_eq!(parse_output(&OUTPUT_1_1.replace("IOPS=6411.57", "IOPS=")), None);
        let huge = parse_output(&OUTPUT_1_0.replace("6411.57", "1e308")).unwrap();
        assert_eq!(huge.readings(4096), None, "the bandwidth would be infinite");
    }

    #[test]
    fn the_arguments_of_sysbench_follow_the_settings() {
        let settings = FileIoSettings::resolve(&job(SYSBENCH.def, 7, &[("total_bytes", "4194304")]));
        let words = sysbench_argv(&settings, settings.tasks[3]).words().join(" ");
        assert_eq!(
            words,
            "sysbench fileio --file-test-mode=rndwr --file-num=128 --file-total-size=4194304 \
             --file-block-size=16384 --file-fsync-freq=100 --file-fsync-end=on --threads=1 --rand-seed=8 \
             --file-extra-flags=direct --events=0 --time=1 run"
        );
    }

    proptest! {
        #[test]
        fn garbage_never_panics(text in "\\PC*") {
            parse_output(&text);
        }

        #[test]
        fn a_damaged_output_never_panics(offset in 0usize..1296, inserted in "[ -~\\n]{0,8}") {
            let is_boundary = |offset: &usize| OUTPUT_1_0.is_char_boundary(*offset);
            let offset = (offset..).find(is_boundary).unwrap_or(0).min(OUTPUT_1_0.len());
            let mut text = OUTPUT_1_0.to_string();
            text.insert_str(offset, &inserted);
            if let Some(readings) = parse_output(&text).and_then(|figures| figures.readings(512)) {
                prop_assert!(readings.0.values().all(|value| value.is_finite()));
            }
        }
    }
}
