//! The real fio, with the cells of `fileio`: its arguments, and the JSON that it prints.

use super::fileio::settings::{Cell, Chosen, FileIo, settings};
use crate::task::{Action, Error};
use fsarena_core::{metric::reading, sample::Readings, setting::WorkloadDef};
use fsarena_engine::Content;
use fsarena_sys::argv::Argv;
use serde::Deserialize;
use std::{collections::BTreeMap, path::Path};

/// By fio.
pub const FIO: FileIo = FileIo {
    def: &WorkloadDef {
        id: "fio",
        help: "the same tasks as fileio, by the real fio (psync)",
        settings: &settings("fio"),
    },
};

/// Runs one cell in a directory whose files are prepared, or on a device.
pub fn action(chosen: &Chosen, cell: Cell, on: &Path, is_device: bool) -> Action {
    let read = |printed: &str| {
        parse(printed).map(|run| run.readings()).map_err(|why| {
            let shown: String = printed.chars().take(1000).collect();
            Error::Unfit(format!("fio printed no JSON of a run: {why}\n{shown}"))
        })
    };
    Action::Read(argv(chosen, cell, on, is_device), Box::new(read))
}

fn argv(chosen: &Chosen, cell: Cell, on: &Path, is_device: bool) -> Argv {
    let rw = match (cell.mode.sequential, cell.mode.writes) {
        (true, false) => "read",
        (false, false) => "randread",
        (true, true) => "write",
        (false, true) => "randwrite",
    };
    let order = if cell.mode.sequential { "sequential" } else { "random" };
    let mut argv = Argv::new("fio")
        .args(["--output-format=json", "--ioengine=psync", "--thread", "--group_reporting"])
        // Blocks with replacement, files neither preallocated nor truncated to size.
        .args(["--norandommap", "--fallocate=none", "--invalidate=0"])
        .arg(format!("--name={}", cell.mode.name))
        .arg(format!("--rw={rw}"))
        .arg(format!("--bs={}", cell.block))
        .arg(format!("--numjobs={}", cell.threads))
        .arg(format!("--direct={}", u8::from(chosen.direct)))
        .arg(format!("--size={}", chosen.total_bytes()))
        // It takes 32 bits.
        .arg(format!("--randseed={}", chosen.seed as u32))
        .arg(if chosen.content == Content::Zeros { "--zero_buffers" } else { "--refill_buffers" });
    argv = if is_device {
        let mut name = std::ffi::OsString::from("--filename=");
        name.push(on);
        argv.arg(name)
    } else {
        // With filename_format only the first of several threads would find its files.
        let names: Vec<String> = (0..chosen.files).map(|number| format!("test_file.{number}")).collect();
        argv.cwd(on)
            .arg(format!("--filename={}", names.join(":")))
            .arg(format!("--filesize={}", chosen.file_bytes))
            .arg(format!("--file_service_type={order}"))
    };
    if cell.mode.recreates() && !is_device {
        // Else it would make them at their full size before it writes.
        argv = argv.arg("--create_on_open=1");
    }
    if let Some(writes) = chosen.sync_after(cell.mode) {
        argv = argv.arg(format!("--fsync={writes}"));
    }
    if cell.mode.writes && chosen.fsync_end {
        argv = argv.arg("--end_fsync=1");
    }
    match chosen.events {
        0 => argv
            .arg("--time_based")
            .arg(format!("--runtime={}ms", (chosen.seconds * 1e3).ceil().max(1.0) as u64)),
        events => {
            let each = events.div_ceil(u64::from(cell.threads)) * u64::from(cell.block);
            argv.arg(format!("--io_size={each}"))
        }
    }
}

/// The part of fio's JSON that is read.
#[derive(Debug, Clone, Deserialize)]
pub struct Run {
    jobs: Vec<OfJob>,
}

#[derive(Debug, Clone, Deserialize)]
struct OfJob {
    #[serde(default)]
    error: i64,
    read: Ways,
    write: Ways,
    #[serde(default)]
    sync: Syncs,
}

/// One direction.
#[derive(Debug, Clone, Deserialize)]
struct Ways {
    io_bytes: u64,
    total_ios: u64,
    /// Milliseconds.
    runtime: u64,
    iops: f64,
    #[serde(default)]
    clat_ns: Latency,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Syncs {
    total_ios: u64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Latency {
    mean: f64,
    max: f64,
    percentile: BTreeMap<String, f64>,
}

/// Reads fio's JSON, which may have warnings before it.
///
/// # Errors
/// Names the missing part.
pub fn parse(text: &str) -> Result<Run, String> {
    let (Some(from), Some(to)) = (text.find('{'), text.rfind('}')) else { return Err("no `{`".into()) };
    let json = text.get(from..=to).ok_or("nothing between the braces")?;
    let run: Run = serde_json::from_str(json).map_err(|error| error.to_string())?;
    match run.jobs.iter().find(|job| job.error != 0) {
        Some(job) => Err(format!("a job failed with error {}", job.error)),
        None if run.jobs.is_empty() => Err("no jobs".into()),
        None => Ok(run),
    }
}

impl Run {
    /// As readings of the load engine's names. What fio does not say is left out.
    fn readings(&self) -> Readings {
        let mut readings = Readings::default();
        // Grouped reporting makes one job of all threads.
        let Some(job) = self.jobs.first() else { return readings };
        for (way, prefix, rate, bandwidth) in [
            (&job.read, "read", reading::READ_RATE, reading::READ_BANDWIDTH),
            (&job.write, "write", reading::WRITE_RATE, reading::WRITE_BANDWIDTH),
        ] {
            if way.total_ios == 0 || way.runtime == 0 {
                continue;
            }
            readings.set(rate, way.iops);
            readings.set(bandwidth, way.io_bytes as f64 * 1e3 / way.runtime as f64);
            readings.set(&format!("{prefix}_operations_count"), way.total_ios as f64);
            readings.set(&format!("{prefix}_latency_mean_ns"), way.clat_ns.mean);
            readings.set(&format!("{prefix}_latency_max_ns"), way.clat_ns.max);
            for (name, percentile) in
                [("p50", "50.000000"), ("p95", "95.000000"), ("p99", "99.000000"), ("p999", "99.900000")]
            {
                if let Some(ns) = way.clat_ns.percentile.get(percentile) {
                    readings.set(&format!("{prefix}_latency_{name}_ns"), *ns);
                }
            }
            readings.set("load_elapsed_ns", way.runtime as f64 * 1e6);
        }
        if job.sync.total_ios > 0 {
            readings.set("sync_operations_count", job.sync.total_ios as f64);
        }
        readings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Job;
    use fsarena_core::{scale::Scale, setting::Settings};
    use proptest::prelude::*;

    const OF_3_33: &str = include_str!("../../tests/data/fio-3.33-rndwr.json");

    #[test]
    fn a_captured_run_becomes_readings() {
        let readings = parse(OF_3_33).unwrap().readings();
        assert_eq!(readings.get("write_iops_per_s"), Some(9846.153846));
        // 2 MiB in 52 ms.
        assert_eq!(readings.get("write_bandwidth_bytes_per_s"), Some(2097152.0 / 0.052));
        assert_eq!(readings.get("write_latency_p50_ns"), Some(23424.0));
        assert_eq!(readings.get("write_latency_p999_ns"), Some(158720.0));
        assert_eq!(readings.get("sync_operations_count"), Some(5.0));
        assert_eq!(readings.get("read_iops_per_s"), None);
        let known: Vec<&str> = fsarena_engine::readings::defs().map(|def| def.id).collect();
        assert!(readings.0.keys().all(|id| known.contains(&id.as_str())), "{readings:?}");
    }

    #[test]
    fn warnings_before_the_json_are_passed_over_and_errors_are_told() {
        let warned = format!("note: both iodepth >= 1 and synchronous I/O engine are selected\n{OF_3_33}");
        assert!(parse(&warned).is_ok());
        assert!(parse(&OF_3_33.replace("\"error\" : 0", "\"error\" : 22")).unwrap_err().contains("error 22"));
        assert!(parse("fio: unrecognized option").is_err());
        assert!(parse("{\"jobs\": []}").is_err());
        assert!(parse("}{").is_err());
    }

    #[test]
    fn the_arguments_are_those_of_the_cell() {
        let settings = Settings::defaults(FIO.def.settings);
        let chosen = Chosen::of(&Job { settings, scale: Scale::Tiny, seed: 7 });
        let [seqrd, _, seqwr, rndwr] = chosen.cells[..] else { panic!("{:?}", chosen.cells) };
        let words = |cell, on, device| argv(&chosen, cell, Path::new(on), device).words();
        let has = |words: &[String], word: &str| words.iter().any(|found| found == word);
        let writes = words(rndwr, "/mnt", false);
        for word in ["--rw=randwrite", "--fsync=100", "--end_fsync=1", "--numjobs=1", "--runtime=200ms"] {
            assert!(has(&writes, word), "{word}: {writes:?}");
        }
        assert!(!has(&words(seqrd, "/mnt", false), "--fsync=100"));
        assert!(has(&words(seqwr, "/mnt", false), "--create_on_open=1"));
        let device = words(seqwr, "/dev/loop9", true);
        assert!(has(&device, "--filename=/dev/loop9") && !has(&device, "--create_on_open=1"));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(text in "\\PC*") {
            let _ = parse(&text).map(|run| run.readings());
        }

        #[test]
        fn a_damaged_output_never_panics(at in 0usize..7379, with in "[ -~]{0,4}") {
            let mut text = OF_3_33.to_string();
            text.insert_str(at.min(text.len()), &with);
            let _ = parse(&text).map(|run| run.readings());
        }
    }
}
