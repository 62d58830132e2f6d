//! How the cost of one unit of work grows over the values of a setting, from the samples of a run and from published figures: the
//! law, the bend and the cost beyond the data, as sentences, as a table and as JSON.

pub(crate) use super::formulas::format_amount;
use super::formulas::{format_exponent, formula_of_growth};
use super::{contender_names, finite_or_none, fit_json};
use crate::document::{Document, Table, row};
use crate::error::Error;
use crate::number::{interval_ends, plural, with_unit};
use crate::page::Page;
use fsarena_core::cell::TaskId;
use fsarena_core::factor::SETTING_PREFIX;
use fsarena_core::metric::reading;
use fsarena_core::names::distinct;
use fsarena_core::observations::rounds_left_out;
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::sample::{Fold, Unit};
use fsarena_core::{factor, published::PublishedSet};
use fsarena_stats::scaling::growth::{BendFinding, Growth, MAX_MULTIPLE, SLIGHT_CHANGE, analyse_growth};
use fsarena_stats::scaling::{Series, SeriesError, SeriesRow};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The smallest number of values of a setting that make a curve.
const MIN_VALUES: usize = 3;

/// The curves of one metric over the values of one setting.
#[derive(Debug, Clone)]
pub struct GrowthCurves {
    /// The setting: `files`.
    pub setting: String,
    /// The metric.
    pub metric: MetricSpec,
    /// Whether the curves are of the metric divided by the setting: the cost of one unit.
    pub is_per_unit: bool,
    /// A curve for each variant and task, in the order of the tasks.
    pub curves: Vec<GrowthCurve>,
    /// The number of values that are not above zero, which have no logarithm and are left out.
    pub without_logarithm_count: usize,
}

/// The curve of one variant and task. If the setting is a factor, it has several variants of the run.
#[derive(Debug, Clone)]
pub struct GrowthCurve {
    /// The first of its variants.
    pub variant: usize,
    /// The name of the variant without the setting.
    pub variant_name: String,
    /// The task without the setting.
    pub task: TaskId,
    /// The analysis.
    pub growth: Growth,
}

/// The setting of the grid of a run. None if the run has no grid.
pub fn grid_setting(record: &RunRecord) -> Option<&str> {
    let grids = record.plan.workloads.iter().flat_map(|workload| &workload.grid_settings);
    grids.map(String::as_str).find(|setting| setting_values(record, setting).len() >= MIN_VALUES)
}

/// The metrics of a report whose growth it shows: those of the report, then the space on the device and the memory of the kernel.
pub fn growth_metrics<'m>(report_metrics: impl Iterator<Item = &'m str>) -> Vec<&'m str> {
    distinct(report_metrics.chain(["stored_bytes", reading::SLAB_GROWTH]))
}

/// The values of a setting in the tasks of a run, or in its variants if it is a factor.
fn setting_values(record: &RunRecord, setting: &str) -> BTreeSet<u64> {
    let of_tasks = record.tasks.iter().filter_map(|task| task.id.params.get(setting));
    let factor = format!("{SETTING_PREFIX}{setting}");
    let of_variants = record.variants.iter().filter_map(|variant| variant.levels.get(&factor));
    of_tasks.chain(of_variants).filter_map(|value| Some(parse_positive(value)?.to_bits())).collect()
}

fn parse_positive(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0)
}

/// The curves of a run over the values of a setting.
///
/// # Errors
/// The run lacks the metric, or has fewer than three values of the setting.
pub fn growth_of_run(record: &RunRecord, setting: &str, metric: &str) -> Result<GrowthCurves, Error> {
    let values = record.metric(metric).filter(|(_, values)| values.iter().any(|value| !value.is_nan()));
    let Some((metric, values)) = values else {
        return Err(Error::Usage(format!("run {} has no {metric}", record.id)));
    };
    if setting_values(record, setting).len() < MIN_VALUES {
        return Err(Error::Usage(format!(
            "run {} has fewer than {MIN_VALUES} values of {setting}; measure them: --grid {setting}=1e3..1e6",
            record.id
        )));
    }
    let factor = format!("{SETTING_PREFIX}{setting}");
    let (left_out, per_unit) = (rounds_left_out(record), is_amount(&metric));
    let mut points = CurvePoints::default();
    for (sample, value) in values.iter().copied().enumerate().filter(|(_, value)| !value.is_nan()) {
        let cell = &record.cells[record.samples.cell[sample] as usize];
        let variant = &record.variants[cell.variant];
        let mut task = record.tasks[record.samples.task[sample] as usize].id.clone();
        let value_of_task = task.params.remove(setting);
        let Some(n) = value_of_task.as_ref().or(variant.levels.get(&factor)).and_then(|n| parse_positive(n)) else {
            continue;
        };
        if !left_out.contains(&cell.round) {
            let level = variant.levels.get(&factor).filter(|_| value_of_task.is_none());
            let parts = variant.name.split('/').filter(|part| level.is_none_or(|level| part != level));
            let name = parts.collect::<Vec<_>>().join("/");
            points.add((name, task), cell.variant, (n, cell.round, if per_unit { value / n } else { value }));
        }
    }
    points.into_growth_curves(setting, metric, per_unit)
}

/// The curves of published figures over a setting; None if the figures have no parameter with at least three values besides the
/// number of clients.
///
/// # Errors
/// The set has no such metric.
pub fn growth_of_published(published: &PublishedSet, metric: Option<&str>) -> Result<Option<GrowthCurves>, Error> {
    let mut values: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for (id, value) in published.rows.iter().flat_map(|row| &row.params) {
        values.entry(id).or_default().extend(parse_positive(value).map(f64::to_bits));
    }
    values.retain(|id, values| *id != factor::CLIENTS && values.len() >= MIN_VALUES);
    // A matrix of block sizes and threads has two such parameters.
    let (Some((setting, _)), 1) = (values.iter().next(), values.len()) else { return Ok(None) };
    let metric_name = metric.or(published.metrics().first().copied()).unwrap_or_default();
    let Some(metric) = published.spec(metric_name) else {
        let known = published.metrics().join(", ");
        return Err(Error::Usage(format!("{} has no {metric_name}; it has {known}", published.name())));
    };
    let per_unit = is_amount(&metric);
    let mut points = CurvePoints::default();
    let of_metric = |row: &&fsarena_core::published::Figure| row.metric == metric.id && row.kind.is_evidence();
    for figure in published.rows.iter().filter(of_metric) {
        let mut task = figure.task_id();
        let Some(n) = task.params.remove(*setting).and_then(|n| parse_positive(&n)) else { continue };
        let variant = published.variants().iter().position(|variant| *variant == figure.variant).unwrap_or(0);
        let value = if per_unit { figure.value / n } else { figure.value };
        points.add((figure.variant.clone(), task), variant, (n, 0, value));
    }
    points.into_growth_curves(setting, metric.clone(), per_unit).map(Some)
}

/// Whether a metric is an amount, which grows with the work: a time or a number of bytes of all units together, unlike a rate, a
/// latency or a quotient.
fn is_amount(metric: &MetricSpec) -> bool {
    metric.quotient_of.is_none() && (metric.over.tasks == Fold::Sum || metric.unit == Unit::Bytes)
}

/// The points of each curve, by the variant and the task without the setting; with the first variant.
#[derive(Default)]
struct CurvePoints {
    by_curve: BTreeMap<(String, TaskId), (usize, Vec<SeriesRow>)>,
    without_logarithm_count: usize,
}

impl CurvePoints {
    fn add(&mut self, curve: (String, TaskId), variant: usize, row: SeriesRow) {
        if row.2 <= 0.0 {
            self.without_logarithm_count += 1;
            return;
        }
        let (first, rows) = self.by_curve.entry(curve).or_insert((variant, vec![]));
        *first = variant.min(*first);
        rows.push(row);
    }

    fn into_growth_curves(self, setting: &str, metric: MetricSpec, per_unit: bool) -> Result<GrowthCurves, Error> {
        let has_several_tasks = self.by_curve.keys().map(|(_, task)| task).collect::<BTreeSet<_>>().len() > 1;
        let mut curves = vec![];
        for ((variant, task), (first, rows)) in &self.by_curve {
            let name = match (has_several_tasks, variant.as_str()) {
                (false, name) => name.to_string(),
                (true, "") => task.to_string(),
                (true, name) => format!("{name} {task}"),
            };
            match Series::new(&name, rows) {
                Ok(series) => curves.push(GrowthCurve {
                    variant: *first,
                    variant_name: variant.clone(),
                    task: task.clone(),
                    growth: analyse_growth(series),
                }),
                // A variant that failed early, or a metric that only some values have.
                Err(SeriesError::OneNumber { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        curves.sort_by(|a, b| (&a.task, a.variant).cmp(&(&b.task, b.variant)));
        let setting = setting.to_string();
        Ok(GrowthCurves {
            setting,
            metric,
            is_per_unit: per_unit,
            curves,
            without_logarithm_count: self.without_logarithm_count,
        })
    }
}

impl GrowthCurves {
    /// What the curves are of: `elapsed / files`.
    pub fn quantity(&self) -> String {
        if self.is_per_unit { format!("{} / {}", self.metric.id, self.setting) } else { self.metric.id.clone() }
    }

    fn format_value(&self, value: f64) -> String {
        with_unit(value, self.metric.unit)
    }

    /// A table with a row for each curve: the cost at the smallest and at the largest value, the law, the bend, and the cost at ten
    /// times the largest value.
    pub fn table(&self) -> Table {
        let farthest = format!("at {MAX_MULTIPLE}× the last");
        let mut table = Table::of_words(["series", "at the first", "at the last", "law", "bend", &farthest]);
        for GrowthCurve { growth, .. } in &self.curves {
            let means = growth.series.means();
            let cost = |mean: Option<&f64>| mean.map_or("–".into(), |mean| self.format_value(mean.exp()));
            let beyond = self.describe_beyond(growth).unwrap_or_else(|| "–".into());
            table.rows.push(row![
                growth.series.name.as_str(),
                cost(means.first()),
                cost(means.last()),
                self.describe_law(growth),
                describe_bend(&growth.bend),
                beyond
            ]);
        }
        table
    }

    fn describe_law(&self, growth: &Growth) -> String {
        let Some(choice) = &growth.choice else { return "–".into() };
        match choice.winner() {
            Some(fit) => formula_of_growth(&fit.law, |value| self.format_value(value)),
            None => format!("inconclusive: {}", contender_names(choice)),
        }
    }

    fn describe_beyond(&self, growth: &Growth) -> Option<String> {
        let beyond = growth.beyond?;
        let (low, high) = interval_ends(beyond.cost.low, beyond.cost.high, self.metric.unit);
        Some(format!("{} [{low}–{high}]", self.format_value(beyond.cost.value)))
    }

    /// All sentences about one curve.
    pub fn sentences(&self, growth: &Growth) -> Vec<String> {
        let (n, means) = (&growth.series.n, growth.series.means());
        let (Some(first), Some(last)) = (n.first(), n.last()) else { return vec![] };
        let cost = |index: usize| self.format_value(means[index].exp());
        let mut sentences = vec![format!(
            "From {} to {} {}, {} goes from {} to {}.",
            format_amount(*first),
            format_amount(*last),
            self.setting,
            self.quantity(),
            cost(0),
            cost(n.len() - 1)
        )];
        sentences.push(match &growth.choice {
            None => format!("{} are too few for a law.", plural(growth.series.points().len(), "value")),
            Some(choice) => match choice.winner() {
                // R² is the share of the variance that a law explains; a constant explains none.
                Some(fit) => format!(
                    "It follows the law `{}`: {}{}.",
                    fit.law.name(),
                    formula_of_growth(&fit.law, |value| self.format_value(value)),
                    if fit.law.curve_parameters() > 1 { format!(", R² {:.3}", fit.r_squared) } else { String::new() }
                ),
                None => format!(
                    "It may follow {}, so the choice is inconclusive; the best is {}.",
                    contender_names(choice),
                    formula_of_growth(&choice.fits[0].law, |value| self.format_value(value))
                ),
            },
        });
        sentences.push(match growth.bend {
            BendFinding::Bends(bend) => format!(
                "It bends at {} {} ({}–{}): the exponent goes from {} to {}.",
                format_amount(bend.at.value),
                self.setting,
                format_amount(bend.at.low),
                format_amount(bend.at.high),
                format_exponent(bend.before),
                format_exponent(bend.after)
            ),
            BendFinding::Straight => {
                format!("No bend in this range: nowhere the exponent changes by {SLIGHT_CHANGE} or more.")
            }
            BendFinding::NotExcluded => "The data show no bend, and do not exclude one.".into(),
        });
        if let (Some(beyond), Some(cost)) = (growth.beyond, self.describe_beyond(growth)) {
            sentences.push(format!(
                "At {} {} it is {cost}, if nothing bends beyond the data.",
                format_amount(beyond.amount),
                self.setting
            ));
        }
        sentences
    }

    /// A sentence with the number of values left out; `None` if there are none.
    pub fn left_out_sentence(&self) -> Option<String> {
        let values = plural(self.without_logarithm_count, "value");
        let why = "not above zero left out: they have no logarithm.";
        (self.without_logarithm_count > 0).then(|| format!("{values} {why}"))
    }

    /// The page about these curves. With `has_figures` the document also has the figures; the JSON always has
    /// them.
    pub fn page(&self, source: &str, has_figures: bool) -> Page {
        let mut document = Document::default();
        document.heading(1, format!("{} over {} in {source}", self.quantity(), self.setting));
        document.text(METHOD);
        document.table(self.table());
        for GrowthCurve { growth, .. } in &self.curves {
            document.heading(2, growth.series.name.clone());
            document.list(self.sentences(growth));
        }
        if has_figures {
            document.heading(2, "Figures");
            for GrowthCurve { growth, .. } in &self.curves {
                let rows = growth.series.n.iter().zip(growth.series.means());
                let rows = rows.map(|(n, mean)| row![format_amount(*n), self.format_value(mean.exp())]);
                document.table(Table::of_figures([self.setting.as_str(), &growth.series.name]).with_rows(rows));
            }
        }
        Page { document, json: self.json(source) }
    }

    fn json(&self, source: &str) -> Value {
        let curve = |GrowthCurve { growth, .. }: &GrowthCurve| {
            let point = |(n, x): (&f64, &Vec<f64>)| json!({ "amount": n, "values": x.iter().map(finite_or_none).collect::<Vec<_>>() });
            let bend = match growth.bend {
                BendFinding::Bends(bend) => json!({
                    "found": "bends", "at": bend.at.value, "low": bend.at.low, "high": bend.at.high,
                    "exponent_before": bend.before, "exponent_after": bend.after,
                }),
                BendFinding::Straight => json!({ "found": "straight" }),
                BendFinding::NotExcluded => json!({ "found": "not excluded" }),
            };
            let beyond = growth.beyond.map(|beyond| {
                let cost = beyond.cost;
                json!({ "amount": beyond.amount, "value": cost.value, "low": cost.low, "high": finite_or_none(&cost.high) })
            });
            let choice = growth.choice.as_ref();
            json!({
                "name": growth.series.name,
                "sentences": self.sentences(growth),
                "winner": choice.and_then(|choice| choice.winner()).map(|fit| fit.law.name()),
                "fits": choice.iter().flat_map(|choice| choice.fits.iter().map(fit_json)).collect::<Vec<_>>(),
                "bend": bend,
                "beyond": beyond,
                "points": growth.series.n.iter().zip(&growth.series.x).map(point).collect::<Vec<_>>(),
            })
        };
        json!({
            "format": 1, "source": source, "over": self.setting, "quantity": self.quantity(),
            "metric": self.metric.id, "unit": self.metric.unit.suffix(), "per_unit": self.is_per_unit,
            "series": self.curves.iter().map(curve).collect::<Vec<_>>(),
        })
    }
}

/// How the intervals were computed.
pub const METHOD: &str = "N is the setting. Laws are fitted to the logarithms of all values and chosen by AICc. The interval at ten \
                           times the largest N is the union of the 95% prediction intervals of all laws within 4 of the best AICc; \
                           it holds if nothing bends beyond the data, which no data can show.";

fn describe_bend(bend: &BendFinding) -> String {
    match bend {
        BendFinding::Bends(bend) => {
            let (low, high) = (format_amount(bend.at.low), format_amount(bend.at.high));
            let (before, after) = (format_exponent(bend.before), format_exponent(bend.after));
            format!("at {} [{low}–{high}], N^{before} to N^{after}", format_amount(bend.at.value))
        }
        BendFinding::Straight => "none".into(),
        BendFinding::NotExcluded => "not excluded".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_shaikh_do_not_exclude_a_bend() {
        let study = fsarena_core::study::find("shaikh").unwrap();
        let published = study.published().unwrap();
        let curves = growth_of_published(&published[0], None).unwrap().unwrap();
        assert_eq!((curves.quantity().as_str(), curves.curves.len()), ("elapsed / files", 10));
        let read = curves.curves.iter().find(|curve| curve.growth.series.name == "ext4 read").unwrap();
        assert_eq!(
            curves.sentences(&read.growth),
            [
                "From 10,000,000 to 1,000,000,000 files, elapsed / files goes from 10.9 µs to 62.4 µs.",
                "3 values are too few for a law.",
                "The data show no bend, and do not exclude one."
            ]
        );
        assert!(growth_of_published(&published[0], Some("speed")).is_err());
        let engel = fsarena_core::study::find("engel").unwrap().published().unwrap();
        assert!(growth_of_published(&engel[0], None).unwrap().is_none());
    }
}
