//! `fsarena list`: the names that other commands accept.

use crate::failure::Outcome;
use crate::flags::{ListFormat, Runs};
use crate::listing::{self, Row};
use clap::ValueEnum;
use fsarena_core::app::{APPS, App};
use fsarena_core::exit::ExitCode;
use fsarena_core::metric::METRICS;
use fsarena_core::plan::file::PlanFile;
use fsarena_core::sample::{Direction, Unit};
use fsarena_core::study::STUDIES;
use fsarena_fs::available::{survey, to_install};
use fsarena_report::exporter::Exporter;
use fsarena_report::exporters::EXPORTERS;
use fsarena_run::axes;
use fsarena_sys::kernel::Kernel;
use serde::Serialize;

/// List studies, applications, filesystems, workloads, metrics, factors, exporters or runs
#[derive(Debug, clap::Args)]
pub struct Args {
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
        What::Studies => listing::print(&studies()?, args.format)?,
        What::Apps => listing::print(&apps()?, args.format)?,
        What::Filesystems => listing::print(&filesystems()?, args.format)?,
        What::Workloads => listing::print(&settings(), args.format)?,
        What::Metrics => listing::print(&metrics(), args.format)?,
        What::Factors => listing::print(&factors(), args.format)?,
        What::Exporters => listing::print(&exporters(), args.format)?,
        What::Runs => listing::print(&runs(&args.runs)?, args.format)?,
    }
    Ok(ExitCode::Done)
}

#[derive(Serialize)]
struct StudyRow {
    study: &'static str,
    question: String,
    published: Vec<String>,
    source: &'static str,
}

impl Row for StudyRow {
    const HEADS: &'static [&'static str] = &["STUDY", "QUESTION", "PUBLISHED FIGURES", "SOURCE"];

    fn columns(&self) -> Vec<String> {
        vec![self.study.into(), self.question.clone(), self.published.join(" "), self.source.into()]
    }
}

fn studies() -> Result<Vec<StudyRow>, crate::failure::Failure> {
    let mut rows = Vec::new();
    for study in STUDIES {
        let plan = PlanFile::parse(study.name, study.plan.as_bytes())?.file;
        let published = study.published()?;
        rows.push(StudyRow {
            study: study.name,
            question: plan.question,
            published: published.iter().map(|set| format!("published:{}", set.name())).collect(),
            source: study.source,
        });
    }
    Ok(rows)
}

#[derive(Serialize)]
struct AppRow {
    app: &'static str,
    title: String,
    question: String,
}

impl Row for AppRow {
    const HEADS: &'static [&'static str] = &["APPLICATION", "TITLE", "QUESTION"];

    fn columns(&self) -> Vec<String> {
        vec![self.app.into(), self.title.clone(), self.question.clone()]
    }
}

fn apps() -> Result<Vec<AppRow>, crate::failure::Failure> {
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
    const HEADS: &'static [&'static str] = &["FILESYSTEM", "KERNEL", "MKFS", "OPTION SETS", "TITLE"];

    fn columns(&self) -> Vec<String> {
        let sets: Vec<&str> = self.option_sets.iter().map(|set| set.id).collect();
        vec![
            self.filesystem.into(),
            if self.kernel { "yes" } else { "no" }.into(),
            self.mkfs.clone().unwrap_or_else(|| self.install.clone()),
            sets.join(" "),
            self.title.into(),
        ]
    }
}

fn filesystems() -> Result<Vec<FilesystemRow>, crate::failure::Failure> {
    let found = survey(&Kernel::host())?;
    let rows = found
        .into_iter()
        .map(|found| FilesystemRow {
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
        })
        .collect();
    Ok(rows)
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
    const HEADS: &'static [&'static str] = &["WORKLOAD", "SETTING", "ACCEPTS", "DEFAULT", "HELP"];

    fn columns(&self) -> Vec<String> {
        vec![
            self.workload.into(),
            self.setting.into(),
            self.accepts.clone(),
            self.default.clone(),
            self.help.clone(),
        ]
    }
}

fn settings() -> Vec<SettingRow> {
    let mut rows = Vec::new();
    for workload in fsarena_load::workloads::WORKLOADS {
        let (def, answers) = (workload.def(), workload.metrics().join(", "));
        rows.push(SettingRow {
            workload: def.id,
            setting: "",
            accepts: String::new(),
            default: String::new(),
            help: format!("{}; answered for by {answers}", def.help),
        });
        rows.extend(def.settings.iter().map(|setting| SettingRow {
            workload: def.id,
            setting: setting.id,
            accepts: setting.kind.to_string(),
            default: fsarena_core::setting::Value::from(setting.default).to_string(),
            help: setting.help.into(),
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
    const HEADS: &'static [&'static str] = &["METRIC", "KIND", "UNIT", "BETTER", "HELP"];

    fn columns(&self) -> Vec<String> {
        let better = match self.better {
            Direction::Lower => "lower",
            Direction::Higher => "higher",
            Direction::Neutral => "-",
        };
        vec![self.metric.into(), self.kind.into(), self.unit.suffix().into(), better.into(), self.help.into()]
    }
}

fn metrics() -> Vec<MetricRow> {
    let derived = METRICS.iter().map(|metric| MetricRow {
        metric: metric.id,
        kind: "derived",
        unit: metric.unit,
        better: metric.direction,
        help: metric.help,
    });
    let raw = fsarena_run::vocabulary::readings().map(|reading| MetricRow {
        metric: reading.id,
        kind: "reading",
        unit: reading.unit,
        better: reading.direction,
        help: reading.help,
    });
    derived.chain(raw).collect()
}

#[derive(Serialize)]
struct NamedRow {
    name: &'static str,
    default: &'static str,
    help: &'static str,
}

impl Row for NamedRow {
    const HEADS: &'static [&'static str] = &["NAME", "DEFAULT", "HELP"];

    fn columns(&self) -> Vec<String> {
        vec![self.name.into(), self.default.into(), self.help.into()]
    }
}

#[derive(Serialize)]
struct FactorRow {
    name: &'static str,
    default: &'static str,
    levels: &'static str,
    help: &'static str,
}

impl Row for FactorRow {
    const HEADS: &'static [&'static str] = &["FACTOR", "DEFAULT", "LEVELS, FOR EXAMPLE", "HELP"];

    fn columns(&self) -> Vec<String> {
        vec![self.name.into(), self.default.into(), self.levels.into(), self.help.into()]
    }
}

fn factors() -> Vec<FactorRow> {
    let row = |factor: fsarena_core::factor::FactorDef| FactorRow {
        name: factor.id,
        default: factor.default,
        levels: factor.example,
        help: factor.help,
    };
    axes::factors().into_iter().map(row).collect()
}

fn exporters() -> Vec<NamedRow> {
    let row = |exporter: &&Exporter| NamedRow { name: exporter.id, default: "", help: exporter.help };
    EXPORTERS.iter().map(row).collect()
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
    const HEADS: &'static [&'static str] = &["RUN", "STUDY", "STARTED", "STATUS", "VARIANTS"];

    fn columns(&self) -> Vec<String> {
        vec![
            self.run.clone(),
            self.study.clone(),
            // For people to the second: `2026-11-21 20:15:04Z`.
            self.started.split('.').next().unwrap_or_default().replace('T', " ") + "Z",
            self.status.clone(),
            self.variants.join(" "),
        ]
    }
}

fn runs(runs: &Runs) -> Result<Vec<RunRow>, crate::failure::Failure> {
    let rows = fsarena_store::list(&runs.runs)?.into_iter().map(|run| RunRow {
        run: run.id,
        study: run.study,
        started: run.started,
        status: run.status.why,
        variants: run.variants,
    });
    Ok(rows.collect())
}
