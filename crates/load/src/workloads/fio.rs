//! `fio`: runs the tasks of `fileio` with the real fio.

use crate::fio::output;
use crate::task::Action;
use crate::workloads::fileio::settings::{FileIoSettings, FileIoTask, FileIoWorkload, METRICS, fileio_settings};
use fsarena_core::setting::WorkloadDef;
use fsarena_engine::Content;
use fsarena_sys::argv::Argv;
use std::path::Path;

/// The workload by the real fio.
pub const FIO: FileIoWorkload = FileIoWorkload {
    def: &WorkloadDef {
        id: "fio",
        help: "the same tasks as fileio, by the real fio (psync)",
        metrics: METRICS,
        settings: &fileio_settings("fio"),
    },
};

/// Makes the action that runs one task in a directory with prepared files, or on a device.
pub fn fio_action(settings: &FileIoSettings, task: FileIoTask, target: &Path, is_device: bool) -> Action {
    Action::RunAndParse(fio_argv(settings, task, target, is_device), Box::new(output::parse_task_output))
}

fn fio_argv(settings: &FileIoSettings, task: FileIoTask, target: &Path, is_device: bool) -> Argv {
    let (file_order, rw_prefix) = if task.mode.is_sequential { ("sequential", "") } else { ("random", "rand") };
    let direction = if task.mode.writes { "write" } else { "read" };
    let argv = Argv::new("fio")
        .args(["--output-format=json+", "--ioengine=psync", "--thread", "--group_reporting"])
        // Random blocks can repeat, and fio neither preallocates the files nor drops them from the page cache.
        .args(["--norandommap", "--fallocate=none", "--invalidate=0"])
        .arg(format!("--name={}", task.mode.name))
        .arg(format!("--rw={rw_prefix}{direction}"))
        .arg(format!("--bs={}", task.block_bytes))
        .arg(format!("--numjobs={}", task.threads))
        .arg(format!("--direct={}", u8::from(settings.uses_direct_io)))
        .arg(format!("--size={}", settings.total_bytes()))
        // fio accepts seeds of 32 bits.
        .arg(format!("--randseed={}", settings.seed as u32))
        .arg(if settings.content == Content::Zeros { "--zero_buffers" } else { "--refill_buffers" });
    let argv = if is_device {
        let mut option = std::ffi::OsString::from("--filename=");
        option.push(target);
        argv.arg(option)
    } else {
        // With filename_format instead of a list, only the first of several threads would find its files.
        let names: Vec<String> = (0..settings.files).map(|number| format!("test_file.{number}")).collect();
        argv.cwd(target)
            .arg(format!("--filename={}", names.join(":")))
            .arg(format!("--filesize={}", settings.file_bytes))
            .arg(format!("--file_service_type={file_order}"))
    };
    let argv = argv
        // Without this option, fio creates the files with their full size before it writes.
        .args((task.mode.recreates_files() && !is_device).then_some("--create_on_open=1"))
        .args(settings.writes_between_syncs(task.mode).map(|writes| format!("--fsync={writes}")))
        .args((task.mode.writes && settings.syncs_at_end).then_some("--end_fsync=1"));
    match settings.events {
        0 => {
            let milliseconds = (settings.max_seconds * 1e3).ceil().max(1.0) as u64;
            argv.arg("--time_based").arg(format!("--runtime={milliseconds}ms"))
        }
        events => {
            let bytes_per_thread = events.div_ceil(u64::from(task.threads)) * u64::from(task.block_bytes);
            argv.arg(format!("--io_size={bytes_per_thread}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::job;

    #[test]
    fn the_arguments_of_fio_follow_the_settings() {
        let settings = FileIoSettings::resolve(&job(FIO.def, 7, &[]));
        let [seqrd, _, seqwr, rndwr] = settings.tasks[..] else { panic!("{:?}", settings.tasks) };
        let words = |task, target, is_device| fio_argv(&settings, task, Path::new(target), is_device).words();
        let has = |words: &[String], word: &str| words.iter().any(|other| other == word);
        let write_words = words(rndwr, "/mnt", false);
        for word in ["--rw=randwrite", "--fsync=100", "--end_fsync=1", "--numjobs=1", "--runtime=200ms"] {
            assert!(has(&write_words, word), "{word}: {write_words:?}");
        }
        assert!(!has(&words(seqrd, "/mnt", false), "--fsync=100"));
        assert!(has(&words(seqwr, "/mnt", false), "--create_on_open=1"));
        let device_words = words(seqwr, "/dev/loop9", true);
        assert!(has(&device_words, "--filename=/dev/loop9") && !has(&device_words, "--create_on_open=1"));
    }
}
