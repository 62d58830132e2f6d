//! The description of a bundle of runs: `bundle.json` for programs and `README.md` for people.

use crate::document::{Document, Part, Table, markdown, row};
use crate::{advice, error::Error, report::Report, sections::decision::Decision};
use fsarena_core::{plan::Backing, record::RunRecord, setting_text::setting};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name of the file with the [`Manifest`].
pub const MANIFEST_FILE: &str = "bundle.json";
/// The name of the file for people.
pub const README_FILE: &str = "README.md";
/// The version of the layout of a bundle. A change that earlier programs cannot read requires a new version.
pub const BUNDLE_FORMAT: u32 = 1;

/// The list of the runs in a bundle, and the program that made it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`BUNDLE_FORMAT`].
    pub format: u32,
    /// The version of the fsarena that made the bundle.
    pub fsarena: String,
    /// The first digits of the BLAKE3 hash of that program, in hexadecimal.
    pub fsarena_build: String,
    /// The command that repeats every run, in the directory of the bundle.
    pub repeat: String,
    /// The runs, in the order in which the user named them.
    pub runs: Vec<BundledRun>,
}

/// A run of a bundle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BundledRun {
    /// The id of the run.
    pub id: String,
    /// The directory of the run, relative to the bundle's.
    pub directory: String,
    /// The version of the fsarena that measured the run.
    pub fsarena: String,
    /// When the run started, RFC 3339.
    pub started: String,
    /// Whether the run finished everything that its plan requires.
    pub complete: bool,
    /// The seed of the order of the variants and of the work.
    pub seed: u64,
    /// The machines, each with its kernel, the versions of its programs, and everything else needed to repeat the run.
    pub machines: Vec<BTreeMap<String, String>>,
}

/// The directory of a run, relative to the directory of its bundle.
pub fn run_directory(id: &str) -> String {
    format!("runs/{id}")
}

impl Manifest {
    /// The manifest of a bundle that a program of this version and build makes of these reports.
    pub fn new(reports: &[Report], version: &str, build: &str) -> Manifest {
        let runs: Vec<BundledRun> = reports.iter().map(|report| bundled_run(&report.record)).collect();
        let directories: Vec<&str> = runs.iter().map(|run| run.directory.as_str()).collect();
        let repeat = advice::repeat_command(&directories);
        Manifest { format: BUNDLE_FORMAT, fsarena: version.into(), fsarena_build: build.into(), repeat, runs }
    }
}

fn bundled_run(record: &RunRecord) -> BundledRun {
    let machine_facts = |host: &fsarena_core::host::Host| {
        let mut facts = host.facts.clone();
        facts.insert("hostname".into(), host.hostname.clone());
        facts.insert("kernel".into(), host.kernel.clone());
        facts
    };
    BundledRun {
        id: record.id.clone(),
        directory: run_directory(&record.id),
        fsarena: record.version.clone(),
        started: record.started.clone(),
        complete: record.status.complete,
        seed: record.plan.seed,
        machines: record.hosts.iter().map(machine_facts).collect(),
    }
}

/// The text of `README.md`: the answers, how to repeat and check them, the files, and the versions. Empty without reports.
///
/// # Errors
/// Never in practice: the text is written to memory.
pub fn readme(manifest: &Manifest, reports: &[Report]) -> Result<Vec<u8>, Error> {
    let mut document = Document::default();
    let [first, others @ ..] = reports else { return Ok(vec![]) };
    let title = match others {
        [] => run_title(&first.record),
        _ => format!("{} runs of fsarena", reports.len()),
    };
    document.heading(1, title);
    for report in reports {
        if !others.is_empty() {
            document.heading(2, run_title(&report.record));
        }
        add_answer(&mut document, report);
    }
    document.heading(2, "Repeat it");
    document.parts.push(Part::Code("", manifest.repeat.clone()));
    let seeds: Vec<String> = manifest.runs.iter().map(|run| run.seed.to_string()).collect();
    document.text(format!(
        "This does the same work with the same seed ({}) on the same kind of device. It needs fsarena {}, and the programs \
         under Versions. A plan names no device to erase: add {} with yours.",
        seeds.join(", "),
        manifest.fsarena,
        setting("erase", "")
    ));
    document.heading(2, "Check it");
    document.parts.push(Part::Code("", advice::VERIFY_COMMAND.into()));
    document.text(
        "This compares every file with its checksum, analyses the raw data of each run again, and names every figure of \
         the reports that the data contradict. Without fsarena: sha256sum -c SHA256SUMS.",
    );
    document.heading(2, "Files");
    document
        .table(Table::of_words(["file", "content"]).with_rows(BUNDLE_FILES.map(|(file, content)| row![file, content])));
    document.heading(2, "Versions");
    for run in &manifest.runs {
        for machine in &run.machines {
            let name = machine.get("hostname").map_or("", String::as_str);
            document.heading(3, format!("{} on {name}", run.id));
            let fsarena_version = [("fsarena".to_string(), run.fsarena.clone())];
            let rows = fsarena_version.into_iter().chain(machine.clone());
            document.table(Table::of_pairs(["version or fact", ""], rows));
        }
    }
    document.text(format!("fsarena {} (build {}) made this bundle.", manifest.fsarena, manifest.fsarena_build));
    let mut text = vec![];
    markdown::write_markdown(&document, None, &mut text)?;
    Ok(text)
}

/// The files of a bundle, and the content of each.
const BUNDLE_FILES: [(&str, &str); 10] = [
    ("SHA256SUMS", "checksums of all other files"),
    (MANIFEST_FILE, "the runs, their seeds and machines, and the program that made the bundle"),
    ("runs/ID/report.html, report.md", "the report of a run, for people"),
    ("runs/ID/report.json", "the same for programs"),
    ("runs/ID/samples.csv, series.csv", "all samples; the time series of loads"),
    ("runs/ID/plan.toml", "the plan that repeats the run, with its seed"),
    ("runs/ID/run.db", "every reading as SQLite, with the views samples_tidy and comparisons"),
    ("runs/ID/command.log", "every command that fsarena ran, and how it ended"),
    ("runs/ID/events.jsonl", "what happened when"),
    ("runs/ID/output", "what the user's commands printed"),
];

fn run_title(record: &RunRecord) -> String {
    let plan = &record.plan;
    if plan.title.is_empty() { plan.name.clone() } else { format!("{}: {}", plan.name, plan.title) }
}

/// Adds the question of a run and the headline of its answer.
fn add_answer(document: &mut Document, report: &Report) {
    let record = &report.record;
    document.text(&record.plan.question);
    let decision = Decision::new(report).map(|decision| decision.to_json());
    document.text(decision.as_ref().and_then(|json| json["headline"].as_str()).unwrap_or_default());
    if !record.status.complete {
        document.warning(format!("NOT COMPLETE: {}", record.status.why));
    }
    if matches!(record.plan.device.backing, Backing::Erase { .. }) {
        document.text("The filesystems were on a block device that was erased.");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{ReportOptions, analyse_run};
    use fsarena_core::host::Host;

    fn report(id: &str, seed: u64) -> Report {
        let facts = [("version of mkfs.xfs".to_string(), "6.1.0".to_string())].into();
        let host = Host { hostname: "bench".into(), boot_id: "b".into(), kernel: "6.18".into(), facts };
        let mut record =
            RunRecord { id: id.into(), version: "0.1.0".into(), hosts: vec![host], ..RunRecord::default() };
        (record.plan.name, record.plan.title, record.plan.seed) = ("mail".into(), "<b>Mail".into(), seed);
        analyse_run(record, ReportOptions::default()).unwrap()
    }

    #[test]
    fn the_readme_names_the_command_the_seed_and_the_versions() {
        let reports = [report("20260101-000000-mail-2222", 7)];
        let manifest = Manifest::new(&reports, "0.2.0", "0123456789abcdef");
        let text = String::from_utf8(readme(&manifest, &reports).unwrap()).unwrap();
        for part in [
            "# mail: \\<b\\>Mail",
            "fsarena run runs/20260101-000000-mail-2222/plan.toml",
            "same seed (7)",
            "6.1.0",
            "6.18",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn one_command_repeats_several_runs() {
        let reports = [report("a", 1), report("b", 2)];
        let manifest = Manifest::new(&reports, "0.2.0", "0");
        assert!(manifest.repeat.starts_with("for plan in runs/*/plan.toml"));
        let text = String::from_utf8(readme(&manifest, &reports).unwrap()).unwrap();
        assert!(text.starts_with("# 2 runs of fsarena\n") && text.contains("same seed (1, 2)"), "{text}");
    }
}
