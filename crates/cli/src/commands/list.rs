//! `fsarena list`: prints the names that other commands accept, from the registries and from a directory of runs.

use crate::failure::{CommandResult, Failure};
use crate::flags::{ExplicitFlags, ListFormat, RunsDir};
use crate::output;
use clap::ValueEnum;
use fsarena_core::sample::{Direction, Fold, ReadingDef, Unit};
use fsarena_core::study::{APPS, App, STUDIES, Study};
use fsarena_core::{metric::METRICS, plan::file::PlanFile, row::Row, setting::SettingValue};
use fsarena_fs::available::{Availability, install_command, survey};
use fsarena_fs::{def::OptionSet, filesystems::FILESYSTEMS};
use fsarena_guest::debian::{self, DebianKernel};
use fsarena_guest::kernel::{DEBIAN, KernelDirs};
use fsarena_load::workloads::WORKLOADS;
use fsarena_report::exporters;
use fsarena_run::baseline::{self, Baseline};
use fsarena_run::{axes, preflight::guests, registry};
use fsarena_store::RunSummary;
use fsarena_sys::{kernel::SysRoot, program};
use serde::Serialize;
use std::{collections::BTreeMap, path::Path};

/// List studies, applications, filesystems, workloads, metrics, factors, guest kernels, exporters, runs or baselines
#[derive(Debug, clap::Args)]
pub struct Args {
    // Must be the first field: clap removes each argument when it reads it into a field.
    #[command(flatten)]
    explicit_flags: ExplicitFlags,
    /// What to list
    #[arg(id = "what", value_name = "WHAT", value_enum)]
    kind: ListKind,
    /// Format on standard output
    #[arg(long, value_enum, default_value = "term")]
    format: ListFormat,
    #[command(flatten)]
    runs: RunsDir,
}

/// What the command lists.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ListKind {
    /// Studies, with their published figures
    Studies,
    /// Plans of applications, to run or to start your own from
    Apps,
    /// Filesystems, their option sets, and their support on this machine
    Filesystems,
    /// Workloads and their settings
    Workloads,
    /// Metrics, and the raw readings that they come from
    Metrics,
    /// Factors: what a plan can vary
    Factors,
    /// Kernels for guests: those that Debian's suites have, and those at hand
    Kernels,
    /// Report formats
    Exporters,
    /// Stored runs, newest first
    Runs,
    /// Saved baselines
    Baselines,
}

/// Prints the rows of what the user chose.
pub fn run(args: Args) -> CommandResult {
    match args.kind {
        ListKind::Studies => output::print_rows(&studies()?, args.format),
        ListKind::Apps => output::print_rows(&apps()?, args.format),
        ListKind::Filesystems => output::print_rows(&filesystems()?, args.format),
        ListKind::Workloads => output::print_rows(&workloads(), args.format),
        ListKind::Metrics => output::print_rows(&metrics(), args.format),
        ListKind::Factors => output::print_rows(&axes::all_factors(), args.format),
        ListKind::Kernels => output::print_rows(&kernels()?, args.format),
        ListKind::Exporters => output::print_rows(&exporters::exporter_rows(), args.format),
        ListKind::Runs => {
            let runs_dir = &args.runs.dir;
            if args.explicit_flags.first_explicit(["runs"]).is_some() {
                runs_dir.metadata().map_err(Failure::for_path(runs_dir))?;
            }
            output::print_rows(&runs(runs_dir)?, args.format)
        }
        ListKind::Baselines => output::print_rows(&baselines(&args.runs.dir)?, args.format),
    }
}

/// A saved baseline.
#[derive(Debug, Serialize)]
pub struct BaselineRow {
    baseline: String,
    variant: String,
    kernel: Option<String>,
    measured: String,
    run: String,
}

impl Row for BaselineRow {
    const COLUMNS: &'static [&'static str] = &["baseline", "variant", "kernel", "measured", "run"];
}

/// Returns the baselines in a directory of runs, by name.
///
/// # Errors
/// A damaged file.
pub fn baselines(runs_dir: &Path) -> Result<Vec<BaselineRow>, Failure> {
    let row = |name: &String| {
        let Baseline { name, variant, kernel_release: kernel, measured_at: measured, run, .. } =
            Baseline::open(runs_dir, name)?;
        Ok(BaselineRow { baseline: name, variant: variant.name, kernel, measured, run })
    };
    baseline::baseline_names(runs_dir).iter().map(row).collect()
}

/// A study, with its published figures.
#[derive(Debug, Serialize)]
pub struct StudyRow {
    study: &'static str,
    question: String,
    published: Vec<String>,
    source: &'static str,
}

impl Row for StudyRow {
    const COLUMNS: &'static [&'static str] = &["study", "question", "published: PUBLISHED FIGURES", "source"];
}

/// Returns the studies.
///
/// # Errors
/// A fault in a plan or in figures that ship with fsarena.
pub fn studies() -> Result<Vec<StudyRow>, Failure> {
    let row = |study: &Study| {
        let published = study.published_sets()?;
        Ok(StudyRow {
            study: study.name,
            question: study.parse_plan()?.file.question,
            published: published.iter().map(|set| format!("published:{}", set.name())).collect(),
            source: study.source,
        })
    };
    STUDIES.iter().map(row).collect()
}

/// The plan of an application.
#[derive(Debug, Serialize)]
pub struct AppRow {
    app: &'static str,
    title: String,
    question: String,
}

impl Row for AppRow {
    const COLUMNS: &'static [&'static str] = &["app: APPLICATION", "title", "question"];
}

/// Returns the plans of applications.
///
/// # Errors
/// A fault in a plan that ships with fsarena.
pub fn apps() -> Result<Vec<AppRow>, Failure> {
    let row = |app: &App| {
        let plan = PlanFile::parse(app.name, app.plan_toml.as_bytes())?.file;
        Ok(AppRow { app: app.name, title: plan.title, question: plan.question })
    };
    APPS.iter().map(row).collect()
}

/// A filesystem, its option sets, and its support on this machine.
#[derive(Debug, Serialize)]
pub struct FilesystemRow {
    filesystem: &'static str,
    title: &'static str,
    /// Whether this kernel can mount it.
    #[serde(rename = "kernel")]
    is_mountable: bool,
    /// The path of its mkfs; None if that is not installed, or if it needs none.
    mkfs: Option<String>,
    packages: Vec<&'static str>,
    /// The command that installs mkfs, or that none is needed.
    #[serde(skip)]
    install_command: String,
    option_sets: &'static [OptionSet],
}

impl Row for FilesystemRow {
    const COLUMNS: &'static [&'static str] = &["filesystem", "kernel", "mkfs", "option_sets", "title"];

    fn table_text(&self, field: &str) -> Option<String> {
        match field {
            "mkfs" => match &self.mkfs {
                None => Some(self.install_command.clone()),
                // Its path is long, and only guests use it.
                Some(path) if program::is_fetched(Path::new(path)) => Some("in the cache, for guests".into()),
                Some(_) => None,
            },
            "option_sets" => Some(self.option_sets.iter().map(|set| set.id).collect::<Vec<_>>().join(" ")),
            _ => None,
        }
    }
}

/// The text that the list shows instead of a mkfs, for a filesystem that needs none.
const NO_MKFS: &str = "not needed";

/// Returns the filesystems.
///
/// # Errors
/// If the kernel's list of filesystems cannot be read.
pub fn filesystems() -> Result<Vec<FilesystemRow>, Failure> {
    let row = |fs: Availability| FilesystemRow {
        filesystem: fs.def.id,
        title: fs.def.title,
        is_mountable: fs.is_mountable,
        mkfs: fs.mkfs.map(|path| path.display().to_string()),
        packages: fs.def.packages.to_vec(),
        install_command: if fs.def.mkfs.is_empty() { NO_MKFS.into() } else { install_command([fs.def]) },
        option_sets: fs.def.option_sets,
    };
    Ok(survey(&SysRoot::host())?.into_iter().map(row).collect())
}

/// Returns the filesystem of that name; None if fsarena does not support it.
///
/// # Errors
/// If the kernel's list of filesystems cannot be read.
pub fn filesystem(name: &str) -> Result<Option<FilesystemRow>, Failure> {
    Ok(filesystems()?.into_iter().find(|row| row.filesystem == name))
}

impl FilesystemRow {
    /// The lines above the table of its option sets: its name, its mkfs and support by this kernel, and how to compare its
    /// option sets.
    pub fn introduction(&self) -> String {
        let mkfs = format!("mkfs: {}", self.mkfs.as_ref().unwrap_or(&self.install_command));
        let kernel = if self.is_mountable { "this kernel mounts it" } else { "this kernel cannot mount it" };
        let name = self.filesystem;
        format!(
            "{}\n{mkfs}; {kernel}\n\nCompare its option sets: --fs {name} --options default,noatime\nor one beside other \
             filesystems: --variant {name},options=noatime --variant xfs\n",
            self.title
        )
    }

    /// Its option sets as rows.
    pub fn option_sets(&self) -> &'static [OptionSet] {
        self.option_sets
    }
}

/// A workload, or one of its settings.
#[derive(Debug, Serialize)]
pub struct WorkloadRow {
    workload: &'static str,
    setting: &'static str,
    accepts: String,
    default: String,
    help: String,
}

impl Row for WorkloadRow {
    const COLUMNS: &'static [&'static str] = &["workload", "setting", "accepts", "default", "help"];

    /// Shortens a long list to its ends: `1,2,…,21`.
    fn table_text(&self, field: &str) -> Option<String> {
        let values: Vec<&str> = self.default.split(',').collect();
        match values.as_slice() {
            [first, second, .., last] if field == "default" && self.default.len() > 24 => {
                Some(format!("{first},{second},…,{last}"))
            }
            _ => None,
        }
    }
}

/// Returns each workload, followed by its settings.
pub fn workloads() -> Vec<WorkloadRow> {
    let mut rows = Vec::new();
    for workload in WORKLOADS {
        let def = workload.def();
        let row = |setting, accepts, default, help| WorkloadRow { workload: def.id, setting, accepts, default, help };
        let help = format!("{}; main metrics: {}", def.help, def.metrics.join(", "));
        rows.push(row("", String::new(), String::new(), help));
        rows.extend(def.settings.iter().map(|setting| {
            let default = SettingValue::from(setting.default).to_string();
            row(setting.id, setting.kind.to_string(), default, setting.help.into())
        }));
    }
    rows
}

/// A metric, or a raw reading that metrics come from.
#[derive(Debug, Serialize)]
pub struct MetricRow {
    metric: &'static str,
    kind: &'static str,
    unit: Unit,
    better: Direction,
    over_tasks: Fold,
    over_ranks: Fold,
    over_hosts: Fold,
    help: &'static str,
}

impl Row for MetricRow {
    const COLUMNS: &'static [&'static str] = &["metric", "kind", "unit", "better", "over_tasks", "help"];

    fn table_text(&self, field: &str) -> Option<String> {
        match field {
            "unit" => Some(self.unit.suffix().into()),
            "better" if self.better == Direction::Neutral => Some("-".into()),
            _ => None,
        }
    }
}

/// Returns the metrics, then the readings.
pub fn metrics() -> Vec<MetricRow> {
    let row = |kind, ReadingDef { id, unit, direction, over, help, .. }: ReadingDef| MetricRow {
        metric: id,
        kind,
        unit,
        better: direction,
        over_tasks: over.tasks,
        over_ranks: over.ranks,
        over_hosts: over.hosts,
        help,
    };
    let derived = METRICS.iter().map(|def| row("derived", def.spec));
    derived.chain(registry::reading_defs().map(|def| row("reading", def))).collect()
}

/// A kernel that a guest can boot.
#[derive(Debug, Serialize)]
pub struct KernelRow {
    kernel: String,
    release: String,
    suite: String,
    /// How this machine has it: `installed`, `cached`, or empty if it does not.
    #[serde(rename = "here")]
    presence: &'static str,
    /// The filesystems whose modules fsarena has compiled for it.
    compiled: Vec<&'static str>,
}

impl Row for KernelRow {
    const COLUMNS: &'static [&'static str] = &["kernel", "release", "suite", "here", "compiled"];

    fn table_text(&self, field: &str) -> Option<String> {
        (field == "compiled").then(|| self.compiled.join(" "))
    }
}

/// Returns the kernels that are at hand, and the newest of each series in Debian's suites; the oldest first. Fetches the
/// lists of the suites if those in the cache are a day old; if that fails, the reason goes to standard error.
///
/// # Errors
/// apt's lists are damaged.
pub fn kernels() -> Result<Vec<KernelRow>, Failure> {
    let kernel_dirs = KernelDirs::of_this_machine(None);
    let in_suites = suite_kernels(&kernel_dirs)?;
    let at_hand = kernel_dirs.releases();
    let compiled: Vec<(&'static str, Vec<String>)> = FILESYSTEMS
        .iter()
        .filter(|def| def.module_source.is_some())
        .map(|def| (def.id, kernel_dirs.releases_with(|modules| guests::modules_support(modules, def))))
        .collect();
    let suite_releases: Vec<&str> = in_suites.iter().map(|kernel| kernel.release.as_str()).collect();
    let newest = newest_of_series(&suite_releases).into_iter().map(String::from);
    let releases = debian::sort_releases(at_hand.iter().cloned().chain(newest));
    let mut rows = vec![];
    for release in releases {
        let package = in_suites.iter().find(|kernel| kernel.release == release);
        rows.push(KernelRow {
            kernel: format!("{DEBIAN}:{}", shortest_version(&release, &at_hand, &suite_releases)),
            suite: package.map(|kernel| kernel.package.suite.clone()).unwrap_or_default(),
            presence: match (at_hand.contains(&release), kernel_dirs.is_installed(&release)) {
                (_, true) => "installed",
                (true, false) => "cached",
                (false, false) => "",
            },
            compiled: compiled.iter().filter(|(_, releases)| releases.contains(&release)).map(|(id, _)| *id).collect(),
            release,
        });
    }
    Ok(rows)
}

/// The kernels of Debian's suites, the oldest first; none on a machine without apt.
pub fn suite_kernels(kernel_dirs: &KernelDirs) -> Result<Vec<DebianKernel>, Failure> {
    if let Err(error) = kernel_dirs.apt_dirs.refresh(&mut |_| {}) {
        let message = "The package lists of Debian could not be fetched, so kernels may be missing";
        crate::failure::print_message(&format!("{message}: {error}"));
    }
    if program::find("apt-cache").is_none() {
        return Ok(vec![]);
    }
    Ok(debian::list_kernels(&kernel_dirs.apt_dirs, &mut |_| {})?)
}

/// The newest release of each series. Leaves out cloud kernels, which lack most filesystems. `releases` begin with the oldest.
pub fn newest_of_series<'a>(releases: &[&'a str]) -> Vec<&'a str> {
    let mut newest: BTreeMap<String, &str> = BTreeMap::new();
    for release in releases.iter().copied().filter(|release| debian::flavour_of(release).is_none()) {
        newest.insert(debian::series_of(release), release);
    }
    newest.into_values().collect()
}

/// The shortest version that selects a release: its series (`6.12`) if that selects this release, else the release itself. A
/// series selects the newest release at hand, or if none is at hand, the newest one in the suites. Both lists begin with the
/// oldest.
fn shortest_version(release: &str, at_hand: &[String], in_suites: &[&str]) -> String {
    let series = debian::series_of(release);
    let is_in_series = |other: &&str| debian::series_of(other) == series;
    let newest_at_hand = at_hand.iter().map(String::as_str).rfind(is_in_series);
    let selected = newest_at_hand.or_else(|| in_suites.iter().copied().rfind(is_in_series));
    if selected == Some(release) { series } else { release.into() }
}

/// A stored run.
#[derive(Debug, Serialize)]
pub struct RunRow {
    run: String,
    study: String,
    started: String,
    status: String,
    variants: Vec<String>,
}

impl Row for RunRow {
    const COLUMNS: &'static [&'static str] = &["run", "study", "started", "status", "variants"];

    /// Formats the start to the second: `2026-11-21 20:15:04Z`. A run that cannot be read has no start.
    fn table_text(&self, field: &str) -> Option<String> {
        let seconds = self.started.get(.."2026-11-21T20:15:04".len()).filter(|_| field == "started")?;
        Some(seconds.replace('T', " ") + "Z")
    }
}

/// Returns the runs of a directory, newest first.
///
/// # Errors
/// If the directory cannot be read.
pub fn runs(runs_dir: &Path) -> Result<Vec<RunRow>, Failure> {
    let row = |run: RunSummary| RunRow {
        run: run.id,
        study: run.study,
        started: run.started,
        status: run.status.why,
        variants: run.variants,
    };
    Ok(fsarena_store::list_runs(runs_dir)?.into_iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_its_start_to_the_second_and_a_damaged_run_has_none() {
        let start = |started: &str| {
            let (run, study, status) = Default::default();
            RunRow { run, study, started: started.into(), status, variants: vec![] }.table_text("started")
        };
        for started in ["2026-11-21T20:15:04.789012Z", "2026-11-21T20:15:04Z"] {
            assert_eq!(start(started).as_deref(), Some("2026-11-21 20:15:04Z"));
        }
        assert_eq!(start(""), None);
    }

    #[test]
    fn a_series_names_the_newest_kernel_at_hand_or_else_of_the_suites() {
        let suites = ["6.1.0-49-amd64", "6.1.0-56-amd64", "6.1.0-56-cloud-amd64", "6.12.9+deb13-amd64"];
        assert_eq!(newest_of_series(&suites), ["6.1.0-56-amd64", "6.12.9+deb13-amd64"]);
        let at_hand = ["6.1.0-49-amd64".to_string()];
        let version = |release| shortest_version(release, &at_hand, &suites);
        assert_eq!(version("6.1.0-49-amd64"), "6.1");
        assert_eq!(version("6.1.0-56-amd64"), "6.1.0-56-amd64");
        assert_eq!(version("6.1.0-56-cloud-amd64"), "6.1-cloud");
        assert_eq!(version("6.12.9+deb13-amd64"), "6.12");
    }
}
