//! `dbench-tool`: runs the tasks of `dbench` with the real dbench, and parses its output.

use crate::dbench::OperationKind;
use crate::task::{Action, Result};
use crate::workloads::dbench::settings::{DbenchSettings, DbenchWorkload, LoadSource, METRICS, loadfile_settings};
use fsarena_core::dbench::{DbenchLine, parse_lines};
use fsarena_core::{metric::reading, sample::Readings, setting::WorkloadDef};
use fsarena_sys::argv::Argv;
use std::path::Path;

/// The workload that plays a loadfile by the real dbench.
pub const DBENCH_TOOL: DbenchWorkload = DbenchWorkload {
    def: &WorkloadDef {
        id: "dbench-tool",
        help: "the same tasks as dbench, by the real dbench (4.0 or 5.0)",
        metrics: METRICS,
        settings: &loadfile_settings("dbench"),
    },
    source: LoadSource::Loadfile,
};

/// The measured time in whole seconds, at least two. dbench accepts only whole seconds, and prints nothing for less
/// than two.
pub fn whole_seconds(settings: &DbenchSettings) -> u64 {
    (settings.options.measured.as_secs_f64().ceil() as u64).max(2)
}

/// Whether the installed dbench is 5.0, which requires the option `-B`.
///
/// # Errors
/// If dbench cannot be started.
pub fn is_version_5() -> Result<bool> {
    let help = Argv::new("dbench").arg("--help").run()?;
    Ok(help.stdout.contains("--backend"))
}

/// Makes the action that runs the real dbench with `clients` clients in an empty directory. `is_version_5` as from
/// [`is_version_5`].
pub fn dbench_action(
    settings: &DbenchSettings,
    clients: u32,
    loadfile: &Path,
    is_version_5: bool,
    root: &Path,
) -> Action {
    let argv = dbench_argv(settings, clients, loadfile, is_version_5, root);
    let seconds = whole_seconds(settings);
    Action::run_and_parse(argv, ["dbench", " (4.0 and 5.0)"], move |printed| parse_readings(printed, seconds))
}

fn dbench_argv(settings: &DbenchSettings, clients: u32, loadfile: &Path, is_version_5: bool, root: &Path) -> Argv {
    let argv = Argv::new("dbench").args(is_version_5.then_some(["-B", "fileio"]).into_iter().flatten());
    // dbench's cleanup is not part of the measurement, and the next task starts in an empty directory.
    let argv = argv.arg("--skip-cleanup").arg("-t").arg(whole_seconds(settings).to_string());
    let argv = argv.arg("-c").arg(loadfile).arg("-D").arg(root);
    let rate = settings.options.rate_mb_s.map(|rate| ["-R".into(), rate.to_string()]);
    argv.args(rate.into_iter().flatten()).arg(clients.to_string())
}

/// Parses dbench's output to readings with the names of the native player. Returns `None` if a figure is missing.
/// Counts cover all seconds, but the throughput that dbench prints leaves out the last second.
fn parse_readings(printed: &str, seconds: u64) -> Option<Readings> {
    let mut readings = Readings::default();
    let (mut throughput_mb_s, mut operations, mut total_ns) = (None, 0, 0.0);
    for (_, line) in parse_lines(printed) {
        match line.ok()? {
            DbenchLine::Version(_) | DbenchLine::Loadfile(_) => {}
            DbenchLine::Failed(_) => return None,
            DbenchLine::Operation { name, count, mean_ms, max_ms } => {
                let kind = OperationKind::from_printed_name(name)?;
                let prefix = kind.def().reading_prefix;
                operations += count;
                readings.set(&format!("{prefix}_operations_count"), count as f64);
                // dbench prints the mean of no operations as `nan`.
                if count > 0 && mean_ms.is_finite() {
                    total_ns += mean_ms * 1e6 * count as f64;
                    readings.set(&format!("{prefix}_latency_mean_ns"), mean_ms * 1e6);
                    readings.set(&format!("{prefix}_latency_max_ns"), max_ms * 1e6);
                }
                if let OperationKind::ReadX | OperationKind::WriteX = kind {
                    readings.set(&format!("{prefix}_iops_per_s"), count as f64 / seconds as f64);
                }
            }
            DbenchLine::Throughput { mb_per_s, max_ms, .. } => {
                throughput_mb_s = Some(mb_per_s).filter(|mb_per_s| mb_per_s.is_finite() && *mb_per_s >= 0.0);
                readings.set("all_latency_max_ns", max_ms? * 1e6);
            }
        }
    }
    readings.set(reading::SERVED_BANDWIDTH, throughput_mb_s? * 1e6);
    readings.set("all_bandwidth_bytes_per_s", throughput_mb_s? * 1e6);
    readings.set("all_operations_count", operations as f64);
    readings.set("all_iops_per_s", operations as f64 / seconds as f64);
    if operations > 0 {
        readings.set("all_latency_mean_ns", total_ns / operations as f64);
    }
    readings.set("load_elapsed_ns", seconds as f64 * 1e9);
    Some(readings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::job;
    use proptest::prelude::*;

    const DBENCH_4_OUTPUT: &str = include_str!("../../tests/data/dbench-4.00.txt");

    fn settings(changed_settings: &[(&str, &str)]) -> DbenchSettings {
        DbenchSettings::resolve(&job(DBENCH_TOOL.def, 7, changed_settings))
    }

    #[test]
    fn a_captured_run_becomes_readings() {
        let readings = parse_readings(DBENCH_4_OUTPUT, 2).unwrap();
        assert_eq!(readings.get("served_bytes_per_s"), Some(93_565_200.0));
        assert_eq!(readings.get("read_operations_count"), Some(7664.0));
        assert_eq!(readings.get("read_iops_per_s"), Some(3832.0));
        assert_eq!(readings.get("ntcreatex_latency_max_ns"), Some(20_236_000.0));
        assert_eq!(readings.get("all_latency_max_ns"), Some(7_875_000.0));
        assert_eq!(readings.get("all_operations_count"), Some(28_754.0));
        let known: Vec<&str> =
            fsarena_engine::readings::reading_defs().chain(crate::dbench::reading_defs()).map(|def| def.id).collect();
        assert!(readings.0.keys().all(|id| known.contains(&id.as_str())), "{readings:?}");
    }

    #[test]
    fn the_names_of_dbench_5_are_accepted_and_truncated_output_is_refused() {
        let version_5_output =
            DBENCH_4_OUTPUT.replace("Qpathinfo", "QUERY_PATH_INFORMATION").replace("Find", "FIND_FIRST");
        assert_eq!(parse_readings(&version_5_output, 2), parse_readings(DBENCH_4_OUTPUT, 2));
        assert_eq!(parse_readings("", 2), None);
        assert_eq!(parse_readings(&DBENCH_4_OUTPUT[..DBENCH_4_OUTPUT.find("Throughput").unwrap()], 2), None);
        assert_eq!(parse_readings(&DBENCH_4_OUTPUT.replace("93.5652", "nan"), 2), None);
    }

    #[test]
    fn the_arguments_of_dbench_follow_the_settings() {
        let arguments = |settings: &DbenchSettings, is_version_5| {
            dbench_argv(settings, 20, Path::new("/l"), is_version_5, Path::new("/mnt")).words().join(" ")
        };
        assert_eq!(arguments(&settings(&[]), false), "dbench --skip-cleanup -t 2 -c /l -D /mnt 20");
        let limited = settings(&[("rate", "2.5"), ("seconds", "9.5")]);
        assert_eq!(arguments(&limited, true), "dbench -B fileio --skip-cleanup -t 10 -c /l -D /mnt -R 2.5 20");
    }

    proptest! {
        #[test]
        fn a_damaged_output_never_panics(offset in 0usize..1200, inserted in "[ -~\\n]{0,8}") {
            let mut text = DBENCH_4_OUTPUT.to_string();
            text.insert_str(offset.min(text.len()), &inserted);
            if let Some(readings) = parse_readings(&text, 2) {
                prop_assert!(readings.0.values().all(|value| value.is_finite()), "{:?}", readings);
            }
        }
    }
}
