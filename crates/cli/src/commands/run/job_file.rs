//! Plans from fio job files: `fsarena run job.fio`.

use super::command_flags::plan_name;
use crate::failure::{Failure, usage_error};
use fsarena_core::exit::ExitCode;
use fsarena_core::plan::file::PlanFile;
use fsarena_load::fio::{self, JobFile, JobFileEnvironment, looks_like_job_file};
use fsarena_sys::{input, kernel::SysRoot};
use std::io::{self, ErrorKind};
use std::path::Path;
use toml::{Table, Value};

/// The extension of job files.
const EXTENSION: &str = "fio";

/// Whether a path on the command line names a job file.
pub fn is_job_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == EXTENSION)
}

/// The text of a plan that runs the jobs of this file. The plan contains the job file with its includes inserted and its
/// variables replaced by their values.
///
/// # Errors
/// A file cannot be read, or a line would leave the filesystem under test. The error has the number of the line.
pub fn plan_text(path: &Path) -> Result<String, Failure> {
    let text = read_text(path).map_err(Failure::for_path(path))?;
    let environment = JobFileEnvironment { read_file: &read_text, look_up_variable: &fio_variable };
    let job_file = JobFile::parse_with_includes(path, &text, &environment).map_err(|error| {
        let is_plan = PlanFile::parse("plan", text.as_bytes()).is_ok();
        let hint = if is_plan { "; this is a plan of fsarena: rename it to .toml" } else { "" };
        Failure::new(ExitCode::Usage, format!("{error}{hint}"))
    })?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let workload = Table::from_iter([
        ("use".into(), "fio-job".into()),
        ("file".into(), name.clone().into()),
        ("job".into(), job_file.text().into()),
    ]);
    let plan = Table::from_iter([
        ("name".into(), plan_name_of_file(path).into()),
        ("title".into(), format!("fio job file {name}").into()),
        ("question".into(), format!("Which variant is fastest at the jobs of {name}?").into()),
        ("workload".into(), vec![Value::Table(workload)].into()),
    ]);
    Ok(plan.to_string())
}

/// Refuses a file whose text is a job file, although its name does not end in `.fio`.
pub fn refuse_job_file_without_extension(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if !std::str::from_utf8(bytes).is_ok_and(looks_like_job_file) {
        return Ok(());
    }
    let (path, renamed) = (path.display().to_string(), path.with_extension(EXTENSION).display().to_string());
    let rename =
        shlex::try_join(["mv", path.as_str(), renamed.as_str()]).unwrap_or_else(|_| format!("mv {path} {renamed}"));
    usage_error(format!(
        "{path}: this is a fio job file; rename it, because fsarena runs those that end in .fio: {rename}"
    ))
}

fn read_text(path: &Path) -> io::Result<String> {
    let bytes = input::read(path, fio::MAX_JOB_FILE_BYTES as u64)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "not UTF-8 text"))
}

/// The value of an environment variable, or of a keyword of fio on this machine.
fn fio_variable(name: &str) -> Option<String> {
    match name {
        "$pagesize" => Some(rustix::param::page_size().to_string()),
        "$ncpus" => std::thread::available_parallelism().ok().map(|cpus| cpus.to_string()),
        "$mb_memory" => {
            let meminfo = SysRoot::host().read("proc/meminfo").ok()?;
            let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
            let kib: u64 = total.split_whitespace().next()?.parse().ok()?;
            Some((kib / 1024).to_string())
        }
        // The working directory of fio is the filesystem under test.
        "FSARENA_DIR" => Some(".".into()),
        name => std::env::var(name).ok(),
    }
}

/// The name of the plan: the name of its file without the extension, or `fio-job`.
fn plan_name_of_file(path: &Path) -> &str {
    plan_name(path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default(), "fio-job")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_named_after_its_job_file() {
        // `piszcz` is the name of a shipped plan.
        let names =
            ["jobs/db.fio", "piszcz.fio", "a b.fio", ".fio"].map(|path| plan_name_of_file(Path::new(path)).to_string());
        assert_eq!(names, ["db", "fio-job", "fio-job", "fio-job"]);
    }

    #[test]
    fn the_command_that_renames_a_job_file_is_quoted() {
        let error = refuse_job_file_without_extension(Path::new("a b.job"), b"[job]\nrw=read\n").unwrap_err();
        assert!(error.to_string().ends_with(": mv 'a b.job' 'a b.fio'"), "{error}");
    }

    #[test]
    fn fio_keywords_have_the_values_of_this_machine() {
        for keyword in fio::MACHINE_KEYWORDS {
            assert!(fio_variable(keyword).unwrap().parse::<u64>().unwrap() > 0, "{keyword}");
        }
        assert_eq!(fio_variable("FSARENA_DIR").as_deref(), Some("."));
    }
}
