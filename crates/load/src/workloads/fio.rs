//! `fio`: runs the tasks of `fileio` with the real fio, and parses its JSON output.

use crate::task::{Action, TaskError};
use crate::workloads::fileio::settings::{FileIo, FileIoSettings, FileIoTask, METRICS, fileio_settings};
use fsarena_core::{metric::reading, sample::Readings, setting::WorkloadDef};
use fsarena_engine::Content;
use fsarena_sys::argv::Argv;
use serde_json::Value;
use std::path::Path;

/// The workload by the real fio.
pub const FIO: FileIo = FileIo {
    def: &WorkloadDef {
        id: "fio",
        help: "the same tasks as fileio, by the real fio (psync)",
        metrics: METRICS,
        settings: &fileio_settings("fio"),
    },
};

/// Makes the action that runs one task in a directory with prepared files, or on a device.
pub fn action(settings: &FileIoSettings, task: FileIoTask, on: &Path, is_device: bool) -> Action {
    let read = |printed: &str| {
        parse(printed).map_err(|why| {
            let shown: String = printed.chars().take(1000).collect();
            TaskError::Unfit(format!("fio printed no JSON of a run: {why}\n{shown}"))
        })
    };
    Action::Read(argv(settings, task, on, is_device), Box::new(read))
}

fn argv(settings: &FileIoSettings, task: FileIoTask, on: &Path, is_device: bool) -> Argv {
    let (order, rand) = if task.mode.sequential { ("sequential", "") } else { ("random", "rand") };
    let way = if task.mode.writes { "write" } else { "read" };
    let argv = Argv::new("fio")
        .args(["--output-format=json", "--ioengine=psync", "--thread", "--group_reporting"])
        // Random blocks can repeat, and fio neither preallocates the files nor drops them from the page cache.
        .args(["--norandommap", "--fallocate=none", "--invalidate=0"])
        .arg(format!("--name={}", task.mode.name))
        .arg(format!("--rw={rand}{way}"))
        .arg(format!("--bs={}", task.block))
        .arg(format!("--numjobs={}", task.threads))
        .arg(format!("--direct={}", u8::from(settings.direct)))
        .arg(format!("--size={}", settings.total_bytes()))
        // fio accepts seeds of 32 bits.
        .arg(format!("--randseed={}", settings.seed as u32))
        .arg(if settings.content == Content::Zeros { "--zero_buffers" } else { "--refill_buffers" });
    let argv = if is_device {
        let mut name = std::ffi::OsString::from("--filename=");
        name.push(on);
        argv.arg(name)
    } else {
        // With filename_format instead of a list, only the first of several threads would find its files.
        let names: Vec<String> = (0..settings.files).map(|number| format!("test_file.{number}")).collect();
        argv.cwd(on)
            .arg(format!("--filename={}", names.join(":")))
            .arg(format!("--filesize={}", settings.file_bytes))
            .arg(format!("--file_service_type={order}"))
    };
    let argv = argv
        // Without this option, fio creates the files with their full size before it writes.
        .args((task.mode.recreates() && !is_device).then_some("--create_on_open=1"))
        .args(settings.sync_after(task.mode).map(|writes| format!("--fsync={writes}")))
        .args((task.mode.writes && settings.fsync_end).then_some("--end_fsync=1"));
    match settings.events {
        0 => {
            let milliseconds = (settings.seconds * 1e3).ceil().max(1.0) as u64;
            argv.arg("--time_based").arg(format!("--runtime={milliseconds}ms"))
        }
        events => {
            let each = events.div_ceil(u64::from(task.threads)) * u64::from(task.block);
            argv.arg(format!("--io_size={each}"))
        }
    }
}

/// Parses fio's JSON, which may follow warnings, to readings with the names of the load engine. Figures that fio does not
/// print are left out.
///
/// # Errors
/// If the text is not JSON, has no job, or a job failed.
pub fn parse(text: &str) -> Result<Readings, String> {
    let (Some(from), Some(to)) = (text.find('{'), text.rfind('}')) else { return Err("no `{`".into()) };
    let json = text.get(from..=to).ok_or("nothing between the braces")?;
    let run: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let jobs = run["jobs"].as_array().map_or(&[][..], Vec::as_slice);
    if let Some(error) = jobs.iter().filter_map(|job| job["error"].as_i64()).find(|error| *error != 0) {
        return Err(format!("a job failed with error {error}"));
    }
    // With grouped reporting, one job has the figures of all threads.
    let job = jobs.first().ok_or("no jobs")?;
    let mut readings = Readings::default();
    for (prefix, rate, bandwidth) in [
        ("read", reading::READ_RATE, reading::READ_BANDWIDTH),
        ("write", reading::WRITE_RATE, reading::WRITE_BANDWIDTH),
    ] {
        let number = |path: &str| job[prefix].pointer(path).and_then(Value::as_f64);
        let needed = |name: &str| number(name).ok_or_else(|| format!("no {prefix}{name}"));
        let (operations, milliseconds) = (needed("/total_ios")?, needed("/runtime")?);
        if operations == 0.0 || milliseconds == 0.0 {
            continue;
        }
        readings.set(rate, needed("/iops")?);
        readings.set(bandwidth, needed("/io_bytes")? * 1e3 / milliseconds);
        readings.set(&format!("{prefix}_operations_count"), operations);
        for (name, path) in [
            ("mean", "/clat_ns/mean"),
            ("max", "/clat_ns/max"),
            ("p50", "/clat_ns/percentile/50.000000"),
            ("p95", "/clat_ns/percentile/95.000000"),
            ("p99", "/clat_ns/percentile/99.000000"),
            ("p999", "/clat_ns/percentile/99.900000"),
        ] {
            if let Some(ns) = number(path) {
                readings.set(&format!("{prefix}_latency_{name}_ns"), ns);
            }
        }
        readings.set(reading::LOAD_ELAPSED, milliseconds * 1e6);
    }
    if let Some(syncs) = job["sync"]["total_ios"].as_f64().filter(|syncs| *syncs > 0.0) {
        readings.set("sync_operations_count", syncs);
    }
    Ok(readings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::job;
    use proptest::prelude::*;

    const OF_3_33: &str = include_str!("../../tests/data/fio-3.33-rndwr.json");

    #[test]
    fn a_captured_run_becomes_readings() {
        let readings = parse(OF_3_33).unwrap();
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
    fn warnings_before_the_json_are_skipped_and_failed_jobs_are_errors() {
        let warned = format!("note: both iodepth >= 1 and synchronous I/O engine are selected\n{OF_3_33}");
        assert!(parse(&warned).is_ok());
        assert!(parse(&OF_3_33.replace("\"error\" : 0", "\"error\" : 22")).unwrap_err().contains("error 22"));
        assert!(parse("fio: unrecognized option").is_err());
        assert!(parse("{\"jobs\": []}").is_err());
        assert!(parse("}{").is_err());
    }

    #[test]
    fn the_arguments_of_fio_follow_the_cell() {
        let settings = FileIoSettings::resolve(&job(FIO.def, 7, &[]));
        let [seqrd, _, seqwr, rndwr] = settings.tasks[..] else { panic!("{:?}", settings.tasks) };
        let words = |task, on, device| argv(&settings, task, Path::new(on), device).words();
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
            let _ = parse(&text);
        }

        #[test]
        fn a_damaged_output_never_panics(at in 0usize..7379, with in "[ -~]{0,4}") {
            let mut text = OF_3_33.to_string();
            text.insert_str(at.min(text.len()), &with);
            let _ = parse(&text);
        }
    }
}
