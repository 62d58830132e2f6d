//! A run, analysed and ready to be exported.

use crate::pair::{PairRow, pair_rows};
use crate::{commands::Commands, document::terminal::Screen, error::Error};
use fsarena_core::cell::{TaskInfo, Variant};
use fsarena_core::factor::{FS, default_level};
use fsarena_core::host::{self, Storage};
use fsarena_core::observations::{MetricSeries, claim_series, claim_series_among, orders, reading_series};
use fsarena_core::{claim::Claim, conclusion, exit::ExitCode, names::unknown, record::RunRecord, study};
use fsarena_stats::analyse::{Analysis, analyse};
use fsarena_stats::carryover::{Carryover, carryover};
use fsarena_stats::conclusion::{Checked, check};
use fsarena_stats::judge::{Judged, judge_all};
use fsarena_stats::modes::{Modes, modes};
use fsarena_stats::ranking::Ranking;
use fsarena_stats::verdict::{self, Outcome};
use std::sync::OnceLock;

/// A run, analysed and ready to be exported.
#[derive(Debug, Default)]
pub struct Report {
    /// The run.
    pub record: RunRecord,
    /// The analyses, the main one first.
    pub analyses: Vec<Analysis>,
    /// The difference that matters, as a fraction.
    pub margin: f64,
    /// The variant in use today: the one that the reader names, else the filesystem that the images lay on.
    pub current: Option<Current>,
    /// How much tasks weigh in the ranking: by name or number; 1 for those not named.
    pub weights: Vec<(String, f64)>,
    /// The differences that the machine's own self-test detects, in words.
    pub resolution: Option<String>,
    /// The claims of the plan, and those added, judged.
    pub claims: Vec<Judged>,
    /// The conclusions of the study's author, checked. They do not change the exit code.
    pub conclusions: Vec<Checked>,
    /// The commands that were run, where the report is to show them.
    pub commands: Commands,
    /// The folder of its charts as SVG, as a link from where the report will lie; `None` if there are none.
    pub charts: Option<String>,
    /// The abilities of the terminal.
    pub screen: Screen,
    /// Whether the terminal shows everything, not only what fits on a screen.
    pub full: bool,
    /// The plan as resolved, TOML.
    pub plan: String,
    ranking: OnceLock<Option<Ranking>>,
    pair: OnceLock<Vec<PairRow>>,
    modes: OnceLock<Vec<Modes>>,
    carry_over: OnceLock<Option<Carryover>>,
}

/// The question asked of a run, besides its plan.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// The metrics to answer for, the main one first. The caller knows those of the run's workloads; none stands for
    /// the times of tasks.
    pub metrics: Vec<String>,
    /// How much tasks weigh in the ranking: by name or number; 1 for those not named.
    pub weights: Vec<(String, f64)>,
    /// The difference that matters, as a fraction, if it is not the plan's.
    pub margin: Option<f64>,
    /// The variant in use today.
    pub current: Option<String>,
    /// Claims to judge besides the plan's.
    pub claims: Vec<Claim>,
}

/// Default metrics of workloads whose tasks run to completion.
const TASKS: [&str; 2] = ["elapsed", "synced"];

fn check_conclusions(record: &RunRecord) -> Result<Vec<Checked>, Error> {
    let Some(study) = study::find(&record.plan.name) else { return Ok(vec![]) };
    let mut conclusions = conclusion::of(study)?;
    if let Some(stage) = &record.plan.stage {
        conclusions.list.retain(|one| one.stage.as_ref().is_none_or(|name| *name == stage.name));
    }
    let judge = |claims: &[Claim], among: Option<Vec<&str>>| match among {
        Some(among) => judge_all(claim_series_among(record, claims, among)),
        None => judge_all(claim_series(record, claims)),
    };
    Ok(check(&conclusions, &study.published()?, &record.names(), judge))
}

/// The variant in use today.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Current {
    /// Which one.
    pub variant: usize,
    /// Whether fsarena guessed it, as the reader named none.
    pub guessed: bool,
}

/// The storage that held the images of a run, if known.
pub fn images(record: &RunRecord) -> Option<Storage> {
    record.hosts.iter().find_map(|host| Storage::read(&host.facts, host::IMAGES))
}

/// The variant whose filesystem the images lay on, with the options that mkfs and mount choose themselves.
fn guess_current(record: &RunRecord) -> Option<Current> {
    let fs = images(record)?.filesystem?;
    let plain = |variant: &Variant| {
        let differs = variant.levels.iter().any(|(id, level)| id != FS && level != default_level(id));
        variant.level(FS) == fs && !differs
    };
    let variant = record.variants.iter().position(plain)?;
    Some(Current { variant, guessed: true })
}

/// The variant that the reader says is in use today.
///
/// # Errors
/// Fails if these variants lack it.
pub fn current(variants: &[Variant], name: Option<&str>) -> Result<Option<usize>, Error> {
    let Some(name) = name else { return Ok(None) };
    let mut names = variants.iter().map(|variant| variant.name.as_str());
    let at = names.clone().position(|known| known == name);
    Ok(Some(at.ok_or_else(|| unknown("variant", name, &mut names))?))
}

/// The report of a run: everything that any format shows of it.
///
/// # Errors
/// Fails if the run lacks a requested metric, task or variant, or if `asked` has claims and the run's device cannot
/// rank variants.
///
/// # Examples
/// ```
/// use fsarena_core::record::RunRecord;
/// use fsarena_report::exporters;
/// use fsarena_report::report::{Asked, of};
///
/// fn as_markdown(record: RunRecord) -> Result<String, Box<dyn std::error::Error>> {
///     let report = of(record, Asked { current: Some("ext4".into()), ..Asked::default() })?;
///     let mut text = vec![];
///     exporters::find("md")?.export(&report, &mut text)?;
///     Ok(String::from_utf8(text)?)
/// }
/// ```
pub fn of(mut record: RunRecord, asked: Asked) -> Result<Report, Error> {
    check_weights(&record.tasks, &asked.weights)?;
    let named = current(&record.variants, asked.current.as_deref())?;
    let current = named.map(|variant| Current { variant, guessed: false }).or_else(|| guess_current(&record));
    let metrics = if asked.metrics.is_empty() { TASKS.map(String::from).to_vec() } else { asked.metrics };
    let analyses: Vec<Analysis> = metrics
        .iter()
        .map(|metric| Ok(analyse(MetricSeries::of(&record, metric)?)))
        .collect::<Result<_, Error>>()?;
    let mut claims = judge_all(claim_series(&record, &record.plan.claims));
    let further = judge_all(claim_series(&record, &asked.claims));
    for Judged { claim, missing, .. } in &further {
        if let Some(missing) = missing.clone() {
            return Err(Error::Usage(format!("--claim `{}`: {missing}", claim.text)));
        }
    }
    claims.extend(further);
    let conclusions = check_conclusions(&record)?;
    record.plan.stop.margin = asked.margin.or(record.plan.stop.margin);
    Ok(Report {
        margin: record.plan.stop.margin(),
        plan: toml::to_string_pretty(&record.plan)?,
        record,
        current,
        analyses,
        weights: asked.weights,
        claims,
        conclusions,
        ..Report::default()
    })
}

impl Report {
    /// The variants ranked by the first metric; `None` if nothing ranks them.
    pub fn ranking(&self) -> Option<&Ranking> {
        let rank = || {
            let weight = |task: &TaskInfo| task_weight(&self.weights, task);
            Ranking::of(self.analyses.first()?, weight, self.record.plan.seed)
        };
        self.ranking.get_or_init(rank).as_ref()
    }

    /// The comparison of B with A by each metric, if the run has two variants; otherwise empty.
    pub(crate) fn pair(&self) -> &[PairRow] {
        let asked = || self.analyses.iter().map(|analysis| analysis.metric.id.as_str());
        self.pair.get_or_init(|| pair_rows(&self.record, asked(), self.margin))
    }

    /// The variants and tasks whose values of the first metric have two modes further apart than the margin, the clearest
    /// first.
    pub fn modes(&self) -> &[Modes] {
        let apart = |modes: &Modes| modes.clusters[1].median > modes.clusters[0].median * (1.0 + self.margin);
        let record = &self.record;
        let of = |Analysis { grid, .. }: &Analysis| {
            let readings = |task, variant| reading_series(record, task, variant, &grid.rounds);
            let all = modes(grid, &orders(record, &grid.rounds), readings, record.plan.seed);
            all.into_iter().filter(apart).collect()
        };
        self.modes.get_or_init(|| self.analyses.first().map_or(vec![], of))
    }

    /// Whether the variant before matters to the first metric, where a run has rounds enough to tell.
    pub fn carry_over(&self) -> Option<Carryover> {
        let record = &self.record;
        let of = |Analysis { grid, .. }: &Analysis| {
            carryover(&grid.combined(), &orders(record, &grid.rounds), record.plan.seed)
        };
        *self.carry_over.get_or_init(|| self.analyses.first().and_then(of))
    }

    /// How the claims end a program.
    pub fn exit_code(&self) -> ExitCode {
        verdict::exit_code(&self.claims.iter().map(Judged::outcome).collect::<Vec<Outcome>>())
    }
}

/// The weight of a task: 1 where the user says nothing.
pub fn task_weight(weights: &[(String, f64)], task: &TaskInfo) -> f64 {
    weights.iter().rev().find(|(name, _)| names_task(name, task)).map_or(1.0, |(_, weight)| *weight)
}

/// Whether a word means this task: its name, with or without parameters, or its number.
fn names_task(word: &str, task: &TaskInfo) -> bool {
    word == task.id.name || word == task.id.to_string() || task.number.as_deref() == Some(word)
}

/// Checks the weights of tasks.
///
/// # Errors
/// Fails if a weight names an unknown task or lies outside 0 to 1000000, or if every task has the weight 0.
pub fn check_weights(tasks: &[TaskInfo], weights: &[(String, f64)]) -> Result<(), Error> {
    let tasks = || tasks.iter().filter(|task| task.in_totals);
    let fault = |what: String| Err(Error::Usage(format!("--weight: {what}")));
    if !weights.is_empty() && tasks().next().is_none() {
        return fault("the run has no task that could be weighed".into());
    }
    for (name, weight) in weights {
        if !tasks().any(|task| names_task(name, task)) {
            let known: Vec<String> = tasks().map(|task| task.id.to_string()).collect();
            return fault(unknown("task", name, known.iter().map(String::as_str)).into());
        }
        if !(0.0..=1e6).contains(weight) {
            return fault(format!("`{name}={weight}`: a weight is a number from 0 to 1000000"));
        }
    }
    if !weights.is_empty() && tasks().all(|task| task_weight(weights, task) == 0.0) {
        return fault("every task has the weight 0".into());
    }
    Ok(())
}
