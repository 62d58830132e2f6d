//! Target for fio's job files.

use crate::support::assert_sensible;
use fsarena_load::fio::{JobFile, Surroundings, looks_like_job_file};
use std::{io, path::Path};

/// Options whose values would run a program, load code, or read a trace.
const FORBIDDEN: [&str; 6] = ["exec_", "read_iolog", "opendir", "ioscheduler", "profile", "cgroup"];
/// The beginnings of options whose values are names of files.
const OF_FILES: [&str; 6] = ["filename", "directory", "write_bw", "write_lat", "write_iops", "write_hist"];

/// Reads the input as a job file that includes itself once, with every variable set. What is accepted must read back equal,
/// line by line as fio reads lines, and must name no file outside of the working directory.
pub fn job_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = looks_like_job_file(text);
    let first_line = text.lines().next().unwrap_or_default().to_string();
    let read = |path: &Path| match path.ends_with("include.fio") {
        true => Ok(first_line.clone()),
        false => Err(io::ErrorKind::NotFound.into()),
    };
    let variable = |name: &str| Some(if name.starts_with('$') { "4".into() } else { name.to_string() });
    let around = Surroundings { read: &read, variable: &variable };
    let file = match JobFile::read(Path::new("a.fio"), text, &around) {
        Ok(file) => file,
        Err(error) => return assert_sensible(&error, bytes),
    };
    let plain = file.text();
    assert_eq!(JobFile::parse("a.fio", &plain).expect("what is accepted is accepted again").text(), plain);
    for line in plain.lines() {
        // fio reads lines of up to 4096 bytes.
        assert!(line.len() < 4095 && !line.contains("${") && !line.contains([';', '#']), "{line:?}");
        if line.starts_with('[') {
            assert!(!line.contains('/') || line.starts_with("[global"), "{line:?}");
            continue;
        }
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        assert!(!FORBIDDEN.iter().any(|forbidden| name.starts_with(forbidden)), "{line:?}");
        if OF_FILES.iter().any(|files| name.starts_with(files)) {
            let leaves = |path: &str| path.starts_with('/') || path.split('/').any(|part| part == "..");
            assert!(!value.split(':').any(|path| leaves(path.trim())), "{line:?}");
        }
        assert!(name != "ioengine" || !value.contains([':', '/']), "{line:?}");
    }
    for job in file.jobs() {
        let _ =
            (job.files().map_err(|error| assert_sensible(&error, bytes)), job.durability(), job.summary());
    }
}
