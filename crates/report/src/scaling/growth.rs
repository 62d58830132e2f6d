//! How the cost of one unit of work grows over the values of a setting, from the samples of a run and from published figures: the
//! law, the bend and the cost beyond the data, as sentences, as a table and as JSON.

use super::{
    contender_names, describe_choice, finite_or_none, fit_json, format_amount, format_exact_amount, format_exponent,
    formula_of_growth, name_without_level, points_json, winner_name,
};
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
use fsarena_stats::scaling::{Series, SeriesError, SeriesRow, laws::Law};
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
    /// The number of values that are not above zero, which are left out because they have no logarithm.
    pub without_logarithm_count: usize,
}

/// The curve of one variant and task. If the setting is a factor, the curve has several variants of the run.
#[derive(Debug, Clone)]
pub struct GrowthCurve {
    /// The index of the variant in the run; of several, the first.
    pub variant: usize,
    /// The name of the variant without the setting.
    pub variant_name: String,
    /// The task without the setting.
    pub task: TaskId,
    /// The analysis of the curve.
    pub growth: Growth,
}

/// The first setting over which a run has a grid, with at least three values; `None` if it has no such setting.
pub fn grid_setting(record: &RunRecord) -> Option<&str> {
    let grids = record.plan.workloads.iter().flat_map(|workload| &workload.grid_settings);
    grids.map(String::as_str).find(|setting| setting_values(record, setting).len() >= MIN_VALUES)
}

/// The metrics whose growth a report shows: the metrics of the report, the bytes on the device, and the memory of the kernel.
pub fn growth_metrics<'m>(report_metrics: impl Iterator<Item = &'m str>) -> Vec<&'m str> {
    distinct(report_metrics.chain(["stored_bytes", reading::SLAB_GROWTH]))
}

/// The values of a setting in the tasks of a run, or in its variants if it is a factor; as the bits of floats, which are ordered.
fn setting_values(record: &RunRecord, setting: &str) -> BTreeSet<u64> {
    let task_values = record.tasks.iter().filter_map(|task| task.id.params.get(setting));
    let factor_id = format!("{SETTING_PREFIX}{setting}");
    let variant_values = record.variants.iter().filter_map(|variant| variant.levels.get(&factor_id));
    task_values.chain(variant_values).filter_map(|value| Some(parse_positive(value)?.to_bits())).collect()
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
    let factor_id = format!("{SETTING_PREFIX}{setting}");
    let (left_out, is_per_unit) = (rounds_left_out(record), is_amount(&metric));
    let names_without_setting: Vec<String> =
        record.variants.iter().map(|variant| name_without_level(record, variant, &factor_id)).collect();
    let mut points = CurvePoints::default();
    for (sample, value) in values.iter().copied().enumerate().filter(|(_, value)| !value.is_nan()) {
        let cell = &record.cells[record.samples.cell[sample] as usize];
        let variant = &record.variants[cell.variant];
        let mut task = record.tasks[record.samples.task[sample] as usize].id.clone();
        let task_setting = task.params.remove(setting);
        let text = task_setting.as_ref().or(variant.levels.get(&factor_id));
        let Some(amount) = text.and_then(|text| parse_positive(text)) else { continue };
        if !left_out.contains(&cell.round) {
            let name = if task_setting.is_some() { &variant.name } else { &names_without_setting[cell.variant] };
            let cost = if is_per_unit { value / amount } else { value };
            points.add((name.clone(), task), cell.variant, (amount, cell.round, cost));
        }
    }
    points.into_growth_curves(setting, metric, is_per_unit)
}

/// The curves of published figures over a setting; `None` unless exactly one parameter of the figures, besides the number of
/// clients, has at least three values.
///
/// # Errors
/// The set has no such metric.
pub fn growth_of_published(published: &PublishedSet, metric: Option<&str>) -> Result<Option<GrowthCurves>, Error> {
    let mut values: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for (id, value) in published.figures.iter().flat_map(|row| &row.params) {
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
    let is_per_unit = is_amount(&metric);
    let mut points = CurvePoints::default();
    let of_metric = published.figures.iter().filter(|figure| figure.metric == metric.id && figure.kind.is_evidence());
    for figure in of_metric {
        let mut task = figure.task_id();
        let Some(amount) = task.params.remove(*setting).and_then(|text| parse_positive(&text)) else { continue };
        let variant = published.variants().iter().position(|variant| *variant == figure.variant).unwrap_or(0);
        let cost = if is_per_unit { figure.value / amount } else { figure.value };
        points.add((figure.variant.clone(), task), variant, (amount, 0, cost));
    }
    points.into_growth_curves(setting, metric.clone(), is_per_unit).map(Some)
}

/// Whether a metric is an amount, which grows with the work: a time or a number of bytes of all units together, unlike a rate, a
/// latency or a quotient.
fn is_amount(metric: &MetricSpec) -> bool {
    metric.quotient_of.is_none() && (metric.over.tasks == Fold::Sum || metric.unit == Unit::Bytes)
}

/// Collects the points of each curve.
#[derive(Default)]
struct CurvePoints {
    /// By the variant and the task, both without the setting: the index of the first variant, and the points.
    by_curve: BTreeMap<(String, TaskId), (usize, Vec<SeriesRow>)>,
    without_logarithm_count: usize,
}

impl CurvePoints {
    /// Adds a point (the amount, the round and the cost) to a curve. Only counts a cost that has no logarithm.
    fn add(&mut self, curve: (String, TaskId), variant: usize, point: SeriesRow) {
        let (_, _, cost) = point;
        if cost <= 0.0 {
            self.without_logarithm_count += 1;
            return;
        }
        let (first_variant, points) = self.by_curve.entry(curve).or_insert((variant, vec![]));
        *first_variant = variant.min(*first_variant);
        points.push(point);
    }

    /// Analyses the curves. Leaves out those with a single value of the setting.
    fn into_growth_curves(self, setting: &str, metric: MetricSpec, is_per_unit: bool) -> Result<GrowthCurves, Error> {
        let has_several_tasks = self.by_curve.keys().map(|(_, task)| task).collect::<BTreeSet<_>>().len() > 1;
        let mut curves = vec![];
        for ((variant, task), (first_variant, points)) in &self.by_curve {
            let name = match (has_several_tasks, variant.as_str()) {
                (false, name) => name.to_string(),
                (true, "") => task.to_string(),
                (true, name) => format!("{name} {task}"),
            };
            match Series::new(&name, points) {
                Ok(series) => curves.push(GrowthCurve {
                    variant: *first_variant,
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
        Ok(GrowthCurves {
            setting: setting.to_string(),
            metric,
            is_per_unit,
            curves,
            without_logarithm_count: self.without_logarithm_count,
        })
    }
}

impl GrowthCurves {
    /// The quantity on the curves: `elapsed / files`, or only the metric.
    pub fn quantity(&self) -> String {
        if self.is_per_unit { format!("{} / {}", self.metric.id, self.setting) } else { self.metric.id.clone() }
    }

    fn format_value(&self, value: f64) -> String {
        with_unit(value, self.metric.unit)
    }

    /// A table with a row for each curve: the cost at the smallest and at the largest value, the law, the bend, and the cost at ten
    /// times the largest value.
    pub fn table(&self) -> Table {
        let beyond_header = format!("at {MAX_MULTIPLE}× the last");
        let mut table = Table::of_words(["series", "at the first", "at the last", "law", "bend", &beyond_header]);
        for GrowthCurve { growth, .. } in &self.curves {
            let ln_means = growth.series.log_means();
            let cost = |ln_mean: Option<&f64>| ln_mean.map_or("–".into(), |ln_mean| self.format_value(ln_mean.exp()));
            let beyond = self.describe_cost_beyond(growth).unwrap_or_else(|| "–".into());
            table.rows.push(row![
                growth.series.name.as_str(),
                cost(ln_means.first()),
                cost(ln_means.last()),
                describe_choice(growth.choice.as_ref(), |law| self.formula(law)),
                describe_bend(&growth.bend),
                beyond
            ]);
        }
        table
    }

    fn formula(&self, law: &Law) -> String {
        formula_of_growth(law, |value| self.format_value(value))
    }

    /// The cost at ten times the largest value of the setting, with its interval; `None` if no law predicts it.
    fn describe_cost_beyond(&self, growth: &Growth) -> Option<String> {
        let beyond = growth.extrapolation?;
        let (low, high) = interval_ends(beyond.cost.low, beyond.cost.high, self.metric.unit);
        Some(format!("{} [{low}–{high}]", self.format_value(beyond.cost.value)))
    }

    /// All sentences about one curve.
    pub fn sentences(&self, growth: &Growth) -> Vec<String> {
        let (amounts, ln_means) = (&growth.series.n, growth.series.log_means());
        let (Some(first), Some(last)) = (amounts.first(), amounts.last()) else { return vec![] };
        let cost = |index: usize| self.format_value(ln_means[index].exp());
        let range_sentence = format!(
            "From {} to {} {}, {} goes from {} to {}.",
            format_exact_amount(*first),
            format_exact_amount(*last),
            self.setting,
            self.quantity(),
            cost(0),
            cost(amounts.len() - 1)
        );
        let mut sentences = vec![range_sentence, self.law_sentence(growth), self.bend_sentence(&growth.bend)];
        if let (Some(beyond), Some(cost)) = (growth.extrapolation, self.describe_cost_beyond(growth)) {
            sentences.push(format!(
                "At {} {} it is {cost}, if nothing bends beyond the data.",
                format_exact_amount(beyond.amount),
                self.setting
            ));
        }
        sentences
    }

    fn law_sentence(&self, growth: &Growth) -> String {
        let Some(choice) = &growth.choice else {
            return format!("{} are too few for a law.", plural(growth.series.points().len(), "value"));
        };
        let Some(fit) = choice.winner() else {
            return format!(
                "It may follow {}, so the choice is inconclusive; the best is {}.",
                contender_names(choice),
                self.formula(&choice.fits[0].law)
            );
        };
        // R² is the share of the variance that a law explains; a constant explains none.
        let r_squared =
            if fit.law.curve_parameters() > 1 { format!(", R² {:.3}", fit.r_squared) } else { String::new() };
        format!("It follows the law `{}`: {}{r_squared}.", fit.law.name(), self.formula(&fit.law))
    }

    fn bend_sentence(&self, bend: &BendFinding) -> String {
        match bend {
            BendFinding::Bends(bend) => format!(
                "It bends at {} {} ({}–{}): the exponent goes from {} to {}.",
                format_amount(bend.amount.value),
                self.setting,
                format_amount(bend.amount.low),
                format_amount(bend.amount.high),
                format_exponent(bend.exponent_before),
                format_exponent(bend.exponent_after)
            ),
            BendFinding::Straight => {
                format!("No bend in this range: nowhere the exponent changes by {SLIGHT_CHANGE} or more.")
            }
            BendFinding::NotExcluded => "The data show no bend, and do not exclude one.".into(),
        }
    }

    /// A sentence with the number of values left out; `None` if there are none.
    pub fn left_out_sentence(&self) -> Option<String> {
        let values = plural(self.without_logarithm_count, "value");
        let why = "not above zero left out: they have no logarithm.";
        (self.without_logarithm_count > 0).then(|| format!("{values} {why}"))
    }

    /// The page about these curves. `source` names the run or set in the title. If `shows_figures`, the document contains the
    /// figures; the JSON always does.
    pub fn page(&self, source: &str, shows_figures: bool) -> Page {
        let mut document = Document::default();
        document.heading(1, format!("{} over {} in {source}", self.quantity(), self.setting));
        document.text(METHOD_NOTE);
        document.table(self.table());
        for GrowthCurve { growth, .. } in &self.curves {
            document.heading(2, growth.series.name.clone());
            document.list(self.sentences(growth));
        }
        if shows_figures {
            document.heading(2, "Figures");
            for GrowthCurve { growth, .. } in &self.curves {
                let points = growth.series.n.iter().zip(growth.series.log_means());
                let rows = points.map(|(n, ln_mean)| row![format_exact_amount(*n), self.format_value(ln_mean.exp())]);
                document.table(Table::of_figures([self.setting.as_str(), &growth.series.name]).with_rows(rows));
            }
        }
        Page { document, json: self.json(source) }
    }

    fn json(&self, source: &str) -> Value {
        json!({
            "format": 1, "source": source, "over": self.setting, "quantity": self.quantity(),
            "metric": self.metric.id, "unit": self.metric.unit.suffix(), "per_unit": self.is_per_unit,
            "series": self.curves.iter().map(|curve| self.curve_json(&curve.growth)).collect::<Vec<_>>(),
        })
    }

    fn curve_json(&self, growth: &Growth) -> Value {
        let bend = match growth.bend {
            BendFinding::Bends(bend) => json!({
                "found": "bends", "at": bend.amount.value, "low": bend.amount.low, "high": bend.amount.high,
                "exponent_before": bend.exponent_before, "exponent_after": bend.exponent_after,
            }),
            BendFinding::Straight => json!({ "found": "straight" }),
            BendFinding::NotExcluded => json!({ "found": "not excluded" }),
        };
        let beyond = growth.extrapolation.map(|beyond| {
            let cost = beyond.cost;
            json!({ "amount": beyond.amount, "value": cost.value, "low": cost.low, "high": finite_or_none(&cost.high) })
        });
        json!({
            "name": growth.series.name,
            "sentences": self.sentences(growth),
            "winner": winner_name(growth.choice.as_ref()),
            "fits": growth.choice.iter().flat_map(|choice| choice.fits.iter().map(fit_json)).collect::<Vec<_>>(),
            "bend": bend,
            "beyond": beyond,
            "points": points_json(&growth.series, "amount", "values"),
        })
    }
}

/// Explains how the laws and the intervals are computed.
pub const METHOD_NOTE: &str = "N is the setting. Laws are fitted to the logarithms of all values and chosen by AICc. The interval at ten \
                           times the largest N is the union of the 95% prediction intervals of all laws within 4 of the best AICc; \
                           it holds if nothing bends beyond the data, which no data can show.";

fn describe_bend(bend: &BendFinding) -> String {
    match bend {
        BendFinding::Bends(bend) => {
            let (low, high) = (format_amount(bend.amount.low), format_amount(bend.amount.high));
            let (before, after) = (format_exponent(bend.exponent_before), format_exponent(bend.exponent_after));
            format!("at {} [{low}–{high}], N^{before} to N^{after}", format_amount(bend.amount.value))
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
        let published = study.published_sets().unwrap();
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
        let engel = fsarena_core::study::find("engel").unwrap().published_sets().unwrap();
        assert!(growth_of_published(&engel[0], None).unwrap().is_none());
    }
}
