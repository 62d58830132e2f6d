//! `fsarena verify`: checks a bundle that `fsarena bundle` made.

use crate::commands::{bundle, report};
use crate::failure::{CommandResult, Failure};
use crate::flags::ListFormat;
use crate::{commands::handle_signals, output};
use fsarena_core::exit::ExitCode;
use fsarena_core::number::plural;
use fsarena_report::bundle::{BUNDLE_FORMAT, BundledRun, MANIFEST_FILE, Manifest};
use fsarena_report::recheck::{Difference, find_differences};
use fsarena_run::{ScratchDir, program_build};
use fsarena_store::archive::{self, ArchiveLimits};
use fsarena_store::{RunDir, bundle::check_checksums};
use fsarena_sys::{cancel, input};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Check a bundle: its checksums, and that its figures follow from its data
///
/// fsarena extracts the bundle into a temporary directory (TMPDIR), compares every file with its checksum, analyses the
/// `run.db` of each run again and names every figure of `report.json` that differs. If this is the program that made the
/// bundle, the other reports must also be the same, byte by byte. The exit code is 0 if nothing differs, 3 if something
/// does, 2 if the file is not a bundle, and 5 if it could write elsewhere or fill the disk.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Bundle to check
    #[arg(value_name = "FILE")]
    bundle: PathBuf,
    /// Format on standard output
    #[arg(long, value_enum, default_value = "term")]
    format: ListFormat,
}

/// The largest `report.json` or manifest, in bytes.
const MAX_JSON_BYTES: u64 = 256 << 20;
/// The parts of `report.json` without which it would have no figures that could be wrong.
const ESSENTIAL_KEYS: [&str; 4] = ["variants", "analyses", "claims", "decision"];
/// The largest number of differences that the terminal shows for a run.
const MAX_SHOWN_DIFFERENCES: usize = 20;

/// Checks the bundle and prints what differs.
pub fn run(args: Args) -> CommandResult {
    handle_signals()?;
    let scratch = ScratchDir::make(&std::env::temp_dir(), "fsarena-verify")?;
    let extract_dir = scratch.dir().join("bundle");
    std::fs::create_dir(&extract_dir).map_err(Failure::for_path(&extract_dir))?;
    let files = archive::extract(&args.bundle, &extract_dir, ArchiveLimits::BUNDLE)?;
    let bundle = Bundle::open(&args.bundle, &extract_dir, &files)?;
    let checked = bundle.check(&scratch.dir().join("again"))?;
    scratch.remove()?;
    match args.format {
        ListFormat::Json => output::print_json(&checked.json(&bundle))?,
        ListFormat::Term => output::print_text(checked.text(&bundle))?,
    };
    Ok(if checked.is_sound() { ExitCode::Done } else { ExitCode::Refuted })
}

/// An extracted bundle.
struct Bundle<'a> {
    /// The archive, for messages.
    archive: &'a Path,
    /// The directory of the extracted files.
    dir: PathBuf,
    /// The names of the files in that directory.
    files: BTreeSet<&'a str>,
    manifest: Manifest,
    /// Whether this program made the bundle.
    is_same_build: bool,
}

/// The result of checking a bundle: everything that contradicts it.
struct BundleCheck {
    /// The files that contradict the checksums, a line each.
    checksums: Vec<String>,
    /// For each run its id, and the differences of its reports.
    runs: Vec<(String, Vec<Difference>)>,
}

impl<'a> Bundle<'a> {
    /// Reads the manifest of a bundle whose files were extracted into a directory.
    ///
    /// # Errors
    /// An archive that is not a bundle, or that a newer fsarena made.
    fn open(archive: &'a Path, extract_dir: &Path, files: &'a [String]) -> Result<Bundle<'a>, Failure> {
        let not_a_bundle =
            |why: &str| Failure::new(ExitCode::Usage, format!("{}: not a bundle of fsarena: {why}", archive.display()));
        let root = files.first().and_then(|name| name.split_once('/')).map(|(root, _)| root);
        let root = root.ok_or_else(|| not_a_bundle("it has no directory"))?;
        let names = files.iter().map(|name| name.strip_prefix(root).and_then(|name| name.strip_prefix('/')));
        let files: Option<BTreeSet<&str>> = names.collect();
        let files = files.ok_or_else(|| not_a_bundle("it has several directories"))?;
        let dir = extract_dir.join(root);
        let text = input::read(&dir.join(MANIFEST_FILE), MAX_JSON_BYTES)
            .map_err(|_| not_a_bundle(&format!("it has no {MANIFEST_FILE}")))?;
        let manifest: Value = serde_json::from_slice(&text).map_err(|error| not_a_bundle(&error.to_string()))?;
        if manifest["format"].as_u64().is_some_and(|format| format > u64::from(BUNDLE_FORMAT)) {
            let message = format!(
                "{}: made by a newer fsarena (bundle format {}, this one reads {BUNDLE_FORMAT}); use that version",
                archive.display(),
                manifest["format"]
            );
            return Err(Failure::new(ExitCode::Usage, message));
        }
        let manifest: Manifest =
            serde_json::from_value(manifest).map_err(|error| not_a_bundle(&format!("{MANIFEST_FILE}: {error}")))?;
        if manifest.runs.is_empty() {
            return Err(not_a_bundle("it has no run"));
        }
        let is_same_build = manifest.fsarena_build == program_build()?;
        Ok(Bundle { archive, dir, files, manifest, is_same_build })
    }

    /// Compares the files with their checksums, and the reports with those that this program makes of the
    /// data, below `recomputed_dir`.
    fn check(&self, recomputed_dir: &Path) -> Result<BundleCheck, Failure> {
        let checksums = check_checksums(&self.dir)?;
        let mut runs = vec![];
        for run in &self.manifest.runs {
            cancel::check()?;
            let differences = match self.check_run(run, &recomputed_dir.join(runs.len().to_string())) {
                // A changed file explains why the run cannot be read.
                Err(failure) if !checksums.is_empty() => {
                    vec![difference("the run", "can be read", &failure.to_string())]
                }
                checked => checked?,
            };
            runs.push((run.id.clone(), differences));
        }
        let is_listed =
            |name: &&&str| self.manifest.runs.iter().any(|run| **name == format!("{}/run.db", run.directory));
        for name in self.files.iter().filter(|name| name.ends_with("/run.db") && !is_listed(name)) {
            runs.push((name.to_string(), vec![difference("the run", &format!("not in {MANIFEST_FILE}"), "present")]));
        }
        Ok(BundleCheck { checksums, runs })
    }

    /// Compares the reports of a run in the bundle with the reports that its data give.
    fn check_run(&self, run: &BundledRun, recomputed_dir: &Path) -> Result<Vec<Difference>, Failure> {
        let path_in_bundle = |name: &str| format!("{}/{name}", run.directory);
        // The manifest comes from elsewhere: only what the archive has may be read.
        for name in ["run.db", "plan.toml", "report.json"] {
            if !self.files.contains(path_in_bundle(name).as_str()) {
                return Ok(vec![difference(&path_in_bundle(name), "in the list of runs", "missing")]);
            }
        }
        let dir = self.dir.join(&run.directory);
        let report = bundle::analyse_by_plan(&RunDir::open(&dir)?)?;
        let mut found_differences = vec![];
        if report.record.id != run.id {
            found_differences.push(difference("the id of the run", &run.id, &report.record.id));
        }
        std::fs::create_dir_all(recomputed_dir).map_err(Failure::for_path(recomputed_dir))?;
        report::write_run_dir_reports(&report, recomputed_dir)?;
        let (published, computed) =
            (read_json(&dir.join("report.json"))?, read_json(&recomputed_dir.join("report.json"))?);
        for key in ESSENTIAL_KEYS.into_iter().filter(|key| published.get(key).is_none()) {
            found_differences.push(difference(key, "missing", "a part of every report"));
        }
        found_differences.extend(find_differences(&published, &computed, self.is_same_build));
        if self.is_same_build && found_differences.is_empty() {
            for name in archive::files_below(recomputed_dir)? {
                let [published, computed] = [dir.as_path(), recomputed_dir].map(|dir| std::fs::read(dir.join(&name)));
                if published.ok() != computed.ok() {
                    found_differences.push(difference(&name, "another text", "the text of this program"));
                }
            }
        }
        Ok(found_differences)
    }
}

/// A difference that the comparison of `report.json` does not find. `published` is the state in the bundle.
fn difference(place: &str, published: &str, computed: &str) -> Difference {
    Difference { place: place.into(), published: published.into(), computed: computed.into() }
}

fn read_json(path: &Path) -> Result<Value, Failure> {
    let text = input::read(path, MAX_JSON_BYTES).map_err(Failure::for_path(path))?;
    serde_json::from_slice(&text).map_err(|error| Failure::new(ExitCode::Usage, format!("{}: {error}", path.display())))
}

impl BundleCheck {
    fn is_sound(&self) -> bool {
        self.checksums.is_empty() && self.runs.iter().all(|(_, differences)| differences.is_empty())
    }

    fn json(&self, bundle: &Bundle) -> Value {
        let run = |(id, differences): &(String, Vec<Difference>)| json!({ "run": id, "differences": differences });
        json!({
            "file": bundle.archive.display().to_string(),
            "sound": self.is_sound(),
            "files": bundle.files.len(),
            "fsarena": bundle.manifest.fsarena,
            "fsarena_build": bundle.manifest.fsarena_build,
            "same_build": bundle.is_same_build,
            "checksum_errors": self.checksums,
            "runs": self.runs.iter().map(run).collect::<Vec<_>>(),
        })
    }

    /// The result for people.
    fn text(&self, bundle: &Bundle) -> String {
        let (files, manifest) = (bundle.files.len(), &bundle.manifest);
        let mut lines = vec![format!(
            "{}: {}, {}, made by fsarena {}",
            bundle.archive.display(),
            plural(manifest.runs.len(), "run"),
            plural(files, "file"),
            manifest.fsarena
        )];
        lines.push(match self.checksums.len() {
            0 => "checksums: all match".into(),
            count => format!("checksums: no match for {}", plural(count, "file")),
        });
        lines.extend(self.checksums.iter().map(|line| format!("- {line}")));
        for (id, differences) in &self.runs {
            if differences.is_empty() {
                let verified = if bundle.is_same_build { "every report" } else { "every figure of report.json" };
                lines.push(format!("{id}: {verified} follows from the data"));
                continue;
            }
            lines.push(format!("{id}: {}", plural(differences.len(), "difference")));
            for Difference { place, published, computed } in differences.iter().take(MAX_SHOWN_DIFFERENCES) {
                lines.push(format!("- {place}: {published} in the bundle, {computed} from the data"));
            }
            if differences.len() > MAX_SHOWN_DIFFERENCES {
                lines.push(format!("- and {} more; all: --format json", differences.len() - MAX_SHOWN_DIFFERENCES));
            }
        }
        if !bundle.is_same_build {
            lines.push(format!(
                "Another build of fsarena made this bundle ({}), so the texts of report.html and report.md were not compared.",
                manifest.fsarena_build
            ));
        }
        lines.iter().map(|line| fsarena_core::escape::line(line) + "\n").collect()
    }
}
