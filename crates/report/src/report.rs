//! The analysis of a run: [`analyse_run`] returns a [`Report`], which the exporters write.

use crate::pair::{PairRow, pair_rows};
use crate::{commands::Commands, document::terminal::Screen, error::Error};
use fsarena_core::cell::{TaskInfo, Variant};
use fsarena_core::factor::{FS, default_level};
use fsarena_core::host::{self, Storage};
use fsarena_core::observations::{MetricSeries, claim_series, claim_series_among, reading_series, variant_orders};
use fsarena_core::{claim::Claim, conclusion, exit::ExitCode, names::unknown_name, plan::compared_variants};
use fsarena_core::{record::RunRecord, sample::Direction, setting_text::setting, study};
use fsarena_stats::analyse::{Analysis, analyse};
use fsarena_stats::carryover::{Carryover, find_carryover};
use fsarena_stats::conclusion::{CheckedConclusion, ConclusionVerdict, check_conclusions};
use fsarena_stats::judge::{JudgedClaim, judge_claims};
use fsarena_stats::modes::{Modes, find_modes};
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
    /// The smallest difference that matters, as a fraction.
    pub margin: f64,
    /// The variant in use today: the one that the user names, otherwise the filesystem that held the images; `None` if the run
    /// has no such variant.
    pub current: Option<CurrentVariant>,
    /// The weights of tasks in the ranking, by name or number. Other tasks have the weight 1.
    pub weights: Vec<(String, f64)>,
    /// A sentence with the differences that the self-test of this machine can detect.
    pub resolution_sentence: Option<String>,
    /// The claims of the plan and of the options, judged.
    pub claims: Vec<JudgedClaim>,
    /// The conclusions of the study's author, checked. They do not change the exit code.
    pub conclusions: Vec<CheckedConclusion>,
    /// The commands that fsarena ran, if the report should show them; otherwise empty.
    pub commands: Commands,
    /// The directory with the charts as SVG, as a link relative to the report file; `None` without charts.
    pub charts_folder: Option<String>,
    /// The capabilities of the terminal.
    pub screen: Screen,
    /// Whether the terminal shows the whole report, not only its most important part.
    pub is_full: bool,
    /// The resolved plan as TOML.
    pub plan_toml: String,
    ranking: OnceLock<Option<Ranking>>,
    pair_rows: OnceLock<Vec<PairRow>>,
    modes: OnceLock<Vec<Modes>>,
    carryover: OnceLock<Option<Carryover>>,
}

/// What a report should show, in addition to what the plan of the run requests.
#[derive(Debug, Clone, Default)]
pub struct ReportOptions {
    /// The metrics to report, the main one first. If empty, the report has the times of tasks.
    pub metrics: Vec<String>,
    /// The weights of tasks in the ranking, by name or number. Other tasks have the weight 1.
    pub weights: Vec<(String, f64)>,
    /// The smallest difference that matters, as a fraction; with `None`, the plan defines it.
    pub margin: Option<f64>,
    /// The name of the variant in use today.
    pub current: Option<String>,
    /// Claims to judge in addition to the claims of the plan.
    pub claims: Vec<Claim>,
}

/// The metrics of a report if the options have none.
const DEFAULT_METRICS: [&str; 2] = ["elapsed", "synced"];

/// Checks the conclusions of the study's author with the measurements of this run. Empty if the run is not of a study.
fn check_study_conclusions(record: &RunRecord) -> Result<Vec<CheckedConclusion>, Error> {
    let Some(study) = study::find(&record.plan.name) else { return Ok(vec![]) };
    let mut conclusions = conclusion::conclusions_of_study(study)?;
    if let Some(stage) = &record.plan.stage {
        conclusions.list.retain(|conclusion| conclusion.stage.as_ref().is_none_or(|name| *name == stage.name));
    }
    let judge = |claims: &[Claim], variants: Option<Vec<&str>>| match variants {
        Some(variants) => judge_claims(claim_series_among(record, claims, variants)),
        None => judge_claims(claim_series(record, claims)),
    };
    let mut checked_conclusions =
        check_conclusions(&conclusions, &study.published_sets()?, &record.variant_names(), judge);
    if !is_on_rotating_disk(record) {
        for checked in checked_conclusions.iter_mut().filter(|checked| checked.conclusion.requires_rotating_disk) {
            let why = "it is about a rotating disk, and the disk of this run is not known to be one";
            checked.run_verdict = ConclusionVerdict { why_unjudged: Some(why.into()), ..ConclusionVerdict::default() };
        }
    }
    Ok(checked_conclusions)
}

/// Whether the device under test, or the disk that held its image, is known to be a rotating disk.
fn is_on_rotating_disk(record: &RunRecord) -> bool {
    let erased = record.hosts.iter().find_map(|host| Storage::from_facts(&host.facts, host::ERASED_PREFIX));
    erased.or_else(|| image_storage(record)).is_some_and(|disk| disk.is_rotating)
}

/// The variant in use today.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CurrentVariant {
    /// The index of the variant.
    pub variant: usize,
    /// Whether fsarena guessed the variant, because the user named none.
    pub is_guess: bool,
}

/// The storage that held the images of a run, if known.
pub fn image_storage(record: &RunRecord) -> Option<Storage> {
    record.hosts.iter().find_map(|host| Storage::from_facts(&host.facts, host::IMAGES_PREFIX))
}

/// Guesses the variant in use today: the filesystem that held the images, with the default options of mkfs and mount.
fn guess_current_variant(record: &RunRecord) -> Option<CurrentVariant> {
    let fs = image_storage(record)?.filesystem?;
    let is_default = |variant: &Variant| {
        let differs = variant.levels.iter().any(|(id, level)| id != FS && level != default_level(id));
        variant.level(FS) == fs && !differs
    };
    let variant = record.variants.iter().position(is_default)?;
    Some(CurrentVariant { variant, is_guess: true })
}

/// The index of the variant with this name, by which the user states which variant is in use today; `None` without a name.
///
/// # Errors
/// No variant has this name.
pub fn find_current_variant(variants: &[Variant], name: Option<&str>) -> Result<Option<usize>, Error> {
    let Some(name) = name else { return Ok(None) };
    let mut names = variants.iter().map(|variant| variant.name.as_str());
    let index = names.clone().position(|variant| variant == name);
    Ok(Some(index.ok_or_else(|| unknown_name("variant", name, &mut names))?))
}

/// Analyses a run, and returns the report that the exporters write.
///
/// # Errors
/// The run lacks a requested metric, task or variant, or the options have claims and the run's device cannot rank variants.
///
/// # Examples
/// ```
/// use fsarena_core::record::RunRecord;
/// use fsarena_report::exporters;
/// use fsarena_report::report::{ReportOptions, analyse_run};
///
/// fn as_markdown(record: RunRecord) -> Result<String, Box<dyn std::error::Error>> {
///     let report = analyse_run(record, ReportOptions { current: Some("ext4".into()), ..ReportOptions::default() })?;
///     let mut text = vec![];
///     exporters::find("md")?.export(&report, &mut text)?;
///     Ok(String::from_utf8(text)?)
/// }
/// ```
pub fn analyse_run(mut record: RunRecord, mut options: ReportOptions) -> Result<Report, Error> {
    check_weights(&record.tasks, &options.weights)?;
    let current = match find_current_variant(&record.variants, options.current.as_deref())? {
        Some(variant) => Some(CurrentVariant { variant, is_guess: false }),
        None => guess_current_variant(&record),
    };
    let metrics = if options.metrics.is_empty() { DEFAULT_METRICS.map(String::from).to_vec() } else { options.metrics };
    let analyses: Vec<Analysis> =
        metrics.iter().map(|metric| Ok(analyse(MetricSeries::of(&record, metric)?))).collect::<Result<_, Error>>()?;
    let mut claims = judge_claims(claim_series(&record, &record.plan.claims));
    let names = compared_variants(&record.variants);
    for claim in &mut options.claims {
        claim.replace_roles(&names);
    }
    let option_claims = judge_claims(claim_series(&record, &options.claims));
    for JudgedClaim { claim, why_unjudged, .. } in &option_claims {
        if let Some(why) = why_unjudged {
            return Err(Error::Usage(format!("{} `{}`: {why}", setting("claim", ""), claim.text)));
        }
    }
    claims.extend(option_claims);
    let conclusions = check_study_conclusions(&record)?;
    record.plan.stop.margin = options.margin.or(record.plan.stop.margin);
    Ok(Report {
        margin: record.plan.stop.margin(),
        plan_toml: toml::to_string_pretty(&record.plan)?,
        record,
        current,
        analyses,
        weights: options.weights,
        claims,
        conclusions,
        ..Report::default()
    })
}

impl Report {
    /// The analysis by the first metric, if more or less of that metric is better.
    pub fn ranked_analysis(&self) -> Option<&Analysis> {
        self.analyses.first().filter(|analysis| analysis.metric.direction != Direction::Neutral)
    }

    /// The ranking of the variants by the first metric; `None` if the run cannot rank them.
    pub fn ranking(&self) -> Option<&Ranking> {
        let rank = || {
            let weight = |task: &TaskInfo| task_weight(&self.weights, task);
            Ranking::compute(self.analyses.first()?, weight, self.record.plan.seed)
        };
        self.ranking.get_or_init(rank).as_ref()
    }

    /// The comparison of B with A by each metric, if the run has two variants; otherwise empty.
    pub(crate) fn pair_rows(&self) -> &[PairRow] {
        let metrics = self.analyses.iter().map(|analysis| analysis.metric.id.as_str());
        self.pair_rows.get_or_init(|| pair_rows(&self.record, metrics, self.margin))
    }

    /// The variants and tasks whose values of the first metric have two modes further apart than the margin, the clearest
    /// first.
    pub fn modes(&self) -> &[Modes] {
        self.modes.get_or_init(|| {
            let Some(Analysis { grid, .. }) = self.analyses.first() else { return vec![] };
            let (record, grid) = (&self.record, grid.by_round());
            let readings = |task, variant| reading_series(record, task, variant, &grid.rounds);
            let mut modes = find_modes(grid, &variant_orders(record, &grid.rounds), readings, record.plan.seed);
            modes.retain(|modes| modes.clusters[1].median > modes.clusters[0].median * (1.0 + self.margin));
            modes
        })
    }

    /// Whether the variant that ran before affects the first metric; `None` if the run has too few rounds for an answer.
    pub fn carryover(&self) -> Option<Carryover> {
        *self.carryover.get_or_init(|| {
            let grid = self.analyses.first()?.grid.by_round();
            find_carryover(&grid.combined(), &variant_orders(&self.record, &grid.rounds), self.record.plan.seed)
        })
    }

    /// The exit code of the program, from the outcomes of the claims.
    pub fn exit_code(&self) -> ExitCode {
        verdict::exit_code(&self.claims.iter().map(JudgedClaim::outcome).collect::<Vec<Outcome>>())
    }
}

/// The weight of a task in the ranking; 1 if the user set none. If the user set several, the last one counts.
pub fn task_weight(weights: &[(String, f64)], task: &TaskInfo) -> f64 {
    weights.iter().rev().find(|(name, _)| is_name_of_task(name, task)).map_or(1.0, |(_, weight)| *weight)
}

/// Whether this is a name of the task, with or without parameters, or its number.
fn is_name_of_task(name: &str, task: &TaskInfo) -> bool {
    name == task.id.name || name == task.id.to_string() || task.number.as_deref() == Some(name)
}

/// Checks the weights that the user set.
///
/// # Errors
/// A weight is for an unknown task, or is not between 0 and 1000000; or every task has the weight 0.
pub fn check_weights(tasks: &[TaskInfo], weights: &[(String, f64)]) -> Result<(), Error> {
    let tasks = || tasks.iter().filter(|task| task.in_totals);
    let usage_error = |message: String| Err(Error::Usage(format!("{}: {message}", setting("weight", ""))));
    if !weights.is_empty() && tasks().next().is_none() {
        return usage_error("the run has no task that could be weighed".into());
    }
    for (name, weight) in weights {
        if !tasks().any(|task| is_name_of_task(name, task)) {
            let known: Vec<String> = tasks().map(|task| task.id.to_string()).collect();
            return usage_error(unknown_name("task", name, known.iter().map(String::as_str)).into());
        }
        if !(0.0..=1e6).contains(weight) {
            return usage_error(format!("`{name}={weight}`: a weight is a number from 0 to 1000000"));
        }
    }
    if !weights.is_empty() && tasks().all(|task| task_weight(weights, task) == 0.0) {
        return usage_error("every task has the weight 0".into());
    }
    Ok(())
}
