//! How the cost of one unit of work grows over the values of a setting, from the samples of a run and from published figures: the
//! law, the bend and the cost beyond the data, as sentences, as a table and as JSON.

use super::formulas::{count, exponent, formula_of_growth};
use super::{contender_names, finite, fit_json};
use crate::document::{Document, Table, row};
use crate::error::Error;
use crate::number::{ends, plural, with_unit};
use crate::page::Page;
use fsarena_core::cell::TaskId;
use fsarena_core::factor::SETTING;
use fsarena_core::metric::reading;
use fsarena_core::names::distinct;
use fsarena_core::observations::left_out;
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::sample::{Fold, Unit};
use fsarena_core::{factor, published::Published};
use fsarena_stats::scaling::growth::{BendFinding, FARTHEST, Growth, SLIGHT, grow};
use fsarena_stats::scaling::{Row, Series, SeriesError};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The least number of values of a setting that make a curve.
const MIN_VALUES: usize = 3;

/// The curves of one metric over the values of one setting.
#[derive(Debug, Clone)]
pub struct GrowthCurves {
    /// The setting: `files`.
    pub setting: String,
    /// The metric.
    pub metric: MetricSpec,
    /// Whether the curves are of the metric divided by the setting: the cost of one unit.
    pub per_unit: bool,
    /// A curve for each variant and task, in the order of the tasks.
    pub curves: Vec<GrowthCurve>,
    /// The number of values that are not above zero, which have no logarithm and are left out.
    pub without_logarithm: usize,
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
pub fn grid_of(record: &RunRecord) -> Option<&str> {
    let grids = record.plan.workloads.iter().flat_map(|workload| &workload.grid);
    grids.map(String::as_str).find(|setting| values_of(record, setting).len() >= MIN_VALUES)
}

/// The metrics of a report whose growth it shows: those of the report, then the space on the device and the memory of the kernel.
pub fn grown_metrics<'m>(of_report: impl Iterator<Item = &'m str>) -> Vec<&'m str> {
    distinct(of_report.chain(["stored_bytes", reading::SLAB_GROWTH]))
}

/// The values of a setting in the tasks of a run, or in its variants if it is a factor.
fn values_of(record: &RunRecord, setting: &str) -> BTreeSet<u64> {
    let of_tasks = record.tasks.iter().filter_map(|task| task.id.params.get(setting));
    let factor = format!("{SETTING}{setting}");
    let of_variants = record.variants.iter().filter_map(|variant| variant.levels.get(&factor));
    of_tasks.chain(of_variants).filter_map(|value| Some(number(value)?.to_bits())).collect()
}

/// An amount of work for people, rounded to three digits: `98,400`.
pub fn amount(value: f64) -> String {
    count(value)
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0)
}

/// The curves of a run over the values of a setting.
///
/// # Errors
/// The run lacks the metric, or has fewer than three values of the setting.
pub fn of_run(record: &RunRecord, setting: &str, metric: &str) -> Result<GrowthCurves, Error> {
    let values = record.metric(metric).filter(|(_, values)| values.iter().any(|value| !value.is_nan()));
    let Some((metric, values)) = values else {
        return Err(Error::Usage(format!("run {} has no {metric}", record.id)));
    };
    if values_of(record, setting).len() < MIN_VALUES {
        return Err(Error::Usage(format!(
            "run {} has fewer than {MIN_VALUES} values of {setting}; measure them: --grid {setting}=1e3..1e6",
            record.id
        )));
    }
    let factor = format!("{SETTING}{setting}");
    let (left_out, per_unit) = (left_out(record), is_amount(&metric));
    let mut points = Points::default();
    for (sample, value) in values.iter().copied().enumerate().filter(|(_, value)| !value.is_nan()) {
        let cell = &record.cells[record.samples.cell[sample] as usize];
        let variant = &record.variants[cell.variant];
        let mut task = record.tasks[record.samples.task[sample] as usize].id.clone();
        let value_of_task = task.params.remove(setting);
        let Some(n) = value_of_task.as_ref().or(variant.levels.get(&factor)).and_then(|n| number(n)) else {
            continue;
        };
        if !left_out.contains(&cell.round) {
            let level = variant.levels.get(&factor).filter(|_| value_of_task.is_none());
            let parts = variant.name.split('/').filter(|part| level.is_none_or(|level| part != level));
            let name = parts.collect::<Vec<_>>().join("/");
            points.add((name, task), cell.variant, (n, cell.round, if per_unit { value / n } else { value }));
        }
    }
    points.curves(setting, metric, per_unit)
}

/// The curves of published figures over a setting; None if the figures have no parameter with at least three values besides the
/// number of clients.
///
/// # Errors
/// The set has no such metric.
pub fn of_published(published: &Published, metric: Option<&str>) -> Result<Option<GrowthCurves>, Error> {
    let mut values: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for (id, value) in published.rows.iter().flat_map(|row| &row.params) {
        values.entry(id).or_default().extend(number(value).map(f64::to_bits));
    }
    values.retain(|id, values| *id != factor::CLIENTS && values.len() >= MIN_VALUES);
    // A matrix of block sizes and threads has two such parameters.
    let (Some((setting, _)), 1) = (values.iter().next(), values.len()) else { return Ok(None) };
    let named = metric.or(published.metrics().first().copied()).unwrap_or_default();
    let Some(metric) = published.spec(named) else {
        let known = published.metrics().join(", ");
        return Err(Error::Usage(format!("{} has no {named}; it has {known}", published.name())));
    };
    let per_unit = is_amount(&metric);
    let mut points = Points::default();
    let of_metric =
        |row: &&fsarena_core::published::Figure| row.metric == metric.id && row.kind.is_evidence();
    for figure in published.rows.iter().filter(of_metric) {
        let mut task = figure.task_id();
        let Some(n) = task.params.remove(*setting).and_then(|n| number(&n)) else { continue };
        let at = published.variants().iter().position(|variant| *variant == figure.variant).unwrap_or(0);
        let value = if per_unit { figure.value / n } else { figure.value };
        points.add((figure.variant.clone(), task), at, (n, 0, value));
    }
    points.curves(setting, metric.clone(), per_unit).map(Some)
}

/// Whether a metric is an amount, which grows with the work: a time or a number of bytes of all units together, unlike a rate, a
/// latency or a quotient.
fn is_amount(metric: &MetricSpec) -> bool {
    metric.of.is_none() && (metric.over.tasks == Fold::Sum || metric.unit == Unit::Bytes)
}

/// The points of each curve, by the variant and the task without the setting; with the first variant.
#[derive(Default)]
struct Points {
    of: BTreeMap<(String, TaskId), (usize, Vec<Row>)>,
    without_logarithm: usize,
}

impl Points {
    fn add(&mut self, curve: (String, TaskId), variant: usize, row: Row) {
        if row.2 <= 0.0 {
            self.without_logarithm += 1;
            return;
        }
        let (first, rows) = self.of.entry(curve).or_insert((variant, vec![]));
        *first = variant.min(*first);
        rows.push(row);
    }

    fn curves(self, setting: &str, metric: MetricSpec, per_unit: bool) -> Result<GrowthCurves, Error> {
        let several = self.of.keys().map(|(_, task)| task).collect::<BTreeSet<_>>().len() > 1;
        let mut curves = vec![];
        for ((variant, task), (first, rows)) in &self.of {
            let name = match (several, variant.as_str()) {
                (false, name) => name.to_string(),
                (true, "") => task.to_string(),
                (true, name) => format!("{name} {task}"),
            };
            match Series::new(&name, rows) {
                Ok(series) => curves.push(GrowthCurve {
                    variant: *first,
                    variant_name: variant.clone(),
                    task: task.clone(),
                    growth: grow(series),
                }),
                // A variant that failed early, or a metric that only some values have.
                Err(SeriesError::OneNumber { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        curves.sort_by(|a, b| (&a.task, a.variant).cmp(&(&b.task, b.variant)));
        let setting = setting.to_string();
        Ok(GrowthCurves { setting, metric, per_unit, curves, without_logarithm: self.without_logarithm })
    }
}

impl GrowthCurves {
    /// What the curves are of: `elapsed / files`.
    pub fn quantity(&self) -> String {
        if self.per_unit { format!("{} / {}", self.metric.id, self.setting) } else { self.metric.id.clone() }
    }

    fn value(&self, value: f64) -> String {
        with_unit(value, self.metric.unit)
    }

    /// A table with a row for each curve: the cost at the smallest and at the largest value, the law, the bend, and the cost at ten
    /// times the largest value.
    pub fn table(&self) -> Table {
        let farthest = format!("at {FARTHEST}× the last");
        let mut table = Table::words(["series", "at the first", "at the last", "law", "bend", &farthest]);
        for GrowthCurve { growth, .. } in &self.curves {
            let means = growth.series.means();
            let at = |mean: Option<&f64>| mean.map_or("–".into(), |mean| self.value(mean.exp()));
            let beyond = self.beyond_words(growth).unwrap_or_else(|| "–".into());
            table.rows.push(row![
                growth.series.name.as_str(),
                at(means.first()),
                at(means.last()),
                self.law_words(growth),
                bend_words(&growth.bend),
                beyond
            ]);
        }
        table
    }

    fn law_words(&self, growth: &Growth) -> String {
        let Some(choice) = &growth.choice else { return "–".into() };
        match choice.winner() {
            Some(fit) => formula_of_growth(&fit.law, |value| self.value(value)),
            None => format!("inconclusive: {}", contender_names(choice)),
        }
    }

    fn beyond_words(&self, growth: &Growth) -> Option<String> {
        let beyond = growth.beyond?;
        let (low, high) = ends(beyond.cost.low, beyond.cost.high, self.metric.unit);
        Some(format!("{} [{low}–{high}]", self.value(beyond.cost.value)))
    }

    /// All sentences about one curve.
    pub fn sentences(&self, growth: &Growth) -> Vec<String> {
        let (n, means) = (&growth.series.n, growth.series.means());
        let (Some(first), Some(last)) = (n.first(), n.last()) else { return vec![] };
        let cost = |at: usize| self.value(means[at].exp());
        let mut sentences = vec![format!(
            "From {} to {} {}, {} goes from {} to {}.",
            count(*first),
            count(*last),
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
                    formula_of_growth(&fit.law, |value| self.value(value)),
                    if fit.law.curve_parameters() > 1 {
                        format!(", R² {:.3}", fit.r_squared)
                    } else {
                        String::new()
                    }
                ),
                None => format!(
                    "It may follow {}, so the choice is inconclusive; the best is {}.",
                    contender_names(choice),
                    formula_of_growth(&choice.fits[0].law, |value| self.value(value))
                ),
            },
        });
        sentences.push(match growth.bend {
            BendFinding::Bends(bend) => format!(
                "It bends at {} {} ({}–{}): the exponent goes from {} to {}.",
                count(bend.at.value),
                self.setting,
                count(bend.at.low),
                count(bend.at.high),
                exponent(bend.before),
                exponent(bend.after)
            ),
            BendFinding::Straight => {
                format!("No bend in this range: nowhere the exponent changes by {SLIGHT} or more.")
            }
            BendFinding::NotExcluded => "The data show no bend, and do not exclude one.".into(),
        });
        if let (Some(beyond), Some(words)) = (growth.beyond, self.beyond_words(growth)) {
            sentences.push(format!(
                "At {} {} it is {words}, if nothing bends beyond the data.",
                count(beyond.amount),
                self.setting
            ));
        }
        sentences
    }

    /// A sentence with the number of values left out; `None` if there are none.
    pub fn left_out(&self) -> Option<String> {
        let values = plural(self.without_logarithm, "value");
        let why = "not above zero left out: they have no logarithm.";
        (self.without_logarithm > 0).then(|| format!("{values} {why}"))
    }

    /// The page about these curves. With `tables` the document also has the figures; the JSON always has them.
    pub fn page(&self, source: &str, tables: bool) -> Page {
        let mut document = Document::default();
        document.heading(1, format!("{} over {} in {source}", self.quantity(), self.setting));
        document.text(GROUNDS);
        document.table(self.table());
        for GrowthCurve { growth, .. } in &self.curves {
            document.heading(2, growth.series.name.clone());
            document.list(self.sentences(growth));
        }
        if tables {
            document.heading(2, "Figures");
            for GrowthCurve { growth, .. } in &self.curves {
                let rows = growth.series.n.iter().zip(growth.series.means());
                let rows = rows.map(|(n, mean)| row![count(*n), self.value(mean.exp())]);
                document.table(Table::figures([self.setting.as_str(), &growth.series.name]).with(rows));
            }
        }
        Page { document, json: self.json(source) }
    }

    fn json(&self, source: &str) -> Value {
        let curve = |GrowthCurve { growth, .. }: &GrowthCurve| {
            let point = |(n, x): (&f64, &Vec<f64>)| json!({ "amount": n, "values": x.iter().map(finite).collect::<Vec<_>>() });
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
                json!({ "amount": beyond.amount, "value": cost.value, "low": cost.low, "high": finite(&cost.high) })
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
            "metric": self.metric.id, "unit": self.metric.unit.suffix(), "per_unit": self.per_unit,
            "series": self.curves.iter().map(curve).collect::<Vec<_>>(),
        })
    }
}

/// How the intervals were computed.
pub const GROUNDS: &str = "N is the setting. Laws are fitted to the logarithms of all values and chosen by AICc. The interval at ten \
                           times the largest N is the union of the 95% prediction intervals of all laws within 4 of the best AICc; \
                           it holds if nothing bends beyond the data, which no data can show.";

fn bend_words(bend: &BendFinding) -> String {
    match bend {
        BendFinding::Bends(bend) => {
            let (low, high) = (count(bend.at.low), count(bend.at.high));
            let (before, after) = (exponent(bend.before), exponent(bend.after));
            format!("at {} [{low}–{high}], N^{before} to N^{after}", count(bend.at.value))
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
        let curves = of_published(&published[0], None).unwrap().unwrap();
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
        assert!(of_published(&published[0], Some("speed")).is_err());
        let engel = fsarena_core::study::find("engel").unwrap().published().unwrap();
        assert!(of_published(&engel[0], None).unwrap().is_none());
    }
}
