//! `fsarena bundle`: packs runs with everything behind their figures into one file to publish.

use crate::commands::report;
use crate::failure::{CommandResult, Failure, usage_error};
use crate::flags::{ListFormat, RunsDir, absolute_path};
use crate::{commands::handle_signals, output};
use bytesize::ByteSize;
use fsarena_core::number::plural;
use fsarena_report::bundle::{MANIFEST_FILE, Manifest, README_FILE, readme, run_directory};
use fsarena_report::report::{Report, ReportOptions};
use fsarena_run::{ScratchDir, program_build, work};
use fsarena_store::{RunDir, archive, bundle};
use fsarena_sys::cancel;
use jiff::Timestamp;
use serde_json::json;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

/// Pack runs with all their data, reports, plans and checksums into one file to publish
///
/// The bundle is a .tar.zst archive with a README that has the command to repeat the runs. The same runs give a bundle with
/// the same bytes. The bundle contains the names, kernels and hardware of the machines, paths, and what commands printed:
/// look through it before you publish it. Others check it with `fsarena verify`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Runs to pack: ids, beginnings of ids, directories, or `latest`
    #[arg(id = "packed", value_name = "RUN", required = true)]
    run_names: Vec<String>,
    /// File to write, such as `paper.tar.zst`
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Format on standard output
    #[arg(long, value_enum, default_value = "term")]
    format: ListFormat,
    #[command(flatten)]
    runs: RunsDir,
}

/// The longest id of a run in a bundle, in characters: ids of fsarena have up to 61.
const MAX_ID_CHARS: usize = 80;

/// Packs the runs.
pub fn run(args: Args) -> CommandResult {
    handle_signals()?;
    let target = absolute_path(&args.output)?;
    let Some(parent) = target.parent().filter(|_| !target.is_dir()) else {
        return usage_error(format!("{} is a directory; name the file: -o FILE.tar.zst", target.display()));
    };
    if !parent.is_dir() {
        return Err(Failure::for_path(parent)(Error::from(ErrorKind::NotFound)));
    }
    let scratch = ScratchDir::make(parent, ".fsarena-bundle")?;
    let reports = pack_runs(&args, scratch.dir())?;
    let manifest = Manifest::new(&reports, env!("CARGO_PKG_VERSION"), &program_build()?);
    let manifest_json = serde_json::to_string_pretty(&manifest).map_err(output::serialization_failure)? + "\n";
    write_file(&scratch.dir().join(MANIFEST_FILE), manifest_json.as_bytes())?;
    write_file(&scratch.dir().join(README_FILE), &readme(&manifest, &reports)?)?;
    bundle::write_checksums(scratch.dir())?;
    let files = archive::files_below(scratch.dir())?.len();
    // The files have the time of the data, because GNU tar warns of files from 1970.
    let started = manifest.runs.iter().filter_map(|run| run.started.parse::<Timestamp>().ok()).max();
    let mtime_s = started.map_or(0, |time| time.as_second().max(0) as u64);
    archive::write(scratch.dir(), &format!("bundle-{}", manifest.runs[0].id), mtime_s, &target)?;
    let size_bytes = target.metadata().map_err(Failure::for_path(&target))?.len();
    scratch.remove()?;
    let ids: Vec<&str> = manifest.runs.iter().map(|run| run.id.as_str()).collect();
    match args.format {
        ListFormat::Json => output::print_json(
            &json!({ "file": target.display().to_string(), "bytes": size_bytes, "files": files, "runs": ids }),
        ),
        ListFormat::Term => output::print_text(format!(
            "{}: {}, {}, {}. Check it: fsarena verify {}\n",
            args.output.display(),
            plural(ids.len(), "run"),
            plural(files, "file"),
            ByteSize(size_bytes),
            args.output.display()
        )),
    }
}

/// Copies the runs into directories below `bundle_dir`, and writes their reports there.
fn pack_runs(args: &Args, bundle_dir: &Path) -> Result<Vec<Report>, Failure> {
    let mut reports: Vec<Report> = vec![];
    for name in &args.run_names {
        cancel::check()?;
        let source = RunDir::find(&args.runs.dir, name)?;
        let id = bundle::stored_id(&source)?;
        check_id(&id, name)?;
        if reports.iter().any(|report| report.record.id == id) {
            return usage_error(format!("{name}: the run {id} is named twice"));
        }
        let run = bundle::copy_run(&source, &bundle_dir.join(run_directory(&id)))?;
        let report = analyse_by_plan(&run)?;
        report::write_run_dir_reports(&report, run.path())?;
        reports.push(report);
    }
    Ok(reports)
}

/// Analyses a run of a bundle by its own plan, and uses nothing of this machine, so that everyone gets the same report.
pub fn analyse_by_plan(run: &RunDir) -> Result<Report, Failure> {
    let record = fsarena_store::read(run)?;
    let options = ReportOptions { metrics: work::default_metrics(&record), ..ReportOptions::default() };
    let mut report = fsarena_report::report::analyse_run(record, options)?;
    report.commands = report::read_commands(run)?;
    Ok(report)
}

/// Refuses an id that cannot be a file name: the database may come from elsewhere. `name` is the run in the message.
fn check_id(id: &str, name: &str) -> Result<(), Failure> {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if !id.is_empty() && id.len() <= MAX_ID_CHARS && id.chars().all(is_allowed) && !id.starts_with('.') {
        return Ok(());
    }
    usage_error(format!("{name}: its id {id:?} is not an id of fsarena"))
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(Failure::for_path(path))
}
