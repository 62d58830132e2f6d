//! Targets for files of other programs: published figures, samples and curves, job files of fio, loadfiles of dbench, and the
//! output of benchmark programs.

use crate::support::{self, check_error};
use fsarena_core::{published, scale::Scale, setting::Settings};
use fsarena_load::dbench::{LoadProgram, loadfile};
use fsarena_load::fio::{JobFile, JobFileEnvironment, looks_like_job_file};
use fsarena_load::workload::{Job, Place};
use fsarena_load::{task::Action, workloads};
use fsarena_report::{compare::compare_samples, import, scaling};
use std::{io, path::Path};

/// Parses published figures, and checks that all are finite.
pub fn fuzz_published(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some(sets) = check_error(published::parse_published("study", text, &Default::default()), bytes) {
        assert!(sets.iter().flat_map(|set| &set.figures).all(|figure| figure.value.is_finite()));
    }
}

/// Parses a loadfile, and decodes its compact form, which every cell reads.
pub fn fuzz_loadfile(bytes: &[u8]) {
    let path = support::write_file("loadfile", bytes);
    if let Some(program) = check_error(loadfile::load(&path), bytes) {
        let encoded = program.encode();
        let decoded = LoadProgram::decode(&encoded).expect("an encoded load can be decoded");
        assert_eq!(decoded.encode(), encoded);
    }
    check_error(LoadProgram::decode(bytes), bytes);
}

/// Parses the input as the output of fio and of sysbench, and checks that all figures are finite.
pub fn fuzz_tool_output(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let place = Place { root: support::temp_path(""), source_dir: support::temp_path(""), server_user: None };
    for name in ["fio", "sysbench"] {
        let workload = workloads::find_workload(name).expect("a workload");
        let job = Job { settings: Settings::defaults(workload.def().settings), scale: Scale::Tiny, seed: 1 };
        let tasks = workload.tasks(&job, &place).expect("tasks");
        let parse = tasks.into_iter().flat_map(|task| task.work).find_map(|action| match action {
            Action::RunAndParse(_, parse) => Some(parse),
            _ => None,
        });
        let parse = parse.expect("a task that parses the output of a program");
        if let Some(output) = check_error(parse(text), bytes) {
            assert!(output.readings.0.values().all(|value| value.is_finite()), "{output:?}");
        }
    }
}

/// Imports figures in a format, or with `None` in the format that the importer detects, and checks that all are finite.
pub fn fuzz_import(bytes: &[u8], format: Option<&str>) {
    let Some(samples) = check_error(import::parse("a file", bytes, format), bytes) else { return };
    let mut values = samples.series.iter().flat_map(|series| &series.values);
    assert!(values.clone().next().is_some() && values.all(|value| value.is_finite()));
    for mean in samples.series.iter().flat_map(|series| &series.rounds).flat_map(|rounds| rounds.values()) {
        assert!(mean.is_finite(), "the mean of a round");
    }
    let _ = compare_samples(&samples, &samples, None, 0.01);
}

/// Reads a file of scaling curves, and checks that all numbers are finite or NaN.
pub fn fuzz_curves(bytes: &[u8]) {
    let Some(curves) = check_error(scaling::file::read_curves("curves.csv", bytes), bytes) else { return };
    for curve in curves.series {
        // NaN is allowed: it stands for a round without a figure.
        assert!(!curve.n.iter().chain(curve.x.iter().flatten()).any(|number| number.is_infinite()));
    }
}

/// The beginnings of options whose values would run a program, load code, or read a trace.
const FORBIDDEN_PREFIXES: [&str; 6] = ["exec_", "read_iolog", "opendir", "ioscheduler", "profile", "cgroup"];
/// The beginnings of options whose values are names of files.
const FILE_PREFIXES: [&str; 6] = ["filename", "directory", "write_bw", "write_lat", "write_iops", "write_hist"];

/// Reads the input as a job file of fio, with every variable set. The input can include `include.fio`, which contains the first
/// line of the input. The text that fsarena passes to fio must be accepted again without a change, and must name no file
/// outside of the working directory.
pub fn fuzz_fio_job_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = looks_like_job_file(text);
    let first_line = text.lines().next().unwrap_or_default().to_string();
    let read = |path: &Path| match path.ends_with("include.fio") {
        true => Ok(first_line.clone()),
        false => Err(io::ErrorKind::NotFound.into()),
    };
    let variable = |name: &str| Some(if name.starts_with('$') { "4".into() } else { name.to_string() });
    let environment = JobFileEnvironment { read_file: &read, look_up_variable: &variable };
    let parsed = JobFile::parse_with_includes(Path::new("a.fio"), text, &environment);
    let Some(file) = check_error(parsed, bytes) else { return };
    let rewritten = file.text();
    assert_eq!(JobFile::parse("a.fio", &rewritten).expect("an accepted job file is accepted again").text(), rewritten);
    for line in rewritten.lines() {
        // fio reads lines of up to 4096 bytes.
        assert!(line.len() < 4095 && !line.contains("${") && !line.contains([';', '#']), "{line:?}");
        if line.starts_with('[') {
            assert!(!line.contains('/') || line.starts_with("[global"), "{line:?}");
            continue;
        }
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        assert!(!FORBIDDEN_PREFIXES.iter().any(|prefix| name.starts_with(prefix)), "{line:?}");
        if FILE_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
            let leaves_directory = |path: &str| path.starts_with('/') || path.split('/').any(|part| part == "..");
            assert!(!value.split(':').any(|path| leaves_directory(path.trim())), "{line:?}");
        }
        assert!(name != "ioengine" || !value.contains([':', '/']), "{line:?}");
    }
    for job in file.jobs() {
        let _ = (check_error(job.file_needs(), bytes), job.durability_options(), job.main_options());
    }
}
