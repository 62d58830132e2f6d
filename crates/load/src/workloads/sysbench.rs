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
    let parse = move |printed: &str| parse_readings(printed, block_bytes);
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

/// Parses the output of sysbench 1.0 and 1.1 to readings with the names of the load engine. Returns `None` if the reads,
/// the events or the total time are missing, or if a figure is not a number or too large for one. All other figures may
/// be missing.
fn parse_readings(text: &str, block_bytes: u32) -> Option<Readings> {
    let mut readings = Readings::default();
    let (mut reads_per_s, mut writes_per_s, mut syncs_per_s) = (None, 0.0, 0.0);
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        let first_number = || parse_nonnegative(value.split_whitespace().next()?);
        let first_milliseconds_as_ns = || Some(first_number()? / 1e3 * 1e9);
        match name.trim() {
            // 1.0 has a line for each rate.
            "reads/s" => reads_per_s = Some(first_number()?),
            "writes/s" => writes_per_s = first_number()?,
            "fsyncs/s" => syncs_per_s = first_number()?,
            // 1.1 has `read:  IOPS=123.45 1.93 MiB/s (2.02 MB/s)`.
            "read" if value.contains("IOPS=") => reads_per_s = Some(parse_iops(value)?),
            "write" if value.contains("IOPS=") => writes_per_s = parse_iops(value)?,
            "fsync" if value.contains("IOPS=") => syncs_per_s = parse_iops(value)?,
            "total time" | "time elapsed" => {
                readings.set("load_elapsed_ns", parse_nonnegative(value.trim().strip_suffix('s')?)? * 1e9);
            }
            "total number of events" => readings.set("all_operations_count", first_number()?),
            "avg" => readings.set("all_latency_mean_ns", first_milliseconds_as_ns()?),
            "max" => readings.set("all_latency_max_ns", first_milliseconds_as_ns()?),
            "95th percentile" => readings.set("all_latency_p95_ns", first_milliseconds_as_ns()?),
            "events (avg/stddev)" => {
                let (mean, deviation) = value.trim().split_once('/')?;
                let (mean, deviation) = (parse_nonnegative(mean)?, parse_nonnegative(deviation)?);
                if mean > 0.0 {
                    // Jain's index (Σx)² / (n·Σx²) from mean and standard deviation.
                    readings.set("fairness_ratio", mean.powi(2) / (mean.powi(2) + deviation.powi(2)));
                }
            }
            _ => {}
        }
    }
    if ["load_elapsed_ns", "all_operations_count"].iter().any(|id| readings.get(id).is_none()) {
        return None;
    }
    for (rate, id, bandwidth) in [
        (reads_per_s?, reading::READ_RATE, reading::READ_BANDWIDTH),
        (writes_per_s, reading::WRITE_RATE, reading::WRITE_BANDWIDTH),
    ] {
        if rate > 0.0 {
            readings.set(id, rate);
            readings.set(bandwidth, rate * f64::from(block_bytes));
        }
    }
    if syncs_per_s > 0.0 {
        readings.set("sync_iops_per_s", syncs_per_s);
    }
    readings.0.values().all(|value| value.is_finite()).then_some(readings)
}

fn parse_iops(value: &str) -> Option<f64> {
    parse_nonnegative(value.split_once("IOPS=")?.1.split(' ').next()?)
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
    fn the_output_of_both_versions_gives_the_same_readings() {
        let expected = [
            ("write_iops_per_s", 6411.57),
            ("write_bandwidth_bytes_per_s", 6411.57 * 4096.0),
            ("sync_iops_per_s", 292.64),
            ("load_elapsed_ns", 148_800_000.0),
            ("all_operations_count", 1000.0),
            ("all_latency_mean_ns", 250_000.0),
            ("all_latency_p95_ns", 70_000.0),
            ("all_latency_max_ns", 35_020_000.0),
        ];
        // Only 1.0 prints the events of each thread: 500² / (500² + 111²).
        for (output, fairness) in [(OUTPUT_1_0, Some(250_000.0 / 262_321.0)), (OUTPUT_1_1, None)] {
            let readings = parse_readings(output, 4096).unwrap();
            let fairness = fairness.map(|fairness: f64| ("fairness_ratio", fairness));
            for (id, value) in expected.into_iter().chain(fairness) {
                let ratio = readings.get(id).unwrap() / value;
                assert!((ratio - 1.0).abs() < 1e-9, "{id}: {readings:?}");
            }
            assert_eq!(readings.0.len(), expected.len() + fairness.iter().len(), "{readings:?}");
            assert_eq!(readings.get("read_iops_per_s"), None);
            let known: Vec<&str> = fsarena_engine::readings::reading_defs().map(|def| def.id).collect();
            assert!(readings.0.keys().all(|id| known.contains(&id.as_str())), "{readings:?}");
        }
    }

    #[test]
    fn truncated_output_and_figures_that_are_not_numbers_are_refused() {
        let parse = |text: &str| parse_readings(text, 4096);
        assert_eq!(parse(""), None);
        assert_eq!(parse(&OUTPUT_1_0[..OUTPUT_1_0.find("General").unwrap()]), None);
        assert_eq!(parse(&OUTPUT_1_0.replace("0.1488s", "soon")), None);
        assert_eq!(parse(&OUTPUT_1_0.replace("6411.57", "nan")), None);
        assert_eq!(parse(&OUTPUT_1_1.replace("IOPS=6411.57", "IOPS=")), None);
        assert_eq!(parse(&OUTPUT_1_0.replace("6411.57", "1e308")), None, "the bandwidth would be infinite");
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
            parse_readings(&text, 4096);
        }

        #[test]
        fn a_damaged_output_never_panics(offset in 0usize..1296, inserted in "[ -~\\n]{0,8}") {
            let is_boundary = |offset: &usize| OUTPUT_1_0.is_char_boundary(*offset);
            let offset = (offset..).find(is_boundary).unwrap_or(0).min(OUTPUT_1_0.len());
            let mut text = OUTPUT_1_0.to_string();
            text.insert_str(offset, &inserted);
            if let Some(readings) = parse_readings(&text, 512) {
                prop_assert!(readings.0.values().all(|value| value.is_finite()));
            }
        }
    }
}
