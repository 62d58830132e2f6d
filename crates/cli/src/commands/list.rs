//! `fsarena list`: the names that other commands accept.

use crate::failure::{Failure, Outcome};
use crate::flags::{ListFormat, Runs};
use crate::given::Given;
use crate::output::{self, Row};
use clap::ValueEnum;
use fsarena_core::app::{APPS, App};
use fsarena_core::sample::{Direction, Unit};
use fsarena_core::study::{STUDIES, Study};
use fsarena_core::{factor::FactorDef, metric::METRICS, plan::file::PlanFile, setting::Value};
use fsarena_fs::available::{Availability, survey, to_install};
use fsarena_load::workloads::WORKLOADS;
use fsarena_report::exporters::EXPORTERS;
use fsarena_run::{axes, vocabulary};
use fsarena_store::RunSummary;
use fsarena_sys::kernel::Kernel;
use serde::Serialize;

/// List studies, applications, filesystems, workloads, metrics, factors, exporters or runs
#[derive(Debug, clap::Args)]
pub struct Args {
    // First: reading a flag takes it away.
    #[command(flatten)]
    given: Given,
    /// What to list
    #[arg(value_enum)]
    what: What,
    /// Format on standard output
    #[arg(long, value_enum, default_value = "term")]
    format: ListFormat,
    #[command(flatten)]
    runs: Runs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum What {
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
    /// Report formats
    Exporters,
    /// Stored runs, newest first
    Runs,
}

/// Lists.
pub fn run(args: Args) -> Outcome {
    match args.what {
        What::Studies => output::rows(&studies()?, args.format),
        What::Apps => output::rows(&apps()?, args.format),
        What::Filesystems => output::rows(&filesystems()?, args.format),
        What::Workloads => output::rows(&settings(), args.format),
        What::Metrics => output::rows(&metrics(), args.format),
        What::Factors => output::rows(&factors(), args.format),
        What::Exporters => output::rows(&exporters(), args.format),
        What::Runs => output::rows(&runs(&args)?, args.format),
    }
}

#[derive(Serialize)]
struct StudyRow {
    study: &'static str,
    question: String,
    published: Vec<String>,
    source: &'static str,
}

impl Row for StudyRow {
    const COLUMNS: &'static [&'static str] = &["study", "question", "published: PUBLISHED FIGURES", "source"];
}

fn studies() -> Result<Vec<StudyRow>, Failure> {
    let row = |study: &Study| {
        let published = study.published()?;
        Ok(StudyRow {
            study: study.name,
            question: PlanFile::parse(study.name, study.plan.as_bytes())?.file.question,
            published: published.iter().map(|set| format!("published:{}", set.name())).collect(),
            source: study.source,
        })
    };
    STUDIES.iter().map(row).collect()
}

#[derive(Serialize)]
struct AppRow {
    app: &'static str,
    title: String,
    question: String,
}

impl Row for AppRow {
    const COLUMNS: &'static [&'static str] = &["app: APPLICATION", "title", "question"];
}

fn apps() -> Result<Vec<AppRow>, Failure> {
    let row = |app: &App| {
        let plan = PlanFile::parse(app.name, app.plan.as_bytes())?.file;
        Ok(AppRow { app: app.name, title: plan.title, question: plan.question })
    };
    APPS.iter().map(row).collect()
}

#[derive(Serialize)]
struct FilesystemRow {
    filesystem: &'static str,
    title: &'static str,
    kernel: bool,
    mkfs: Option<String>,
    packages: Vec<&'static str>,
    /// How to get mkfs.
    #[serde(skip)]
    install: String,
    option_sets: Vec<OptionSetRow>,
}

#[derive(Serialize)]
struct OptionSetRow {
    id: &'static str,
    help: &'static str,
}

impl Row for FilesystemRow {
    const COLUMNS: &'static [&'static str] = &["filesystem", "kernel", "mkfs", "option_sets", "title"];

    fn for_people(&self, field: &str) -> Option<String> {
        match field {
            "mkfs" => self.mkfs.is_none().then(|| self.install.clone()),
            "option_sets" => Some(self.option_sets.iter().map(|set| set.id).collect::<Vec<_>>().join(" ")),
            _ => None,
        }
    }
}

fn filesystems() -> Result<Vec<FilesystemRow>, Failure> {
    let row = |found: Availability| FilesystemRow {
        filesystem: found.def.id,
        title: found.def.title,
        kernel: found.kernel,
        mkfs: found.mkfs.map(|path| path.display().to_string()),
        packages: found.def.packages.to_vec(),
        install: to_install([found.def]),
        option_sets: found
            .def
            .options
            .iter()
            .map(|set| OptionSetRow { id: set.id, help: set.help })
            .collect(),
    };
    Ok(survey(&Kernel::host())?.into_iter().map(row).collect())
}

#[derive(Serialize)]
struct SettingRow {
    workload: &'static str,
    setting: &'static str,
    accepts: String,
    default: String,
    help: String,
}

impl Row for SettingRow {
    const COLUMNS: &'static [&'static str] = &["workload", "setting", "accepts", "default", "help"];
}

fn settings() -> Vec<SettingRow> {
    let mut rows = Vec::new();
    for workload in WORKLOADS {
        let (def, answers) = (workload.def(), workload.metrics().join(", "));
        let row = |setting, accepts, default, help| SettingRow {
            workload: def.id,
            setting,
            accepts,
            default,
            help,
        };
        let help = format!("{}; answered for by {answers}", def.help);
        rows.push(row("", String::new(), String::new(), help));
        rows.extend(def.settings.iter().map(|setting| {
            let default = Value::from(setting.default).to_string();
            row(setting.id, setting.kind.to_string(), default, setting.help.into())
        }));
    }
    rows
}

#[derive(Serialize)]
struct MetricRow {
    metric: &'static str,
    kind: &'static str,
    unit: Unit,
    better: Direction,
    help: &'static str,
}

impl Row for MetricRow {
    const COLUMNS: &'static [&'static str] = &["metric", "kind", "unit", "better", "help"];

    fn for_people(&self, field: &str) -> Option<String> {
        match field {
            "unit" => Some(self.unit.suffix().into()),
            "better" if self.better == Direction::Neutral => Some("-".into()),
            _ => None,
        }
    }
}

fn metrics() -> Vec<MetricRow> {
    let row = |kind, metric, unit, better, help| MetricRow { metric, kind, unit, better, help };
    let derived = METRICS.iter().map(|def| row("derived", def.id, def.unit, def.direction, def.help));
    let raw = vocabulary::readings().map(|def| row("reading", def.id, def.unit, def.direction, def.help));
    derived.chain(raw).collect()
}

#[derive(Serialize)]
struct FactorRow {
    name: &'static str,
    default: &'static str,
    levels: &'static str,
    help: &'static str,
}

impl Row for FactorRow {
    const COLUMNS: &'static [&'static str] =
        &["name: FACTOR", "default", "levels: LEVELS, FOR EXAMPLE", "help"];
}

fn factors() -> Vec<FactorRow> {
    let row = |def: FactorDef| FactorRow {
        name: def.id,
        default: def.default,
        levels: def.example,
        help: def.help,
    };
    axes::factors().into_iter().map(row).collect()
}

#[derive(Serialize)]
struct ExporterRow {
    name: &'static str,
    default: &'static str,
    help: &'static str,
}

impl Row for ExporterRow {
    const COLUMNS: &'static [&'static str] = &["name", "default", "help"];
}

fn exporters() -> Vec<ExporterRow> {
    EXPORTERS.iter().map(|def| ExporterRow { name: def.id, default: "", help: def.help }).collect()
}

#[derive(Serialize)]
struct RunRow {
    run: String,
    study: String,
    started: String,
    status: String,
    variants: Vec<String>,
}

impl Row for RunRow {
    const COLUMNS: &'static [&'static str] = &["run", "study", "started", "status", "variants"];

    /// To the second: `2026-11-21 20:15:04Z`.
    fn for_people(&self, field: &str) -> Option<String> {
        let seconds = self.started.split('.').next().filter(|_| field == "started")?;
        Some(seconds.replace('T', " ") + "Z")
    }
}

fn runs(args: &Args) -> Result<Vec<RunRow>, Failure> {
    let root = &args.runs.runs;
    if args.given.first_of(&["runs"]).is_some() {
        root.metadata().map_err(Failure::file(root))?;
    }
    let row = |run: RunSummary| RunRow {
        run: run.id,
        study: run.study,
        started: run.started,
        status: run.status.why,
        variants: run.variants,
    };
    Ok(fsarena_store::list(root)?.into_iter().map(row).collect())
}
